"""A user's own code: its graph and its BM25 index are kept between commands.

The graph is stored once for each corpus in the cache directory. It is built again when a file of
the corpus, or the program that builds it, has changed. The vectors of functions are stored by their
text (`embed.py`), so that after an edit only the changed functions are encoded.
"""

from __future__ import annotations

import os
import platform
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from pkg_lib.core.models import cache_dir
from pkg_lib.core.reading import shown
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import ROOT, sha256_of
from pkg_lib.core.types import Document, UserError, corpus_digest, digest
from pkg_lib.data.corpora import CORPORA, parse_corpus
from pkg_lib.data.corpus_spec import SOURCE
from pkg_lib.graph import disk
from pkg_lib.graph.schema import Graph, build_code_graph
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.knowledge import Knowledge
from pkg_lib.retrieval.ranking import Positions

# What bm25s and numpy raise for files that are damaged, or that a stopped command left unfinished.
_INDEX_DAMAGE = (OSError, ValueError, LookupError, EOFError, TypeError, AttributeError)
# The modules that decide what a graph and its BM25 index contain.
BUILDERS = (
    "graph/*.py",
    "core/python_syntax.py",
    "core/markdown.py",
    "retrieval/bm25.py",
    "retrieval/words.py",
)


def kept_graph(corpus: str, documents: list[Document]) -> Graph:
    """Load the stored graph of a corpus of code, or build and store it.

    Args:
        corpus: The corpus's name.
        documents: Its documents as they are now.

    Returns:
        A graph of NAME, IMPL and BLOCK nodes. If it cannot be stored, it is built at each use.
    """
    folder = graph_folder(corpus)
    meta = {
        "corpus": corpus,
        "corpus_digest": corpus_digest(documents),
        "builder": _builder_digest(),
    }
    if (folder / disk.GRAPH).exists():
        try:
            stored = disk.load(folder)
        except UserError:  # damaged; it is built again
            stored = None
        if stored is not None and stored.meta == meta:
            return stored
    graph = build_code_graph(documents, meta)
    for index in folder.glob("bm25-*"):  # of the graph before
        shutil.rmtree(index, ignore_errors=True)
    with suppress(UserError):  # only the next use is slower
        disk.save(graph, folder)
    return graph


def graph_folder(corpus: str) -> Path:
    """Return the directory in which the graph of a corpus is kept.

    Args:
        corpus: The corpus's name. A relative path starts at the working directory.
    """
    name = parse_corpus(corpus).with_absolute_paths().name
    return cache_dir() / "graphs" / digest(name)[:16]


def kept_bm25(knowledge: Knowledge, unit: str, nodes: Positions) -> BM25:
    """Load the stored BM25 index of a kept graph, or make and store it.

    Args:
        knowledge: A corpus of code. Only that of a user's own code is stored.
        unit: What the nodes are: a name in ``UNITS``.
        nodes: The nodes that are searched.

    Returns:
        An index over the texts of the nodes, in their order.
    """
    tokenizer = knowledge.tokenizer
    folder = graph_folder(knowledge.corpus) / f"bm25-{unit}-{tokenizer}"
    is_kept = isinstance(knowledge, UserCode)
    if is_kept and folder.exists():
        with suppress(*_INDEX_DAMAGE):  # it is made again
            return BM25.load(folder, len(nodes), tokenizer)
    index = BM25(knowledge.graph.payloads(nodes), tokenizer)
    if is_kept:
        with suppress(OSError):  # only the next search is slower
            index.save(folder)
    return index


def _builder_digest() -> str:
    """Return a digest of what decides the graph of a text: this program, and Python's parser."""
    paths = [path for pattern in BUILDERS for path in sorted((ROOT / "pkg_lib").glob(pattern))]
    return digest(platform.python_version(), *[sha256_of(path) for path in paths])


@dataclass
class UserCode(Knowledge):
    """The knowledge base of a user's own code, whose graph is kept between commands."""

    def build(self) -> Graph:
        """Load the stored graph, or build it.

        Returns:
            A graph of NAME, IMPL and BLOCK nodes (Equations 1 and 2).
        """
        return kept_graph(self.corpus, self.documents)


def folder_of(corpus: str) -> str:
    """Return the directory of a corpus that is one directory of code.

    Args:
        corpus: The name of a corpus.

    Returns:
        The directory, relative if it is below the current one; "" for another corpus.
    """
    parts = parse_corpus(corpus).parts
    if len(parts) != 1 or parts[0].source != SOURCE or not parts[0].value:
        return ""
    folder = parts[0].value
    relative = os.path.relpath(folder)
    if relative.startswith(".."):
        return folder
    return relative


def below_folder(place: str, folder: str) -> str:
    """Show the place of a unit as a path that an editor can open.

    Args:
        place: A place such as "source/a.py:1-3".
        folder: What `folder_of` returned.

    Returns:
        The place below the directory, such as "my_code/a.py:1-3"; unchanged without one.
    """
    prefix = f"{SOURCE}/"
    if not folder or not place.startswith(prefix):
        return place
    path = Path(folder, place.removeprefix(prefix))
    return shown(str(path))


def corpus_at(place: str) -> str:
    """Tell whether a place is a corpus, rather than a saved graph.

    Args:
        place: A corpus by name, a directory, or the address of a graph database.

    Returns:
        The name of the corpus, such as source:DIR for a directory of code; "" for a graph database
        or the path of a saved graph.

    Raises:
        UserError: The place is a single word that names neither a corpus nor a directory.
    """
    if "://" in place or Path(place, disk.GRAPH).exists():
        return ""
    if Path(place).is_dir():
        return f"source:{place}"
    parts = parse_corpus(place).parts
    if any(part.value is not None or part.source in CORPORA for part in parts):
        return place
    if Path(place).name == place:
        raise unknown("corpus", place, CORPORA)
    return ""
