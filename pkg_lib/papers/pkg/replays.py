"""Tables 5 and 6: samples that were made elsewhere and executed here, and the published cells."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from pkg_lib.analysis.stats import ORACLE, pass_at_1
from pkg_lib.core.store import read_rows
from pkg_lib.core.types import NotAtHand, Outcome
from pkg_lib.experiment.run import ideal
from pkg_lib.papers.pkg.pass_tables import published

# The authors' file names, and the columns of this study that they are.
METHODS = {
    "no_rag": "None",
    "bm25": "BM25",
    "voyage_emb": "Dense",
    "voyage_func": "Func-PKG",
    "voyage_block": "Block-PKG",
    "reranked": "Reranked",
}
CANDIDATES = tuple(METHODS.values())[:-1]
CLOSED = (*METHODS.values(), ORACLE)


def replayed(results: Path, name: str, benchmark: str) -> dict[str, dict[str, Outcome]]:
    """column -> task id -> outcome of one replayed directory; empty where it has nothing of the benchmark.

    NotAtHand where the directory was not replayed at all. Of several samples of a task the first counts.
    """
    folder = results / "replay" / name
    if not folder.is_dir():
        there = sorted(p.name for p in (results / "replay").glob("*") if p.is_dir())
        known = f"replayed are: {', '.join(there)}" if there else "nothing is replayed yet"
        raise NotAtHand(f"no replayed samples '{name}': run python -m pkg_lib replay DIR first ({known})")
    outcomes = {}
    for path in sorted((folder / benchmark).glob("*.jsonl")):
        first = [r for r in read_rows(path, ("task_id", *Outcome.__slots__)) if not r.get("sample")]
        outcomes[METHODS.get(path.stem, path.stem)] = {r["task_id"]: Outcome.of(r) for r in first}
    return outcomes


def verdict_frame(outcomes: Mapping[str, Mapping[str, Outcome]], limit: int | None = None) -> pd.DataFrame:
    """Boolean frame [task, CLOSED] of `replayed`: <NA> where not measured."""
    tasks = list(dict.fromkeys(t for by_task in outcomes.values() for t in by_task))[:limit]
    verdict = {"passed": True, "failed": False}
    passed = {c: {t: verdict.get(o.status) for t, o in rows.items()} for c, rows in outcomes.items()}
    frame = pd.DataFrame(passed, dtype="boolean").reindex(index=tasks, columns=CLOSED).astype("boolean")
    frame[ORACLE] = ideal(frame[list(CANDIDATES)])
    return frame


def agreement(frames: Mapping[str, pd.DataFrame], benchmark: str) -> pd.DataFrame:
    """One row a cell, measured whole here and published: model, column, here, published (text), equal."""
    texts, rows = published(benchmark, CLOSED, "closed").rename(index=str.lower), []
    for name, frame in frames.items():
        for column in CLOSED if name.lower() in texts.index else ():
            rate = pass_at_1(frame[column])
            if rate.value is not None and rate.measured == rate.total:
                printed = texts.at[name.lower(), column]
                # The paper rounds a half sometimes up, sometimes down: both are the same number.
                equal = abs(100 * rate.value - float(printed)) <= 0.05 + 1e-9
                rows.append((name, column, f"{100 * rate.value:.1f}", printed, equal))
    return pd.DataFrame(rows, columns=["model", "column", "here", "published", "equal"])
