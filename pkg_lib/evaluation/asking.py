"""One question about a user's own code, answered with and without what is retrieved from it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pkg_lib.core.models import model_spec
from pkg_lib.core.reading import read_text
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

    Returns:
        The answers under NoRAG and under the method.

    Raises:
        UserError: The question is empty, a name is unknown, or the model is not available.
    """
    if not question.strip():
        raise UserError("the question is empty; describe the code that the model should write")
    if parse_method(method).context_method == NO_RAG:
        raise UserError(f"method {method} retrieves nothing; choose another --method")
    style = model_spec(model).style
    task = Task("question", "ask", question, "")
    retriever = make_retriever(method, corpora.load_corpus(corpus), top_k=top_k)
    contexts = [Context(task.id, NO_RAG, ""), *retriever.retrieve([task])]
    prompts = [build_prompt(task, context, style) for context in contexts]
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
        UserError: It cannot be read, or is not valid Python.
    """
    text = read_text(path)
    try:
        compile(text, str(path), "exec")
    except (SyntaxError, ValueError) as e:
        raise UserError(f"the test {path} is not valid Python ({e}); correct it") from e
    return text


def lines(without: AskedAnswer, answer: AskedAnswer) -> Iterator[str]:
    """Describe two answers for a terminal.

    Args:
        without: The answer without a context.
        answer: The answer with the retrieved context.

    Yields:
        The places of the context, the prompt with it, and both answers with their verdicts.
    """
    yield f"== context ({answer.method}, score {answer.context.score:.3f})"
    for place in answer.context.source.split("; "):
        yield f"  {place}"
    yield "== prompt with the context"
    for message in answer.prompt.messages:
        yield message["content"]
    for shown in (without, answer):
        yield f"== answer under {shown.method}"
        yield shown.solution
        if shown.outcome is not None:
            yield f"verdict: {_verdict(shown.outcome)}"


def _verdict(outcome: Outcome) -> str:
    if not outcome.error:
        return outcome.status
    return f"{outcome.status} ({outcome.detail or outcome.error})"
