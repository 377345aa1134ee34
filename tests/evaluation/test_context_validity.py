"""Context validity: which contexts solve a task when they are executed, and the control contexts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from fakes import WordEmbedder

from pkg_lib.core.types import Context, Document, ProgramTests, Task, UserError
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.evaluation.context_validity import (
    check_contexts,
    find_leaks,
    renamed_reference,
    statement_digests,
)
from pkg_lib.execution.sandbox import Limits
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.methods import METHODS
from pkg_lib.retrieval.retrievers import FuncPKG

pytest.importorskip("datasketch")

REFERENCE = """\
def fact(n):
    '''n!'''
    total = 1
    for i in range(2, n + 1):
        total *= i
    return total
"""
TEST = "assert fact(4) == 24"
TEXT = "the product of the first numbers"


class Made(Benchmark):
    """A benchmark of four tasks that differ only in their identifiers."""

    name = prompts = "made"
    title = "Made by hand"
    seconds = 3.0

    def tasks(self):
        tests = ProgramTests(TEST)
        return [Task(f"Made/{i}", "made", TEXT, "fact", tests, REFERENCE) for i in range(4)]

    def program(self, task, solution):
        return solution


@pytest.fixture(autouse=True)
def made(monkeypatch):
    """The tasks of the registered benchmark ``made``."""
    monkeypatch.setitem(BENCHMARKS, "made", Made())
    return Made().tasks()


RECURSIVE = "def product(n):\n    return 1 if n < 2 else n * product(n - 1)\n"
FENCED = f"Sure:\n\n```python\n{RECURSIVE}\nprint(product(int(input())))\n```\nIt works."
BARE_BODY = "    result = 1\n    while k:\n        result *= k\n        k -= 1\n    return result"
# Description of a context: its text, whether it can be called, whether it passes the tests.
CONTEXTS = {
    "recursive function under another name": (RECURSIVE, True, True),
    "second of two functions": ("def other(n):\n    return n\n\n" + RECURSIVE, True, True),
    "missing import": ("def product(n):\n    return math.factorial(n)\n", True, True),
    "fenced code": (FENCED, True, True),
    "cut off in the middle": (RECURSIVE + "\ndef unfinished(a,\n", True, True),
    "body without a header": (BARE_BODY, True, True),
    "wrong value": ("def product(n):\n    return n\n", True, False),
    "wrong number of arguments": ("def product(n, m):\n    return 24\n", False, False),
    "prose": ("The factorial is a product.", False, False),
    "loop without a function": ("for i in range(3):\n    print(i)\n", False, False),
}


def test_executes_a_context_as_the_solution(made):
    task = made[0]
    leaks = check_contexts([(task, text) for text, _, _ in CONTEXTS.values()])
    for (name, context), leak in zip(CONTEXTS.items(), leaks, strict=True):
        _, is_callable, passes = context
        assert (leak.callable, leak.passes) == (is_callable, passes), name


def test_each_context_keeps_the_limits_of_its_own_task(made, monkeypatch):
    small, large = made[:2]
    limits = {small.id: Limits(memory_mb=512), large.id: Limits(memory_mb=2048)}
    monkeypatch.setattr(Made, "limits", lambda self, task: limits[task.id])
    needs_800_mb = "def product(n):\n    bytearray(800 * 2**20)\n    return math.factorial(n)\n"
    for tasks in ([small, large], [large, small]):
        checked = check_contexts([(task, needs_800_mb) for task in tasks])
        assert [validity.passes for validity in checked] == [task is large for task in tasks]


def test_renamed_reference_passes_and_is_its_own_duplicate(made):
    tasks = load_benchmark("humaneval", 8)
    references = [(task, renamed_reference(task)) for task in tasks]
    for leak in check_contexts(references, control=True):
        assert leak.passes
        assert leak.jaccard == leak.edit == 1
    # The control can fail: it detects a wrong reference.
    wrong = replace(made[0], solution=REFERENCE.replace("n + 1", "n"))
    (leak,) = check_contexts([(wrong, renamed_reference(wrong))])
    assert not leak.passes


def test_similarity_ignores_names_and_reports_a_leak_without_passing(made):
    copy = REFERENCE.replace("total", "value").replace("fact", "g")
    wrong_copy = copy.replace("value = 1", "value = 2")
    similar, different = check_contexts([(made[0], wrong_copy), (made[0], RECURSIVE)])
    assert not similar.passes
    assert similar.edit > 0.9
    assert similar.leaks
    assert different.passes
    assert different.edit < 0.6
    assert different.leaks


def test_statement_digests_depend_on_names_but_not_on_layout():
    text = "def f(x):\n    '''Doc.'''\n    if x>1:\n        return  x\n    y = 2\n"
    if_statement = statement_digests("if x > 1:\n    return x\ny=2")[:1]
    others = statement_digests("y = 2\nreturn x")
    assert statement_digests(text) == if_statement + others
    return_x = set(statement_digests("return x"))
    return_z = set(statement_digests("return z"))
    assert not return_x & return_z


def knowledge_of(texts, **options):
    """Return the knowledge base of documents that are given by name."""
    documents = [Document(name, text) for name, text in texts.items()]
    return Knowledge(documents, WordEmbedder(), **options)


def test_leak_free_method_takes_the_best_context_that_does_not_leak(made):
    leaking = f"def first_numbers(product):\n    '''{TEXT}'''\n    return 24\n"
    texts = {"a": leaking, "b": "def numbers(n):\n    '''the numbers'''\n    return n\n"}
    method = METHODS["Func-PKG, leak-free"]
    task = made[0]

    (unfiltered,) = FuncPKG(knowledge_of(texts)).retrieve([task])
    assert "24" in unfiltered.text
    checked = knowledge_of(texts, leak_check=find_leaks)
    (filtered,) = method.make_retriever(checked).retrieve([task])
    assert filtered.text.startswith("def numbers")
    assert filtered.method == "Func-PKG, leak-free"

    only_leaking = knowledge_of({"a": leaking}, leak_check=find_leaks)
    (empty,) = method.make_retriever(only_leaking).retrieve([task])
    assert (empty.task_id, empty.text) == ("Made/0", "")

    unchecked = knowledge_of(texts, leak_check=None)
    with pytest.raises(UserError, match="runs hidden tests"):
        method.make_retriever(unchecked).retrieve([task])


def test_swapped_method_gives_each_task_the_context_of_another(made, monkeypatch):
    texts = ["same", "same", "b", ""]

    class Stored:
        def retrieve(self, tasks):
            pairs = zip(tasks, texts, strict=True)
            return [Context(task.id, "Func-PKG", text, defines_task=True) for task, text in pairs]

    monkeypatch.setattr("pkg_lib.retrieval.control_contexts.retriever_of", lambda *_: Stored())
    swapped = METHODS["Func-PKG, swapped"].make_retriever(None)
    with pytest.raises(UserError, match="2 of 3 contexts of Func-PKG are one text"):
        swapped.retrieve(made)

    texts[3] = "c"
    contexts = swapped.retrieve(made)
    assert [context.task_id for context in contexts] == [task.id for task in made]
    assert contexts[0].defines_task is None
    assert sorted(context.text for context in contexts) == sorted(texts)
    for context, own_text in zip(contexts, texts, strict=True):
        assert context.text != own_text
    # Some of the tasks get the same contexts as in the whole.
    assert swapped.retrieve(made[2:]) == contexts[2:]
