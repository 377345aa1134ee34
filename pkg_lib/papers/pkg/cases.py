"""Case studies (Appendix B.5): single tasks that fail without retrieval and pass with a column, or the reverse.

A case holds all that led to the two verdicts. What may not be copied into results/, or cannot be had here, is None with the
reason beside it. Text of models and corpora is not to be trusted: the template escapes all of it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.stats import mcnemar
from pkg_lib.analysis.tables import DASH, probability, render
from pkg_lib.core.types import NOTHING, Context, Generation, Outcome, UserError
from pkg_lib.execution.errors import split_detail
from pkg_lib.papers.pkg.case_figures import inline, subgraph
from pkg_lib.papers.pkg.explored import Shown
from pkg_lib.retrieval.trace import Traced

Outcomes = Mapping[str, Outcome]
RULE = (
    "Shown are the tasks with the highest retrieval score; those of equal score, or of none, in the benchmark's order. Left out "
    "are those whose failed solution was ended by an assertion of its own, before any test."
)
_UNDEFINED = re.compile(r"name '(\w+)' is not defined")


@dataclass(frozen=True, slots=True)
class Hidden:
    """Why something is not shown."""

    why: str


@dataclass(frozen=True, slots=True)
class Side:
    """One setting of a case: its name, the completion and the solution extracted from it (None: not generated), the verdict."""

    name: str
    completion: Generation | None
    solution: str | None
    outcome: Outcome

    @property
    def fate(self) -> str:
        """In one or two words: "passed", the error, "not measured"."""
        return self.outcome.error or self.outcome.status.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Case:
    """One task in two settings, `sides`: without retrieval and with a column.

    `context` is None where none is stored; its `text` is looked for in `text`. `traced` is where the context stands in
    the corpus.
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
        """(mark, line) from the solution without retrieval to the one with it; empty where they are the same."""
        texts = [(s.solution or "").rstrip("\n").split("\n") for s in self.sides]
        lines = list(difflib.unified_diff(*texts, lineterm="", n=len(texts[0])))
        return [(line[:1], line[1:]) for line in lines[3:]]


@dataclass(frozen=True, slots=True)
class Compared:
    """A column against None on all tasks: verdicts without and with it, and its contexts, by task id.

    `own`: tasks that failed in either setting by an assertion of the solution's own (`Experiment.own_assertions`).
    """

    column: str
    without: Outcomes
    with_: Outcomes
    contexts: Mapping[str, Context]
    own: frozenset[str] = frozenset()

    @property
    def both(self) -> list[str]:
        """Tasks that are measured in both, in the benchmark's order."""
        pairs = [(t, o.status, self.with_[t].status) for t, o in self.without.items() if t in self.with_]
        return [t for t, *statuses in pairs if "not_measured" not in statuses]

    @property
    def groups(self) -> dict[str, list[str]]:
        """The tasks of `both` by what the column changed."""
        ways = {
            "helped": (False, True),
            "hurt": (True, False),
            "both pass": (True, True),
            "both fail": (False, False),
        }
        passed = {
            t: (self.without[t].status == "passed", self.with_[t].status == "passed") for t in self.both
        }
        return {way: [t for t, p in passed.items() if p == wanted] for way, wanted in ways.items()}

    @property
    def helped(self) -> list[str]:
        """Tasks that only the column solves."""
        return self.groups["helped"]

    @property
    def hurt(self) -> list[str]:
        """Tasks that only None solves."""
        return self.groups["hurt"]

    @property
    def scored(self) -> bool:
        """Whether any context has a score."""
        return any(score(c) is not None for c in self.contexts.values())

    def scores(self) -> dict[str, dict[str, float | None]]:
        """group -> task -> retrieval score, for `case_figures.scores`."""
        return {way: {t: score(self.contexts.get(t)) for t in tasks} for way, tasks in self.groups.items()}


def chosen(tasks: Sequence[str], contexts: Mapping[str, Context], count: int) -> list[str]:
    """The first `count` tasks by RULE; UserError for a count below 1."""
    if count < 1:
        raise UserError(f"count is {count}; show at least 1 case of each kind")
    found = {t: score(contexts[t]) if t in contexts else None for t in tasks}
    return sorted(tasks, key=lambda t: -(found[t] if found[t] is not None else float("-inf")))[:count]


def score(context: Context | None) -> float | None:
    """The retriever's score of a context; None where nothing was found or the score was not published."""
    if context is None or context.sha256 == NOTHING or context.source.startswith("published/"):
        return None
    return context.score


def measure(column: str) -> str:
    """What a column's score is."""
    return "BM25 score" if column.endswith("BM25") else "cosine"


def table(found: Compared) -> Grid:
    """Every task whose verdict the column changed, with its errors, best retrieval score first."""
    rows = {}
    for kind, tasks in (("helped", found.helped), ("hurt", found.hurt)):
        for t in chosen(tasks, found.contexts, max(1, len(tasks))):
            fates = [_fate(o[t], t in found.own) for o in (found.without, found.with_)]
            context = found.contexts.get(t)
            value = score(context)
            said = DASH if value is None else f"{value:.3f}"
            rows[t] = (kind, *fates, said, _answer(context.defines_task if context else None))
    names = ["change", "None", found.column, measure(found.column), "context defines the function"]
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=names).rename_axis("task")
    note = "Under None and the column: passed, or the error that ended the solution; its own: an assertion that it made itself."
    note = note if rows else "There is no such task."
    title = f"Tasks that {found.column} helped ({len(found.helped)}) and hurt ({len(found.hurt)})"
    return Grid(title, frame, (note,))


def _fate(outcome: Outcome, own: bool) -> str:
    return f"{outcome.error}{' (its own)' if own else ''}" if outcome.error else outcome.status


def _answer(defines: bool | None) -> str:
    return DASH if defines is None else "yes" if defines else "no"


def sentence(case: Case) -> str:
    """What changed and beside which context, in words."""
    before, after = case.sides
    said = f"{case.task_id}: {_verdict(before)} without retrieval and {_verdict(after)} with {case.column}."
    said += f" {_about_context(case)}"
    if before.solution is not None and after.solution is not None:
        marks = [mark for mark, _ in case.diff]
        gone, new = marks.count("-"), marks.count("+")
        said += (
            f" The solution lost {gone} lines and gained {new}."
            if gone or new
            else " Both solutions are the same."
        )
    missing = _UNDEFINED.search(after.outcome.detail)
    if missing and isinstance(case.text, str):
        stands = re.search(rf"\b{re.escape(missing[1])}\b", case.text)
        said += f" The undefined name {missing[1]} {'stands' if stands else 'does not stand'} in the context."
    return said


def _verdict(side: Side) -> str:
    cut_off = side.completion is not None and side.completion.finish == "length"
    known = {"passed": "passes", "not_measured": "is not measured"}
    return known.get(side.outcome.status, f"fails ({side.outcome.error}{', cut off' if cut_off else ''})")


def _about_context(case: Case) -> str:
    if case.context is None or case.context.sha256 == NOTHING:
        return "No context is stored." if case.context is None else "No context was found."
    value = score(case.context)
    scored = f" ({measure(case.column)} {value:.3f})" if value is not None else ""
    defines = {True: "defines", False: "does not define", None: "may or may not define"}[
        case.context.defines_task
    ]
    return f"The context{scored} {defines} {case.entry_point or 'the function asked for'}."


def findings(found: Compared) -> list[str]:
    """How many tasks changed, how many contexts define the function asked for, and by which rule cases are chosen."""
    column, changed = found.column, {"helped": found.helped, "hurt": found.hurt}
    if not found.both:
        return [f"None and {column} have no task measured in both, so there is no case to show."]
    solved = f"{column} solves {len(found.helped)} that None does not, and None {len(found.hurt)} that {column} does not"
    p = probability(mcnemar(len(found.helped), len(found.hurt)))
    said = [f"Of {len(found.both)} tasks measured in both, {solved} (McNemar's exact test: p {p})."]
    empty = [way for way, tasks in changed.items() if not tasks]
    said += (
        [f"There is no task that {column} {' or '.join(empty)}, so no such case is shown."] if empty else []
    )
    parts = []
    for way, tasks in changed.items():
        known = [
            d for t in tasks if t in found.contexts and (d := found.contexts[t].defines_task) is not None
        ]
        parts += [f"{sum(known)} of {len(known)} {way}"] if known else []
    said += [f"The context defines the function asked for in {' and '.join(parts)} tasks."] if parts else []
    return said if len(empty) == len(changed) else [*said, RULE]


def folded(summary: str, html: str) -> str:
    """HTML behind a line that opens it. `html` is a rendered fragment."""
    return render("folded.html.j2", summary=summary, body=html)


def shown(cases: Iterable[Case]) -> Shown:
    """Cases one below the other, for a notebook; a sentence where there is none."""
    return Shown("".join(fragment(c, 3) for c in cases) or render("case_none.html.j2"))


def part(cases: Iterable[Case]) -> str:
    """Cases as part of the report, each folded below its sentence."""
    return "".join(folded(sentence(c), fragment(c, 4, titled=False)) for c in cases) or render(
        "case_none.html.j2"
    )


def fragment(case: Case, level: int, titled: bool = True) -> str:
    """One case as HTML with headings of `level`; `titled`: what changed is said above it."""
    drawing = (
        inline(subgraph(case.traced))
        if isinstance(case.traced, Traced) and case.traced.graph is not None
        else ""
    )
    details = [split_detail(s.outcome.detail) for s in case.sides]
    parts = {"prompt": case.prompt, "text": case.text, "traced": case.traced}
    hidden = {name: part.why if isinstance(part, Hidden) else "" for name, part in parts.items()}
    said = sentence(case) if titled else ""
    values = {
        "level": level,
        "drawing": drawing,
        "details": details,
        "said": said,
        "score": score(case.context),
    }
    return _plain(render("case.html.j2", case=case, hidden=hidden, measure=measure(case.column), **values))


def page(case: Case) -> str:
    """One case as a page of its own: no script, no network."""
    return _plain(render("case_page.html.j2", case=case, body=fragment(case, 2)))


def _plain(html: str) -> str:
    """Without what a file cannot hold: lone surrogates."""
    return html.encode("utf8", "replace").decode("utf8")
