"""Count the texts of the committed study that are too long for the encoder, by its tokenizer.

    python tests/benchmarks/bench_encoder_limit.py [--without-graphs] [--output FILE]

The counts cover four kinds of texts:

- the functions, blocks and path-value nodes of each corpus, and its rows;
- the queries of each benchmark;
- the candidates that the reranker embeds in each run;
- the same candidates, reduced as in the authors' code.

The authors retrieved their published contexts with another encoder, so only the candidates of those runs count.
`--without-graphs` keeps the stored counts of all corpora. The stored counts of a corpus that is not installed
are always kept.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.core.types import UnavailableError
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
    """Count texts and those that the encoder truncates.

    Args:
        where: Corpus, benchmark or run that the texts belong to.
        unit: Kind of the texts.
        texts: The texts.

    Returns:
        One entry of the output file.
    """
    return {
        "where": where,
        "unit": unit,
        "texts": len(texts),
        "cut": count_cut(texts),
    }


def count_corpus(corpus: str) -> list[dict]:
    """Count the texts of one corpus.

    Args:
        corpus: Name of the corpus.

    Returns:
        One entry per kind of text.

    Raises:
        UnavailableError: The corpus is not installed.
    """
    units = unread(build_corpus(corpus).graph)
    counts = [
        {
            "where": corpus,
            "unit": unit.unit,
            "texts": unit.texts,
            "cut": unit.cut,
        }
        for unit in units
    ]
    rows = make_retriever("VoyageEmb", load_corpus(corpus)).units
    counts.append(counted(corpus, "rows", [row.searched for row in rows]))
    return counts


def count_corpora() -> list[dict]:
    """Count the texts of every corpus of the study; keep stored counts of missing corpora."""
    corpora: dict[str, None] = {}
    for part in STUDY:
        if part.benchmark in BENCHMARKS and part.corpus != PUBLISHED:
            corpora[part.corpus] = None
    counts = []
    for corpus in corpora:
        try:
            counts += count_corpus(corpus)
        except UnavailableError as e:
            kept = [entry for entry in stored_counts(results_dir()) if entry["where"] == corpus]
            print(
                f"{e}; keeping {len(kept)} stored counts of {corpus}",
                file=sys.stderr,
            )
            counts += kept
    return counts


def count_runs() -> list[dict]:
    """Count the queries of each benchmark and the candidates of each run of the study."""
    counts = []
    seen = set()
    for part in STUDY:
        if part.benchmark not in BENCHMARKS:
            continue
        run = Results(part.model, part.benchmark, part.corpus)
        if run.benchmark not in seen:
            seen.add(run.benchmark)
            counts.append(
                counted(
                    run.benchmark,
                    "queries",
                    [task.prompt for task in run.tasks],
                )
            )
        candidates = candidate_texts(run, run.selections())
        if candidates:
            whole_texts = [whole for _, _, (_, whole, _) in candidates]
            reduced_texts = [reduced for _, _, (_, _, reduced) in candidates]
            counts.append(counted(run.label, WHOLE, whole_texts))
            counts.append(counted(run.label, REDUCED, reduced_texts))
    return counts


def main(arguments: list[str] | None = None) -> None:
    """Count all texts and write the counts.

    Args:
        arguments: Command-line arguments; by default those of the process.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--without-graphs", action="store_true")
    parser.add_argument(
        "--output",
        type=Path,
        default=results_dir() / "benchmarks" / f"{NAME}.json",
    )
    options = parser.parse_args(arguments)
    if options.without_graphs:
        corpora = {part.corpus for part in STUDY}
        counts = [entry for entry in stored_counts(results_dir()) if entry["where"] in corpora]
    else:
        counts = count_corpora()
    counts += count_runs()
    write_json(options.output, {"counts": counts, "versions": versions()})


if __name__ == "__main__":
    main()
