"""What cast.ipynb found, in sentences computed from the stored runs."""

from __future__ import annotations

from pkg_lib.analysis.stats import Difference, compare, helped_and_hurt, mcnemar, paired_bootstrap, pass_at_1
from pkg_lib.analysis.tables import interval, percent, points, probability
from pkg_lib.papers.cast.cast_columns import COLUMNS
from pkg_lib.papers.cast.cast_study import Study, mean_difference, reference
from pkg_lib.papers.cast.cast_tables import MATCHES, METRICS, RANKERS, THEIRS, column_name
from pkg_lib.papers.cast.retrieving import BASELINE, OWN, mappings


def findings(study: Study) -> list[str]:
    """In the order of the notebook."""
    said = [
        *retrieval(study),
        *mapping(study),
        *merging(study),
        *sizes(study),
        *generation(study),
        *matches(study),
        *leak(study),
        *same_prompts(study),
    ]
    return [*said, *statistics(study)]


def beyond(found: Difference) -> bool:
    """Whether the interval leaves out 0."""
    return found.low > 0 or found.high < 0


def _direction(found: Difference) -> str:
    if not beyond(found):
        return "no difference beyond chance"
    return "higher" if found.value > 0 else "lower"


def _said(found: Difference) -> str:
    return f"{points(found.value)} points ({interval(found.low, found.high)}): {_direction(found)}"


def retrieval(study: Study) -> list[str]:
    """cAST against fixed-size, each retriever and measure at 5."""
    lines = []
    for ranker in RANKERS:
        parts = []
        for label, metric in METRICS.items():
            name = metric.format(5)
            found = mean_difference(
                study.measure(ranker, "cast", name), study.measure(ranker, "fixed-size", name)
            )
            parts += [f"{label}@5 {_said(found)}"] if found else []
        if parts:
            lines.append(f"Retrieval with {ranker}, cAST less fixed-size: {'; '.join(parts)}.")
    return lines


def mapping(study: Study) -> list[str]:
    """Whether cAST against fixed-size depends on how its ranking is measured."""
    lines = []
    for ranker in RANKERS:
        baseline, parts = study.measure(ranker, BASELINE, "nDCG@5"), []
        for how in mappings("cast"):
            found = mean_difference(study.measure(ranker, "cast", "nDCG@5", how), baseline)
            label = "on its own chunks" if how == OWN else f"mapped by the {how}"
            parts += [f"{label} {_said(found)}"] if found else []
        if parts:
            lines.append(f"With {ranker}, cAST's nDCG@5 less that of fixed-size: {'; '.join(parts)}.")
    return lines


def merging(study: Study) -> list[str]:
    """Split-only against cAST."""
    parts = []
    for ranker in RANKERS:
        found = mean_difference(
            study.measure(ranker, "split-only", "nDCG@5"), study.measure(ranker, "cast", "nDCG@5")
        )
        parts += [f"{ranker} {_said(found)}"] if found else []
    rows = reference("table2_split_only").set_index(["metric", "variant"]).loc["nDCG"].astype(float)
    losses = (rows.loc["split-only"] - rows.loc["split-then-merge"]) / 100
    theirs = f"published {points(losses.min())} to {points(losses.max())} with {', '.join(losses.index)}"
    return [f"Without merging (split-only less cAST, nDCG@5): {'; '.join(parts)}; {theirs}."] if parts else []


def sizes(study: Study) -> list[str]:
    """The best of the chunk sizes by nDCG@5, and whether it is beyond chance better than 2,000."""
    rows = study.retrieval
    own = sorted({c for c in rows["chunking"] if c == "cast" or c.startswith("cast ")})
    lines = []
    for ranker in RANKERS:
        means = {
            c: study.measure(ranker, c, "nDCG@5").mean()
            for c in own
            if len(study.measure(ranker, c, "nDCG@5"))
        }
        if len(means) < 2:
            continue
        best = max(means, key=lambda c: means[c])
        if best == "cast":
            lines.append(
                f"Chunk size with {ranker}: 2,000 has the highest nDCG@5 of those measured ({percent(means[best])})."
            )
            continue
        found = mean_difference(
            study.measure(ranker, best, "nDCG@5"), study.measure(ranker, "cast", "nDCG@5")
        )
        size = f"{int(best.split()[1]):,}"
        lines.append(
            f"Chunk size with {ranker}: {size} has the highest nDCG@5 ({percent(means[best])}), to 2,000 {_said(found)}."
        )
    return lines


def generation(study: Study) -> list[str]:
    """Pass@1 without context, with each context, and cAST against fixed-size."""
    frame = study.verdicts
    if "None" not in frame or not pass_at_1(frame["None"]).measured:
        return ["Pass@1: not measured."]
    rate = pass_at_1(frame["None"])
    lines = [
        f"{study.model} passes {rate.passed} of {rate.measured} tasks ({percent(rate.value)} %) without retrieved context."
    ]
    found = compare(frame)
    masked = [n for n in frame if n != "None" and COLUMNS[n].masked and found.loc[n, "n"]]
    rows = [(n, found.loc[n]) for n in masked]
    parts = [
        f"{n} {points(r['difference'])} (n={r['n']:.0f}, Holm p {probability(r['p_holm'])})" for n, r in rows
    ]
    lines += [f"Against None, in points: {'; '.join(parts)}."] if parts else []
    for ranker in RANKERS:
        a, b = (study.column(column_name(c, ranker)) for c in THEIRS)
        difference = paired_bootstrap(a, b)
        if difference:
            p = mcnemar(*map(len, helped_and_hurt(a, b)))
            text = f"{points(difference.value)} points ({interval(difference.low, difference.high)}), p {probability(p)}"
            lines.append(f"Pass@1 with {ranker}, cAST less fixed-size: {text}, n={difference.n}.")
    return lines


def matches(study: Study) -> list[str]:
    """How far the bodies are the reference's: each context against None, and cAST against fixed-size."""
    lines = []
    for label, measure in MATCHES.items():
        baseline, parts = study.matches("None", measure), []
        for name in (n for n in study.verdicts if n != "None" and COLUMNS[n].masked):
            found = mean_difference(study.matches(name, measure), baseline)
            parts += [f"{name} {_said(found)}, n={found.n}"] if found else []
        lines += [f"{label} of the bodies, to None: {'; '.join(parts)}."] if parts else []
        parts = []
        for ranker in RANKERS:
            a, b = (study.matches(column_name(c, ranker), measure) for c in THEIRS)
            found = mean_difference(a, b)
            parts += [f"{ranker} {_said(found)}, n={found.n}"] if found else []
        lines += [f"{label}, cAST less fixed-size: {'; '.join(parts)}."] if parts else []
    return lines


def leak(study: Study) -> list[str]:
    """What it changes that the corpus holds the function's own body."""
    lines = []
    for name in (n for n, c in COLUMNS.items() if not c.masked and n in study.verdicts):
        twin = column_name(COLUMNS[name].chunking, COLUMNS[name].ranker)
        found = paired_bootstrap(study.column(name), study.column(twin))
        holding = sum(bool(r["holds_body"]) for r in study.contexts.get(name, ()))
        if found:
            bounds = interval(found.low, found.high)
            lines.append(
                f"{name}: the prompt held lines of the very body in {holding} of {len(study.contexts[name])} tasks; Pass@1 "
                f"{points(found.value)} points ({bounds}) against the masked corpus."
            )
    return lines


def same_prompts(study: Study) -> list[str]:
    """How often both chunkings fill the context with the same chunks: small files are one chunk in either."""
    lines = []
    for ranker in RANKERS:
        a, b = (study.contexts.get(column_name(c, ranker)) for c in THEIRS)
        if a and b:
            theirs = {r["task_id"]: r["prompt_sha256"] for r in b}
            same = sum(theirs.get(r["task_id"]) == r["prompt_sha256"] for r in a)
            lines.append(f"With {ranker} both chunkings give the same prompt in {same} of {len(a)} tasks.")
    return lines


def statistics(study: Study) -> list[str]:
    """Functions cut by fixed-size and by cAST chunks."""
    own = study.chunk_statistics[study.chunk_statistics["mode"] == "as-published"]
    rows = own.set_index(["language", "method"])
    parts = []
    for language in dict.fromkeys(own["language"]):
        shares = [
            rows.loc[(language, m), "functions_cut"] / rows.loc[(language, m), "functions"] for m in THEIRS
        ]
        parts.append(f"{language} {percent(shares[0])} % (fixed-size {percent(shares[1])} %)")
    return [f"Functions that cAST cuts: {'; '.join(parts)}."] if parts else []
