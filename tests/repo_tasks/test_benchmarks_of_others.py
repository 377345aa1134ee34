"""CrossCodeEval and SWE-bench Lite, on records made by hand."""

from __future__ import annotations

import gzip
import json
import zipfile
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib import cli
from pkg_lib.core.types import BenchmarkMissing, UserError
from pkg_lib.data import crosscodeeval, swebench
from pkg_lib.data.repoeval import REPOEVAL

RECORD = {
    "prompt": "from a import b\nx = ",
    "groundtruth": "b.make(1)",
    "metadata": {"task_id": "project_cc_python/1", "repository": "o-r", "file": "m.py"},
    "crossfile_context": {
        "text": "",
        "list": [{"filename": "a.py", "retrieved_chunk": "class b:\n    pass"}],
    },
}
PATCH = """diff --git a/pkg/m.py b/pkg/m.py
--- a/pkg/m.py
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
diff --git a/new.py b/new.py
new file mode 100644
--- /dev/null
+++ b/new.py
@@ -0,0 +1,1 @@
+fresh
diff --git a/sql.txt b/sql.txt
--- a/sql.txt
+++ b/sql.txt
@@ -1,2 +1,1 @@
--- a comment that looks like a header
 rest
"""
ISSUE = {
    "instance_id": "o__r-1",
    "repo": "o/r",
    "base_commit": "abc",
    "problem_statement": "It fails.",
    "patch": PATCH,
}


def lines(path, *rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def test_crosscodeeval_is_read_from_its_directory(tmp_path, monkeypatch):
    plain = {k: v for k, v in RECORD.items() if k != "crossfile_context"}
    lines(tmp_path / "python" / "line_completion.jsonl", RECORD, plain)
    monkeypatch.setenv("PKG_CCEVAL_DIR", str(tmp_path))
    first, second = crosscodeeval.load_crosscodeeval("python")
    assert (first.id, first.repository, first.path, first.reference) == (
        "project_cc_python/1",
        "o-r",
        "m.py",
        "b.make(1)",
    )
    assert first.crossfile == (("a.py", "class b:\n    pass"),) and second.crossfile == ()
    with pytest.raises(BenchmarkMissing, match=r"java/line_completion\.jsonl"):
        crosscodeeval.load_crosscodeeval("java")
    monkeypatch.delenv("PKG_CCEVAL_DIR")
    with pytest.raises(BenchmarkMissing, match="PKG_CCEVAL_DIR"):
        crosscodeeval.load_crosscodeeval("python")


@pytest.mark.parametrize(
    "broken",
    [
        {k: v for k, v in RECORD.items() if k != "groundtruth"},
        {**RECORD, "metadata": {}},
        [1],
        {**RECORD, "metadata": 1},
    ],
)
def test_a_record_that_is_none_is_named(tmp_path, broken):
    with pytest.raises(UserError, match=r"x\.jsonl:2 is no record of CrossCodeEval"):
        crosscodeeval.read_crosscodeeval(lines(tmp_path / "x.jsonl", RECORD, broken), "python")
    with pytest.raises(UserError, match="unknown language 'ruby'"):
        crosscodeeval.read_crosscodeeval(tmp_path / "x.jsonl", "ruby")


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
        ("csharp", "b.make(1)", "b.make(1)"),
        ("typescript", "if (x) {\n y", "if (x) {"),
    ],
)
def test_a_completion_ends_with_its_first_statement(language, text, wanted):
    assert crosscodeeval.first_statement(text, language) == wanted


def test_a_python_statement_ends_where_it_parses_after_the_prompt():
    assert crosscodeeval.first_statement("1,\n  2)\ny = 3", "python", "x = f(") == "1,\n  2)"
    assert crosscodeeval.first_statement("1,\n  2)\ny = 3", "python", "x = ") == "1,"


def test_completions_are_scored_and_missing_ones_are_not(tmp_path):
    other = {**RECORD, "metadata": RECORD["metadata"] | {"task_id": "2"}}
    tasks = crosscodeeval.read_crosscodeeval(lines(tmp_path / "x.jsonl", RECORD, other), "python")
    scores = crosscodeeval.score(tasks, {"project_cc_python/1": "b.make(1)\nprint(2)"})
    assert list(scores) == ["project_cc_python/1"] and scores["project_cc_python/1"].exact == 1
    opened = replace(tasks[0], prompt="x = (", reference="b.make(1)\n)")
    assert crosscodeeval.score([opened], {opened.id: "b.make(1)  # c\n)\nprint(2)"})[opened.id].exact == 1


def test_swebench_s_gold_are_the_lines_that_the_patch_changes(tmp_path, monkeypatch):
    lines(tmp_path / "test.jsonl", ISSUE)
    monkeypatch.setenv("PKG_SWEBENCH_DIR", str(tmp_path))
    (found,) = swebench.load_swebench()
    assert (found.id, found.repository, found.commit, found.query) == ("o__r-1", "o/r", "abc", "It fails.")
    assert found.gold == (("pkg/m.py", 5, 6), ("pkg/m.py", 7, 7), ("pkg/m.py", 20, 20), ("sql.txt", 1, 1))


ENDS = """diff --git a/m.py b/m.py
--- a/m.py
+++ b/m.py
@@ -1,4 +1,4 @@
 w
-x
+X
 y
 z
\\ No newline at end of file
diff --git a/n.py b/n.py
--- a/n.py
+++ b/n.py
@@ -1,2 +1,3 @@
 x
-y
\\ No newline at end of file
+y
+z
\\ No newline at end of file
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
diff --git a/here.py b/there.py
similarity index 100%
rename from here.py
rename to there.py
"""
BARE = "--- a/m.py\n+++ b/m.py\n@@ -5,0 +6,1 @@\n+new\n@@ -9,1 +10,0 @@\n-gone\n"


@pytest.mark.parametrize(
    ("patch", "gold"),
    [
        (ENDS, [("m.py", 2, 2), ("n.py", 2, 2)]),  # the mark of a missing newline is no line
        (MOVED, [("old.py", 2, 2)]),
        (BARE, [("m.py", 5, 5), ("m.py", 9, 9)]),  # without context lines
    ],
    ids=["no newline", "renamed", "no context"],
)
def test_gold_is_of_the_file_before_the_patch(patch, gold):
    assert list(swebench.changed_lines(patch)) == gold


@pytest.mark.parametrize("missing", ISSUE)
def test_a_swebench_record_without_a_field_is_named(tmp_path, missing):
    row = {k: v for k, v in ISSUE.items() if k != missing}
    with pytest.raises(UserError, match=rf"test\.jsonl:1 .*{missing}"):
        swebench.read_swebench(lines(tmp_path / "test.jsonl", row))


def test_swebench_without_a_directory_says_what_to_set(monkeypatch):
    monkeypatch.delenv("PKG_SWEBENCH_DIR", raising=False)
    with pytest.raises(BenchmarkMissing, match="PKG_SWEBENCH_DIR"):
        swebench.load_swebench()


@given(
    st.lists(st.sampled_from(["same", "other", "third"]), min_size=1, max_size=12),
    st.lists(st.sampled_from(["same", "other", "new"]), max_size=12),
)
def test_gold_lines_are_those_that_differ(before, after):
    """Against difflib's own diff: outside the gold lines nothing is removed."""
    import difflib

    patch = "\n".join(difflib.unified_diff(before, after, "a/m.py", "b/m.py", lineterm=""))
    gold = list(swebench.changed_lines(patch + "\n" if patch else ""))
    removed = {
        i + 1
        for tag, i1, i2, _, _ in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
        if tag in ("delete", "replace")
        for i in range(i1, i2)
    }
    inside = {n for _, first, last in gold for n in range(first, last + 1)}
    assert removed <= inside and bool(gold) == (before != after)
    assert all(path == "m.py" and first <= last for path, first, last in gold)


SOURCE = "".join(f"def f{i}(x):\n    y = x * {i}\n    return y\n\n\n" for i in range(80))
SOURCE += "def grow(tree):\n    t = tree\n    return t\n"


def measured(results, benchmark, capsys, monkeypatch):
    """The command's own way: exit code, its last lines, and what it has stored."""
    import pandas as pd

    monkeypatch.setenv("PKG_RESULTS", str(results))
    monkeypatch.setattr(
        "sys.argv", ["pkg-lib", "repo-tasks", "retrieval", "--benchmark", benchmark, "--ranker", "BM25"]
    )
    code, out = cli.main(), capsys.readouterr()
    path = results / "repo_tasks" / f"retrieval.{benchmark}.csv"
    return code, out, pd.read_csv(path) if path.exists() else None


def test_retrieval_on_repoeval(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PKG_REPOEVAL_DIR", str(tmp_path))
    first = SOURCE[: SOURCE.index("    t = tree")]
    about = {
        "task_id": "o--r/idx",
        "ground_truth": "    t = tree\n    return t\n",
        "fpath_tuple": ["o_r", "m.py"],
        "context_start_lineno": 0,
        "lineno": first.count("\n"),
        "function_name": "grow",
    }
    with gzip.open(tmp_path / f"{REPOEVAL}.gz", "wt") as f:
        f.write(json.dumps({"prompt": first, "metadata": about}) + "\n")
    code, out, _ = measured(tmp_path / "results", "repoeval", capsys, monkeypatch)
    assert code == 2 and "o_r" in out.err and len(out.err.strip().splitlines()) == 1
    (tmp_path / "repositories").mkdir()
    with zipfile.ZipFile(tmp_path / "repositories" / "o_r.zip", "w") as archive:
        archive.writestr("m.py", SOURCE)
    code, out, rows = measured(tmp_path / "results", "repoeval", capsys, monkeypatch)
    own = rows[rows["chunking"] == "fixed-size"].iloc[0]
    assert code == 0 and "BM25, fixed-size (own), 1 tasks: nDCG@5 100.0" in out.out
    assert (own["task_id"], own["gold"], own["chunks"]) == (
        "o_r/0",
        1,
        7,
    )  # seven windows of 60 lines, the last one holds it


def test_retrieval_on_swebench(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PKG_SWEBENCH_DIR", str(tmp_path))
    patch = "--- a/pkg/m.py\n+++ b/pkg/m.py\n@@ -401,3 +401,3 @@\n def grow(tree):\n-    t = tree\n+    t = 2\n     return t\n"
    lines(tmp_path / "test.jsonl", ISSUE | {"patch": patch, "problem_statement": "The tree does not grow"})
    (tmp_path / "repositories" / "o__r-1" / "pkg").mkdir(parents=True)
    (tmp_path / "repositories" / "o__r-1" / "pkg" / "m.py").write_text(SOURCE)
    code, _, rows = measured(tmp_path / "results", "swebench-lite", capsys, monkeypatch)
    own = rows[rows["chunking"] == "fixed-size"].iloc[0]
    assert (code, own["gold"], own["nDCG@5"]) == (0, 1, 1)


def test_completions_of_crosscodeeval_are_measured(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PKG_CCEVAL_DIR", str(tmp_path))
    other = RECORD | {"metadata": RECORD["metadata"] | {"task_id": "2"}}
    lines(tmp_path / "python" / "line_completion.jsonl", RECORD, other)
    lines(tmp_path / "made.jsonl", {"task_id": "project_cc_python/1", "completion": "b.make(1)\nprint(2)"})
    monkeypatch.setattr("sys.argv", ["pkg-lib", "crosscodeeval", str(tmp_path / "made.jsonl")])
    assert cli.main() == 0
    out = capsys.readouterr().out
    assert out.startswith("1 of 2 tasks measured; 0 ") and "exact: 100.0" in out
    lines(tmp_path / "made.jsonl", {"task_id": "2"})
    assert cli.main() == 2 and "made.jsonl is no file with task_id and completion" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["retrieval", "--benchmark", "nosuch"],
            "unknown benchmark 'nosuch'; choose from: repoeval, swebench-lite",
        ),
        (["retrieval", "--benchmark", "repoeval", "--ranker", "nosuch"], "unknown ranker 'nosuch'"),
        (["chunks", "--benchmark", "repoeval"], "name it alone"),
    ],
)
def test_a_mistake_in_a_name_is_one_line(tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["pkg-lib", "repo-tasks", *arguments])
    assert cli.main() == 2 and message in capsys.readouterr().err
