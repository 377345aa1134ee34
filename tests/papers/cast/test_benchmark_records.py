"""Published data sets read from a user-supplied directory: MBPP, RepoEval, CrossCodeEval and SWE-bench."""

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
from pkg_lib.core.types import BenchmarkMissingError, UserError
from pkg_lib.data import crosscodeeval, mbpp, swebench
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.data.functions import DATA, FILE, load_repoeval
from pkg_lib.data.records import read_records

PROGRAM = {
    "task_id": 12,
    "text": "Add one.",
    "code": "def inc(a):\n  return a + 1",
    "test_setup_code": "",
    "test_list": ["assert inc(1) == 2"],
}
METADATA = {
    "task_id": "o--r/idx",
    "ground_truth": "    return 1\n",
    "fpath_tuple": ["o_r", "a", "b.py"],
    "context_start_lineno": 0,
    "lineno": 2,
    "function_name": "f",
}
FUNCTION = {"prompt": "import os\ndef f():\n", "metadata": METADATA}
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
NO_NEWLINE = r"""--- a/m.py
+++ b/m.py
@@ -1,4 +1,4 @@
 w
-x
+X
 y
 z
\ No newline at end of file
"""
MOVED = """diff --git a/old.py b/new.py
similarity index 80%
rename from old.py
rename to new.py
--- a/old.py
+++ b/new.py
@@ -1,3 +1,3 @@
 x
-y
+Y
 z
"""
NO_CONTEXT = """--- a/m.py
+++ b/m.py
@@ -5,0 +6,1 @@
+new
@@ -9,1 +10,0 @@
-gone
"""
ISSUE = {"instance_id": "o__r-1", "problem_statement": "The tree fails.", "patch": PATCH}


def write_rows(path, *rows):
    """Write rows as JSON lines and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The directory that holds every data set."""
    for data in (mbpp.DATA, DATA, crosscodeeval.DATA, swebench.DATA):
        monkeypatch.setenv(data.variable, str(tmp_path))
    return tmp_path


def without(row, field):
    """A copy of a record without a field of the record or of its metadata."""
    if "metadata" not in row or field in row:
        return {key: value for key, value in row.items() if key != field}
    return {**row, "metadata": without(row["metadata"], field)}


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
def test_reports_missing_and_damaged_records(folder, monkeypatch, data, row, file, load):
    with pytest.raises(UserError, match=f"holds no {file}"):
        load()
    write_rows(folder / file, row)
    assert len(load()) == 1
    for field in [*row, *row.get("metadata", {})]:
        write_rows(folder / file, row, without(row, field))
        message = f", line 2 is damaged: it is not a record of {data.title} .*{field}"
        with pytest.raises(UserError, match=message):
            load()
    for broken in ("{", "[]", "1", '{"metadata": 1}'):
        (folder / file).write_text(broken + "\n")
        with pytest.raises(UserError, match=", line 1 is damaged: it is "):
            load()
    monkeypatch.delenv(data.variable)
    monkeypatch.setattr("pkg_lib.core.hub.reachable", lambda: False)
    with pytest.raises(BenchmarkMissingError, match=f"set {data.variable}"):
        load()


@pytest.mark.parametrize("module", ["datasets", ""])
def test_reports_a_failed_download_in_one_line(monkeypatch, module):
    datasets = pytest.importorskip("datasets")
    monkeypatch.delenv(mbpp.DATA.variable, raising=False)
    monkeypatch.setattr("pkg_lib.core.hub.reachable", lambda: True)

    def unreachable(*repository, revision):
        raise ConnectionError("no network\nat all")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    if module:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(BenchmarkMissingError, match=module or "no network") as error:
        load_benchmark("mbpp")
    assert "\n" not in str(error.value)


def test_the_hub_and_a_local_file_give_the_same_tasks(folder, monkeypatch):
    datasets = pytest.importorskip("datasets")
    second = PROGRAM | {"task_id": 13}
    write_rows(folder / "mbpp.jsonl", PROGRAM, second)
    from_file = load_benchmark("mbpp")
    pinned = hub_data.PINNED[mbpp.HUB[0]]

    def load_dataset(*repository, revision):
        if repository == tuple(mbpp.HUB) and revision == pinned:
            return {"test": [second], "train": [PROGRAM]}
        return {}

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    monkeypatch.setattr("pkg_lib.core.hub.reachable", lambda: True)
    monkeypatch.delenv(mbpp.DATA.variable)
    assert load_benchmark("mbpp") == from_file
    assert len(from_file) == 2


def test_reports_files_that_cannot_be_read(tmp_path):
    damaged = gzip.compress(b"{}")[:-9] + b"123456789"
    (tmp_path / "x.gz").write_bytes(damaged)
    for name in ("none.jsonl", "x.gz"):
        with pytest.raises(UserError, match=f"{name} (is damaged|cannot be read): "):
            read_records(tmp_path / name, "RepoEval", dict)


def test_numbers_the_tasks_of_each_repoeval_repository(folder):
    other = {"prompt": "", "metadata": METADATA | {"task_id": "x--y/idx"}}
    write_rows(folder / FILE, FUNCTION, other, FUNCTION)
    tasks = load_repoeval()
    assert [task.id for task in tasks] == ["o_r/0", "x_y/0", "o_r/1"]
    first = tasks[0]
    assert first.repository == "o_r"
    assert first.path == "a/b.py"
    assert first.gold == (3, 3)
    assert first.indent == "    "
    assert first.entry_point == "f"
    assert first.query == "import os\ndef f():"
    assert first.test_names == ()


def test_tasks_survive_writing_and_reading(functions, folder):
    write_rows(folder / FILE, *(task.record() for task in functions.values()))
    tasks = [replace(task, benchmark="packages") for task in load_repoeval()]
    assert tasks == list(functions.values())


def test_the_span_of_a_record_covers_the_decorated_function(folder):
    """RepoEval's records do not store where a function starts.

    The first record's prompt is the whole file before the body. The second has no prompt.
    """
    prompt = (
        "def size(x):\n    return 0\n\n\nclass A:\n    @cached(\n        1,\n    )\n    @property\n"
    )
    metadata = METADATA | {
        "lineno": 10,
        "function_name": "size",
        "ground_truth": "        n = 1\n        return n\n",
    }
    row = {"prompt": prompt + "    def size(self):", "metadata": metadata}
    write_rows(folder / FILE, row, row | {"prompt": ""})
    task, without_head = load_repoeval()
    assert task.span == ("a/b.py", 6, 12)
    assert task.def_lineno == 5
    assert without_head.span == ("a/b.py", 10, 12)


@pytest.mark.skipif(DATA.variable not in os.environ, reason=f"needs RepoEval ({DATA.variable})")
def test_the_span_of_every_published_record_is_its_function():
    tasks = load_repoeval()
    assert len(tasks) == 455
    names = {task.repository for task in tasks}
    files = {name: DATA.repository(name) for name in names}
    for task in tasks:
        spans = {}
        for node in ast.walk(ast.parse(files[task.repository][task.path])):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                decorators = [decorator.lineno for decorator in node.decorator_list]
                spans[min([node.lineno, *decorators]), node.end_lineno] = node.name
        assert spans[task.span[1:]] == task.entry_point, task.id


@pytest.mark.parametrize(
    ("language", "text", "expected"),
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
def test_truncates_a_completion_after_its_first_statement(language, text, expected):
    assert crosscodeeval.first_statement(text, language) == expected


def test_a_python_statement_ends_where_prompt_and_completion_parse():
    assert crosscodeeval.first_statement("1,\n  2)\ny = 3", "python", "x = f(") == "1,\n  2)"


def test_measures_completions_of_crosscodeeval(folder, capsys, monkeypatch):
    second = STATEMENT | {"metadata": {"task_id": "2"}}
    write_rows(folder / STATEMENTS, STATEMENT, second)
    completion = {"task_id": "1", "completion": "b.make(1)  # c\nprint(2)"}
    path = write_rows(folder / "completions.jsonl", completion)
    monkeypatch.setattr("sys.argv", ["pkg-lib", "cast", "crosscodeeval", str(path)])
    assert cli.main() == 0
    printed = capsys.readouterr().out
    assert printed.startswith("1 of 2 tasks measured; 0 ")
    assert "exact: 100.0" in printed
    write_rows(path, {"task_id": "2"})
    assert cli.main() == 2
    assert "completions.jsonl, line 1 is damaged: " in capsys.readouterr().err
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
def test_the_gold_lines_of_swebench_are_those_that_the_patch_changes(patch, gold):
    assert list(swebench.changed_lines(patch)) == gold


@given(
    st.lists(st.sampled_from(["same", "other", "third"]), min_size=1, max_size=12),
    st.lists(st.sampled_from(["same", "other", "new"]), max_size=12),
)
def test_gold_lines_cover_every_removed_line(before, after):
    """The differential test computes the removed lines with difflib."""
    patch = "\n".join(difflib.unified_diff(before, after, "a/m.py", "b/m.py", lineterm=""))
    gold = list(swebench.changed_lines(patch + "\n" if patch else ""))
    gold_lines = set()
    for _, first, last in gold:
        assert first <= last
        gold_lines.update(range(first, last + 1))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, *_ in matcher.get_opcodes():
        if tag in ("delete", "replace"):
            assert gold_lines.issuperset(range(start + 1, end + 1))
    assert bool(gold) == (before != after)


# A module of 80 functions with five lines each, and then the function that the task asks for.
SOURCE = "".join(f"def f{i}(x):\n    y = x * {i}\n    return y\n\n\n" for i in range(80))
SOURCE += "def grow(tree):\n    t = tree\n    return t\n"


def measured(results, capsys, monkeypatch, *arguments):
    """Run `cast prepare retrieval` with BM25.

    Args:
        results: The results directory.
        capsys: The fixture of pytest.
        monkeypatch: The fixture of pytest.
        *arguments: Further arguments of the command.

    Returns:
        The exit code, the printed output, and the stored measures (None if there are none).
    """
    monkeypatch.setenv("PKG_RESULTS", str(results))
    command = ["pkg-lib", "cast", "prepare", "retrieval", "--ranker", "BM25"]
    monkeypatch.setattr("sys.argv", [*command, *arguments])
    code = cli.main()
    printed = capsys.readouterr()
    paths = list(results.glob("repo_tasks/*/retrieval.csv.gz"))
    measures = pd.read_csv(paths[0]) if paths else None
    assert measures is None or not measures.columns[0].startswith("Unnamed"), (
        "row numbers are stored"
    )
    return code, printed, measures


def test_measures_retrieval_on_repoeval(folder, capsys, monkeypatch):
    head = SOURCE[: SOURCE.index("    t = tree")]
    metadata = METADATA | {
        "fpath_tuple": ["o_r", "m.py"],
        "lineno": head.count("\n"),
        "function_name": "grow",
        "ground_truth": "    t = tree\n    return t\n",
    }
    with gzip.open(folder / f"{FILE}.gz", "wt") as file:
        json.dump({"prompt": head, "metadata": metadata}, file)
    command = (folder / "results", capsys, monkeypatch, "--benchmark", "repoeval")
    code, printed, _ = measured(*command)
    assert code == 2
    assert "o_r" in printed.err
    assert len(printed.err.strip().splitlines()) == 1
    (folder / "repositories").mkdir()
    with zipfile.ZipFile(folder / "repositories" / "o_r.zip", "w") as archive:
        archive.writestr("m.py", SOURCE)
    code, _, rows = measured(*command)
    assert code == 0
    baselines = rows[rows["chunking"].str.startswith("fixed-size")].set_index("chunking")
    chunk_counts = {"fixed-size": 7, "fixed-size 20": 21, "fixed-size 10": 41}
    assert dict(baselines["chunks"]) == chunk_counts
    assert list(baselines["gold"]) == [1, 1, 1]
    assert baselines["nDCG@5"]["fixed-size"] == 1
    mappings = set(rows["mapping"][rows["chunking"] == "cast"])
    assert mappings == {"mean", "max", "own", "mean, 20", "mean, 10"}


def test_measures_retrieval_on_swebench(folder, capsys, monkeypatch):
    patch = """--- a/pkg/m.py
+++ b/pkg/m.py
@@ -401,3 +401,3 @@
 def grow(tree):
-    t = tree
+    t = 2
     return t
"""
    write_rows(folder / "test.jsonl", ISSUE | {"patch": patch})
    (folder / "repositories" / "o__r-1" / "pkg").mkdir(parents=True)
    (folder / "repositories" / "o__r-1" / "pkg" / "m.py").write_text(SOURCE)
    arguments = ("--benchmark", "swebench-lite")
    code, _, rows = measured(folder / "results", capsys, monkeypatch, *arguments)
    assert code == 0
    fixed_size = rows[rows["chunking"] == "fixed-size"].iloc[0]
    assert fixed_size["gold"] == 1
    assert fixed_size["nDCG@5"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--benchmark", "nosuch"], "unknown benchmark 'nosuch'"),
        (["--benchmark", "repoeval", "--ranker", "nosuch"], "unknown embedder 'nosuch'"),
        (["chunks"], "name it alone"),
        (["all"], "unknown step 'all'"),
    ],
)
def test_reports_misspelled_names(tmp_path, capsys, monkeypatch, arguments, message):
    code, printed, _ = measured(tmp_path, capsys, monkeypatch, *arguments)
    assert code == 2
    assert message in printed.err
