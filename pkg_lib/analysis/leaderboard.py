"""results/leaderboard.csv and .json: each stored column of each experiment, a row for each k of pass@k.

From stored records alone. What is not measured has no row, and what a row does not know no value: a choice
among columns has no tokens, an old completion no seconds. Rates are fractions with 95 % intervals, tokens and
seconds means of an answer; `n` of the `tasks` are measured. What was replayed is of revision "replay".
"""

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.stats import KS, pass_at_k_of, wilson
from pkg_lib.analysis.tables import csv_text
from pkg_lib.core.models import MODELS
from pkg_lib.core.reading import is_there
from pkg_lib.core.store import (
    read_json,
    read_rows,
    rows_sha256,
    sha256_of,
    slug,
    write_json,
    write_text,
)
from pkg_lib.core.types import NotAtHand, Outcome, UserError, digest
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.data.published import SAMPLES
from pkg_lib.evaluation.freshness import Records, program_digest
from pkg_lib.evaluation.results import (
    AS_PRINTED,
    OTHERS,
    OUTCOME,
    SELECTED,
    Results,
    passes,
    read_provenance,
    verdict_series,
)
from pkg_lib.retrieval.columns import DRAW, contexts_of

FOLDERS = ("contexts", "evaluations", "generations", "replay")
ASKED = ["prompt_tokens", "new_tokens", "seconds"]
FIELDS = """model revision benchmark protocol corpus column n tasks samples k pass_at_k low high prompt_tokens
new_tokens seconds benchmark_digest corpus_digest verdicts_sha256 commit""".split()


def write(results: Path) -> None:
    """Writes both files, where they are not of just these records; neither where nothing is measured."""
    paths, made = (
        [results / f"leaderboard.{kind}" for kind in ("json", "csv")],
        results / "leaderboard.made.json",
    )
    now = digest(program_digest(), *Records(results).contents(map(Path, FOLDERS)))
    with suppress(OSError, UserError):  # never written, or damaged
        known = read_json(made, {"absent": list})
        same = {"from": now, "outputs": {p.name: sha256_of(p) for p in paths}}
        if known == same | {"absent": known.get("absent")} and all(map(_absent, known["absent"])):
            return
    absent, left_out = set[str](), list[str]()
    found = [*_experiments(results, absent, left_out), *_replays(results / "replay", left_out)]
    if rows := [{f: row[f] for f in FIELDS if row.get(f) not in (None, "")} for row in found]:
        write_json(paths[0], rows)
        write_text(paths[1], csv_text(pd.DataFrame(rows, columns=FIELDS), index=False))
        outputs = {p.name: sha256_of(p) for p in paths}
        # What is left out may be mended where no record tells.
        write_json(
            made, {"from": "" if left_out else now, "outputs": outputs, "absent": sorted(absent)}
        )


def _absent(benchmark: str) -> bool:
    try:
        return not load_benchmark(benchmark, 1)
    except NotAtHand:
        return True


def _replays(folder: Path, left_out: list[str]) -> Iterator[dict[str, Any]]:
    """Those of completions from elsewhere, by their stored verdicts."""
    for path in sorted(
        p for p in folder.glob("*/*/*.jsonl") if is_there(p.with_suffix(".done.json"))
    ):
        model, benchmark, file = path.relative_to(folder).with_suffix("").parts
        try:
            rows = read_rows(path, OUTCOME, OTHERS | {"sample": int})
            protocol = read_json(path.with_suffix(".done.json"), {"protocol": str})["protocol"]
        except UserError as e:
            left_out.append(_without(path.relative_to(folder), e))
            continue
        frame = pd.DataFrame(
            [(r["task_id"], r.get("sample", 0), passes(Outcome.of(r))) for r in rows]
        )
        about = {"model": model, "revision": "replay", "benchmark": benchmark}
        about["column"] = SAMPLES.get(file, file)
        about["protocol"] = protocol
        about["verdicts_sha256"] = digest(
            *(w for r in rows for w in (file, r["task_id"], r["status"]))
        )
        yield from _rates(about, frame.pivot(index=0, columns=1, values=2).astype("boolean"))


def _experiments(results: Path, absent: set[str], left_out: list[str]) -> Iterator[dict[str, Any]]:
    """Those of the columns; verdicts of `absent` benchmarks stand unchecked; who is `left_out` is told."""
    models = {slug(name): name for name in MODELS}
    nameless = set[str]()
    for path in sorted((results / "generations").glob("*/revision.json")):
        try:
            name = read_json(path, (), {"name": str}).get("name", "")
        except UserError as e:
            left_out.append(_without(path.relative_to(results), e))
            nameless.add(path.parent.name)  # an endpoint's folder alone does not tell its name
        else:
            models[slug(name)] = name
    generators: dict[tuple[str, str], Any] = {}
    for folder in filter(Path.is_dir, sorted((results / "evaluations").glob("*/*/*"))):
        model, benchmark, corpus = folder.parts[-3:]
        if model in nameless:
            left_out.append(str(folder.relative_to(results / "evaluations")))
            continue
        try:
            paths = sorted((results / "contexts" / benchmark / corpus).glob("*.meta.json"))
            metas = map(read_provenance, paths)
            name = next(
                (m["corpus"] for m in metas if "corpus" in m), "" if corpus == "none" else corpus
            )
            run = Results(models.get(model, model), benchmark, name, results=results)
            if (model, benchmark) not in generators:  # its cache is read once for all corpora
                generators = {(model, benchmark): run.generator}
            run.generator = generators[model, benchmark]
            yield from _rows(run, corpus)
            absent |= {benchmark} if run.tasks_absent else set()
        except UserError as e:
            left_out.append(_without(folder.relative_to(results / "evaluations"), e))


def _without(name: Path, e: UserError) -> str:
    logging.getLogger(__name__).warning("leaderboard without %s: %s", name, e)
    return str(name)


def _rows(run: Results, corpus: str) -> Iterator[dict[str, Any]]:
    """Those of the folder `corpus`: None's serve every corpus. Draws are samples of one column."""
    columns: dict[str, list[str]] = {}
    for c in run.stored_columns():
        if (contexts_of(c) == "None") == (corpus == "none"):
            columns.setdefault(c.rpartition(", ")[0] if DRAW.fullmatch(c) else c, []).append(c)
    for name, of in columns.items():
        answers = [g for c in of for g in run.completions(c).values()]
        told = [(g.prompt_tokens, len(g.tokens), g.meta.get("seconds")) for g in answers]
        means = pd.DataFrame(told, columns=ASKED, dtype=float).mean(skipna=False).dropna().round(3)
        verdicts = pd.DataFrame({c: verdict_series(run.outcomes(c)) for c in of})
        yield from _rates(_about(run, name, of) | means.to_dict(), verdicts)
    if corpus != "none" and is_there(run.file("evaluations", "candidates", ".json")):
        for name, chosen in run.verdicts([*SELECTED, AS_PRINTED]).items():
            yield from _rates(
                _about(run, str(name), [*run.candidates, "Reranked"]), chosen.to_frame()
            )


def _about(run: Results, column: str, of: list[str]) -> dict[str, Any]:
    """What the verdicts of the columns `of` were made from, a choice with its last candidate's contexts."""
    meta = run.file("contexts", of[-2:][0], ".meta.json")
    context = read_provenance(meta)
    # Without times, which another run or engine changes; what the reranker chose has none.
    judged, chosen = [c for c in of if c != "Reranked"], run.file("evaluations", "Reranked")
    verdicts = [
        word for c in judged for task, o in run.outcomes(c).items() for word in (c, task, o.status)
    ]
    verdicts += [rows_sha256(chosen)] if judged != of else []
    about = run.provenance() | {"column": column, "verdicts_sha256": digest(*verdicts)}
    about |= {"corpus": ""} if contexts_of(of[-2:][0]) == "None" else {}
    commit = context.get("versions", {}).get("commit")
    return about | {"corpus_digest": context.get("corpus_digest"), "commit": commit}


def _rates(about: dict[str, Any], verdicts: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """A row for each k, of verdicts [task, sample]; none where no task is measured."""
    tasks, samples = verdicts.shape
    for k in (k for k in KS if k <= samples):
        if mean := pass_at_k_of(verdicts, k):
            ends = mean.low, mean.high
            low, high = ends if samples > 1 else wilson(round(mean.value * mean.n), mean.n) or ends
            rate = {"pass_at_k": round(mean.value, 6), "low": round(low, 6), "high": round(high, 6)}
            yield about | {"tasks": tasks, "samples": samples, "n": mean.n, "k": k} | rate
