"""Other people's data sets, from the directory of their variable: MBPP, RepoEval, CrossCodeEval, SWE-bench."""

from __future__ import annotations

import ast
import difflib
import gzip
import json
import os
import sys
import zipfile
from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib import cli
from pkg_lib.core import hub_data
from pkg_lib.core.types import BenchmarkMissing, UserError
from pkg_lib.data import crosscodeeval, mbpp, swebench
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.data.functions import DATA, FILE, load_repoeval
from pkg_lib.data.records import read_records

PROGRAM = {"task_id": 12, "text": "Add one.", "code": "def inc(a):\n  return a + 1"}
PROGRAM |= {"test_setup_code": "", "test_list": ["assert inc(1) == 2"]}
ABOUT = {
    "task_id": "o--r/idx",
    "ground_truth": "    return 1\n",
    "fpath_tuple": ["o_r", "a", "b.py"],
}
ABOUT |= {"context_start_lineno": 0, "lineno": 2, "function_name": "f"}
FUNCTION = {"prompt": "import os\ndef f():\n", "metadata": ABOUT}
STATEMENTS = "python/line_completion.jsonl"
STATEMENT = {
    "prompt": "from a import b\nx = ",
    "groundtruth": "b.make(1)",
    "metadata": {"task_id": "1"},
}
PATCH = """--- a/pkg/m.py
+++ b/pkg/m.py
@@ -3,7 +3,8 @@ def f():
 a
 b
-c
-d
+C
 e
+new
+new
 f
 g
@@ -20,2 +21,3 @@
 x
+y
 z
--- /dev/null
+++ b/new.py
@@ -0,0 +1,1 @@
+fresh
--- a/sql.txt
+++ b/sql.txt
@@ -1,2 +1,1 @@
--- a comment that looks like a header
 rest
"""
NO_NEWLINE = (
    "--- a/m.py\n+++ b/m.py\n@@ -1,4 +1,4 @@\n w\n-x\n+X\n y\n z\n\\ No newline at end of file\n"
)
MOVED = "diff --git a/old.py b/new.py\nsimilarity index 80%\nrename from old.py\nrename to new.py\n"
MOVED += "--- a/old.py\n+++ b/new.py\n@@ -1,3 +1,3 @@\n x\n-y\n+Y\n z\n"
NO_CONTEXT = "--- a/m.py\n+++ b/m.py\n@@ -5,0 +6,1 @@\n+new\n@@ -9,1 +10,0 @@\n-gone\n"
ISSUE = {"instance_id": "o__r-1", "problem_statement": "The tree fails.", "patch": PATCH}


def lines(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The directory of every data set."""
    for data in (mbpp.DATA, DATA, crosscodeeval.DATA, swebench.DATA):
        monkeypatch.setenv(data.variable, str(tmp_path))
    return tmp_path


def without(row, field):
    """The record, or its metadata, without a field."""
    if "metadata" not in row or field in row:
        return {k: v for k, v in row.items() if k != field}
    return {**row, "metadata": {k: v for k, v in row["metadata"].items() if k != field}}


@pytest.mark.parametrize(
    ("data", "row", "file", "load"),
    [
        (mbpp.DATA, PROGRAM, "mbpp.jsonl", lambda: load_benchmark("mbpp")),
        (DATA, FUNCTION, FILE, load_repoeval),
        (
            crosscodeeval.DATA,
            STATEMENT,
            STATEMENTS,
            lambda: crosscodeeval.load_crosscodeeval("python"),
        ),
        (swebench.DATA, ISSUE, "test.jsonl", swebench.load_swebench),
    ],
    ids=lambda value: getattr(value, "title", ""),
)
def test_faults_of_a_data_set_are_one_line(folder, monkeypatch, data, row, file, load):
    with pytest.raises(UserError, match=f"holds no {file}"):
        load()
    lines(folder / file, row)
    assert len(load()) == 1
    for field in [*row, *row.get("metadata", {})]:
        lines(folder / file, row, without(row, field))
        with pytest.raises(
            UserError, match=f", line 2 is damaged: it is not a record of {data.title} .*{field}"
        ):
            load()
    for broken in ("{", "[]", "1", '{"metadata": 1}'):
        (folder / file).write_text(broken + "\n")
        with pytest.raises(UserError, match=", line 1 is damaged: it is "):
            load()
    monkeypatch.delenv(data.variable)
    monkeypatch.setattr("pkg_lib.core.hub.reachable", lambda: False)
    with pytest.raises(BenchmarkMissing, match=f"set {data.variable}"):
        load()


@pytest.mark.parametrize("module", ["datasets", ""])
def test_a_hub_that_fails_is_one_line(monkeypatch, module):
    datasets = pytest.importorskip("datasets")
    monkeypatch.delenv(mbpp.DATA.variable, raising=False)
    monkeypatch.setattr("pkg_lib.core.hub.reachable", lambda: True)

    def unreachable(*repository, revision):
        raise ConnectionError("no network\nat all")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    if module:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BenchmarkMissing, match=module or "no network") as error:
        load_benchmark("mbpp")
    assert "\n" not in str(error.value)


def test_the_hub_s_rows_are_read_as_the_file_s(folder, monkeypatch):
    datasets = pytest.importorskip("datasets")
    lines(folder / "mbpp.jsonl", PROGRAM, PROGRAM | {"task_id": 13})
    here = load_benchmark("mbpp")
    splits = {"test": [PROGRAM | {"task_id": 13}], "train": [PROGRAM]}
    pinned = hub_data.PINNED[mbpp.HUB[0]]
    monkeypatch.setattr(
        datasets,
        "load_dataset",
        lambda *about, revision: splits if (*about, revision) == (*mbpp.HUB, pinned) else {},
    )
    monkeypatch.setattr("pkg_lib.core.hub.reachable", lambda: True)
    monkeypatch.delenv(mbpp.DATA.variable)
    assert load_benchmark("mbpp") == here and len(here) == 2


def test_a_file_that_cannot_be_read_is_one_line(tmp_path):
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"{}")[:-9] + b"123456789")
    for name in ("none.jsonl", "x.gz"):
        with pytest.raises(UserError, match=f"{name} (is damaged|cannot be read): "):
            read_records(tmp_path / name, "RepoEval", dict)


def test_repoeval_s_records_get_ids_of_their_own(folder):
    lines(
        folder / FILE,
        FUNCTION,
        {"prompt": "", "metadata": ABOUT | {"task_id": "x--y/idx"}},
        FUNCTION,
    )
    tasks = load_repoeval()
    assert [t.id for t in tasks] == ["o_r/0", "x_y/0", "o_r/1"]
    first = tasks[0]
    assert (first.repository, first.path, first.gold, first.indent) == (
        "o_r",
        "a/b.py",
        (3, 3),
        "    ",
    )
    assert (first.entry_point, first.query, first.test_names) == ("f", "import os\ndef f():", ())


def test_a_task_goes_through_its_file(functions, folder):
    lines(folder / FILE, *(t.record() for t in functions.values()))
    assert [replace(t, benchmark="packages") for t in load_repoeval()] == [*functions.values()]


def test_the_span_of_a_record_is_the_function(folder):
    """RepoEval's records do not say where the function starts; this one is of its form, its file whole."""
    prompt = (
        "def size(x):\n    return 0\n\n\nclass A:\n    @cached(\n        1,\n    )\n    @property\n"
    )
    about = ABOUT | {"lineno": 10, "function_name": "size"}
    about |= {"ground_truth": "        n = 1\n        return n\n"}
    row = {"prompt": prompt + "    def size(self):", "metadata": about}
    lines(folder / FILE, row, row | {"prompt": ""})
    task, headless = load_repoeval()
    assert task.span == ("a/b.py", 6, 12) and task.def_lineno == 5
    assert headless.span == ("a/b.py", 10, 12)


@pytest.mark.skipif(DATA.variable not in os.environ, reason=f"needs RepoEval ({DATA.variable})")
def test_the_span_of_every_published_record_is_its_function():
    tasks = load_repoeval()
    assert len(tasks) == 455
    files = {name: DATA.repository(name) for name in {t.repository for t in tasks}}
    for task in tasks:
        nodes = ast.walk(ast.parse(files[task.repository][task.path]))
        defined = [n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
        starts = [min([n.lineno, *(d.lineno for d in n.decorator_list)]) for n in defined]
        spans = {(start, n.end_lineno): n.name for start, n in zip(starts, defined, strict=True)}
        assert spans[task.span[1:]] == task.entry_point, task.id


@pytest.mark.parametrize(
    ("language", "text", "wanted"),
    [
        ("python", "b.make(1)\nprint(x)", "b.make(1)"),
        ("python", "b.make(\n    1,\n)\nprint(x)", "b.make(\n    1,\n)"),
        ("python", "\n\nb.make(1)\n", "\n\nb.make(1)"),
        ("python", 'print("(")\nfoo()\nbar()', 'print("(")'),
        ("python", "print(1)  # (\nfoo()", "print(1)  # ("),
        ("python", 'x = """a\nb"""\ny', 'x = """a\nb"""'),
        ("python", "a + \\\n b\nc", "a + \\\n b"),
        ("python", "f(\n never closed", "f(\n never closed"),
        ("java", "b.make(1); c();", "b.make(1);"),
        ("java", "} else {", "} else {"),
        ("java", "", ""),
        ("typescript", "if (x) {\n y", "if (x) {"),
    ],
)
def test_a_completion_ends_with_its_first_statement(language, text, wanted):
    assert crosscodeeval.first_statement(text, language) == wanted


def test_a_python_statement_ends_where_it_parses_after_the_prompt():
    assert crosscodeeval.first_statement("1,\n  2)\ny = 3", "python", "x = f(") == "1,\n  2)"


def test_completions_of_crosscodeeval_are_measured(folder, capsys, monkeypatch):
    lines(folder / STATEMENTS, STATEMENT, STATEMENT | {"metadata": {"task_id": "2"}})
    path = lines(
        folder / "completions.jsonl", {"task_id": "1", "completion": "b.make(1)  # c\nprint(2)"}
    )
    monkeypatch.setattr("sys.argv", ["pkg-lib", "cast", "crosscodeeval", str(path)])
    assert cli.main() == 0
    out = capsys.readouterr().out
    assert out.startswith("1 of 2 tasks measured; 0 ") and "exact: 100.0" in out
    lines(path, {"task_id": "2"})
    assert cli.main() == 2 and "completions.jsonl, line 1 is damaged: " in capsys.readouterr().err
    with pytest.raises(UserError, match="unknown language 'ruby'"):
        crosscodeeval.load_crosscodeeval("ruby")


@pytest.mark.parametrize(
    ("patch", "gold"),
    [
        (PATCH, [("pkg/m.py", 5, 6), ("pkg/m.py", 7, 7), ("pkg/m.py", 20, 20), ("sql.txt", 1, 1)]),
        (NO_NEWLINE, [("m.py", 2, 2)]),
        (MOVED, [("old.py", 2, 2)]),
        (NO_CONTEXT, [("m.py", 5, 5), ("m.py", 9, 9)]),
    ],
)
def test_swebench_s_gold_are_the_lines_that_the_patch_changes(patch, gold):
    assert list(swebench.changed_lines(patch)) == gold


@given(
    st.lists(st.sampled_from(["same", "other", "third"]), min_size=1, max_size=12),
    st.lists(st.sampled_from(["same", "other", "new"]), max_size=12),
)
def test_gold_lines_are_those_that_differ(before, after):
    """Against difflib's own diff: outside the gold lines nothing is removed."""
    patch = "\n".join(difflib.unified_diff(before, after, "a/m.py", "b/m.py", lineterm=""))
    gold = list(swebench.changed_lines(patch + "\n" if patch else ""))
    codes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    removed = {
        i + 1 for tag, i1, i2, *_ in codes if tag in ("delete", "replace") for i in range(i1, i2)
    }
    assert removed <= {n for _, first, last in gold for n in range(first, last + 1)}
    assert bool(gold) == (before != after) and all(first <= last for _, first, last in gold)


SOURCE = "".join(f"def f{i}(x):\n    y = x * {i}\n    return y\n\n\n" for i in range(80))
SOURCE += "def grow(tree):\n    t = tree\n    return t\n"


def measured(results, capsys, monkeypatch, *arguments):
    """`cast prepare retrieval`: exit code, what it printed, and RepoEval's or SWE-bench's measures."""
    monkeypatch.setenv("PKG_RESULTS", str(results))
    monkeypatch.setattr(
        "sys.argv", ["pkg-lib", "cast", "prepare", "retrieval", "--ranker", "BM25", *arguments]
    )
    code, printed = cli.main(), capsys.readouterr()
    paths = list(results.glob("repo_tasks/*/retrieval.csv.gz"))
    return code, printed, pd.read_csv(paths[0]) if paths else None


def test_retrieval_on_repoeval(folder, capsys, monkeypatch):
    first = SOURCE[: SOURCE.index("    t = tree")]
    about = ABOUT | {
        "fpath_tuple": ["o_r", "m.py"],
        "lineno": first.count("\n"),
        "function_name": "grow",
    }
    about |= {"ground_truth": "    t = tree\n    return t\n"}
    with gzip.open(folder / f"{FILE}.gz", "wt") as f:
        json.dump({"prompt": first, "metadata": about}, f)
    command = (folder / "results", capsys, monkeypatch, "--benchmark", "repoeval")
    code, printed, _ = measured(*command)
    assert code == 2 and "o_r" in printed.err and len(printed.err.strip().splitlines()) == 1
    (folder / "repositories").mkdir()
    with zipfile.ZipFile(folder / "repositories" / "o_r.zip", "w") as archive:
        archive.writestr("m.py", SOURCE)
    code, _, rows = measured(*command)
    baselines = rows[rows["chunking"].str.startswith("fixed-size")].set_index("chunking")
    counts = {"fixed-size": 7, "fixed-size 20": 21, "fixed-size 10": 41}
    assert code == 0 and dict(baselines["chunks"]) == counts
    assert list(baselines["gold"]) == [1, 1, 1] and baselines["nDCG@5"]["fixed-size"] == 1
    assert set(rows["mapping"][rows["chunking"] == "cast"]) == {
        "mean",
        "max",
        "own",
        "mean, 20",
        "mean, 10",
    }


def test_retrieval_on_swebench(folder, capsys, monkeypatch):
    patch = "--- a/pkg/m.py\n+++ b/pkg/m.py\n@@ -401,3 +401,3 @@\n def grow(tree):\n-    t = tree\n+    t = 2\n"
    lines(folder / "test.jsonl", ISSUE | {"patch": f"{patch}     return t\n"})
    (folder / "repositories" / "o__r-1" / "pkg").mkdir(parents=True)
    (folder / "repositories" / "o__r-1" / "pkg" / "m.py").write_text(SOURCE)
    code, _, rows = measured(
        folder / "results", capsys, monkeypatch, "--benchmark", "swebench-lite"
    )
    fixed = rows[rows["chunking"] == "fixed-size"].iloc[0]
    assert (code, fixed["gold"], fixed["nDCG@5"]) == (0, 1, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--benchmark", "nosuch"], "unknown benchmark 'nosuch'"),
        (["--benchmark", "repoeval", "--ranker", "nosuch"], "unknown embedder 'nosuch'"),
        (["chunks"], "name it alone"),
        (["all"], "unknown step 'all'"),
    ],
)
def test_a_mistake_in_a_name_is_one_line(tmp_path, capsys, monkeypatch, arguments, message):
    code, printed, _ = measured(tmp_path, capsys, monkeypatch, *arguments)
    assert code == 2 and message in printed.err
