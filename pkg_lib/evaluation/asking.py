"""One question about a user's own code, answered with and without what is retrieved from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pkg_lib.core.endpoints import endpoints
from pkg_lib.core.models import model_spec
from pkg_lib.core.reading import printable, read_text
from pkg_lib.core.types import Context, Outcome, Task, UserError
from pkg_lib.data import corpora
from pkg_lib.execution.batches import run_with_limits
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.generation.extraction import extract_solution
from pkg_lib.generation.generator import Backend, generate
from pkg_lib.generation.prompts import Prompt, build_prompt
from pkg_lib.retrieval.methods import NO_RAG, make_retriever, parse_method

METHOD = "Func-PKG"
TOP_K = 3
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

    Args:
        path: A file of Python.

    Returns:
        Its text.

    Raises:
        UserError: It cannot be read, is empty, or is not valid Python.
    """
    text = read_text(path)
    if not text.strip():
        raise UserError(f"the test {path} is empty; write assertions into it")
    try:
        compile(text, str(path), "exec")
    except (SyntaxError, ValueError) as e:
        raise UserError(f"the test {path} is not valid Python ({e}); correct it") from e
    return text


def context_lines(context: Context, prompt: Prompt) -> Iterator[str]:
    """Describe what was retrieved for a question, for a terminal.

    Args:
        context: The retrieved context.
        prompt: The prompt with it.

    Yields:
        The places of the context, and the prompt.
    """
    yield f"== context ({context.method}, score {context.score:.3f})"
    for place in context.source.split("; "):
        yield f"  {place}"
    yield "== prompt with the context"
    for message in prompt.messages:
        yield printable(message["content"], "\n\t")


def answer_lines(without: AskedAnswer, answer: AskedAnswer) -> Iterator[str]:
    """Describe two answers for a terminal.

    Args:
        without: The answer without a context.
        answer: The answer with the retrieved context.

    Yields:
        Both answers with their verdicts.
    """
    for one in (without, answer):
        yield f"== answer under {one.method}"
        yield printable(one.solution, "\n\t")
        if one.outcome is not None:
            yield f"verdict: {_verdict(one.outcome)}"


def _verdict(outcome: Outcome) -> str:
    if not outcome.error:
        return outcome.status
    return f"{outcome.status} ({outcome.detail or outcome.error})"
