"""Validity of contexts as solutions, executed on tasks made by hand and the first of HumanEval; the controls."""

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
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.methods import METHODS
from pkg_lib.retrieval.retrievers import FuncPKG

pytest.importorskip("datasketch")
REFERENCE = "def fact(n):\n    '''n!'''\n    total = 1\n    for i in range(2, n + 1):\n        total *= i\n    return total\n"
TEST = "assert fact(4) == 24"


class Made(Benchmark):
    name = prompts = "made"
    title = "Made by hand"
    seconds = 3.0

    def tasks(self):
        return [
            Task(
                f"Made/{i}",
                "made",
                "the product of the first numbers",
                "fact",
                ProgramTests(TEST),
                REFERENCE,
            )
            for i in range(4)
        ]

    def program(self, task, solution):
        return solution


@pytest.fixture(autouse=True)
def made(monkeypatch):
    monkeypatch.setitem(BENCHMARKS, "made", Made())
    return Made().tasks()


RECURSIVE = "def product(n):\n    return 1 if n < 2 else n * product(n - 1)\n"
CASES = {
    "renamed, recursion too": (RECURSIVE, True, True),
    "the second of two": ("def other(n):\n    return n\n\n" + RECURSIVE, True, True),
    "an import is missing": ("def product(n):\n    return math.factorial(n)\n", True, True),
    "fenced": (
        f"Sure:\n\n```python\n{RECURSIVE}\nprint(product(int(input())))\n```\nIt works.",
        True,
        True,
    ),
    "cut in the middle": (RECURSIVE + "\ndef unfinished(a,\n", True, True),
    "the body of one": (
        "    result = 1\n    while k:\n        result *= k\n        k -= 1\n    return result",
        True,
        True,
    ),
    "another value": ("def product(n):\n    return n\n", True, False),
    "another number of arguments": ("def product(n, m):\n    return 24\n", False, False),
    "prose": ("The factorial is a product.", False, False),
    "a loop alone": ("for i in range(3):\n    print(i)\n", False, False),
}


def test_what_a_context_is_as_the_solution(made):
    leaks = check_contexts([(made[0], text) for text, *_ in CASES.values()])
    found = {name: (leak.callable, leak.passes) for name, leak in zip(CASES, leaks, strict=True)}
    assert found == {name: tuple(wanted) for name, (_, *wanted) in CASES.items()}


def test_the_reference_renamed_passes_and_is_its_own_duplicate(made):
    tasks = load_benchmark("humaneval", 8)
    leaks = check_contexts([(t, renamed_reference(t)) for t in tasks], control=True)
    assert all(leak.passes and leak.jaccard == leak.edit == 1 for leak in leaks)
    # A wrong reference is seen, so the control can fail.
    wrong = replace(made[0], solution=REFERENCE.replace("n + 1", "n"))
    assert not check_contexts([(wrong, renamed_reference(wrong))], control=True)[0].passes


def test_likeness_sees_through_names_and_leaks_without_passing(made):
    copied = (
        REFERENCE.replace("total", "value").replace("fact", "g").replace("value = 1", "value = 2")
    )
    near, far = check_contexts([(made[0], copied), (made[0], RECURSIVE)])
    assert not near.passes and near.edit > 0.9 and near.leaks
    assert far.passes and far.edit < 0.6 and far.leaks


def test_statements_are_compared_with_their_names():
    text = "def f(x):\n    '''Doc.'''\n    if x>1:\n        return  x\n    y = 2\n"
    assert statement_digests(text) == statement_digests("if x > 1:\n    return x\ny=2")[
        :1
    ] + statement_digests("y = 2\nreturn x")
    assert not {*statement_digests("return x")} & {*statement_digests("return z")}


def retriever(column, documents, leak_check=find_leaks):
    corpus = [Document(name, text) for name, text in documents.items()]
    return METHODS[column].make_retriever(Knowledge(corpus, WordEmbedder(), leak_check=leak_check))


def test_leak_free_takes_the_next_best_and_nothing_where_all_leak(made):
    best = (
        "def first_numbers(product):\n    '''the product of the first numbers'''\n    return 24\n"
    )
    documents = {"a": best, "b": "def numbers(n):\n    '''the numbers'''\n    return n\n"}
    task = made[0]
    (before,) = FuncPKG(
        Knowledge([Document(n, t) for n, t in documents.items()], WordEmbedder())
    ).retrieve([task])
    (after,) = retriever("Func-PKG, leak-free", documents).retrieve([task])
    assert (
        "24" in before.text
        and after.text.startswith("def numbers")
        and after.method == "Func-PKG, leak-free"
    )
    (none,) = retriever("Func-PKG, leak-free", {"a": best}).retrieve([task])
    assert (none.task_id, none.text) == ("Made/0", "")
    with pytest.raises(UserError, match="runs hidden tests"):
        retriever("Func-PKG, leak-free", documents, leak_check=None).retrieve([task])


def test_swapped_gives_each_task_the_text_of_another(made, monkeypatch):
    texts = ["same", "same", "b", ""]

    class Stored:
        def retrieve(self, tasks):
            return [
                Context(t.id, "Func-PKG", x, defines_task=True)
                for t, x in zip(tasks, texts, strict=True)
            ]

    monkeypatch.setattr("pkg_lib.retrieval.control_contexts.retriever_of", lambda *_: Stored())
    swapped = METHODS["Func-PKG, swapped"].make_retriever(None)
    with pytest.raises(UserError, match="2 of 3 contexts of Func-PKG are one text"):
        swapped.retrieve(made)
    texts[3] = "c"
    given = swapped.retrieve(made)
    assert [c.task_id for c in given] == [t.id for t in made] and given[0].defines_task is None
    assert sorted(c.text for c in given) == sorted(texts)
    assert all(c.text != own for c, own in zip(given, texts, strict=True))
    assert swapped.retrieve(made[2:]) == given[2:]  # of a part of the tasks, too
