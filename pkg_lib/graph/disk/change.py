"""Documents added to and removed from a graph: the result is the graph that a build from scratch would give."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkg_lib.core.types import Document, UserError
from pkg_lib.graph.schema import NODES, PKG, build, edges_of
from pkg_lib.graph.text.documents import build_text
from pkg_lib.graph.text.structure import structured

CODE = ("python", "answer")  # the kinds of documents that hold functions


def added(graph: PKG, documents: list[Document], processes: int = 1) -> PKG:
    """The graph with more documents behind its own, text by the structurer of its kind; `meta` loses the corpus' digest.

    UserError for an id that it holds already or that comes twice, and for code and text at once.
    """
    held = set(graph.documents)
    for document in documents:
        if document.id in held:
            raise UserError(
                f"document {document.id} is in the graph already; remove it first, then add its new text"
            )
        held.add(document.id)
    return joined(graph, _built(documents, processes))


def _built(documents: list[Document], processes: int) -> PKG:
    kinds = {d.kind in CODE for d in documents}
    if len(kinds) > 1:
        raise UserError("the documents are code and text; add the ones, then the others")
    return (
        build_text(documents, structured(documents))
        if kinds == {False}
        else build(documents, processes=processes)
    )


def joined(graph: PKG, more: PKG) -> PKG:
    """Both graphs as one, with `more` behind; payloads that both have are kept once."""
    rows, texts = _joined_texts(graph.texts, more.texts)
    columns = {
        "type": more.type,
        "document": more.document + len(graph.documents),
        "parent": np.where(more.parent >= 0, more.parent + len(graph), -1),
        "first": more.first,
        "last": more.last,
        "text": rows[more.text],
    }
    nodes = {n: np.concatenate([getattr(graph, n), c]) for n, c in columns.items()}
    return _graph(nodes, texts, graph.documents + more.documents, graph.skipped + more.skipped, graph.meta)


def _joined_texts(old: pa.Table, more: pa.Table) -> tuple[np.ndarray, pa.Table]:
    """(the new row of each payload of `more`, the distinct payloads of both)."""
    rows = positions(more, old)
    new = rows < 0
    rows[new] = old.num_rows + np.arange(new.sum())
    return rows, pa.concat_tables([old, more.filter(pa.array(new))])


def positions(texts: pa.Table, among: pa.Table) -> np.ndarray:
    """For each payload of `texts` its row in `among`, -1 where it is not there (int64)."""
    keys = among["key"].combine_chunks()
    found = pc.index_in(texts["key"], value_set=keys)
    return pc.fill_null(found, -1).to_numpy().astype(np.int64)


def removed(graph: PKG, ids: Iterable[str]) -> PKG:
    """The graph without these documents, its `meta` without the corpus' digest; UserError for an id that it does not hold."""
    gone = set(ids)
    unknown = sorted(gone - set(graph.documents))
    if unknown:
        raise UserError(
            f"document {unknown[0]} is not in the graph ({len(unknown)} of the {len(gone)} to remove are not)"
        )
    stays = np.array([d not in gone for d in graph.documents], bool)
    keep = stays[graph.document]
    parent = graph.parent[keep]
    rows, order = _renumbered(graph.text[keep])
    nodes = {
        "type": graph.type[keep],
        "document": (stays.cumsum() - 1)[graph.document[keep]],
        "parent": np.where(parent >= 0, (keep.cumsum() - 1)[parent], -1),
        "first": graph.first[keep],
        "last": graph.last[keep],
        "text": rows,
    }
    documents = [d for d in graph.documents if d not in gone]
    skipped = [(d, why) for d, why in graph.skipped if d not in gone]
    return _graph(nodes, graph.texts.take(pa.array(order)), documents, skipped, graph.meta)


def _renumbered(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(rows numbered by first appearance, the old row of each new one)."""
    used, first, place = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(used), np.int64)
    rank[order] = np.arange(len(used))
    return rank[place], used[order]


def _graph(
    nodes: dict[str, np.ndarray], texts: pa.Table, documents: list[str], skipped: list, meta: dict[str, str]
) -> PKG:
    arrays = {f.name: nodes[f.name].astype(f.type.to_pandas_dtype()) for f in NODES}
    table = pa.table(list(arrays.values()), NODES)
    meta = {k: v for k, v in meta.items() if k != "corpus_digest"}  # it is that of other documents
    return PKG(table, edges_of(arrays["type"], arrays["parent"]), texts, documents, skipped, meta)
