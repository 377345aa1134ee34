"""One question about a user's own code, answered with and without what is retrieved from it."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from pkg_lib.core.endpoints import endpoints
from pkg_lib.core.models import check_hardware, model_spec
from pkg_lib.core.reading import printable, read_text
from pkg_lib.core.types import Context, Outcome, Task, UserError
from pkg_lib.data import corpora
from pkg_lib.execution.batches import run_with_limits
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.generation.extraction import extract_solution
from pkg_lib.generation.generator import Backend, generate
from pkg_lib.generation.prompts import Prompt, build_prompt
from pkg_lib.retrieval.code_base import below_folder
from pkg_lib.retrieval.methods import NO_RAG, make_retriever, parse_method

METHOD = "Func-PKG"
TOP_K = 3
GAP = " | "  # between two answers side by side
NARROWEST = 60  # columns of an answer
TEST_LIMITS = Limits(seconds=10.0, packages="all")


@dataclass(frozen=True, slots=True)
class AskedAnswer:
    """The answer of a model under one method.

    Attributes:
        method: The method that retrieved the context.
        context: The context; its `source` has the file and lines of each unit.
        prompt: The prompt exactly as sent.
        text: The completion.
        solution: The code that was extracted from it.
        outcome: The verdict of the user's test; None without a test.
    """

    method: str
    context: Context
    prompt: Prompt
    text: str
    solution: str
    outcome: Outcome | None


def ask(
    corpus: str | Path,
    question: str,
    model: str,
    method: str = METHOD,
    top_k: int = TOP_K,
    test: str = "",
    backend: Backend | None = None,
    retrieved: Callable[[Context, Prompt], None] | None = None,
) -> tuple[AskedAnswer, AskedAnswer]:
    """Ask a model to write code, without a context and with one from a corpus.

    Args:
        corpus: A corpus by name such as "source:DIR", or a directory of Python files.
        question: What the model should write: words, or the head of a function.
        model: A model by name.
        method: A method that retrieves from the corpus.
        top_k: How many units the context holds.
        test: A Python program that runs after each solution, such as assertions. It passes if it
            ends without an error. "" for no test.
        backend: What generates; None loads the model.
        retrieved: Is called with the retrieved context and its prompt before the model answers.

    Returns:
        The answers under NoRAG and under the method.

    Raises:
        UserError: The question is empty, a name is unknown, or the model is not available.
    """
    if not question.strip():
        raise UserError("the question is empty; describe the code that the model should write")
    if parse_method(method).context_method == NO_RAG:
        raise UserError(f"method {method} retrieves nothing; choose another --method")
    spec = model_spec(model)
    if spec.endpoint:
        endpoints().get_or_fail(spec.endpoint)  # reported before anything is encoded
    elif backend is None:
        check_hardware(spec)
    task = Task("question", "ask", question, "")
    retriever = make_retriever(method, corpora.load_corpus(corpus), top_k=top_k)
    contexts = [Context(task.id, NO_RAG, ""), *retriever.retrieve([task])]
    prompts = [build_prompt(task, context, spec.style) for context in contexts]
    if retrieved is not None:
        retrieved(contexts[1], prompts[1])
    completions = generate(model, prompts, backend=backend)
    solutions = [extract_solution(completion, task) for completion in completions]
    outcomes: list[Outcome | None] = [None, None]
    if test:
        jobs = [Job(task.id, solution, (test,)) for solution in solutions]
        outcomes = [*run_with_limits([(job, TEST_LIMITS) for job in jobs])]
    answers = []
    for number, context in enumerate(contexts):
        answer = AskedAnswer(
            (NO_RAG, method)[number],
            context,
            prompts[number],
            completions[number].text,
            solutions[number],
            outcomes[number],
        )
        answers.append(answer)
    return answers[0], answers[1]


def read_test(path: Path) -> str:
    """Read the program that tests the answers.

    Functions whose names begin with "test" are called, as pytest would call them, and test cases
    of unittest are run. Without this, a file that only defines them would pass.

    Args:
        path: A file of Python.

    Returns:
        A program that runs its tests.

    Raises:
        UserError: It cannot be read, is empty, is not valid Python, or tests nothing.
    """
    text = read_text(path)
    if not text.strip():
        raise UserError(f"the test {path} is empty; write assertions into it")
    try:
        compile(text, str(path), "exec")
        module = ast.parse(text)
    except (SyntaxError, ValueError) as e:
        raise UserError(f"the test {path} is not valid Python ({e}); correct it") from e
    statements = _statements(module)
    calls = [*_calls(path, statements)]
    if not calls and not any(map(_does_something, statements)):
        raise UserError(
            f"the test {path} tests nothing; write assertions or test functions into it"
        )
    program = ast.unparse(ast.Module(statements, []))
    return "\n".join([program, *calls])


_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_MAIN_GUARDS = ("__name__ == '__main__'", "'__main__' == __name__")
_RUNNERS = ("unittest.main(", "pytest.main(")
_RUN_TEST_CASE = """
import io, unittest
_cases = unittest.defaultTestLoader.loadTestsFromTestCase({name})
_result = unittest.TextTestRunner(io.StringIO()).run(_cases)
assert _result.wasSuccessful(), (_result.errors + _result.failures)[0][1]
"""


def _statements(module: ast.Module) -> list[ast.stmt]:
    """Return the statements of a test, with those below `if __name__ == "__main__"`.

    Calls of `unittest.main` and `pytest.main` are left out, because they end the process.
    """
    statements: list[ast.stmt] = []
    for node in module.body:
        if not isinstance(node, ast.If) or ast.unparse(node.test) not in _MAIN_GUARDS:
            statements.append(node)
            continue
        for below in node.body:
            text = ast.unparse(below)
            if not any(runner in text for runner in _RUNNERS):
                statements.append(below)
    return statements


def _does_something(statement: ast.stmt) -> bool:
    """Tell whether a statement can fail by itself, unlike a definition or a docstring."""
    if isinstance(statement, _DEFINITIONS):
        return False
    parts = ast.walk(statement)
    return any(isinstance(part, ast.Assert | ast.Raise | ast.Call) for part in parts)


def _calls(path: Path, statements: list[ast.stmt]) -> Iterator[str]:
    """Yield code that runs each test function, and each test case of unittest.

    Raises:
        UserError: A test needs pytest: a function with arguments, an async function, or a class.
    """
    for node in statements:
        if not isinstance(node, _DEFINITIONS):
            continue
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base) for base in node.bases]
            if any(base.endswith("TestCase") for base in bases):
                yield _RUN_TEST_CASE.format(name=node.name)
                continue
        if not node.name.lower().startswith("test"):
            continue
        takes_arguments = False
        if isinstance(node, ast.FunctionDef):
            arguments = node.args
            required = len(arguments.posonlyargs + arguments.args) - len(arguments.defaults)
            takes_arguments = required > 0 or None in arguments.kw_defaults
        if takes_arguments or not isinstance(node, ast.FunctionDef):
            raise UserError(
                f"the test {path}: {node.name} needs pytest, which does not run here; write a function "
                "without arguments, or a unittest.TestCase"
            )
        yield f"{node.name}()"


def context_lines(
    context: Context,
    prompt: Prompt,
    folder: str = "",
) -> Iterator[str]:
    """Describe what was retrieved for a question, for a terminal.

    Args:
        context: The retrieved context.
        prompt: The prompt with it.
        folder: The directory of the code, if the corpus is one.

    Yields:
        The places of the context, and the prompt.
    """
    yield f"== context ({context.method}, highest score {context.score:.3f})"
    for place in context.source.split("; "):
        yield f"  {below_folder(place, folder)}"
    yield "== prompt with the context"
    for message in prompt.messages:
        yield printable(message["content"], "\n\t")


def answer_lines(without: AskedAnswer, answer: AskedAnswer, width: int = 0) -> Iterator[str]:
    """Describe two answers for a terminal.

    Args:
        without: The answer without a context.
        answer: The answer with the retrieved context.
        width: Number of columns of the terminal; 0 if it is unknown.

    Yields:
        Both answers with their verdicts: side by side if the terminal is wide enough, else one after
        the other.
    """
    left = list(_answer(without))
    right = list(_answer(answer))
    half = (width - len(GAP)) // 2
    if half < NARROWEST:
        yield from left
        yield from right
        return
    pairs = zip_longest(
        _wrapped(left, half),
        _wrapped(right, half),
        fillvalue="",
    )
    for one, other in pairs:
        line = f"{one:<{half}}{GAP}{other}"
        yield line.rstrip()


def _answer(answer: AskedAnswer) -> Iterator[str]:
    yield f"== answer under {answer.method}"
    yield from printable(answer.solution, "\n\t").split("\n")
    if answer.outcome is not None:
        yield f"verdict: {_verdict(answer.outcome)}"


def _wrapped(lines: list[str], width: int) -> list[str]:
    """Break lines that are longer than a column; indentation stays."""
    short: list[str] = []
    for line in lines:
        whole = line.expandtabs(4)
        short += textwrap.wrap(whole, width, drop_whitespace=False, replace_whitespace=False) or [
            ""
        ]
    return short


def _verdict(outcome: Outcome) -> str:
    if not outcome.error:
        return outcome.status
    return f"{outcome.status} ({outcome.detail or outcome.error})"
