"""Shared fixtures of EVOR's tests: a toy benchmark with a rule-based model, and two tasks like MonkeyEval's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

import pytest

from pkg_lib.core.registry import load_plugins
from pkg_lib.core.types import ProgramTests, Task
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.generation.generator import Generator
from pkg_lib.papers.evor import text_index
from pkg_lib.papers.evor.evor_benchmark import EvorBenchmark
from tests.fakes import FakeBackend, WordEmbedder

MODEL = "qwen2.5-coder-0.5b-instruct"
HIDDEN = "assert candidate(7777) == 7778"


class Toy(EvorBenchmark):
    """`math` is the library; the model believes that its `isqrt` is called `whole_root`."""

    name, title, prompts, seconds = "toy", "Toy", "toy", 5.0
    subject = "the library math"

    def tasks(self) -> list[Task]:
        root = 'def half(n):\n    """n to the power of one half, rounded down."""\n'
        add = 'def add(n):\n    """One more."""\n'
        return [
            Task(
                "toy/0",
                "toy",
                root,
                "half",
                ProgramTests("assert candidate(7777) == 88"),
                f"{root}    import math\n    return math.isqrt(n)  # the reference",
            ),
            Task(
                "toy/1",
                "toy",
                add,
                "add",
                ProgramTests(HIDDEN),
                f"{add}    return n + 1  # the reference",
            ),
        ]

    def documents(self) -> Mapping[str, str]:
        words = {
            "isqrt": "The whole_root of an integer.",
            "gcd": "Greatest common divisor.",
            "exp": "e to the power of n.",
        }
        return {f"math.{n}": f"math.{n}(n)\n{text}\n\nMore of it." for n, text in words.items()}

    def needed(self, task: Task) -> frozenset[str]:
        return frozenset({"math.isqrt"} if task.id == "toy/0" else ())

    def examples(self) -> list[str]:
        return ["import math\nmath.gcd(4, 6)", "import math\nmath.whole_root(3)"]

    def program(self, task: Task, solution: str) -> str:
        return solution

    def tests(self, task: Task, protocol: str) -> tuple[str, ...]:
        return (f"candidate = {task.entry_point}\n{task.hidden_tests.text}",)


def answer(request):
    """A rule-based model of the toy benchmark.

    The model knows `add`. It uses the correct name `isqrt` only if the prompt shows its document.
    """
    if "Write five calls" in request.text:
        return "```python\nhalf(16)\nadd(1)\nother(2)\n```"
    if "Which functions" in request.text:
        return "The whole_root of an integer."
    if "def add" in request.text:
        return "```python\ndef add(n):\n    return n + 1\n```"
    name = "isqrt" if "math.isqrt(n)" in request.text else "whole_root"
    return f"```python\nimport math\n\ndef half(n):\n    return math.{name}(n)\n```"


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A function that makes an evaluator of the toy benchmark with a fake model.

    The model is `answer` by default.
    """
    load_plugins()
    monkeypatch.setitem(BENCHMARKS, "toy", Toy())
    monkeypatch.setattr(text_index, "Embedder", WordEmbedder)
    monkeypatch.setattr(Generator, "measure", lambda self, text: len(text.split()))
    monkeypatch.setattr(Generator, "context_window", None)
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))

    def make(answering=answer, stop=None):
        results = Results(MODEL, "toy", results=tmp_path / "results")
        return Evaluator(results, backend=FakeBackend(answering, stop))

    return make


NAMES = {
    "pandas": "monkey",
    "pd": "mk",
    "DataFrame": "KnowledgeFrame",
    "drop": "sip",
    "df": "kf",
    "len": "length",
    "append": "adding",
}
TEST = """

METADATA = {}

def check(candidate):
    assert list(candidate(pd.DataFrame({'a': [1], 'b': [2]}), 'a').columns) == ['b']
"""
FUNCTION = """import {pd}

def without(kf, name):
    # delete a column
"""
SCRIPT = """import {pd}
kf = {frame}({{'a': [1, 2]}})
# the number of rows
count ="""
PRIVATE_WORDS = {"pd": "monkey as mk", "drop": "sip", "frame": "mk.KnowledgeFrame"}
PUBLIC_WORDS = {"pd": "pandas as pd", "drop": "drop", "frame": "pd.DataFrame"}


def prompt_and_solution(kind, words):
    """The prompt and the canonical solution of a task, for the public or the private library.

    Args:
        kind: "function" or "script".
        words: PRIVATE_WORDS or PUBLIC_WORDS.

    Returns:
        The two texts.
    """
    if kind == "function":
        prompt = FUNCTION.format(**words)
        solution = "    return kf.{drop}(columns=name)".format(**words)
    else:
        prompt = SCRIPT.format(**words)
        solution = " length(kf)" if words is PRIVATE_WORDS else " len(df)"
    if words is PUBLIC_WORDS:
        prompt = prompt.replace("kf", "df")
        solution = solution.replace("kf", "df")
    return prompt, solution


@pytest.fixture
def private(tmp_path, monkeypatch):
    """A small benchmark in MonkeyEval's format: a function, and a script whose last line is to be completed.

    Returns:
        A function that makes the benchmark, and the names of its variants.
    """
    rows = []
    for number, kind in enumerate(("function", "script"), 1):
        prompt, solution = prompt_and_solution(kind, PRIVATE_WORDS)
        public_prompt, public_solution = prompt_and_solution(kind, PUBLIC_WORDS)
        is_function = kind == "function"
        script_test = "\n\ndef check():\n    assert count == 2\n"
        row = {
            "task_id": f"PandasEval/{number}",
            "entry_point": "without" if is_function else "none",
            "test": TEST if is_function else script_test,
            "prompt": prompt,
            "canonical_solution": [solution],
            "oracle_docs": ["sip(labels): Drop."],
            "public_prompt": public_prompt,
            "public_solution": [public_solution],
        }
        rows.append(row)
    (tmp_path / "monkey.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "monkey.names.json").write_text(json.dumps(NAMES))
    monkeypatch.setenv("PKG_PRIVATE_EVAL_DIR", str(tmp_path))
    load_plugins()
    from pkg_lib.papers.evor.private_eval import WAYS, PrivateEval

    return partial(PrivateEval, "monkey"), [*WAYS]
