"""Which columns a corpus offers, and the knowledge behind them.

code       None, BM25, Dense, Func-BM25, Func-PKG, Block-PKG   Tables 1 and 2
text       None, BM25, Dense, JSON-PKG                         Tables 3 and 4
published  None, Dense, Func-BM25, Func-PKG, Block-PKG         Tables 1 and 2 with the authors' own contexts
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING

from pkg_lib.core.types import Context, Retriever, Task, UserError
from pkg_lib.data import corpora, published

if TYPE_CHECKING:
    from pkg_lib.retrieval.retrievers import Knowledge

Columns = dict[str, Callable[["Knowledge"], Retriever]]
# The names of all columns stand here, so that whoever only asks for them loads no retriever.
ALL = ("None", "BM25", "Dense", "Func-BM25", "Func-PKG", "Block-PKG", "JSON-PKG")


class PublishedContexts:
    """A column whose contexts the authors retrieved: the top one of each task as it was published, whole and unpruned."""

    def __init__(self, knowledge: Knowledge, column: str) -> None:
        self.column, self.texts = column, {d.id: d.text for d in knowledge.documents}

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order, empty where none was published; UserError for a task that they did not have."""
        names = {t.id: published.context_id(self.column, t.id) for t in tasks}
        strange = next((i for i, name in names.items() if name not in self.texts), None)
        if strange:
            raise UserError(
                f"corpus published has no {self.column} context for {strange}; it is for humaneval and mbpp"
            )
        return [Context(i, self.column, self.texts[name], name) for i, name in names.items()]


def _published(column: str) -> Callable[[Knowledge], Retriever]:
    return lambda knowledge: PublishedContexts(knowledge, column)


@cache
def _published_columns() -> Columns:
    from pkg_lib.retrieval.retrievers import RETRIEVERS

    return {"None": RETRIEVERS["None"]} | {c: _published(c) for c in published.FILES}


def columns_of(corpus: str) -> Columns:
    """The retrievers that a corpus offers, by column; UserError for one that mixes code and text."""
    from pkg_lib.retrieval.retrievers import RETRIEVERS
    from pkg_lib.retrieval.text_columns import TEXT_RETRIEVERS

    if corpus == corpora.PUBLISHED:
        return _published_columns()
    return TEXT_RETRIEVERS if corpora.is_text(corpus) else RETRIEVERS


def knowledge_of(corpus: str) -> Knowledge:
    """A corpus' documents, ready for its columns."""
    from pkg_lib.retrieval.retrievers import Knowledge
    from pkg_lib.retrieval.text_columns import TextKnowledge

    documents = corpora.load_corpus(corpus)
    if not corpora.is_text(corpus):
        return Knowledge(documents)
    from pkg_lib.data.structuring import json_of  # docutils and its like are not needed for a corpus of code

    return TextKnowledge(documents, structure=partial(json_of, corpus))
