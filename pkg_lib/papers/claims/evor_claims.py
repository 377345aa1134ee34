"""The claims of the EVOR paper (reference/evor_claims.toml): on its own tables, and on the runs here."""

import tomllib
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, cast

import pandas as pd

from pkg_lib.analysis import stats
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import DASH, HERE, interval, points
from pkg_lib.papers.claims.claims import Assessed, Claim, Evidence, judge
from pkg_lib.papers.evor.evor_results import EvorResults

# The models of the paper by the names in its text.
MODELS = {"ChatGPT": "ChatGPT", "CodeLlama": "CodeLlama-34B-Instruct"}
BASELINES = ("Vanilla", "MPSC", "ExeDec", "Reflexion", "DocPrompting")
WITHOUT_DOCUMENTS = ("MPSC", "ExeDec", "Reflexion")
BOTH = "EVOR (Evolve both)"
ROUNDING = 0.05 + 1e-9  # half of the last printed digit
AVERAGE = "Avg."
Numbers = dict[str, float]  # what was read -> the number
NO_TARGET = float("nan")


def _reference(name: str) -> pd.DataFrame:
    """A published table, one row per number."""
    return pd.read_csv(HERE / "reference" / f"evor_{name}.csv", keep_default_na=False)


@cache
def table_2() -> pd.DataFrame:
    """Return Table 2: pass@1 in percent [model and method, dataset]."""
    index = ["model", "method"]
    frame = _reference("table2_main")
    return frame.pivot_table("pass_at_1_percent", index, "dataset", sort=False)


@cache
def table_3() -> pd.DataFrame:
    """Return Table 3: pass@1 in percent [model and setting, dataset]."""
    index = ["model", "setting"]
    frame = _reference("table3_evolution")
    return frame.pivot_table("pass_at_1_percent", index, "dataset", sort=False)


@cache
def table_4() -> pd.DataFrame:
    """Return Table 4: mean pass@1 in percent [model and evolution, knowledge]."""
    index = ["model", "evolution"]
    frame = _reference("table4_knowledge")
    return frame.pivot_table("avg_pass_at_1_percent", index, "knowledge", sort=False)


@cache
def table_7() -> pd.DataFrame:
    """Return Table 7: tokens of an example [model, method]."""
    frame = _reference("table7_tokens")
    return frame.pivot_table("avg_tokens_per_example", "model", "method", sort=False)


# Readings of Table 2


def average(model: str, method: str) -> float:
    """Return the mean pass@1 of a method over the datasets, in percent.

    Args:
        model: A key of MODELS.
        method: A method of Table 2.
    """
    return float(table_2()[AVERAGE][MODELS[model], method])


def gain(model: str, method: str, baseline: str) -> Numbers:
    """Return the gain of a method over another in percentage points.

    Args:
        model: A key of MODELS.
        method: A method of Table 2.
        baseline: The other method.
    """
    return {model: round(average(model, method) - average(model, baseline), 1)}


def ratio_to_best() -> Numbers:
    """Return the ratio of EVOR's accuracy to that of the best other method, by model."""
    ratios = {}
    for model in MODELS:
        best = max(average(model, method) for method in BASELINES)
        ratios[model] = average(model, "EVOR") / best
    return ratios


def gains_without_documents() -> Numbers:
    """Return the gains over Vanilla of the methods without documentation, with CodeLlama."""
    averages = table_2()[AVERAGE][MODELS["CodeLlama"]]
    vanilla = averages["Vanilla"]
    return {method: round(averages[method] - vanilla, 1) for method in WITHOUT_DOCUMENTS}


def ring_without_documents() -> Numbers:
    """Return pass@1 on Ring of the methods without documentation, with CodeLlama."""
    ring = table_2()["Ring"][MODELS["CodeLlama"]]
    return {method: ring[method] for method in WITHOUT_DOCUMENTS}


def wrong_averages() -> Numbers:
    """Return the number of printed averages of Table 2 that are not the mean of their row."""
    means = table_2().drop(columns=AVERAGE).mean(axis=1)
    is_wrong = (means - table_2()[AVERAGE]).abs() > ROUNDING
    return {"Table 2": int(is_wrong.sum())}


def no_whole_tasks() -> Numbers:
    """Return the number of cells of Table 2 that are the share of no whole number of tasks."""
    cells = table_2().drop(columns=AVERAGE)
    problems = _reference("table1_datasets").set_index("dataset")["problems"]
    count = 0
    for dataset, number in problems.items():
        nearest = (cells[dataset] * number / 100).round() * 100 / number
        count += int(((cells[dataset] - nearest).abs() > ROUNDING).sum())
    return {f"Table 2, of {cells.size} cells": count}


# Readings of Tables 3, 4 and 7


def gain_of_both() -> Numbers:
    """Return the smallest gain of evolving both over evolving one, by model (Table 3)."""
    gains: Numbers = {}
    for model, rows in table_3().groupby(level=0):
        by_setting = rows.droplevel(0).T
        best_other = by_setting.drop(columns=BOTH).max(axis=1)
        gains[str(model)] = (by_setting[BOTH] - best_other).min()
    return gains


def gain_of_query_over_none() -> Numbers:
    """Return the gain of EVOR over no evolution with ChatGPT (Table 3)."""
    averages = table_3()[AVERAGE]["ChatGPT"]
    return {"ChatGPT": round(averages.diff(3).iloc[-1], 1)}


def knowledge_gain(model: str, evolution: str, kind: str, less: str = "NoRAG") -> Numbers:
    """Return the gain of one kind of knowledge over another (Table 4).

    Args:
        model: A key of MODELS.
        evolution: "with" or "without" evolution.
        kind: The knowledge, such as "Code + Doc".
        less: The knowledge that it is compared with.
    """
    row = table_4().T[MODELS[model], evolution]
    before = row.dropna().get(less)
    if before is None:
        before = table_4()[less][MODELS[model], "without"]
    return {f"{model}, {evolution}": round(row[kind] - before, 1)}


def web_gain() -> Numbers:
    """Return the gain of web pages alone, by model (Table 4)."""
    by_model: Numbers = {}
    for model in MODELS:
        by_model |= knowledge_gain(model, "without", "Web")
    return by_model


def gain_of_several_kinds() -> Numbers:
    """Return the smallest gain of several kinds of knowledge over one of them (Table 4)."""
    gains = {}
    for key, row in table_4().iterrows():
        model, evolution = cast("tuple[str, str]", key)
        differences = []
        for kinds in row.dropna().index:
            parts = kinds.split(" + ")
            if len(parts) > 1:
                differences += [round(row[kinds] - row[part], 1) for part in parts]
        gains[f"{model}, {evolution}"] = min(differences)
    return gains


def token_ratio(method: str, baseline: str, less: float = 0) -> Numbers:
    """Return the ratio of the tokens of two methods, by model (Table 7).

    Args:
        method: A method of Table 7.
        baseline: The other method.
        less: What is subtracted; 1 for the additional share.
    """
    ratios: Numbers = {}
    for model, full_name in MODELS.items():
        tokens = table_7().T[full_name]
        ratios[model] = tokens[method] / tokens[baseline] - less
    return ratios


ALL_KINDS, NO_DOCUMENTS = "Exec + Code + Doc", "Exec + Code"
# Id of a claim -> the numbers of the paper's tables that it is about.
READINGS: dict[str, Callable[[], Numbers]] = {
    "gain-intro": partial(gain, "CodeLlama", "EVOR", "DocPrompting"),
    "gain-chatgpt": partial(gain, "ChatGPT", "EVOR", "DocPrompting"),
    "gain-codellama": partial(gain, "CodeLlama", "EVOR", "DocPrompting"),
    "times": ratio_to_best,
    "baselines-small": gains_without_documents,
    "ring-zero": ring_without_documents,
    "combined": partial(gain, "ChatGPT", "EVOR + Reflexion", "EVOR"),
    "both-best": gain_of_both,
    "web-small": web_gain,
    "code-doc": partial(knowledge_gain, "ChatGPT", "without", "Code + Doc", "Code"),
    "doc-static": partial(knowledge_gain, "CodeLlama", "without", ALL_KINDS, NO_DOCUMENTS),
    "doc-evolving": partial(knowledge_gain, "CodeLlama", "with", ALL_KINDS, NO_DOCUMENTS),
    "more-kinds": gain_of_several_kinds,
    "single-time": partial(knowledge_gain, "ChatGPT", "without", ALL_KINDS, "Doc"),
    "single-time-codellama": partial(knowledge_gain, "CodeLlama", "without", ALL_KINDS, "Doc"),
    "active": gain_of_query_over_none,
    "tokens-soup": partial(token_ratio, "RK", "DocPrompting", 1),
    "tokens-evolution": partial(token_ratio, "EVOR", "RK"),
    "averages": wrong_averages,
    "whole-tasks": no_whole_tasks,
}


# Claims and their evidence


def printed_evidence(row: dict[str, Any]) -> Iterator[Evidence]:
    """Yield the evidence of the paper's own tables, which is exact.

    Args:
        row: A claim of evor_claims.toml.
    """
    for where, effect in READINGS[row["id"]]().items():
        yield Evidence(
            subject="the paper's tables",
            where=where,
            n=1,
            effect=float(effect),
            unit="",
            exact=True,
            target=row["target"],
        )


def measured_evidence(row: dict[str, Any], evor: EvorResults) -> Iterator[Evidence]:
    """Yield a paired difference on each benchmark on which both methods of a claim are measured.

    Args:
        row: A claim of evor_claims.toml with the methods ``better``.
        evor: The results.
    """
    method, baseline = row["better"]
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
            discordant=(difference.helped + difference.hurt) / difference.n,
            target=row.get("target", NO_TARGET),
        )


def assessed_claims(evor: EvorResults) -> list[Assessed]:
    """Judge every claim by the rule of the claim ledger.

    Args:
        evor: The results.

    Returns:
        The claims in the order of their file, with their evidence and verdicts.
    """
    text = (HERE / "reference" / "evor_claims.toml").read_text("utf8")
    measured = []
    for row in tomllib.loads(text)["claim"]:
        is_paired = "better" in row
        claim = Claim(
            id=row["id"],
            topic="EVOR",
            version="both",
            place=row["place"],
            says=row["says"],
            test="paired" if is_paired else "printed",
            needs="",
            args={"relation": row["relation"], "all": True},
        )
        evidence = measured_evidence(row, evor) if is_paired else printed_evidence(row)
        measured.append((claim, list(evidence)))
    return judge(measured)


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
        evidence = "; ".join(_evidence_text(e) for e in assessed.evidence)
        rows[claim.id] = [claim.says, claim.place, assessed.verdict, evidence or DASH]
    names = ["the paper says", "where", "verdict", "measured"]
    return ResultTable.of("Claims of the paper", rows, names, "claim")


def _evidence_text(evidence: Evidence) -> str:
    if evidence.exact:
        return f"{evidence.where} {evidence.effect:.4g}"
    bounds = interval(evidence.low, evidence.high)
    return f"{evidence.where} {points(evidence.effect)} {bounds}, {evidence.verdict}"
