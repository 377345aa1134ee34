"""What dkb.ipynb shows of a repository: evidence, answers and costs, from stored figures and answers alone.

Published numbers are those of the DKB paper (Chinthareddy, 2026), in reference/dkb_*.csv.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.tables import HERE
from pkg_lib.core.models import model_spec
from pkg_lib.core.store import read_json
from pkg_lib.core.types import Generation, UserError
from pkg_lib.data.questions import gold
from pkg_lib.graph.types.typegraph import TypeGraph
from pkg_lib.papers.dkb import dkb_study as study
from pkg_lib.papers.dkb.evidence import Judge, Paired, paired, table
from pkg_lib.papers.dkb.knowledge import graph_of
from pkg_lib.papers.dkb.llm_kb import Extraction
from pkg_lib.papers.dkb.pipelines import DEPTH, TOP_K, Budget, Pipeline, check_sizes

BASE, OURS, LLM_KB = "No-Graph", "DKB", "LLM-KB"
PRICES = HERE / "reference" / "dkb_prices.csv"
_WORD = re.compile(r"\b[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+\b")  # OrderService, not Order and not HTTP
READING = "listed"
STUDIED = ("java.net.http", "openjdk-17")  # shown as not measured where results hold none


def reference(name: str) -> pd.DataFrame:
    """A published table by file name without dkb_."""
    return pd.read_csv(HERE / "reference" / f"dkb_{name}.csv")


class Evident:
    """Evidence of several pipelines, measured now or read; `evidence` has the columns of repo_qa.evidence.table."""

    name: str
    k: int
    depth: int
    evidence: pd.DataFrame
    variants: pd.DataFrame

    def values(
        self, pipeline: str, value: str, kinds: tuple[str, ...] = (), reading: str = READING
    ) -> pd.Series:
        """A value by question, of the questions of these kinds (all where none is given)."""
        frame = self.evidence[(self.evidence["pipeline"] == pipeline) & (self.evidence["reading"] == reading)]
        frame = frame[frame["kind"].isin(kinds)] if kinds else frame
        return frame.set_index("question")[value]

    def against(
        self, a: str, b: str, value: str = "recall", kinds: tuple[str, ...] = (), reading: str = READING
    ) -> Paired:
        """a - b over the questions of these kinds."""
        return paired(self.values(a, value, kinds, reading), self.values(b, value, kinds, reading))

    @property
    def columns(self) -> list[str]:
        return list(dict.fromkeys(self.evidence["pipeline"]))

    @property
    def kinds(self) -> list[str]:
        return [k for k in dict.fromkeys(self.evidence["kind"]) if k]


@dataclass
class Recorded(Evident):
    """Evidence that was measured where the source was at hand."""

    name: str
    k: int
    depth: int
    evidence: pd.DataFrame
    variants: pd.DataFrame


def recorded(results: Path, name: str) -> Recorded | None:
    """evidence.json of a repository, None where it was not measured; UserError for a name that nobody knows."""
    _check_recorded(results, name, "evidence")
    path = study.folder_of(results, name) / "evidence.json"
    if not path.exists():
        return None
    stored = read_json(path)
    frames = (
        pd.DataFrame(stored[part]["data"], columns=stored[part]["columns"]) for part in ("rows", "variants")
    )
    return Recorded(name, stored["k"], stored["depth"], *frames)


@dataclass
class Study(Evident):
    """A repository with its pipelines (k chunks, depth d) and what a model was asked about it.

    UserError for an unknown model, for a k or depth that no pipeline can take, and for a gold list that names no type of the
    repository: before anything is shown or written.
    """

    opened: study.Opened
    model: str = study.MODEL
    k: int = TOP_K
    depth: int = DEPTH

    def __post_init__(self) -> None:
        model_spec(self.model)
        check_sizes(self.k, self.depth)
        if self.k > study.KEPT and len(self.opened.chunks) > study.KEPT:
            raise UserError(
                f"k = {self.k}: of {len(self.opened.chunks):,} chunks the best {study.KEPT} are stored; give no more"
            )
        for question in self.opened.questions:
            gold(question, self.graph)

    @property
    def name(self) -> str:
        return self.opened.name

    @cached_property
    def graph(self) -> TypeGraph:
        return self.opened.built().graph

    @cached_property
    def judge(self) -> Judge:
        return Judge(self.graph)

    @cached_property
    def pipelines(self) -> list[Pipeline]:
        return study.pipelines(self.opened, self.k, self.depth, self.model)

    @cached_property
    def evidence(self) -> pd.DataFrame:
        """Recall and precision by pipeline, question and reading."""
        return table(self.judge, self.opened.questions, self.pipelines)

    @cached_property
    def variants(self) -> pd.DataFrame:
        """The same for DKB with one thing changed at a time, and LLM-KB after retries."""
        chosen = study.variants(self.opened, self.k, self.depth)
        if (
            self.extracted
            and (again := study.stored_extraction(self.opened, self.model, retries=1))
            and again.retried
        ):
            chosen.append(study.llm_kb(self.opened, again, self.k, self.depth, Budget(), "LLM-KB, one retry"))
        return table(self.judge, self.opened.questions, chosen)

    @cached_property
    def extracted(self) -> Extraction | None:
        return study.stored_extraction(self.opened, self.model)

    @cached_property
    def llm_graph(self) -> TypeGraph | None:
        return graph_of(self.extracted) if self.extracted else None

    @cached_property
    def answers(self) -> dict[str, dict[str, Generation]]:
        return study.stored_answers(self.opened, self.pipelines, self.model)

    @cached_property
    def index(self) -> dict[str, Any] | None:
        """index.json of this very source, None where it was not measured."""
        found = study.stored_index(self.opened.folder)
        return found if found and found.get("source") == self.opened.source else None


def stored_index(results: Path, name: str) -> dict[str, Any] | None:
    """index.json of a repository by name, None where it was not measured; UserError for a name that nobody knows."""
    _check_recorded(results, name, "index")
    return study.stored_index(study.folder_of(results, name))


def _check_recorded(results: Path, name: str, what: str) -> None:
    known = sorted(p.parent.name for p in results.glob(f"repo_qa/*/{what}.json"))
    if study.folder_of(results, name).name not in {*known, *STUDIED}:
        raise UserError(
            f"no {what} of {name} is recorded; choose from: {', '.join(known or STUDIED)}, or record it (--record)"
        )


def by_simple_name(graph: TypeGraph, name: str) -> str:
    """The full name of a type; UserError where none, or more than one, has this simple name."""
    same = sorted(n.name for n in graph.nodes.values() if name in (n.simple, n.name))
    if len(same) != 1:
        like = get_close_matches(name, [n.simple for n in graph.nodes.values()], 3, 0.5)
        near = f" ({', '.join(dict.fromkeys(like))}?)" if like else ""
        raise UserError(
            f"type {name}: {'choose from ' + ', '.join(same) if same else f'give a type of the repository{near}'}"
        )
    return same[0]


def named(found: Study) -> pd.DataFrame:
    """One row a pipeline and answered question: `share` of the needed types that the answer names, `invented` type names.

    A name is invented when it looks like a type's (two humps) and stands nowhere in the repository's source. This is a rule, no
    judgement of correctness: an answer may name all types and be wrong.
    """
    known = set(re.findall(r"\w+", "\n".join(found.opened.texts.values())))
    rows = []
    for pipeline, answered in found.answers.items():
        for q in found.opened.questions:
            raw = answered[q.id].raw
            needs = {found.graph.nodes[n].simple for n in gold(q, found.graph)}
            said = set(re.findall(r"\w+", raw))
            invented = sorted(set(_WORD.findall(raw)) - known)
            rows.append(
                [pipeline, q.id, q.kind, len(needs & said) / len(needs), invented, answered[q.id].finish]
            )
    return pd.DataFrame(rows, columns=["pipeline", "question", "kind", "share", "invented", "finish"])


def labels(shares: pd.Series) -> tuple[int, int, int]:
    """(all needed types named, some, none) of answers."""
    return int((shares == 1).sum()), int(((shares > 0) & (shares < 1)).sum()), int((shares == 0).sum())


def prices(path: Path = PRICES) -> dict[str, float]:
    """Dollars for a token of `embedding`, `input` and `output`."""
    frame = pd.read_csv(path).set_index("item")["dollars_per_million"]
    return {item: float(value) / 1e6 for item, value in frame.items()}


def tokens(found: Study) -> dict[str, dict[str, int | None]]:
    """pipeline -> tokens: embedded, extraction prompts and answers, question prompts and answers; None for what was not measured.

    Chunks are counted by the embedder's tokenizer, prompts and answers by the model's. LLM-KB embeds analysed files only; the
    others extract nothing.
    """
    embedded, share = found.opened.ranked.get("embedded_tokens"), coverage(found)
    counts: dict[str, dict[str, int | None]] = {}
    for pipeline in (BASE, OURS, LLM_KB):
        part, extracted = share[pipeline], found.extracted.answers if found.extracted else None
        row = {"embedded": None if embedded is None or part is None else round(embedded * part)}
        row |= _in_out(extracted if pipeline == LLM_KB else [], "extraction")
        answered = found.answers.get(pipeline)
        counts[pipeline] = row | _in_out(list(answered.values()) if answered else None, "questions")
    return counts


def _in_out(made: list[Generation] | None, what: str) -> dict[str, int | None]:
    if made is None:
        return {f"{what} in": None, f"{what} out": None}
    return {f"{what} in": sum(g.prompt_tokens for g in made), f"{what} out": sum(len(g.tokens) for g in made)}


def dollars(counts: Mapping[str, int | None], price: Mapping[str, float]) -> float | None:
    """What tokens cost by a price table; None where a count is not known."""
    known = {k: v for k, v in counts.items() if v is not None}
    if len(known) < len(counts):
        return None
    asked, written = (known[f"extraction {way}"] + known[f"questions {way}"] for way in ("in", "out"))
    return known["embedded"] * price["embedding"] + asked * price["input"] + written * price["output"]


def coverage(found: Study) -> dict[str, float | None]:
    """Equation 4 by pipeline; LLM-KB's is None where it was not run."""
    chunks = found.opened.chunks.values()
    share: dict[str, float | None] = {BASE: 1.0, OURS: 1.0, LLM_KB: None}
    share["DKB, coupled"] = _share(chunks, found.opened.covered("resolved"))
    share["DKB as published, coupled"] = _share(chunks, found.opened.covered("as-published"))
    if found.extracted:
        share[LLM_KB] = _share(chunks, frozenset(found.extracted.records))
    return share


def _share(chunks: Any, paths: frozenset[str]) -> float:
    held = [c.path in paths for c in chunks]
    return sum(held) / len(held) if held else math.nan
