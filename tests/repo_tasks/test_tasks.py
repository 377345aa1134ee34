"""RepoEval's records, and functions as tasks of the same form."""

from __future__ import annotations

import ast
import json
import os
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkg_lib.core.types import BenchmarkMissing, UserError
from pkg_lib.data.functions import as_task, candidates, functions, read_package, replaced
from pkg_lib.data.repoeval import REPOEVAL, WINDOW_LINES, load_repoeval, read_repoeval

from .conftest import SHAPES

METADATA = {
    "task_id": "owner--repo/idx",
    "ground_truth": "    return 1\n",
    "fpath_tuple": ["owner_repo", "a", "b.py"],
    "context_start_lineno": 0,
    "lineno": 2,
    "function_name": "f",
}


def write(path, *rows):
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def test_repoeval_s_records_get_ids_of_their_own(tmp_path):
    row = {"prompt": "import os\ndef f():\n", "metadata": METADATA}
    other = {"prompt": "", "metadata": METADATA | {"task_id": "x--y/idx"}}
    found = read_repoeval(write(tmp_path / "t.jsonl", row, other, row))
    assert [t.id for t in found] == ["owner_repo/0", "x_y/0", "owner_repo/1"]
    first = found[0]
    assert (first.repository, first.path, first.gold, first.indent) == (
        "owner_repo",
        "a/b.py",
        (3, 3),
        "    ",
    )
    assert (first.function_name, first.query, first.tests) == ("f", "import os\ndef f():", ())


@pytest.mark.parametrize("field", [*METADATA, "prompt", "metadata"])
def test_a_record_without_a_field_is_named(tmp_path, field):
    row = {"prompt": "", "metadata": {k: v for k, v in METADATA.items() if k != field}}
    row = {k: v for k, v in row.items() if k != field}
    with pytest.raises(UserError, match=rf"t\.jsonl:2 .*{field}"):
        read_repoeval(write(tmp_path / "t.jsonl", {"prompt": "", "metadata": METADATA}, row))


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"prompt": "", "metadata": 3}',
        json.dumps({"prompt": "", "metadata": METADATA | {"lineno": "x"}}),
    ],
)
def test_a_line_that_is_no_record_is_named(tmp_path, line):
    path = tmp_path / "t.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(UserError, match=r"t\.jsonl:1 is no task"):
        read_repoeval(path)


def test_repoeval_lies_in_a_directory_of_the_user_s(tmp_path, monkeypatch):
    monkeypatch.setenv("PKG_REPOEVAL_DIR", str(tmp_path))
    with pytest.raises(BenchmarkMissing, match="PKG_REPOEVAL_DIR"):
        load_repoeval()
    write(tmp_path / REPOEVAL, {"prompt": "", "metadata": METADATA})
    assert [t.id for t in load_repoeval()] == ["owner_repo/0"]


def test_a_missing_file_is_one_line(tmp_path):
    with pytest.raises(UserError, match="cannot be read"):
        read_repoeval(tmp_path / "none.jsonl")


def test_a_task_goes_through_its_file(package, tmp_path):
    files = read_package(package)
    made = [as_task(package, f, files[f.path], ("a", "b")) for f in candidates(package, files)]
    assert read_repoeval(write(tmp_path / "t.jsonl", *(t.record() for t in made))) == made


def test_candidates_have_a_body_of_three_to_thirty_lines(package):
    files = read_package(package)
    found = {f.qualified: f for f in candidates(package, files)}
    assert list(found) == ["area", "unused", "Square.size", "Square.quiet", "broken", "miscounted"]
    lines = SHAPES.split("\n")
    assert lines[found["area"].body[0] - 1] == "    if radius < 0:"
    assert lines[found["Square.size"].first - 1] == "    @property"
    assert lines[found["Square.size"].body[0] - 1] == "        side = self.side * scale"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(): return 1\n", []),
        ('def f():\n    """d"""; x = 1\n    return x\n', []),
        ("def f():\n    def g():\n        return 1\n    return g\n", ["f"]),
        ("if 1:\n    async def f():\n        return 1\n", ["f"]),
        ("def f(a=(\n    1,\n)): return a\n", []),
        ("def f(\n    a,\n): return [\n    a,\n]\n", []),
        ("def f():\n    @g\n    def h():\n        return 1\n    return h\n", ["f"]),
        ("def broken(:\n", []),
        ('def f():\n    """d"""\n', []),
    ],
)
def test_functions_with_lines_of_their_own(text, names):
    assert [f.name for f in functions("m.py", text)] == names


def tasks_of(package):
    files = read_package(package)
    return files, [as_task(package, f, files[f.path], ()) for f in candidates(package, files)]


def test_the_prompt_ends_before_the_body_and_the_body_is_replaced_whole(package):
    files, tasks = tasks_of(package)
    for task in tasks:
        text = files[task.path]
        assert text.startswith(task.prompt + task.ground_truth)
        assert replaced(task, text, task.ground_truth) == text
        hidden = replaced(task, text, task.indent + "...")
        assert [f.body for f in functions(task.path, hidden) if f.first == task.def_lineno + 1] == [
            (task.lineno + 1,) * 2
        ]


def test_the_query_is_the_window_before_the_body(package):
    _, tasks = tasks_of(package)
    for task in tasks:
        assert task.query.split("\n") == task.prompt.rstrip("\n").split("\n")[-WINDOW_LINES:]


@given(
    st.lists(st.sampled_from(["x = 1", "", "# c", "if x:", "    y = 2", "return x"]), min_size=1, max_size=12)
)
def test_replacing_a_body_touches_nothing_else(lines):
    from pkg_lib.data.repoeval import RepoTask

    before, after = "def f(x):\n", "\n\ndef g():\n    pass\n"
    body = "\n".join(f"    {line}" for line in lines)
    task = RepoTask("i", before, body, ("p", "m.py"), 0, 1, "f", 0)
    assert replaced(task, before + body + after, "    new") == before + "    new" + after


def test_the_prompt_is_cut_at_a_line_but_not_in_the_signature(package):
    text = "# filler\n" * 2000 + "def f(\n    a,\n):\n    b = a\n    c = b\n    return c\n"
    (function,) = functions("m.py", text)
    task = as_task(package, function, text, ())
    assert len(task.prompt) <= 8000 and task.prompt.endswith("def f(\n    a,\n):\n")
    assert "".join(f"{x}\n" for x in text.split("\n")[task.context_start_lineno : task.lineno]) == task.prompt


def test_the_span_of_a_record_is_the_function(tmp_path):
    """RepoEval's records do not say where the function starts; this one is of its form, and the file is whole."""
    text = "def size(x):\n    return 0\n\n\nclass A:\n    @cached(\n        1,\n    )\n    @property\n"
    text += "    def size(self):\n        n = 1\n        return n\n"
    prompt = "\n".join(text.split("\n")[:10])
    about = METADATA | {
        "lineno": 10,
        "function_name": "size",
        "ground_truth": "        n = 1\n        return n\n",
    }
    (task,) = read_repoeval(write(tmp_path / "t.jsonl", {"prompt": prompt, "metadata": about}))
    assert task.span == ("a/b.py", 6, 12) and task.def_lineno == 5
    (headless,) = read_repoeval(write(tmp_path / "t.jsonl", {"prompt": "", "metadata": about}))
    assert headless.span == ("a/b.py", 10, 12)


@pytest.mark.skipif("PKG_REPOEVAL_DIR" not in os.environ, reason="needs RepoEval (PKG_REPOEVAL_DIR)")
def test_the_span_of_every_published_record_is_its_function():
    tasks = load_repoeval()
    assert len(tasks) == 455
    files: dict[tuple[str, str], ast.Module] = {}
    for task in tasks:
        if (task.repository, task.path) not in files:
            place = Path(os.environ["PKG_REPOEVAL_DIR"], "repositories", f"{task.repository}.zip")
            with zipfile.ZipFile(place) as archive:
                files[task.repository, task.path] = ast.parse(archive.read(task.path))
        nodes = (
            n
            for n in ast.walk(files[task.repository, task.path])
            if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)
        )
        spans = {
            (min([n.lineno, *(d.lineno for d in n.decorator_list)]), n.end_lineno): n.name for n in nodes
        }
        assert spans[task.span[1:]] == task.function_name, task.id
