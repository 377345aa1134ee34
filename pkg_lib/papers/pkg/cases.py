"""Case studies (Appendix B.5): one task without retrieval and with a column, and what led to both verdicts.

What may not be copied into results/, or cannot be had here, is Hidden, with the reason. The text of models
and corpora is not to be trusted: the template escapes all of it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pkg_lib.analysis.tables import render
from pkg_lib.core.types import NOTHING, Context, Generation, Outcome, UserError
from pkg_lib.execution.errors import split_detail
from pkg_lib.papers.pkg.graph_figures import inline, subgraph
from pkg_lib.retrieval.trace import Traced

_UNDEFINED = re.compile(r"name '(\w+)' is not defined")


@dataclass(frozen=True, slots=True)
class Hidden:
    """Why something is not shown."""

    why: str


@dataclass(frozen=True, slots=True)
class Side:
    """One setting of a case; `completion` and its `solution` are None where none was generated."""

    name: str
    completion: Generation | None
    solution: str | None
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Case:
    """One task in two settings, `sides`: without retrieval and with a column.

    `context` is None where none is stored; its text stands in `text`, and in the corpus where `traced` says.
    """

    task_id: str
    experiment: str
    entry_point: str
    prompt: str | Hidden
    context: Context | None
    text: str | Hidden
    traced: Traced | Hidden
    sides: tuple[Side, Side]

    @property
    def column(self) -> str:
        return self.sides[1].name

    @property
    def diff(self) -> list[tuple[str, str]]:
        """(mark, line) from the solution without retrieval to the one with it; empty for the same."""
        texts = [(s.solution or "").rstrip("\n").split("\n") for s in self.sides]
        lines = list(difflib.unified_diff(*texts, lineterm="", n=len(texts[0])))
        return [(line[:1], line[1:]) for line in lines[3:]]


def score(context: Context | None) -> float | None:
    """The retriever's score of a context; None where nothing was found or the score was not published."""
    if context is None or context.sha256 == NOTHING or context.source.startswith("published/"):
        return None
    return context.score


def measure(column: str) -> str:
    """What a column's score is."""
    return "BM25 score" if column.endswith("BM25") else "cosine"


def ranked(tasks: Sequence[str], contexts: Mapping[str, Context], count: int) -> list[str]:
    """The first `count` tasks by score; those of equal score, and last those of none, in the order given."""
    if count < 1:
        raise UserError(f"count is {count}; show at least 1 case of each kind")
    scores = {t: score(contexts.get(t)) for t in tasks}
    return sorted(tasks, key=lambda t: (scores[t] is None, -(scores[t] or 0.0)))[:count]


def sentence(case: Case) -> str:
    """What changed and beside which context, in words."""
    before, after = case.sides
    words = [
        f"{case.task_id}: {_verdict(before)} without retrieval and {_verdict(after)} with {case.column}.",
        _about_context(case),
    ]
    if before.solution is not None and after.solution is not None:
        marks = [mark for mark, _ in case.diff]
        change = f"The solution lost {marks.count('-')} lines and gained {marks.count('+')}."
        words.append(change if marks else "Both solutions are the same.")
    undefined = _UNDEFINED.search(after.outcome.detail)
    if undefined and isinstance(case.text, str):
        stands = "stands" if re.search(rf"\b{re.escape(undefined[1])}\b", case.text) else "does not stand"
        words.append(f"The undefined name {undefined[1]} {stands} in the context.")
    return " ".join(words)


def _verdict(side: Side) -> str:
    cut_off = ", cut off" if side.completion is not None and side.completion.finish == "length" else ""
    known = {"passed": "passes", "not_measured": "is not measured"}
    return known.get(side.outcome.status, f"fails ({side.outcome.error}{cut_off})")


def _about_context(case: Case) -> str:
    if case.context is None or case.context.sha256 == NOTHING:
        return "No context is stored." if case.context is None else "No context was found."
    value, defines = score(case.context), case.context.defines_task
    scored = f" ({measure(case.column)} {value:.3f})" if value is not None else ""
    verb = {True: "defines", False: "does not define", None: "may or may not define"}[defines]
    return f"The context{scored} {verb} {case.entry_point or 'the function asked for'}."


def fragment(case: Case, level: int, titled: bool = True) -> str:
    """One case as HTML with headings of `level`; `titled`: what changed stands above it."""
    has_graph = isinstance(case.traced, Traced) and case.traced.graph is not None
    parts = {"prompt": case.prompt, "text": case.text, "traced": case.traced}
    html = render(
        "case.html.j2",
        case=case,
        level=level,
        said=sentence(case) if titled else "",
        drawing=inline(subgraph(case.traced)) if has_graph else "",
        details=[split_detail(side.outcome.detail) for side in case.sides],
        hidden={name: part.why if isinstance(part, Hidden) else "" for name, part in parts.items()},
        score=score(case.context),
        measure=measure(case.column),
    )
    return html.encode("utf8", "replace").decode("utf8")  # a file cannot hold lone surrogates


def page(case: Case) -> str:
    """One case as a page of its own: no script, no network."""
    html = render("case_page.html.j2", case=case, body=fragment(case, 2))
    return html.encode("utf8", "replace").decode("utf8")
