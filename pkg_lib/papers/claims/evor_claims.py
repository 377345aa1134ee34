"""The claims of the EVOR paper: on its own tables, and on the runs here.

The claims are rows of reference/evor_claims.toml. CHECKS is the table of checks on the paper's own tables. A
check takes the arguments of a claim and returns one number for each model or method that the claim is about.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import pandas as pd

from pkg_lib.analysis import stats
from pkg_lib.analysis.cells import bracketed_difference
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH, reference_table
from pkg_lib.papers.claims import claims
from pkg_lib.papers.claims.claim_tests import Checks, recomputed
from pkg_lib.papers.claims.claims import Assessed, Claim, Evidence, discordant_share
from pkg_lib.papers.evor.evor_results import EvorResults

# The models of the paper by the names in its text.
MODELS = {
    "ChatGPT": "ChatGPT",
    "CodeLlama": "CodeLlama-34B-Instruct",
}
# Number of a table -> its file, and the columns with its rows, columns and cells.
LAYOUTS = {
    2: ("table2_main", ["model", "method"], "dataset", "pass_at_1_percent"),
    3: ("table3_evolution", ["model", "setting"], "dataset", "pass_at_1_percent"),
    4: ("table4_knowledge", ["model", "evolution"], "knowledge", "avg_pass_at_1_percent"),
    7: ("table7_tokens", ["model"], "method", "avg_tokens_per_example"),
}
BASELINES = (
    "Vanilla",
    "MPSC",
    "ExeDec",
    "Reflexion",
    "DocPrompting",
)
WITHOUT_DOCUMENTS = (
    "MPSC",
    "ExeDec",
    "Reflexion",
)
BOTH = "EVOR (Evolve both)"
ROUNDING = 0.05 + 1e-9  # half of the last printed digit
AVERAGE = "Avg."
NO_TARGET = float("nan")
Args = dict[str, Any]
Numbers = dict[str, float]  # what was read -> the number


@cache
def evor_table(number: int) -> pd.DataFrame:
    """Return a table of the paper.

    Args:
        number: A key of LAYOUTS.

    Returns:
        Its cells: pass@1 in percent, or in Table 7 the tokens of an example. The rows are models with
        a method, setting or evolution.
    """
    name, rows, columns, cells = LAYOUTS[number]
    frame = reference_table(f"evor_{name}", keep_default_na=False)
    return frame.pivot_table(cells, rows, columns, sort=False)


def averages(model: str) -> pd.Series:
    """Return the printed mean pass@1 of each method over the datasets (Table 2), in percent.

    Args:
        model: A key of MODELS.

    Returns:
        Mean by method.
    """
    column: Any = evor_table(2)[AVERAGE]
    means: pd.Series = column[MODELS[model]]
    return means


# Checks on Table 2


def gain(args: Args) -> Numbers:
    """Return the gain of a method over another in percentage points.

    Args:
        args: `model`, `method`, and the other method as `against`.

    Returns:
        The gain of the model.
    """
    model = args["model"]
    means = averages(model)
    difference = means[args["method"]] - means[args["against"]]
    return {model: round(difference, 1)}


def ratio_to_best(args: Args) -> Numbers:
    """Return the ratio of EVOR's accuracy to that of the best other method.

    Args:
        args: Not used.

    Returns:
        The ratio by model.
    """
    ratios = {}
    for model in MODELS:
        means = averages(model)
        best = means[list(BASELINES)].max()
        ratios[model] = means["EVOR"] / best
    return ratios


def gains_without_documents(args: Args) -> Numbers:
    """Return the gains over Vanilla of the methods without documentation, with CodeLlama.

    Args:
        args: Not used.

    Returns:
        The gain by method.
    """
    means = averages("CodeLlama")
    vanilla = means["Vanilla"]
    return {method: round(means[method] - vanilla, 1) for method in WITHOUT_DOCUMENTS}


def ring_without_documents(args: Args) -> Numbers:
    """Return pass@1 on Ring of the methods without documentation, with CodeLlama.

    Args:
        args: Not used.

    Returns:
        pass@1 in percent by method.
    """
    model = MODELS["CodeLlama"]
    ring = evor_table(2)["Ring"][model]
    return {method: ring[method] for method in WITHOUT_DOCUMENTS}


def wrong_averages(args: Args) -> Numbers:
    """Count the printed averages that are not the mean of their row.

    Args:
        args: Not used.

    Returns:
        The number of averages.
    """
    cells = evor_table(2)
    means = cells.drop(columns=AVERAGE).mean(axis=1)
    distance = (means - cells[AVERAGE]).abs()
    is_wrong = distance > ROUNDING
    return {"Table 2": int(is_wrong.sum())}


def no_whole_tasks(args: Args) -> Numbers:
    """Count the cells that are the share of no whole number of tasks.

    Args:
        args: Not used.

    Returns:
        The number of cells.
    """
    cells = evor_table(2).drop(columns=AVERAGE)
    problems = reference_table("evor_table1_datasets", index_col="dataset")["problems"]
    count = 0
    for dataset, number in problems.items():
        printed = cells[dataset]
        tasks = (printed * number / 100).round()
        nearest = tasks * 100 / number
        is_wrong = (printed - nearest).abs() > ROUNDING
        count += int(is_wrong.sum())
    return {f"Table 2, of {cells.size} cells": count}


# Checks on Tables 3, 4 and 7


def gain_of_both(args: Args) -> Numbers:
    """Return the smallest gain of evolving both over evolving one (Table 3).

    Args:
        args: Not used.

    Returns:
        The gain by model.
    """
    gains: Numbers = {}
    by_model = evor_table(3).groupby(level=0)
    for model, rows in by_model:
        by_setting = rows.droplevel(0).T
        others = by_setting.drop(columns=BOTH)
        best_other = others.max(axis=1)
        differences = by_setting[BOTH] - best_other
        gains[str(model)] = differences.min()
    return gains


def gain_of_evolution(args: Args) -> Numbers:
    """Return the gain of EVOR over no evolution with ChatGPT (Table 3).

    Args:
        args: Not used.

    Returns:
        The gain of the model.
    """
    means = evor_table(3)[AVERAGE]["ChatGPT"]
    differences = means.diff(3)
    return {"ChatGPT": round(differences.iloc[-1], 1)}


def knowledge_gain(args: Args) -> Numbers:
    """Return the gain of one kind of knowledge over another (Table 4).

    Args:
        args: `models`, `evolution` ("with" or "without"), the `knowledge`, and the knowledge that it
            is compared with as `against`; by default none.

    Returns:
        The gain by model.
    """
    cells = evor_table(4)
    evolution = args["evolution"]
    against = args.get("against", "NoRAG")
    gains = {}
    for model in args["models"]:
        name = MODELS[model]
        row = cells.T[name, evolution].dropna()
        before = row.get(against, cells[against][name, "without"])
        gains[f"{model}, {evolution}"] = round(row[args["knowledge"]] - before, 1)
    return gains


def gain_of_several_kinds(args: Args) -> Numbers:
    """Return the smallest gain of several kinds of knowledge over one of them (Table 4).

    Args:
        args: Not used.

    Returns:
        The gain by model and evolution.
    """
    gains = {}
    for key, row in evor_table(4).iterrows():
        model, evolution = cast("tuple[str, str]", key)
        differences = []
        for kinds in row.dropna().index:
            parts = kinds.split(" + ")
            if len(parts) > 1:
                differences += [round(row[kinds] - row[part], 1) for part in parts]
        gains[f"{model}, {evolution}"] = min(differences)
    return gains


def token_ratio(args: Args) -> Numbers:
    """Return the ratio of the tokens of two methods (Table 7).

    Args:
        args: `method`, the other method as `against`, and what is subtracted as `less`: 1 for the
            additional share.

    Returns:
        The ratio by model.
    """
    cells = evor_table(7)
    less = args.get("less", 0)
    ratios: Numbers = {}
    for model, name in MODELS.items():
        tokens = cells.loc[name]
        ratios[model] = tokens[args["method"]] / tokens[args["against"]] - less
    return ratios


CHECKS: Checks = {
    check.__name__: check
    for check in (
        gain,
        ratio_to_best,
        gains_without_documents,
        ring_without_documents,
        wrong_averages,
        no_whole_tasks,
        gain_of_both,
        gain_of_evolution,
        knowledge_gain,
        gain_of_several_kinds,
        token_ratio,
    )
}


# Claims and their evidence


def load_evor_claims() -> list[Claim]:
    """Load the claims.

    Returns:
        The rows of evor_claims.toml, in order.
    """
    return claims.load("evor_claims.toml", topic="EVOR", version="both", needs="")


def measured_evidence(claim: Claim, evor: EvorResults) -> Iterator[Evidence]:
    """Yield a paired difference on each benchmark on which both methods of a claim are measured.

    Args:
        claim: A claim with two methods.
        evor: The results.

    Yields:
        One measurement per benchmark.
    """
    method, baseline = claim.methods
    for benchmark in evor.benchmarks:
        verdicts = benchmark.last_verdicts(method)
        difference = stats.paired_score(verdicts, benchmark.last_verdicts(baseline))
        if difference is None:
            continue
        yield Evidence(
            subject=evor.model,
            where=benchmark.title,
            n=difference.n,
            effect=difference.value,
            low=difference.low,
            high=difference.high,
            p=difference.p,
            family=benchmark.name,
            pair=f"{method} and {baseline}",
            discordant=discordant_share(difference),
            target=claim.args.get("target", NO_TARGET),
        )


def assessed_claims(evor: EvorResults) -> list[Assessed]:
    """Judge every claim by the rule of the claim ledger.

    Args:
        evor: The results.

    Returns:
        The claims in the order of their file, with their evidence and verdicts.
    """
    measured = []
    for claim in load_evor_claims():
        if claim.test in CHECKS:
            claimed = Evidence(unit="", target=claim.args["target"])
            readings = CHECKS[claim.test](claim.args)
            evidence = recomputed(claimed, readings)
        else:
            evidence = measured_evidence(claim, evor)
        measured.append((claim, list(evidence)))
    return claims.judge(measured)


# Verdict on a claim that is computed from the paper's own tables -> how it is printed.
ARITHMETIC = {
    claims.HOLDS: "agrees with the paper's tables",
    claims.FAILS: "disagrees with the paper's tables",
}


def evor_claims_table(evor: EvorResults) -> ResultTable:
    """Tabulate the paper's claims with their verdicts.

    Args:
        evor: The results.

    Returns:
        The table, one row per claim.
    """
    rows = {}
    for assessed in assessed_claims(evor):
        claim = assessed.claim
        texts = map(_evidence_text, assessed.evidence)
        evidence = "; ".join(texts)
        verdict = assessed.verdict
        if claim.test in CHECKS:
            verdict = ARITHMETIC.get(verdict, verdict)
        rows[claim.id] = [claim.says, claim.place, verdict, evidence or DASH]
    names = ["the paper says", "where", "verdict", "computed or measured"]
    note = (
        "A claim that agrees or disagrees with the paper's tables was computed from the numbers printed "
        "there. All other claims were measured with the model of this study."
    )
    return ResultTable.of("Claims of the EVOR paper", rows, names, "claim", note)


def _evidence_text(evidence: Evidence) -> str:
    if evidence.exact:
        return f"{evidence.where} {evidence.effect:.4g}"
    change = bracketed_difference(evidence.effect, evidence.low, evidence.high)
    return f"{evidence.where} {change}, {evidence.verdict}"
