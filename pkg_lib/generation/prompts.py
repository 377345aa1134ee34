"""Format(q, C(q)) of Equation 10: one template per model family, from Appendix B of the paper.

The odd "\\n." before "If they are useful" (DeepSeek) and the two spaces (StarCoder2) stand there, too. Beside
the paper's wording stand others, "STYLE, WORDING": what a column loses may be the wording's fault.
"""

from collections.abc import Callable
from functools import partial
from itertools import cycle

from pkg_lib.core.registry import Registry

_ASK = "You are a python programmer. Solve the following problem:"
_HELP = "The following code might be helpful:"
_MERGE = "integrate their logic directly into the body of the main function, otherwise just ignore them."
_USE = (
    f"If helper section is useful, {_MERGE} You MUST write your complete solution, with the given function "
    "signature, inside one ```python code block. Your solution MUST be executable."
)
TURN = "\n\x1e\n"  # a record separator on a line of its own: what follows is the next turn of the talk
ROLES = ("user", "assistant")  # of the turns, in turn


def turns(text: str) -> list[dict[str, str]]:
    """A prompt as the messages of a chat."""
    pairs = zip(cycle(ROLES), text.split(TURN), strict=False)
    return [{"role": role, "content": turn} for role, turn in pairs]


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
    tags, end = "Please write the python solution inside [PYTHON] and [/PYTHON] tags", "" if context else "."
    helper = f""" The following helper code might be helpful:\n{context}.\nIf they are useful, {_MERGE}
The solution should be executable. The code should pass all the following test cases."""
    return f"""<|begin_of_text|><|start_header_id|>system<|end_header_id|>
    \n    You are a python programmer.<|eot_id|><|start_header_id|>user<|end_header_id|>
    \n    Implement a python function to solve the following problem: \n {problem} \n
{helper if context else "."} {tags}{end}
<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n        """


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def delimited(code: str) -> str:
    """A context in the delimiters of the authors' code, to which "helper section" refers."""
    return f"helper code 1:\n{code}\nEnd of helper section."


def chat(problem: str, context: str, shown: Callable[[str], str] = fenced) -> str:
    """CodeLlama's wording with fences for tags, inside the model's chat template; the paper prints none."""
    if context:
        return f"{_ASK}\n{fenced(problem)}\n\n{_HELP}\n{shown(context)}\n{_USE}"
    return (
        f"{_ASK}\n{fenced(problem)}\n\nPlease write the complete python solution, "
        "with the given function signature, inside one ```python code block."
    )


def context_first(problem: str, context: str) -> str:
    """`chat` with the context before the problem."""
    first = f"{_HELP}\n{fenced(context)}\n\n{_ASK}\n{fenced(problem)}\n\n{_USE}"
    return first if context else chat(problem, "")


def earlier_turn(problem: str, context: str) -> str:
    """The context in a turn of its own, which the model has acknowledged; then the task as without one."""
    first = f"{_HELP}\n{fenced(context)}\nIf it is useful for what I ask next, {_MERGE}"
    turns = (first, "I have read it. What is the problem?") if context else ()
    return TURN.join((*turns, chat(problem, "")))


TEMPLATES: Registry[Callable[[str, str], str]] = Registry(
    "prompt",
    {
        "codellama": codellama,
        "starcoder2": starcoder2,
        "deepseek": deepseek,
        "llama-3.1": llama,
        "chat": chat,
        # For a model that only continues text: no word of ours.
        "plain": lambda problem, context: f"{context}\n\n{problem}" if context else problem,
        "chat, context first": context_first,
        "chat, earlier turn": earlier_turn,
        # The words for a context around none, whatever was retrieved.
        "chat, no code was found": lambda problem, _: chat(problem, "# no code was found"),
        "chat, helper section": partial(chat, shown=delimited),
    },
)
for _style in ("codellama", "starcoder2", "deepseek", "llama-3.1", "plain"):
    TEMPLATES[f"{_style}, helper section"] = lambda problem, context, bare=TEMPLATES[_style]: bare(
        problem, delimited(context) if context else ""
    )
