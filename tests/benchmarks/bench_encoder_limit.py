"""How many texts of the committed study are too long for the encoder, by its tokenizer.

    python tests/benchmarks/bench_encoder_limit.py [--without-graphs] [--output FILE]

Counted are the functions, blocks and path-values of each corpus, its rows, the queries of each
benchmark, and what the reranker embeds in each run: candidates as they are, and reduced as in the
authors' code. The authors' published contexts were retrieved with another encoder, so only the candidates of
these runs count. `--without-graphs` keeps the stored counts of all corpora. Those of a corpus that is
not installed are always kept.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.core.types import Unavailable
from pkg_lib.data.corpora import PUBLISHED, load_corpus
from pkg_lib.evaluation.pipeline import candidate_texts
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.study import STUDY
from pkg_lib.papers.pkg.encoder_limit import (
    NAME,
    REDUCED,
    WHOLE,
    count_cut,
    stored_counts,
)
from pkg_lib.papers.pkg.graph_building import build_corpus, unread
from pkg_lib.retrieval.methods import make_retriever

BENCHMARKS = ("humaneval", "mbpp")


def counted(where: str, unit: str, texts: list[str]) -> dict:
    return {"where": where, "unit": unit, "texts": len(texts), "cut": count_cut(texts)}


def of_corpora() -> list[dict]:
    counts = []
    parts = [part for part in STUDY if part.benchmark in BENCHMARKS and part.corpus != PUBLISHED]
    for corpus in dict.fromkeys(part.corpus for part in parts):
        try:
            counts += of_corpus(corpus)
        except Unavailable as e:
            kept = [entry for entry in stored_counts(results_dir()) if entry["where"] == corpus]
            print(f"{e}; {len(kept)} stored counts of {corpus} are kept", file=sys.stderr)
            counts += kept
    return counts


def of_corpus(corpus: str) -> list[dict]:
    units = unread(build_corpus(corpus).graph)
    counts = [{"where": corpus, "unit": u.unit, "texts": u.texts, "cut": u.cut} for u in units]
    searched = make_retriever("VoyageEmb", load_corpus(corpus)).units
    return [*counts, counted(corpus, "rows", [row.searched for row in searched])]


def of_runs() -> list[dict]:
    counts = []
    seen = set()
    for part in STUDY:
        if part.benchmark not in BENCHMARKS:
            continue
        run = Results(part.model, part.benchmark, part.corpus)
        if run.benchmark not in seen:
            seen.add(run.benchmark)
            counts.append(counted(run.benchmark, "queries", [t.prompt for t in run.tasks]))
        found = candidate_texts(run, run.selections())
        if found:
            counts.append(counted(run.label, WHOLE, [whole for _, _, (_, whole, _) in found]))
            counts.append(counted(run.label, REDUCED, [text for _, _, (_, _, text) in found]))
    return counts


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-graphs", action="store_true")
    parser.add_argument(
        "--output", type=Path, default=results_dir() / "benchmarks" / f"{NAME}.json"
    )
    options = parser.parse_args(arguments)
    if options.without_graphs:
        corpora = {part.corpus for part in STUDY}
        counts = [entry for entry in stored_counts(results_dir()) if entry["where"] in corpora]
    else:
        counts = of_corpora()
    write_json(options.output, {"counts": counts + of_runs(), "versions": versions()})


if __name__ == "__main__":
    main()
