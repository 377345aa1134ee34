"""Prompts: Format(q, C(q)) of Equation 10, one style for each model family, with variants.

``build_prompt`` returns the prompt of a task as it is sent to a model.

The styles of the paper's models (``codellama``, ``starcoder2``, ``deepseek``, ``llama-3.1``) equal
the prompts in the authors' published code byte for byte. Indentation and stray characters are
included, because their models received them. Appendix B of the paper prints the same prompts with
other white space. The context is shown between the delimiters of the authors' code.

``chat`` is the style for models with a chat template of their own. It has CodeLlama's words, with
Markdown code fences in place of the [PYTHON] tags. ``plain`` adds no word; it is for models that
only continue text.

The styles have these variants, named "STYLE, VARIANT" in the registry:

    no code was found   the words for a context, around a comment that says that no code was found
    context first       the context before the problem
    earlier turn        the context in an earlier turn of the conversation
    helper section      the context between the authors' delimiters, as some styles have it anyway
    no delimiters       the context without these delimiters, only of the styles that have them
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle

from pkg_lib.core.registry import Registry
from pkg_lib.core.types import Context, Task, UserError

# (problem, context) -> prompt; the context is "" if there is none
Template = Callable[[str, str], str]

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


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt exactly as it is sent.

    Attributes:
        task: The task that it asks for.
        style: The style and variant by which it was built.
        text: The whole prompt. Keys of completions are computed from it.
    """

    task: Task
    style: str
    text: str

    @property
    def messages(self) -> list[dict[str, str]]:
        """The messages of the conversation, with "role" and "content".

        Models of style ``chat`` receive them in their chat template, endpoints receive them as they
        are. Other styles write the model's template themselves: the only message is the text that
        the model receives.
        """
        return turns(self.text)


def build_prompt(
    task: Task,
    context: Context | str,
    style: str,
) -> Prompt:
    """Build the prompt of a task: Format(q, C(q)) of Equation 10.

    Args:
        task: The task q.
        context: The retrieved context C(q), or its text; "" for none.
        style: A name in ``TEMPLATES``: a style such as "chat", or a style and its variant such as
            "chat, context first". ``model_spec(model).style`` is the style of a model.

    Returns:
        The prompt. ``prompt.messages`` are the messages exactly as sent.

    Raises:
        UserError: There is no such style, or the context's text is not stored because its corpus
            may not be copied.
    """
    text = context if isinstance(context, str) else context.text
    if text is None:
        why = "its corpus may not be copied, so its text is not stored; retrieve it again"
        raise UserError(f"the context of {task.id} has no text: {why}")
    return Prompt(task, style, TEMPLATES.get_or_fail(style)(task.prompt, text))


def turns(text: str) -> list[dict[str, str]]:
    """Split a prompt into the messages of a conversation.

    Args:
        text: A prompt; ``TURN`` separates its turns.

    Returns:
        One message for each turn, with "role" (user and assistant, alternating) and "content".
    """
    pairs = zip(cycle(ROLES), text.split(TURN), strict=False)
    return [{"role": role, "content": turn} for role, turn in pairs]


def fenced(code: str) -> str:
    """Put code into a Markdown code fence.

    Args:
        code: The code. Fences inside it are not escaped.

    Returns:
        The block, with the language "python" and without a line end after it.
    """
    return f"```python\n{code}\n```"


def delimited(code: str) -> str:
    """Put a context between the delimiters of the authors' code, the "helper section".

    Args:
        code: The retrieved context.

    Returns:
        The section. It always has the number 1, because a context is shown as one piece.
    """
    return f"helper code 1:\n{code}\nEnd of helper section."


def _unchanged(code: str) -> str:
    return code


@dataclass(frozen=True)
class Style:
    """How the models of one family are prompted.

    The templates are format strings with the fields ``problem`` and ``helper``, the context as it
    is shown.

    Attributes:
        without: The prompt without a context.
        around: The prompt with a context.
        first: The prompt with the context before the problem.
        joined: One prompt from an earlier exchange (fields ``request`` and ``answer``) and the
            prompt after it (field ``then``).
        show: How a context is shown in the prompt.
        head: The beginning of ``then`` that a conversation does not repeat.
    """

    without: str
    around: str
    first: str
    joined: str
    show: Callable[[str], str] = delimited
    head: str = ""

    def prompt(self, problem: str, context: str) -> str:
        """Write the prompt of the paper's experiments.

        Args:
            problem: The task's own prompt, such as a signature with its docstring.
            context: The retrieved text; "" gives the prompt without a context.

        Returns:
            The prompt, with the context in the form that ``show`` gives it.
        """
        return self._with(self.around, problem, context, self.show)

    def no_code_found(self, problem: str, context: str) -> str:
        """Write the words for a context around a comment that says that no code was found.

        Args:
            problem: The task's own prompt, such as a signature with its docstring.
            context: Ignored; all variants have the same arguments.

        Returns:
            The prompt with ``NO_CODE`` as its context.
        """
        return self.prompt(problem, NO_CODE)

    def context_first(self, problem: str, context: str) -> str:
        """Write the prompt with the context before the problem.

        Args:
            problem: The task's own prompt, such as a signature with its docstring.
            context: The retrieved text; "" gives the prompt without a context.

        Returns:
            The prompt. In the style ``plain`` it equals that of ``prompt``.
        """
        return self._with(self.first, problem, context, self.show)

    def helper_section(self, problem: str, context: str) -> str:
        """Write the prompt with the context between the authors' delimiters.

        Args:
            problem: The task's own prompt, such as a signature with its docstring.
            context: The retrieved text; "" gives the prompt without a context.

        Returns:
            The prompt. It differs from ``prompt`` only in styles that show the context in another
            form.
        """
        return self._with(self.around, problem, context, delimited)

    def no_delimiters(self, problem: str, context: str) -> str:
        """Write the prompt with the context as it is.

        Args:
            problem: The task's own prompt, such as a signature with its docstring.
            context: The retrieved text; "" gives the prompt without a context.

        Returns:
            The prompt, with nothing around the context. Only styles with delimiters offer this
            variant.
        """
        return self._with(self.around, problem, context, _unchanged)

    def _with(
        self,
        template: str,
        problem: str,
        context: str,
        show: Callable[[str], str],
    ) -> str:
        if not context:
            return self.without.format(problem=problem)
        return template.format(problem=problem, helper=show(context))

    def earlier_turn(self, problem: str, context: str) -> str:
        """Write the context as an earlier turn that the model acknowledged, then only the task.

        Args:
            problem: The task's own prompt, such as a signature with its docstring.
            context: The retrieved text; "" gives the prompt without a context.

        Returns:
            The conversation as one text. In the style ``chat``, ``TURN`` separates the turns. Other
            styles put the marks of the model's template between them, and ``plain`` puts empty
            lines.
        """
        then = self.without.format(problem=problem)
        if not context:
            return then
        request = f"{_HELP}\n{self.show(context)}\nIf it is useful for what I ask next, {_MERGE}"
        return self.joined.format(
            request=request, answer=ACKNOWLEDGED, then=then.removeprefix(self.head)
        )

    @property
    def variants(self) -> dict[str, Template]:
        """The variants of the style by name; "" is the style itself."""
        variants: dict[str, Template] = {
            "": self.prompt,
            "no code was found": self.no_code_found,
            "context first": self.context_first,
            "earlier turn": self.earlier_turn,
            "helper section": self.helper_section,
        }
        if self.show is delimited:
            variants["no delimiters"] = self.no_delimiters
        return variants


# CodeLlama. Like the authors', the prompt without a context ends in a stray quotation mark.
_CODELLAMA_USE = (
    f"If helper section is useful, {_MERGE} "
    "You MUST write your solution between [PYTHON] and [/PYTHON]. "
    "Your solution MUST be executable.[/INST]"
)
_CODELLAMA_CLEAN = f"[INST] {_ASK}\n{{problem}} \n\n{_TAGS}.\n[/INST]"
_INSTRUCTION_TAGS = "[INST] {request} [/INST] {answer} {then}"

CODELLAMA = Style(
    without=_CODELLAMA_CLEAN + '"\n        ',
    around=f"[INST] {_ASK}\n{{problem}} \n\n{_HELP}\n{{helper}}\n{_CODELLAMA_USE}",
    first=f"[INST] {_HELP}\n{{helper}}\n\n{_ASK}\n{{problem}} \n\n{_CODELLAMA_USE}",
    joined=_INSTRUCTION_TAGS,
)

# StarCoder2. The authors' code indents all lines but the first of the template by eight columns.
_INDENT = " " * 8
_RESPONSE = f"{_INDENT}### Response\n{_INDENT}"
_STARCODER2_USE = f". If they are useful, {_MERGE}\n\n{_RESPONSE}"
_STARCODER2_HEAD = f"### Instruction\n{_INDENT}"

STARCODER2 = Style(
    without=f"{_STARCODER2_HEAD}{_ASK}\n{{problem}} \n\n\n{_RESPONSE}",
    around=f"{_STARCODER2_HEAD}{_ASK}\n{{problem}} \n\n {_HELP}\n{{helper}}\n{_STARCODER2_USE}",
    first=f"{_STARCODER2_HEAD}{_HELP}\n{{helper}}\n\n {_ASK}\n{{problem}} \n{_STARCODER2_USE}",
    joined=f"{_STARCODER2_HEAD}{{request}}\n\n{_RESPONSE}{{answer}}\n\n{{then}}",
)

# DeepSeek-Coder. The two spaces before "Solve" and the full stop before "If" are the authors'.
_DEEPSEEK_ASK = "You are a python programmer.  Solve the following problem:"
_DEEPSEEK_USE = f".If they are useful, {_MERGE}\n[/INST]"

DEEPSEEK = Style(
    without=f"[INST] {_DEEPSEEK_ASK} \n {{problem}} \n\n[/INST]",
    around=f"[INST] {_ASK}\n{{problem}} \n\n {_HELP}\n{{helper}}\n{_DEEPSEEK_USE}",
    first=f"[INST] {_HELP}\n{{helper}}\n\n {_ASK}\n{{problem}} \n{_DEEPSEEK_USE}",
    joined=_INSTRUCTION_TAGS,
)

# Llama 3.1, which the paper does not print.
_LLAMA_USER = "<|eot_id|><|start_header_id|>user<|end_header_id|>\n    \n    "
_LLAMA_HEAD = (
    "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n    \n"
    f"    You are a python programmer.{_LLAMA_USER}"
)
_LLAMA_ASK = "Implement a python function to solve the following problem: \n"
_LLAMA_HELP = "The following helper code might be helpful:\n"
_LLAMA_USE = (
    f".\nIf they are useful, {_MERGE}\nThe solution should be executable. "
    f"The code should pass all the following test cases. {_TAGS}\n"
)
_LLAMA_ANSWER = "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n        "
_LLAMA_END = _LLAMA_USE + _LLAMA_ANSWER

LLAMA = Style(
    without=f"{_LLAMA_HEAD}{_LLAMA_ASK} {{problem}} \n\n. {_TAGS}.\n{_LLAMA_ANSWER}",
    around=f"{_LLAMA_HEAD}{_LLAMA_ASK} {{problem}} \n\n {_LLAMA_HELP}{{helper}}{_LLAMA_END}",
    first=f"{_LLAMA_HEAD}{_LLAMA_HELP}{{helper}}\n\n {_LLAMA_ASK} {{problem}} \n{_LLAMA_END}",
    joined=f"{_LLAMA_HEAD}{{request}}\n{_LLAMA_ANSWER}{{answer}}{_LLAMA_USER}{{then}}",
    head=_LLAMA_HEAD,
)

# Models with a chat template of their own: CodeLlama's words with fences for tags.
_CHAT_TASK = f"{_ASK}\n```python\n{{problem}}\n```"
_CHAT_USE = (
    f"If helper section is useful, {_MERGE} "
    "You MUST write your complete solution, with the given function signature, "
    "inside one ```python code block. Your solution MUST be executable."
)

CHAT = Style(
    without=f"{_CHAT_TASK}\n\nPlease write the complete python solution, "
    "with the given function signature, inside one ```python code block.",
    around=f"{_CHAT_TASK}\n\n{_HELP}\n{{helper}}\n{_CHAT_USE}",
    first=f"{_HELP}\n{{helper}}\n\n{_CHAT_TASK}\n\n{_CHAT_USE}",
    joined=TURN.join(("{request}", "{answer}", "{then}")),
    show=fenced,
)

# Models that only continue text: no word of ours, but in the variants that need one.
PLAIN = Style(
    without="{problem}",
    around="{helper}\n\n{problem}",
    first="{helper}\n\n{problem}",
    joined="{request}\n\n{answer}\n\n{then}",
    show=_unchanged,
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
    for style_name, style in STYLES.items():
        for variant, template in style.variants.items():
            templates[f"{style_name}, {variant}" if variant else style_name] = template
    # It measures the effect of the stray characters in the authors' prompt without a context.
    templates["codellama, no stray quote"] = lambda problem, context: _CODELLAMA_CLEAN.format(
        problem=problem
    )
    return templates


TEMPLATES: Registry[Template] = Registry("prompt style", _all_templates())
