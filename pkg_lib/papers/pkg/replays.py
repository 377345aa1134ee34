"""Tables 5 and 6: models whose samples were made elsewhere, executed here (`replay`), beside the published cells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.stats import ORACLE, compare, paired_bootstrap, pass_at_1
from pkg_lib.analysis.tables import (
    DASH,
    HERE,
    TITLES,
    Cell,
    Row,
    Table,
    interval,
    measured_cell,
    points,
    probability,
)
from pkg_lib.core.store import read_json, read_rows
from pkg_lib.core.types import NotAtHand, Outcome
from pkg_lib.experiment.select import ideal

# The authors' file names, and the columns of this study that they are.
METHODS = {
    "no_rag": "None",
    "bm25": "BM25",
    "voyage_emb": "Dense",
    "voyage_func": "Func-PKG",
    "voyage_block": "Block-PKG",
    "reranked": "Reranked",
}
CANDIDATES = ("None", "BM25", "Dense", "Func-PKG", "Block-PKG")
CLOSED = (*CANDIDATES, "Reranked", ORACLE)
PUBLISHED_AS = {"Dense": "VoyageEmb", ORACLE: "Ideal Reranker"}
REFERENCE = {
    "humaneval": ("pkg_table5_humaneval_closed.csv", "Table 5 of the PKG paper"),
    "mbpp": ("pkg_table6_mbpp_closed.csv", "Table 6 of the PKG paper"),
}


def replayed(results: Path, name: str, benchmark: str) -> dict[str, dict[str, Outcome]]:
    """column -> task id -> outcome of one replayed directory; empty where it has nothing of the benchmark.

    NotAtHand where the directory was not replayed at all.
    """
    folder = results / "replay" / name
    if not folder.is_dir():
        there = sorted(p.name for p in (results / "replay").glob("*") if p.is_dir())
        known = f"replayed are: {', '.join(there)}" if there else "nothing is replayed yet"
        raise NotAtHand(f"no replayed samples '{name}': run python -m pkg_lib replay DIR first ({known})")
    found = {}
    for path in sorted((folder / benchmark).glob("*.jsonl")):
        rows = read_rows(path, ("task_id", *Outcome.__slots__))
        found[METHODS.get(path.stem, path.stem)] = {
            r["task_id"]: Outcome.of(r) for r in rows if not r.get("sample")
        }
    return found


def verdicts_agree(results: Path, names: list[str]) -> str:
    """How many of the verdicts that the replayed samples carry are those of here, in a sentence; "" where none carries one."""
    paths = [p for n in names for p in sorted((results / "replay" / n).glob("*/*.jsonl"))]
    rows = [r for p in paths for r in read_rows(p, ("task_id", "status", "published"))]
    carried = [r for r in rows if r["published"] is not None and r["status"] != "not_measured"]
    same = sum((r["status"] == "passed") == r["published"] for r in carried)
    return (
        f"{same:,} of {len(carried):,} published verdicts are the same here, one by one." if carried else ""
    )


def verdict_frame(outcomes: Mapping[str, Mapping[str, Outcome]], limit: int | None = None) -> pd.DataFrame:
    """Boolean frame [task, CLOSED]: <NA> where not measured. Of several samples of a task the first counts."""
    tasks = list(dict.fromkeys(t for by_task in outcomes.values() for t in by_task))[:limit]
    frame = pd.DataFrame(index=tasks, columns=list(CLOSED), dtype="boolean")
    for column, by_task in outcomes.items():
        if column in CLOSED:
            frame[column] = pd.array([_verdict(by_task.get(t)) for t in tasks], dtype="boolean")
    frame[ORACLE] = ideal(frame[list(CANDIDATES)])
    return frame


def _verdict(outcome: Outcome | None) -> object:
    return pd.NA if outcome is None or outcome.status == "not_measured" else outcome.status == "passed"


def published(benchmark: str) -> pd.DataFrame:
    """The paper's rows as text in the published precision: model x CLOSED."""
    rows = pd.read_csv(HERE / "reference" / REFERENCE[benchmark][0], dtype=str, keep_default_na=False)
    wide = rows.pivot(index="model", columns="method", values="pass_at_1_percent").loc[
        rows["model"].drop_duplicates()
    ]
    return wide[[PUBLISHED_AS.get(c, c) for c in CLOSED]].set_axis(list(CLOSED), axis=1)


def closed_table(frames: Mapping[str, pd.DataFrame], benchmark: str) -> Table:
    """Tables 5 and 6: the replayed rows, then the published ones."""
    rows = [
        Row("Samples of the authors, executed here", name, _cells(frame)) for name, frame in frames.items()
    ]
    texts = published(benchmark)
    group = f"Published ({REFERENCE[benchmark][1]})"
    for model in texts.index:
        values = texts.loc[model].astype(float)
        shown = zip(texts.loc[model], values, strict=True)
        cells = tuple(Cell(t, v, None if i == 0 else v - values.iloc[0]) for i, (t, v) in enumerate(shown))
        rows.append(Row(group, model, cells))
    tasks = max((len(f) for f in frames.values()), default=0)
    title = f"pass@1 in percent on {TITLES[benchmark]} ({tasks} tasks), closed models"
    note = f"Dense is the paper's VoyageEmb, Ideal its Ideal Reranker. {DASH} not measured."
    return Table(title, tuple(rows), (note,), CLOSED)


def _cells(frame: pd.DataFrame) -> tuple[Cell, ...]:
    cells = []
    for name in CLOSED:
        paired = paired_bootstrap(frame[name], frame["None"], resamples=1) if name != "None" else None
        cells.append(measured_cell(pass_at_1(frame[name]), 100 * paired.value if paired else None))
    return tuple(cells)


def agreement(frames: Mapping[str, pd.DataFrame], benchmark: str) -> pd.DataFrame:
    """One row a cell that is measured whole here and published: model, column, here, published (text), equal."""
    texts = published(benchmark)
    by_name = {m.lower(): m for m in texts.index}
    rows = []
    for name, frame in frames.items():
        for column in CLOSED if name.lower() in by_name else ():
            rate = pass_at_1(frame[column])
            if rate.value is not None and rate.measured == rate.total:
                theirs = texts.at[by_name[name.lower()], column]
                # The paper rounds to one decimal, sometimes half up, sometimes half down: both are the same number.
                equal = abs(100 * rate.value - float(theirs)) <= 0.05 + 1e-9
                rows.append((name, column, f"{100 * rate.value:.1f}", theirs, equal))
    return pd.DataFrame(rows, columns=["model", "column", "here", "published", "equal"])


def against_none(frames: Mapping[str, pd.DataFrame], benchmark: str) -> Grid:
    """Each column against None, paired over tasks, for every replayed model."""
    rows = {}
    for name, frame in frames.items():
        for column, r in compare(frame).iterrows():
            if r["n"]:
                numbers = (
                    points(r["difference"]),
                    interval(r["low"], r["high"]),
                    str(int(r["helped"])),
                    str(int(r["hurt"])),
                )
                rows[f"{name}, {column}"] = (*numbers, probability(r["p"]), probability(r["p_holm"]))
    columns = ["difference", "95 % interval", "helped", "hurt", "McNemar p", "p (Holm)"]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=columns).rename_axis("model, column")
    note = "Points of pass@1 against None; paired bootstrap over tasks; Holm over the columns of one model; Ideal cannot lose."
    return Grid(f"Each column against None on {TITLES[benchmark]}", table, (note,))


def findings(frames: Mapping[str, pd.DataFrame], benchmark: str) -> list[str]:
    """What the replay shows, computed from it."""
    cells = agreement(frames, benchmark)
    other = cells[~cells["equal"]]
    differ = "; ".join(
        f"{r.model} {r.column} {r.here} here, {r.published} published" for r in other.itertuples()
    )
    said = []
    if len(cells):
        said.append(
            f"{TITLES[benchmark]}: {int(cells['equal'].sum())} of {len(cells)} replayed cells equal the published ones."
        )
    said += [f"{TITLES[benchmark]}, cells that differ: {differ}."] if differ else []
    for name, frame in frames.items():
        found = compare(frame)
        tested = found[found["p_holm"].notna()]
        clear = [f"{c} {points(r['difference'])} points" for c, r in tested.iterrows() if r["p_holm"] < 0.05]
        if len(tested):
            text = (
                ", ".join(clear) if clear else "no column differs from None beyond chance (corrected p 0.05)"
            )
            said.append(f"{name} on {TITLES[benchmark]}: {text}.")
    return said


def replayed_pairs(
    results: Path, names: str, benchmark: str, column: str, limit: int | None = None
) -> dict[tuple[str, str], dict[str, Outcome]]:
    """(group, setting) -> outcomes of None and of the column, for replayed models joined by "+" that have both.

    Empty where nothing was replayed at all: the tables then hold this study alone.
    """
    found: dict[tuple[str, str], dict[str, Outcome]] = {}
    for name in filter(None, names.split("+")) if (results / "replay").is_dir() else ():
        outcomes = replayed(results, name, benchmark)
        if "None" in outcomes and column in outcomes:
            for label, key in ((name, "None"), (f"{name} + {column}", column)):
                found["Published samples, executed here", label] = dict(list(outcomes[key].items())[:limit])
    return found


def provenance(results: Path, names: list[str]) -> dict[str, object]:
    """Protocol and limits under which the replayed directories were executed."""
    paths = {n: sorted((results / "replay" / n).glob("*/*.done.json")) for n in names}
    return {
        n: {f"{p.parent.name}/{p.name.partition('.')[0]}": read_json(p) for p in found}
        for n, found in paths.items()
    }
