"""What the columns may retrieve: nothing of the masked body, in any chunking."""

from __future__ import annotations

import pytest

from pkg_lib.chunking.chunker import Chunker
from pkg_lib.core.types import UserError
from pkg_lib.data.functions import as_task, candidates, read_package
from pkg_lib.papers.cast.cast_columns import CHUNKERS, COLUMNS, chunked, column, masked, retrieve
from pkg_lib.retrieval.chunks import BM25Ranker


@pytest.fixture
def tasks(package):
    files = read_package(package)
    return files, [as_task(package, f, files[f.path], ()) for f in candidates(package, files)]


@pytest.mark.parametrize("chunking", CHUNKERS)
def test_no_chunk_of_a_masked_corpus_holds_the_function(tasks, chunking):
    files, made = tasks
    chunks = chunked(CHUNKERS[chunking], files)
    for task in made:
        text = "\n".join(c.text for c in masked(task, chunks))
        own = [line.strip() for line in task.ground_truth.split("\n") if line.strip()]
        elsewhere = files[task.path].replace(task.ground_truth, "") + files["tests/test_shapes.py"]
        assert not [line for line in own if line in text and line not in elsewhere]
        assert f"def {task.function_name}(" not in text


@pytest.mark.parametrize("chunking", CHUNKERS)
def test_the_whole_corpus_holds_every_function(tasks, chunking):
    files, made = tasks
    text = "\n".join(c.text for c in chunked(CHUNKERS[chunking], files))
    assert all(line.strip() in text for t in made for line in t.ground_truth.split("\n"))


def test_other_files_are_as_they_are(tasks):
    files, made = tasks
    chunks = chunked(CHUNKERS["split-only"], files)
    rest = masked(made[0], chunks)
    assert [c for c in rest if c.document != made[0].path] == [
        c for c in chunks if c.document != made[0].path
    ]
    small = chunked(Chunker("fixed-size", "as-published", lines=1), files)
    gone = {c.first for c in small if c.document == made[0].path} - {
        c.first for c in masked(made[0], small) if c.document == made[0].path
    }
    first, last = made[0].def_lineno + 1, made[0].gold[1]
    assert min(gone) == first and max(gone) == last


def test_the_best_chunks_come_first_and_strangers_never(tasks):
    files, made = tasks
    found = retrieve(made[0], chunked(CHUNKERS["split-only"], files), BM25Ranker())
    assert "area" in found[0].text and not any(c.document == "setup.py" for c in found)


def test_names_of_columns():
    assert all(bool(c.chunking) != n.startswith("None") for n, c in COLUMNS.items())
    assert {c.chunking for c in COLUMNS.values()} <= {"", *CHUNKERS}
    assert [n for n, c in COLUMNS.items() if not c.masked] == [
        n for n in COLUMNS if n.endswith("body in corpus")
    ]
    with pytest.raises(UserError, match="unknown column"):
        column("cast")
