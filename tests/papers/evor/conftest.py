"""A language of one function, documented, with a model of rules; and two tasks of the form of MonkeyEval."""

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
    """Knows `add`; finds `isqrt` only where its document stands in the prompt."""
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
    """Makes a Evaluator of the toy's run with a model, which answers by rule unless told otherwise."""
    load_plugins()
    monkeypatch.setitem(BENCHMARKS, "toy", Toy())
    monkeypatch.setattr(text_index, "Embedder", WordEmbedder)
    monkeypatch.setattr(Generator, "measure", lambda self, text: len(text.split()))
    monkeypatch.setattr(Generator, "context_window", None)
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))

    def make(answering=answer, stop=None):
        run = Results(MODEL, "toy", results=tmp_path / "results")
        return Evaluator(run, backend=FakeBackend(answering, stop))

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
TEST = "\n\nMETADATA = {}\n\ndef check(candidate):\n    assert list(candidate(pd.DataFrame({'a': [1], 'b': [2]}), 'a').columns) == ['b']\n"


@pytest.fixture
def private(tmp_path, monkeypatch):
    """MonkeyEval's form: a function, and a program whose last line is to be finished."""
    rows = []
    prompt = "import {pd}\n\ndef without(kf, name):\n    # delete a column\n"
    solution = "    return kf.{drop}(columns=name)"
    for number, kind in enumerate(("function", "script")):
        texts = {}
        for way, new in (("", True), ("public_", False)):
            words = (
                {"pd": "monkey as mk", "drop": "sip"}
                if new
                else {"pd": "pandas as pd", "drop": "drop"}
            )
            frame = "mk.KnowledgeFrame" if new else "pd.DataFrame"
            script = f"import {words['pd']}\nkf = {frame}({{'a': [1, 2]}})\n# the number of rows\ncount ="
            solved = " length(kf)" if new else " len(df)"
            body = prompt.format(**words), solution.format(**words)
            texts[way] = body if kind == "function" else (script, solved)
            if not new:
                texts[way] = tuple(t.replace("kf", "df") for t in texts[way])
        test = TEST if kind == "function" else "\n\ndef check():\n    assert count == 2\n"
        rows.append(
            {
                "task_id": f"PandasEval/{number + 1}",
                "entry_point": "without" if kind == "function" else "none",
                "test": test,
            }
            | {
                "prompt": texts[""][0],
                "canonical_solution": [texts[""][1]],
                "oracle_docs": ["sip(labels): Drop."],
            }
            | {"public_prompt": texts["public_"][0], "public_solution": [texts["public_"][1]]}
        )
    (tmp_path / "monkey.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "monkey.names.json").write_text(json.dumps(NAMES))
    monkeypatch.setenv("PKG_PRIVATE_EVAL_DIR", str(tmp_path))
    load_plugins()
    from pkg_lib.papers.evor.private_eval import WAYS, PrivateEval

    return partial(PrivateEval, "monkey"), [*WAYS]
