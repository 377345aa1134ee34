"""The tables of dkb.ipynb that the paper does not have: evidence by pipeline, kind and question, variants, the extraction."""

from __future__ import annotations

import math

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.tables import DASH, probability
from pkg_lib.papers.dkb import dkb
from pkg_lib.papers.dkb.dkb import BASE, LLM_KB, OURS, Evident, Study
from pkg_lib.papers.dkb.dkb_tables import NOT, count, grid, number
from pkg_lib.papers.dkb.evidence import READINGS, Paired
from pkg_lib.papers.dkb.knowledge import named_dependencies


def evidence_table(found: Evident) -> Grid:
    """Recall and precision of evidence by pipeline and reading."""
    means = found.evidence.groupby(["pipeline", "reading"], sort=False)[["recall", "precision"]].mean()
    sizes = found.evidence.groupby("pipeline", sort=False)[["characters", "excerpts"]].mean()
    rows, asked = {}, found.evidence["question"].nunique()
    for p in found.columns:
        cells = [number(means.loc[(p, r), v], 3) for r in READINGS for v in ("recall", "precision")]
        rows[p] = [*cells, count(sizes.loc[p, "characters"]), number(sizes.loc[p, "excerpts"], 1)]
    columns = [f"{r}: {v}" for r in READINGS for v in ("recall", "precision")] + ["characters", "excerpts"]
    notes = (
        "Of the types that an answer needs, those that reach the context: source (lines of the declaration), listed (these, or a "
        "node in the ontology info), named (the name anywhere).",
        f"Means over {asked} questions, top-{found.k}, depth {found.depth}. Same size: as many chunks as fit into DKB's context "
        "of the question.",
    )
    return grid(f"Evidence on {found.name}", rows, columns, "pipeline", *notes)


def differences(found: Evident) -> Grid:
    """DKB and LLM-KB against No-Graph and No-Graph of the same size, by kind of question, with intervals."""
    rows = {}
    kinds: list[tuple[str, tuple[str, ...]]] = [("all", ()), *((k, (k,)) for k in found.kinds)]
    if {"upstream", "multi-hop"} <= set(found.kinds):
        kinds.insert(1, ("upstream and multi-hop", ("upstream", "multi-hop")))
    bases = [c for c in found.columns if c.startswith(BASE)]
    for a in (c for c in found.columns if c in (OURS, LLM_KB)):
        for b in bases:
            for label, chosen in kinds:
                row = [number(found.values(c, "recall", chosen).mean(), 3) for c in (a, b)]
                d = found.against(a, b, "recall", chosen)
                rows[f"{a} – {b}, {label}"] = [str(d.n), *row, *_paired(d)]
    columns = ["questions", "recall of the first", "of the second", "difference", "95 % interval", "p"]
    note = (
        "Paired over questions: bootstrap interval, exact sign-flip test, not corrected for the number of rows. With four "
        "questions of a kind the smallest possible p is 0.125. Reading: listed."
    )
    return grid(
        f"Differences in evidence recall on {found.name}", rows, columns, "first – second, kind", note
    )


def _paired(d: Paired) -> list[str]:
    return [_signed(d.value), f"{_signed(d.low)} to {_signed(d.high)}", probability(d.p)]


def _signed(value: float) -> str:
    return number(value, 3) if value < 0 or math.isnan(value) else f"+{value:.3f}"


def questions_table(found: Study) -> Grid:
    """Recall of each question by pipeline."""
    rows = {}
    for q in found.opened.questions:
        values = [found.values(c, "recall").loc[q.id] for c in found.columns]
        rows[f"{q.id} {q.theme}"] = [q.kind, str(len(q.needs)), *(number(v) for v in values)]
    columns = ["kind", "types needed", *found.columns]
    return grid("Evidence recall by question", rows, columns, "question", "Reading: listed.")


def variants_table(found: Evident) -> Grid:
    """DKB with one thing changed at a time."""
    means = found.variants[found.variants["reading"] == dkb.READING].groupby("pipeline", sort=False)
    frame = means[["recall", "precision", "characters"]].mean()
    source = (
        found.variants[found.variants["reading"] == "source"].groupby("pipeline", sort=False)["recall"].mean()
    )
    rows = {
        name: [number(r.recall, 3), number(source[name], 3), number(r.precision, 3), count(r.characters)]
        for name, r in zip(frame.index, frame.itertuples(), strict=True)
    }
    columns = ["recall (listed)", "recall (source)", "precision (listed)", "characters"]
    note = "Coupled: only files with a node are embedded. As published: simple names, file names as classes, coupled."
    return grid(f"DKB with one thing changed, on {found.name}", rows, columns, "variant", note)


def extraction_table(found: Study) -> Grid:
    """LLM-KB's extraction: records, what was skipped, faults by reason."""
    e = found.extracted
    if e is None:
        return grid("LLM-KB's extraction", {"not run": [DASH]}, ["value"], "figure", NOT)
    kept = len(found.llm_graph.edges) if found.llm_graph else None
    rows = {
        "files": [count(len(e.files))],
        "batches": [count(len(e.answers))],
        "files with a record": [count(len(e.records))],
        "skipped or missed": [count(len(e.skipped))],
        "file success rate": [number(e.success_rate, 3)],
        "file success rate, files of one name told apart": [number(e.success_by_path, 3)],
        "matched by file name only": [count(e.by_name)],
        "truncated at 15,000 characters": [count(len(e.truncated))],
        "dependencies named": [count(named_dependencies(e))],
        "of them classes of a record": [count(kept)],
    }
    rows |= {f"fault: {why}": [count(n)] for why, n in sorted(e.faults.items())}
    return grid(
        "LLM-KB's extraction", rows, ["value"], "figure", f"{found.model}, greedy, four files a prompt."
    )


def evidence_or_none(found: Evident | None, name: str) -> Grid:
    """`evidence_table`, or a table that says that nothing was recorded."""
    return evidence_table(found) if found else _nothing(f"Evidence on {name}")


def differences_or_none(found: Evident | None, name: str) -> Grid:
    """`differences`, or a table that says that nothing was recorded."""
    return differences(found) if found else _nothing(f"Differences in evidence recall on {name}")


def variants_or_none(found: Evident | None, name: str) -> Grid:
    """`variants_table`, or a table that says that nothing was recorded."""
    return variants_table(found) if found else _nothing(f"DKB with one thing changed, on {name}")


def _nothing(title: str) -> Grid:
    return grid(title, {"not recorded": [DASH]}, ["value"], "figure", NOT)
