"""Format(q, C(q)) of Equation 10: one template per model family, from Appendix B of the paper.

The odd "\\n." before "If they are useful" (DeepSeek) and the two spaces (StarCoder2) stand there, too. Beside
the paper's wording stand others, "STYLE, WORDING": what a column loses may be the wording's fault.
"""

from __future__ import annotations

from collections.abc import Callable

from pkg_lib.core.registry import Registry

_ASK = "You are a python programmer. Solve the following problem:"
_HELP = "The following code might be helpful:"
_MERGE = "integrate their logic directly into the body of the main function, otherwise just ignore them."
_WHOLE = (
    "You MUST write your complete solution, with the given function signature, inside one ```python code "
    "block. Your solution MUST be executable."
)
_TAGS = "[PYTHON] and [/PYTHON] tags"
TURN = "\n\x1e\n"  # a record separator on a line of its own: what follows is the next turn of the talk


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


def llama(problem: str, context: str) -> str:
    """Llama 3.1's, which the paper does not print: as in the authors' code, with its blanks."""
    helper = (
        f"\n\n The following helper code might be helpful:\n{context}.\nIf they are useful, {_MERGE}\n"
        "The solution should be executable. The code should pass all the following test cases."
    )
    rest = (
        f"{helper} Please write the python solution inside {_TAGS}"
        if context
        else (f"\n\n. Please write the python solution inside {_TAGS}.")
    )
    return (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n    \n    You are a python programmer."
        "<|eot_id|><|start_header_id|>user<|end_header_id|>\n    \n    "
        f"Implement a python function to solve the following problem: \n {problem} {rest}\n"
        "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n        "
    )


def chat(problem: str, context: str) -> str:
    """CodeLlama's wording with fences for tags, inside the model's chat template; the paper prints none."""
    if context:
        return (
            f"{_ASK}\n```python\n{problem}\n```\n\n{_HELP}\n```python\n{context}\n```\n"
            f"If helper section is useful, {_MERGE} {_WHOLE}"
        )
    return (
        f"{_ASK}\n```python\n{problem}\n```\n\nPlease write the complete python solution, "
        "with the given function signature, inside one ```python code block."
    )


def context_first(problem: str, context: str) -> str:
    """`chat` with the context before the problem."""
    if not context:
        return chat(problem, "")
    return (
        f"{_HELP}\n```python\n{context}\n```\n\n{_ASK}\n```python\n{problem}\n```\n\n"
        f"If helper section is useful, {_MERGE} {_WHOLE}"
    )


def earlier_turn(problem: str, context: str) -> str:
    """The context in a turn of its own, which the model has acknowledged; then the task as without one."""
    if not context:
        return chat(problem, "")
    shown = f"{_HELP}\n```python\n{context}\n```\nIf it is useful for what I ask next, {_MERGE}"
    return TURN.join((shown, "I have read it. What is the problem?", chat(problem, "")))


def nothing_found(problem: str, _: str) -> str:
    """`chat` with the words for a context around none, whatever was retrieved."""
    return chat(problem, "# no code was found")


def delimited(context: str) -> str:
    """The context in the delimiters of the authors' code, to which "helper section" refers."""
    return f"helper code 1:\n{context}\nEnd of helper section."


def helper_section(problem: str, context: str) -> str:
    """`chat` with such delimiters in the place of fences."""
    if not context:
        return chat(problem, "")
    return (
        f"{_ASK}\n```python\n{problem}\n```\n\n{_HELP}\n{delimited(context)}\n"
        f"If helper section is useful, {_MERGE} {_WHOLE}"
    )


TEMPLATES: Registry[Callable[[str, str], str]] = Registry(
    "prompt",
    {
        "codellama": codellama,
        "starcoder2": starcoder2,
        "deepseek": deepseek,
        "llama-3.1": llama,
        "chat": chat,
        "chat, context first": context_first,
        "chat, earlier turn": earlier_turn,
        "chat, no code was found": nothing_found,
        "chat, helper section": helper_section,
    },
)
for _style in ("codellama", "starcoder2", "deepseek", "llama-3.1"):
    TEMPLATES[f"{_style}, helper section"] = lambda problem, context, plain=TEMPLATES[_style]: plain(
        problem, delimited(context) if context else ""
    )
