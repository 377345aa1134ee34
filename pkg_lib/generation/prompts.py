"""Prompts: Format(q, C(q)) of Equation 10, one style per model family, with variants for controls.

The styles of the paper's models (`codellama`, `starcoder2`, `deepseek`, `llama-3.1`) equal the prompts in the
authors' published code byte for byte, indentation and stray characters included, because that is what their
models received. Appendix B of the paper prints the same prompts with the white space changed. The context
is shown between the delimiters of the authors' code.

`chat` is the style for models with a chat template of their own. It has CodeLlama's words, with Markdown code
fences in place of the [PYTHON] tags. `plain` adds no word; it is for models that only continue text.

Every style has the same variants, named "STYLE, VARIANT" in the registry:

    no code was found   the words for a context, around a comment that says that no code was found
    context first       the context before the problem
    earlier turn        the context in an earlier turn of the conversation
    helper section      the context between the authors' delimiters, where the style itself does not use them
    no delimiters       the context without the authors' delimiters, where the style itself uses them
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle

from pkg_lib.core.registry import Registry

Template = Callable[
    [str, str], str
]  # (problem, context) -> prompt; the context is "" where there is none

TURN = "\n\x1e\n"  # a record separator on a line of its own, between two turns of a conversation
ROLES = ("user", "assistant")  # who speaks the turns, alternating
NO_CODE = "# no code was found"
ACKNOWLEDGED = "I have read it. What is the problem?"

_ASK = "You are a python programmer. Solve the following problem:"
_HELP = "The following code might be helpful:"
_MERGE = (
    "integrate their logic directly into the body of the main function, otherwise just ignore them."
)
_TAGS = "Please write the python solution inside [PYTHON] and [/PYTHON] tags"


def turns(text: str) -> list[dict[str, str]]:
    """Split a prompt into the messages of a conversation.

    Args:
        text: A prompt; TURN separates its turns.

    Returns:
        One message per turn, with "role" (user and assistant, alternating) and "content".
    """
    pairs = zip(cycle(ROLES), text.split(TURN), strict=False)
    return [{"role": role, "content": turn} for role, turn in pairs]


def fenced(code: str) -> str:
    """Put code into a Markdown code fence."""
    return f"```python\n{code}\n```"


def delimited(code: str) -> str:
    """Put a context between the delimiters of the authors' code, to which "helper section" refers."""
    return f"helper code 1:\n{code}\nEnd of helper section."


@dataclass(frozen=True)
class Style:
    """How the models of one family are prompted.

    Attributes:
        without: The prompt without a context; takes the problem.
        around: The prompt with a context; takes the problem and the context as it is shown.
        first: The prompt with the context before the problem; takes the context and the problem.
        show: How a context is shown in the prompt.
        also_show: The other way of showing it, for the variant of that name.
        joined: One prompt from an earlier exchange (request and answer) and the prompt after it.
    """

    without: Callable[[str], str]
    around: Callable[[str, str], str]
    first: Callable[[str, str], str]
    show: Callable[[str], str]
    also_show: tuple[str, Callable[[str], str]]
    joined: Callable[[str, str, str], str]

    def prompt(self, problem: str, context: str) -> str:
        """Write the prompt of the paper's experiments."""
        if not context:
            return self.without(problem)
        return self.around(problem, self.show(context))

    def no_code_found(self, problem: str, context: str) -> str:
        """Write the words for a context around none, whatever was retrieved."""
        return self.prompt(problem, NO_CODE)

    def context_first(self, problem: str, context: str) -> str:
        """Write the prompt with the context before the problem."""
        if not context:
            return self.without(problem)
        return self.first(self.show(context), problem)

    def earlier_turn(self, problem: str, context: str) -> str:
        """Write the context as an earlier turn that the model acknowledged, then the task without one."""
        if not context:
            return self.without(problem)
        said = f"{_HELP}\n{self.show(context)}\nIf it is useful for what I ask next, {_MERGE}"
        return self.joined(said, ACKNOWLEDGED, self.without(problem))

    def shown_otherwise(self, problem: str, context: str) -> str:
        """Write the paper's prompt with the context shown the other way."""
        if not context:
            return self.without(problem)
        _, show = self.also_show
        return self.around(problem, show(context))

    @property
    def variants(self) -> dict[str, Template]:
        """The variants of the style by name; "" is the style itself."""
        return {
            "": self.prompt,
            "no code was found": self.no_code_found,
            "context first": self.context_first,
            "earlier turn": self.earlier_turn,
            self.also_show[0]: self.shown_otherwise,
        }


def _as_it_is(code: str) -> str:
    return code


NO_DELIMITERS = ("no delimiters", _as_it_is)
HELPER_SECTION = ("helper section", delimited)


def _instruction_tags(said: str, answered: str, then: str) -> str:
    """Join two exchanges as CodeLlama's conversation format does."""
    return f"[INST] {said} [/INST] {answered} {then}"


# CodeLlama. Like the authors', the prompt without a context ends in a stray quotation mark and white space.
_CODELLAMA_USE = (
    f"If helper section is useful, {_MERGE} You MUST write your solution between [PYTHON] and [/PYTHON]. "
    "Your solution MUST be executable.[/INST]"
)
_STRAY_QUOTE = '"\n        '


def _codellama_clean(problem: str) -> str:
    return f"[INST] {_ASK}\n{problem} \n\n{_TAGS}.\n[/INST]"


CODELLAMA = Style(
    without=lambda problem: _codellama_clean(problem) + _STRAY_QUOTE,
    around=lambda problem, helper: (
        f"[INST] {_ASK}\n{problem} \n\n{_HELP}\n{helper}\n{_CODELLAMA_USE}"
    ),
    first=lambda helper, problem: (
        f"[INST] {_HELP}\n{helper}\n\n{_ASK}\n{problem} \n\n{_CODELLAMA_USE}"
    ),
    show=delimited,
    also_show=NO_DELIMITERS,
    joined=_instruction_tags,
)

# StarCoder2. The authors' code indents all lines but the first of the template by eight columns.
_INDENT = " " * 8
_RESPONSE = f"{_INDENT}### Response\n{_INDENT}"
_STARCODER2_USE = f". If they are useful, {_MERGE}\n\n{_RESPONSE}"


def _starcoder2_without(problem: str) -> str:
    return f"### Instruction\n{_INDENT}{_ASK}\n{problem} \n\n\n{_RESPONSE}"


STARCODER2 = Style(
    without=_starcoder2_without,
    around=lambda problem, helper: (
        f"### Instruction\n{_INDENT}{_ASK}\n{problem} \n\n {_HELP}\n{helper}\n{_STARCODER2_USE}"
    ),
    first=lambda helper, problem: (
        f"### Instruction\n{_INDENT}{_HELP}\n{helper}\n\n {_ASK}\n{problem} \n{_STARCODER2_USE}"
    ),
    show=delimited,
    also_show=NO_DELIMITERS,
    joined=lambda said, answered, then: (
        f"### Instruction\n{_INDENT}{said}\n\n{_RESPONSE}{answered}\n\n{then}"
    ),
)

# DeepSeek-Coder. The two spaces before "Solve" and the full stop before "If" are the authors'.
_DEEPSEEK_USE = f".If they are useful, {_MERGE}\n[/INST]"

DEEPSEEK = Style(
    without=lambda problem: (
        f"[INST] You are a python programmer.  Solve the following problem: \n {problem} \n\n[/INST]"
    ),
    around=lambda problem, helper: (
        f"[INST] {_ASK}\n{problem} \n\n {_HELP}\n{helper}\n{_DEEPSEEK_USE}"
    ),
    first=lambda helper, problem: (
        f"[INST] {_HELP}\n{helper}\n\n {_ASK}\n{problem} \n{_DEEPSEEK_USE}"
    ),
    show=delimited,
    also_show=NO_DELIMITERS,
    joined=_instruction_tags,
)

# Llama 3.1, which the paper does not print.
_LLAMA_HEAD = (
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n    \n"
    "    You are a python programmer.<|eot_id|><|start_header_id|>user<|end_header_id|>\n    \n    "
)
_LLAMA_ASK = "Implement a python function to solve the following problem: \n"
_LLAMA_HELP = "The following helper code might be helpful:\n"
_LLAMA_USE = (
    f".\nIf they are useful, {_MERGE}\nThe solution should be executable. "
    f"The code should pass all the following test cases. {_TAGS}\n"
)
_LLAMA_ANSWER = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n        "


def _llama(body: str) -> str:
    return f"{_LLAMA_HEAD}{body}{_LLAMA_ANSWER}"


def _llama_joined(said: str, answered: str, then: str) -> str:
    """Join two exchanges under one system message."""
    next_turn = "<|eot_id|><|start_header_id|>user<|end_header_id|>\n    \n    "
    first_exchange = _llama(said + "\n") + answered
    return first_exchange + next_turn + then.removeprefix(_LLAMA_HEAD)


LLAMA = Style(
    without=lambda problem: _llama(f"{_LLAMA_ASK} {problem} \n\n. {_TAGS}.\n"),
    around=lambda problem, helper: _llama(
        f"{_LLAMA_ASK} {problem} \n\n {_LLAMA_HELP}{helper}{_LLAMA_USE}"
    ),
    first=lambda helper, problem: _llama(
        f"{_LLAMA_HELP}{helper}\n\n {_LLAMA_ASK} {problem} \n{_LLAMA_USE}"
    ),
    show=delimited,
    also_show=NO_DELIMITERS,
    joined=_llama_joined,
)

# Models with a chat template of their own: CodeLlama's words with fences for tags.
_CHAT_USE = (
    f"If helper section is useful, {_MERGE} You MUST write your complete solution, with the given function "
    "signature, inside one ```python code block. Your solution MUST be executable."
)

CHAT = Style(
    without=lambda problem: (
        f"{_ASK}\n{fenced(problem)}\n\nPlease write the complete python solution, "
        "with the given function signature, inside one ```python code block."
    ),
    around=lambda problem, helper: f"{_ASK}\n{fenced(problem)}\n\n{_HELP}\n{helper}\n{_CHAT_USE}",
    first=lambda helper, problem: f"{_HELP}\n{helper}\n\n{_ASK}\n{fenced(problem)}\n\n{_CHAT_USE}",
    show=fenced,
    also_show=HELPER_SECTION,
    joined=lambda said, answered, then: TURN.join((said, answered, then)),
)

# Models that only continue text: no word of ours, but in the variants that need one.
PLAIN = Style(
    without=_as_it_is,
    around=lambda problem, helper: f"{helper}\n\n{problem}",
    first=lambda helper, problem: f"{helper}\n\n{problem}",
    show=_as_it_is,
    also_show=HELPER_SECTION,
    joined=lambda said, answered, then: f"{said}\n\n{answered}\n\n{then}",
)

STYLES = {
    "codellama": CODELLAMA,
    "starcoder2": STARCODER2,
    "deepseek": DEEPSEEK,
    "llama-3.1": LLAMA,
    "chat": CHAT,
    "plain": PLAIN,
}


def _all_templates() -> dict[str, Template]:
    """Collect every style and variant under the name that a method gives it."""
    templates: dict[str, Template] = {}
    for style, about in STYLES.items():
        for variant, template in about.variants.items():
            templates[f"{style}, {variant}" if variant else style] = template
    # What the stray characters of the authors' prompt without a context change by themselves.
    templates["codellama, no stray quote"] = lambda problem, context: _codellama_clean(problem)
    return templates


TEMPLATES: Registry[Template] = Registry("prompt style", _all_templates())
