"""The knowledge soup (Section 2.2): documentation, snippets, execution feedback, and what a prompt has of it.

The budgets are those of Appendix F: snippets have 300 tokens, documentation takes what is left.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pkg_lib.papers.evor.methods import Method
from pkg_lib.papers.evor.unfamiliar import head
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.chunks import largest
from pkg_lib.retrieval.embed import Embedder

SHOWN = 40  # of a ranking: more of them fit into no budget here
CLOSE = 60  # reciprocal rank fusion's constant (Cormack et al., 2009)
CALL = re.compile(r"\w+(?:\.\w+)+\(|\w+\(\w*\.")


class Fault(NamedTuple):
    """A failed draft, as the soup keeps it: the error and the line that leads to it."""

    error: str
    line: str

    @property
    def text(self) -> str:
        return f"{self.line}\n# {self.error}" if self.line else f"# {self.error}"


@dataclass(frozen=True)
class Shelf:
    """Texts of one kind that are ranked together; `names` name them."""

    names: Sequence[str]
    texts: Sequence[str]

    @cached_property
    def bm25(self) -> BM25:
        return BM25([*self.texts])

    @cached_property
    def vectors(self) -> np.ndarray:
        return Embedder().encode([*self.texts])

    def ranked(self, queries: Sequence[str], retriever: str) -> list[list[int]]:
        """Positions of the best texts for each query, best first; equal ones in their order."""
        if not self.texts or not queries:
            return [[] for _ in queries]
        scores = []
        if retriever != "MiniLM":
            scores.append(np.stack([self.bm25.scores(q) for q in queries]))
        if retriever != "BM25":
            scores.append(Embedder().encode([*queries]) @ self.vectors.T)
        orders = [np.argsort(-s, axis=1, kind="stable") for s in scores]
        if len(orders) == 1:
            return orders[0][:, :SHOWN].tolist()
        fused = sum(1 / (CLOSE + np.argsort(o, axis=1)) for o in orders)
        return np.argsort(-fused, axis=1, kind="stable")[:, :SHOWN].tolist()


@dataclass
class Soup:
    """K of Algorithm 1. It does not change while a round runs, so that the order of tasks decides nothing."""

    documents: Mapping[str, str]
    snippets: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    @cached_property
    def shelf(self) -> Shelf:
        return Shelf([*self.documents], [*self.documents.values()])

    def gather(
        self,
        queries: Sequence[str],
        own: Sequence[Fault | None],
        first: Sequence[str],
        method: Method,
        budgets: Mapping[str, int],
        measure: Callable[[str], int],
    ) -> list[tuple[str, list[str]]]:
        """(text, names of the documents in it) for each query.

        `own` is the fault of the task's own draft, `first` what stands before all else.
        """
        sources, brief = method.sources, method.brief
        documents = self.shelf.ranked(queries, method.retriever)
        snippets = Shelf([], self.snippets).ranked(queries, method.retriever)
        gathered = []
        for mine, before, ranked, near in zip(own, first, documents, snippets, strict=True):
            parts, left = [before] if before else [], method.context or budgets["context"]
            if "feedback" in sources and mine:
                parts.append(f"A draft failed with this line and error:\n```python\n{mine.text}\n```")
            if "snippets" in sources and near:
                text, _ = filled([self.snippets[i] for i in near], budgets["snippets"], measure)
                parts.append(f"Lines of programs that run:\n```python\n{text}\n```")
            left -= sum(map(measure, parts))
            names: list[str] = []
            if "documents" in sources:
                texts = [self.shelf.texts[i] for i in ranked]
                text, count = filled([head(t) if brief else t for t in texts], left, measure)
                names = [self.shelf.names[i] for i in ranked[:count]]
                if text:
                    parts.append(f"Documentation:\n{text}")
            gathered.append(("\n\n".join(parts), names))
        return gathered


def filled(texts: Sequence[str], limit: int, measure: Callable[[str], int]) -> tuple[str, int]:
    """(text, how many are in it) up to `limit` tokens; the last one may be cut at a line's end."""
    whole = largest(0, len(texts), lambda n: measure("\n\n".join(texts[:n])) <= limit)
    shown = [*texts[:whole]]
    if whole < len(texts):
        lines = texts[whole].split("\n")
        part = lambda n: "\n\n".join([*shown, "\n".join(lines[:n])])  # noqa: E731
        count = largest(0, len(lines), lambda n: measure(part(n)) <= limit)
        shown += ["\n".join(lines[:count])] if count else []
    return "\n\n".join(shown), len(shown)


def calling_lines(program: str, given: str = "") -> list[str]:
    """The lines of a program that call a library, but for those given with the task."""
    known = {line.strip() for line in given.splitlines()}
    lines = (line.strip() for line in program.splitlines())
    return [x for x in dict.fromkeys(lines) if x not in known and CALL.search(x) and not x.startswith("#")]
