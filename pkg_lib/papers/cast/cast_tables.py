"""Tables 1 to 5 of cAST in shape: our retrievers and generator beside the published numbers.

Chunking is "cast" or "fixed-size"; ours are BM25 and all-MiniLM-L6-v2, the paper's six embedders need the hub.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.stats import compare, helped_and_hurt, mcnemar, paired_bootstrap, pass_at_1, wilson
from pkg_lib.analysis.tables import DASH, interval, percent, points, probability
from pkg_lib.papers.cast import cast_store as store
from pkg_lib.papers.cast.cast_prompts import CONTEXT_TOKENS
from pkg_lib.papers.cast.cast_study import (
    MEASURES,
    Study,
    mean_difference,
    mean_interval,
    published,
    reference,
)
from pkg_lib.papers.cast.retrieving import BASELINE, OWN, RANKERS, SIZES, mappings

METRICS = {"nDCG": "nDCG@{}", "Precision": "P@{}", "Recall": "R@{}"}
MATCHES = {"ES": "edit", "F1 (id)": "identifiers_f1"}
SHORT = {"BGE": "BGE-base", "GIST": "GIST-base", "CodeSage": "Codesage-small-v2"}
THEIRS = {"cast": "cAST", "fixed-size": "Fixed-size"}
PAPER = ("BGE-base", "BGE-large", "GIST-base", "GIST-large", "Codesage-small-v2", "Jina-v2-code")
MISSING = f"{DASH} not measured here."
Columns = Sequence[tuple[str, str]]


def _grid(
    title: str, rows: Mapping[str, Sequence[str]], columns: Sequence[object], index: str, *notes: str
) -> Grid:
    frame = pd.DataFrame.from_dict({k: list(v) for k, v in rows.items()}, orient="index")
    two = pd.MultiIndex.from_tuples(columns) if columns and isinstance(columns[0], tuple) else list(columns)
    return Grid(title, frame.set_axis(two, axis=1).rename_axis(index), notes)


def mean_cell(values: pd.Series) -> str:
    """A mean in percent with its 95 % interval; a dash without values."""
    found = mean_interval(values)
    return f"{percent(found.value)} ({percent(found.low)}{DASH}{percent(found.high)})" if found else DASH


def pass_cell(verdicts: pd.Series) -> str:
    """pass@1 in percent with its Wilson interval, and n where not every task was measured."""
    rate = pass_at_1(verdicts)
    bounds = wilson(rate.passed, rate.measured)
    if rate.value is None or bounds is None:
        return DASH
    partial = f", n={rate.measured}" if rate.measured < rate.total else ""
    return f"{percent(rate.value)} ({percent(bounds[0])}{DASH}{percent(bounds[1])}{partial})"


def column_name(chunking: str, ranker: str) -> str:
    return f"{chunking}, {ranker}"


def _ours(study: Study, chunking: str, metric: str) -> list[str]:
    return [mean_cell(study.measure(r, chunking, metric)) for r in RANKERS]


def _passes(study: Study, chunking: str) -> list[str]:
    return [pass_cell(study.column(column_name(chunking, r))) for r in RANKERS]


def tasks_grid(study: Study) -> Grid:
    """Where the tasks come from: functions, tests, controls."""
    names = (
        "version",
        "licence",
        "functions of 3 to 30 lines",
        "called by no test that passes",
        "tests that pass",
        "tests that fail here",
        "a test that fails here speaks against it",
        "modules of tests that cannot be imported here",
        "tried with the controls",
        "tasks",
    )
    rows = {p: [str(about.get(n, DASH)) for n in names] for p, about in study.meta["packages"].items()}
    note = (
        "A task is a function whose tests pass with its own body and fail with `pass` and with `raise NotImplementedError`. "
        "Tests that fail here fail on the package as published, with the installed versions of what it needs; a function that "
        "such a failure came through is no task."
    )
    return _grid("Tasks by package", rows, names, "package", note)


def table1(study: Study) -> Grid:
    """Table 1: retrieval and generation on the three benchmarks."""
    columns = [(f"here, {THEIRS[c]}", r) for c in THEIRS for r in RANKERS]
    columns += [(f"published, {THEIRS[c]}", r) for c in THEIRS for r in SHORT]
    rows = {
        f"RepoEval: {name}@5": _retrieval_row(study, metric.format(5), "RepoEval")
        for name, metric in METRICS.items()
    }
    ours = [cell for c in THEIRS for cell in _passes(study, c)]
    for number, generator in enumerate(("StarCoder2", "CodeLlama")):
        theirs = _theirs("table6_repoeval_pass1", "pass_at_1_percent", generator=generator)
        label = (
            f"RepoEval: Pass@1 (here {study.model}; {generator})"
            if not number
            else f"RepoEval: Pass@1 ({generator})"
        )
        rows[label] = (ours if not number else [DASH] * len(ours)) + theirs
    blank = [DASH] * len(ours)
    for name, metric in METRICS.items():
        rows[f"SWE-bench: {name}@5"] = blank + _theirs(
            "table5_retrieval", "value_percent", benchmark="SWE-bench", metric=metric.format(5)
        )
    for metric in ("Claude-3.7-Sonnet Pass@1", "Gemini-2.5-pro Pass@8"):
        rows[f"SWE-bench: {metric}"] = blank + _theirs(
            "table7_swebench", "value_percent", generator_metric=metric
        )
    for metric in ("EM (id)", "EM (code)", "ES (code)"):
        theirs = _theirs("table8_crosscodeeval", "value_percent", language="Python", metric=metric)
        rows[f"CrossCodeEval, Python: {metric}"] = blank + theirs
    note = (
        "Here: functions of the packages above in the place of RepoEval's, 95 % intervals (bootstrap over tasks; Wilson for "
        "Pass@1). The published numbers are of RepoEval's own tasks and of larger models."
    )
    return _grid(
        f"Table 1: retrieval and generation ({len(study.ids)} tasks)",
        rows,
        columns,
        "benchmark: metric",
        note,
        MISSING,
    )


def _retrieval_row(study: Study, metric: str, benchmark: str) -> list[str]:
    ours = [cell for c in THEIRS for cell in _ours(study, c, metric)]
    return ours + _theirs("table5_retrieval", "value_percent", benchmark=benchmark, metric=metric)


def _theirs(table: str, value: str, **wanted: str) -> list[str]:
    frame = reference(table)
    return [
        published(frame, value, retriever=full, chunking=theirs, **wanted) or DASH
        for theirs in THEIRS.values()
        for full in SHORT.values()
    ]


def mapping_grid(study: Study) -> Grid:
    """What Appendix A.2's open choice changes: cAST's measures at 5 by how scores of lines are aggregated, and without them."""
    names = [m.format(5) for m in METRICS.values()]
    columns = [(r, n) for r in RANKERS for n in names]
    rows = {f"{BASELINE}, own chunks": [mean_cell(study.measure(r, BASELINE, n)) for r, n in columns]}
    for mapping in mappings("cast"):
        label = "cast, own chunks" if mapping == OWN else f"cast, mapped by the {mapping}"
        rows[label] = [mean_cell(study.measure(r, "cast", n, mapping)) for r, n in columns]
    note = "Own chunks: another number of chunks, and of right ones, so precision and recall are not of the same task."
    return _grid("How cAST's ranking is measured", rows, columns, "chunks", note)


def table2(study: Study) -> Grid:
    """Table 2: split-then-merge against split-only."""
    variants = {"cast": "split-then-merge", "split-only": "split-only"}
    columns = [(f"here, {v}", r) for v in variants.values() for r in RANKERS]
    columns += [(f"published, {v}", r) for v in variants.values() for r in SHORT]
    frame = reference("table2_split_only")
    theirs = {
        m: [published(frame, r, metric=m, variant=v) for v in variants.values() for r in SHORT]
        for m in ("nDCG", "Pass@1 StarCoder2", "Pass@1 CodeLlama")
    }
    ours = [cell for c in variants for cell in _ours(study, c, "nDCG@5")]
    passes = [cell for c in variants for cell in _passes(study, c)]
    rows = {
        "nDCG@5": ours + theirs["nDCG"],
        f"Pass@1 (here {study.model}; StarCoder2)": passes + theirs["Pass@1 StarCoder2"],
        "Pass@1 (CodeLlama)": [DASH] * len(ours) + theirs["Pass@1 CodeLlama"],
    }
    return _grid("Table 2: with and without merging", rows, columns, "metric", MISSING)


def table3(study: Study) -> Grid:
    """Table 3: context length in tokens."""
    frame = reference("table3_context_length")
    lengths = [c for c in frame.columns if c != "pipeline"]
    rows = {
        f"{r} + {study.model} (here)": [
            pass_cell(study.column(column_name("cast", r))),
            *[DASH] * len(lengths),
        ]
        for r in RANKERS
    }
    rows |= {
        f"{row['pipeline']} (published)": [DASH, *(row[n] for n in lengths)] for _, row in frame.iterrows()
    }
    note = f"The budget here is {CONTEXT_TOKENS:,} tokens, of which two processor cores read a prompt in seconds. {MISSING}"
    columns = [f"{CONTEXT_TOKENS:,} tokens", *(f"{int(n):,} tokens" for n in lengths)]
    return _grid("Table 3: Pass@1 by context length, cAST", rows, columns, "pipeline", note)


def table4(study: Study) -> Grid:
    """Table 4: the limit of a chunk."""
    frame = reference("table4_max_chunk_size")
    sizes = sorted((*SIZES, 2000))
    names = {s: "cast" if s == 2000 else f"cast {s}" for s in sizes}
    rows = {
        f"nDCG@5, {r} (here)": [mean_cell(study.measure(r, names[s], "nDCG@5")) for s in sizes]
        for r in RANKERS
    }
    for ranker in RANKERS:
        verdicts = study.column(column_name("cast", ranker))
        rows[f"Pass@1, {ranker} + {study.model} (here)"] = [
            pass_cell(verdicts) if s == 2000 else DASH for s in sizes
        ]
    for label, value in (
        ("nDCG, BGE (published)", "nDCG"),
        ("Pass@1, BGE + StarCoder2 (published)", "pass_at_1_starcoder2"),
    ):
        rows[label] = [published(frame, value, max_chunk_size=str(s)) for s in sizes]
    return _grid("Table 4: maximum chunk size", rows, [f"{s:,}" for s in sizes], "metric", MISSING)


def table5(study: Study) -> Grid:
    """Table 5: retrieval on RepoEval's kind of task, and the published half on SWE-bench Lite, which is not measured here."""
    metrics = [m.format(k) for m in METRICS.values() for k in (5, 10)]
    columns = [(THEIRS[c], m) for c in THEIRS for m in metrics]
    frame = reference("table5_retrieval")
    rows = {
        f"RepoEval: {r} (here)": [mean_cell(study.measure(r, c, m)) for c in THEIRS for m in metrics]
        for r in RANKERS
    }
    for benchmark in ("RepoEval", "SWE-bench"):
        theirs = frame[frame["benchmark"] == benchmark]
        for retriever in RANKERS if benchmark != "RepoEval" else ():
            rows[f"{benchmark}: {retriever} (here)"] = [DASH] * len(columns)
        for retriever in (r for r in PAPER if r in set(theirs["retriever"])):
            rows[f"{benchmark}: {retriever} (here)"] = [DASH] * len(columns)
            rows[f"{benchmark}: {retriever} (published)"] = [
                published(theirs, "value_percent", retriever=retriever, chunking=THEIRS[c], metric=m)
                for c in THEIRS
                for m in metrics
            ]
    notes = (
        "Here: functions of the packages above in the place of RepoEval's. The paper gives no row of Jina-v2-code on SWE-bench.",
        "The paper's embedders are known by name (`--notebook explore` takes them too) and come from the Hugging Face hub.",
    )
    return _grid(
        f"Table 5: retrieval ({len(study.ids)} tasks here)",
        rows,
        columns,
        "benchmark: retriever",
        *notes,
        MISSING,
    )


def passes(study: Study) -> Grid:
    """Every column: pass@1, its difference to None, and how far the bodies are the reference's."""
    frame = study.verdicts
    against = compare(frame) if "None" in frame and len(frame.columns) > 1 else pd.DataFrame()
    rows = {}
    for name in frame:
        shared = [study.rows[name][i] for i in study.ids if i in study.rows[name]]
        matches = [percent(sum(r[m] for r in shared) / len(shared)) for m in MEASURES]
        rows[name] = [str(len(shared)), pass_cell(frame[name]), *_against(against, name), *matches]
    columns = [
        "n",
        "Pass@1",
        "to None",
        "95 % interval",
        "helped",
        "hurt",
        "p (Holm)",
        "EM",
        "ES",
        "EM (id)",
        "F1 (id)",
    ]
    note = "Points of Pass@1 against None, paired bootstrap; McNemar's exact test, corrected by Holm. EM to F1 as CrossCodeEval."
    return _grid(f"{study.model}: completions", rows, columns, "context", note)


def _against(found: pd.DataFrame, name: str) -> list[str]:
    if name not in found.index or not found.loc[name, "n"]:
        return [DASH] * 5
    r = found.loc[name]
    bounds = interval(r["low"], r["high"])
    return [
        points(r["difference"]),
        bounds,
        str(int(r["helped"])),
        str(int(r["hurt"])),
        probability(r["p_holm"]),
    ]


def differences(study: Study) -> Grid:
    """cAST less fixed-size, paired over tasks: retrieval and Pass@1; the published differences beside."""
    rows = {}
    frame = reference("table5_retrieval")
    for label, metric in METRICS.items():
        name = metric.format(5)
        theirs = _gains(frame, "value_percent", benchmark="RepoEval", metric=name)
        for ranker in RANKERS:
            found = mean_difference(
                study.measure(ranker, "cast", name), study.measure(ranker, "fixed-size", name)
            )
            cells = (
                [str(found.n), points(found.value), interval(found.low, found.high)] if found else [DASH] * 3
            )
            rows[f"{label}@5, {ranker}"] = [*cells, DASH, theirs]
    theirs = _gains(reference("table6_repoeval_pass1"), "pass_at_1_percent", generator="StarCoder2")
    for ranker in RANKERS:
        a, b = (study.column(column_name(c, ranker)) for c in THEIRS)
        found = paired_bootstrap(a, b)
        cells = [DASH] * 4
        if found:
            p = mcnemar(*map(len, helped_and_hurt(a, b)))
            cells = [str(found.n), points(found.value), interval(found.low, found.high), probability(p)]
        rows[f"Pass@1, {ranker}"] = [*cells, theirs]
    for label, measure in MATCHES.items():
        for ranker in RANKERS:
            a, b = (study.matches(column_name(c, ranker), measure) for c in THEIRS)
            found = mean_difference(a, b)
            cells = (
                [str(found.n), points(found.value), interval(found.low, found.high)] if found else [DASH] * 3
            )
            rows[f"{label}, {ranker}"] = [*cells, DASH, DASH]
    columns = ["n", "difference", "95 % interval", "McNemar p", "published, least to most"]
    note = "Points, cAST less fixed-size. Published: over the six embedders of Tables 5 and 6 (Pass@1: StarCoder2)."
    return _grid("cAST against fixed-size chunks", rows, columns, "metric, retriever", note)


def _gains(frame: pd.DataFrame, value: str, **wanted: str) -> str:
    gains = [
        float(published(frame, value, retriever=r, chunking="cAST", **wanted))
        - float(published(frame, value, retriever=r, chunking="Fixed-size", **wanted))
        for r in PAPER
    ]
    return f"{points(min(gains) / 100)} to {points(max(gains) / 100)}"


def chunks_grid(study: Study) -> Grid:
    """Chunk statistics by language and chunker."""
    rows = {}
    for _, r in study.chunk_statistics.iterrows():
        limit = f"{r['limit']:,.0f} {'lines' if r['method'] == 'fixed-size' else 'characters'}"
        cut = f"{percent(r['functions_cut'] / r['functions'] if r['functions'] else None)}"
        mode = "" if r["mode"] == "as-published" else f" ({r['mode']})"
        counts = [f"{r[n]:,.0f}" for n in ("files", "chunks", "size_mean", "lines_p50")]
        losses = [f"{r[n]:,.0f}" for n in ("functions_cut_that_fit", "bytes_lost")]
        rows[f"{r['language']}: {r['method']}{mode}"] = [limit, *counts, percent(r["fill"]), cut, *losses]
    columns = [
        "limit",
        "files",
        "chunks",
        "mean size",
        "median lines",
        "fill %",
        "functions cut %",
        "cut that fit",
        "bytes lost",
    ]
    corpora = store.load_meta(study.results, "chunk_statistics.meta.json").get("corpora", {})
    notes = (
        "Sizes in characters that are no white space; fill: mean size over the limit. A function is cut when no chunk holds it.",
        "As published unless it says lossless. Sources: "
        + "; ".join(f"{k}: {v}" for k, v in corpora.items())
        + ".",
    )
    return _grid("Chunks by language", rows, columns, "language: method", *notes)


def provenance(study: Study) -> dict[str, object]:
    """What the stored runs were made from."""
    names = ("tasks", "retrieval", "chunk_statistics")
    return {"generator": study.made_with()} | {
        n: store.load_meta(study.results, f"{n}.meta.json") for n in names
    }
