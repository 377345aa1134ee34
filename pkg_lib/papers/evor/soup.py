"""The knowledge soup (Section 2.2): documents, snippets, feedback, web pages, and what a prompt has of it.

The budgets are those of Appendix F: documentation takes what the other kinds leave.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from textwrap import shorten

import numpy as np

from pkg_lib.data.corpora import UNICODE
from pkg_lib.papers.evor.evor_methods import EvorMethod
from pkg_lib.papers.evor.unfamiliar import head
from pkg_lib.retrieval.bm25 import BM25
from pkg_lib.retrieval.budget import largest
from pkg_lib.retrieval.embed import Embedder

SHOWN = 40  # of a ranking: more of them fit into no budget here
CLOSE = 60  # reciprocal rank fusion's constant (Cormack et al., 2009)
CALL = re.compile(r"\w+(?:\.\w+)+\(|\w+\(\w*\.")
TITLES = {
    "feedback": "What failed in other programs:",
    "snippets": "Lines of programs that run:",
    "web": "From the web:",
    "documents": "Documentation:",
}


@dataclass(frozen=True)
class Need:
    """What a task asks of the soup; `first` and `last` are texts that stand around what is found."""

    queries: tuple[str, ...]
    first: str = ""
    last: str = ""


@dataclass(frozen=True)
class Shelf:
    """Texts of one kind that are ranked together."""

    texts: Sequence[str]
    tokenizer: str = UNICODE  # of BM25, by name

    @cached_property
    def bm25(self) -> BM25:
        return BM25([*self.texts], self.tokenizer)

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
            asked = Embedder().encode([*queries]).astype(float)
            # Not by BLAS: what it gives for near ties depends on what else the process has loaded.
            scores.append(np.einsum("qd,nd->qn", asked, self.vectors.astype(float), optimize=False))
        orders = [np.argsort(-s, axis=1, kind="stable") for s in scores]
        if len(orders) == 1:
            return orders[0][:, :SHOWN].tolist()
        fused = sum(1 / (CLOSE + np.argsort(o, axis=1)) for o in orders)
        return np.argsort(-fused, axis=1, kind="stable")[:, :SHOWN].tolist()

    def nearest(self, needs: Sequence[Need], retriever: str) -> list[list[int]]:
        """As `ranked`, for needs of equally many queries, whose rankings take turns."""
        each = [
            self.ranked(queries, retriever)
            for queries in zip(*(n.queries for n in needs), strict=True)
        ]
        return [
            [*dict.fromkeys(chain(*zip(*rows, strict=True)))] for rows in zip(*each, strict=True)
        ]


@dataclass
class Soup:
    """K of Algorithm 1; `others`: the texts of its other kinds. It does not change while a round runs."""

    documents: Mapping[str, str]
    others: Mapping[str, Sequence[str]]
    tokenizer: str = UNICODE  # of BM25, by name

    @cached_property
    def shelf(self) -> Shelf:
        return Shelf([*self.documents.values()], self.tokenizer)

    @cached_property
    def heads(self) -> dict[str, str]:
        """A document's own name with its first sentence -> its signature with that sentence, both cut."""
        found: dict[str, str] = {}
        for name, text in self.documents.items():
            signature, about = (
                shorten(part, 120, placeholder=" ...") for part in head(text).split("\n", 1)
            )
            found.setdefault(
                f"{name.rpartition('.')[2].replace('_', ' ')}: {about}", f"{signature}: {about}"
            )
        return found

    def named(self, names: Sequence[str], method: EvorMethod) -> list[str]:
        """The heads that are nearest to each name, as many as the method has, a line each."""
        if not method.nearest:
            return [""] * len(names)
        lines = [*self.heads.values()]
        asked = [n.replace("_", " ") for n in names]
        ranked = Shelf([*self.heads], self.tokenizer).ranked(asked, method.retriever)
        return ["\n".join(lines[place] for place in places[: method.nearest]) for places in ranked]

    def gather(
        self,
        needs: Sequence[Need],
        method: EvorMethod,
        budgets: Mapping[str, int],
        measure: Callable[[str], int],
    ) -> list[tuple[str, list[str]]]:
        """(text, names of the documents in it) for each need."""
        kinds = [k for k in TITLES if k in method.sources and self.others.get(k)]
        shelves = {k: Shelf(self.others[k], self.tokenizer) for k in kinds}
        near = {k: shelf.nearest(needs, method.retriever) for k, shelf in shelves.items()}
        documents = self.shelf.nearest(needs, method.retriever)
        names, gathered = [*self.documents], []
        for i, need in enumerate(needs):
            parts, left, found = (
                [need.first] if need.first else [],
                method.context or budgets["context"],
                [],
            )
            for kind in kinds:
                texts = [
                    t for place in near[kind][i] if (t := self.others[kind][place]) not in need.last
                ]
                text = "\n\n".join(filled(texts, budgets.get(kind, left), measure))
                text = f"```python\n{text}\n```" if text and kind == "snippets" else text
                parts += [f"{TITLES[kind]}\n{text}"] if text else []
            left -= sum(map(measure, (*parts, need.last)))
            if "documents" in method.sources:
                shown = [self.shelf.texts[place] for place in documents[i]]
                texts = filled([head(t) if method.brief else t for t in shown], left, measure)
                found = [names[place] for place in documents[i][: len(texts)]]
                # The best one stands next to the error that it is to mend.
                text = "\n\n".join(reversed(texts) if need.last else texts)
                parts += [f"{TITLES['documents']}\n{text}"] if text else []
            gathered.append(("\n\n".join([*parts, need.last] if need.last else parts), found))
        return gathered


def filled(texts: Sequence[str], limit: int, measure: Callable[[str], int]) -> list[str]:
    """The first texts, up to `limit` tokens; the last one may be cut at a line's end."""
    whole = largest(0, len(texts), lambda n: measure("\n\n".join(texts[:n])) <= limit)
    shown = [*texts[:whole]]
    if whole < len(texts):
        lines = texts[whole].split("\n")
        part = lambda n: "\n\n".join([*shown, "\n".join(lines[:n])])  # noqa: E731
        count = largest(0, len(lines), lambda n: measure(part(n)) <= limit)
        shown += ["\n".join(lines[:count])] if count else []
    return shown


def calling_lines(program: str, given: str = "") -> list[str]:
    """The lines of a program that call a library, but for those given with the task."""
    known = {line.strip() for line in given.splitlines()}
    lines = (line.strip() for line in program.splitlines())
    whole = (
        x
        for x in dict.fromkeys(lines)
        if all(x.count(a) == x.count(b) for a, b in ("()", "[]", "{}"))
    )
    return [x for x in whole if x not in known and CALL.search(x) and not x.startswith("#")]


def called(text: str) -> frozenset[str]:
    """The names that a text calls."""
    return frozenset(re.findall(r"(\w+)\(", text))
