"""Format(q, C(q)) of Equation 10: one template per model family, from Appendix B of the paper.

The odd "\\n." before "If they are useful" (DeepSeek) and the two spaces (StarCoder2) stand there, too.
"""

from __future__ import annotations

from collections.abc import Callable

_ASK = "You are a python programmer. Solve the following problem:"
_HELP = "The following code might be helpful:"
_MERGE = "integrate their logic directly into the body of the main function, otherwise just ignore them."


def codellama(problem: str, context: str) -> str:
    """Code B.2.1."""
    if context:
        return (
            f"[INST] {_ASK}\n{problem}\n\n{_HELP}\n{context}\nIf helper section is useful, {_MERGE} "
            "You MUST write your solution between [PYTHON] and [/PYTHON]. "
            "Your solution MUST be executable.[/INST]"
        )
    asked = "Please write the python solution inside [PYTHON] and [/PYTHON] tags."
    return f"[INST] {_ASK}\n{problem}\n\n{asked}\n[/INST]"


def starcoder2(problem: str, context: str) -> str:
    """Code B.3.1."""
    if context:
        useful = f"  If they are useful, {_MERGE}"
        return f"### Instruction\n{_ASK}\n{problem}\n\n{_HELP}\n{context}\n{useful}\n\n### Response\n"
    return f"### Instruction\n{_ASK}\n{problem}\n\n\n### Response\n"


def deepseek(problem: str, context: str) -> str:
    """Code B.4.1."""
    if context:
        return f"[INST] {_ASK}\n{problem} \n {_HELP}\n{context}\n.If they are useful, {_MERGE}\n[/INST]"
    return f"[INST] {_ASK}\n{problem} \n \n[/INST]"


def chat(problem: str, context: str) -> str:
    """CodeLlama's wording with fences for tags, inside the model's chat template; the paper prints none."""
    if context:
        return (
            f"{_ASK}\n```python\n{problem}\n```\n\n{_HELP}\n```python\n{context}\n```\n"
            f"If helper section is useful, {_MERGE} You MUST write your complete solution, "
            "with the given function signature, inside one ```python code block. "
            "Your solution MUST be executable."
        )
    return (
        f"{_ASK}\n```python\n{problem}\n```\n\nPlease write the complete python solution, "
        "with the given function signature, inside one ```python code block."
    )


TEMPLATES: dict[str, Callable[[str, str], str]] = {
    "codellama": codellama,
    "starcoder2": starcoder2,
    "deepseek": deepseek,
    "chat": chat,
}
