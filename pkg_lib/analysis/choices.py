"""Choices among the solutions of several columns. A choice sees what is known without any hidden test."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import pandas as pd

from pkg_lib.analysis.stats import BASELINE, ORACLE
from pkg_lib.evaluation.reranking import CandidateScore, choose, choose_as_printed
from pkg_lib.evaluation.results import ideal
from pkg_lib.evaluation.signals import Signals

Candidates = Mapping[str, Signals]  # column -> what is known of its solution of one task
Evidence = Mapping[str, Mapping[str, Signals]]  # column -> task id -> the same


def visible(of: Candidates) -> str:
    """Most of the prompt's examples passed; ties to None, then to the earlier column."""
    return max(of, key=lambda c: (of[c].passed, c == BASELINE))


def visible_then_agreement(of: Candidates) -> str:
    """As `visible`; ties to what most candidates do on generated inputs, then to None."""
    return max(of, key=lambda c: (of[c].passed, _agreeing(of)[c], c == BASELINE))


def codet(of: Candidates) -> str:
    """CodeT (Chen et al., 2022): candidates of one behaviour x examples passed; ties as in `visible`."""
    agreeing = _agreeing(of)
    return max(of, key=lambda c: (agreeing[c] * (of[c].passed or not of[c].shown), c == BASELINE))


def _agreeing(of: Candidates) -> dict[str, int]:
    """How many candidates behave as each does; what could not be seen agrees with itself alone."""
    counts = Counter(e.behaviour for e in of.values())
    return {c: counts[e.behaviour] if e.behaviour else 1 for c, e in of.items()}


def _scores(of: Candidates) -> dict[str, CandidateScore]:
    return {
        c: CandidateScore(e.parses, e.runs, e.cosine or 0.0, e.cosine_as_printed or 0.0)
        for c, e in of.items()
    }


def reranked(of: Candidates) -> str:
    """Equation 11 by the authors' code."""
    return choose(_scores(of))


def reranked_as_printed(of: Candidates) -> str:
    """Equation 11 by the rule of Section 3.3."""
    return choose_as_printed(_scores(of))


BY_LIKENESS = {
    "Equation 11, as printed": reranked_as_printed,
    "Equation 11, authors' code": reranked,
}
BY_EXAMPLES = {
    "Visible": visible,
    "Visible, then agreement": visible_then_agreement,
    "CodeT": codet,
}
CHOICES = BY_LIKENESS | BY_EXAMPLES


def chosen(evidence: Evidence, choice: str) -> pd.Series:
    """The column that a choice takes for each task, of those tasks of which every column has evidence."""
    tasks = [i for i in next(iter(evidence.values())) if all(i in of for of in evidence.values())]
    columns = {i: CHOICES[choice]({c: of[i] for c, of in evidence.items()}) for i in tasks}
    return pd.Series(columns, dtype=object)


def chosen_verdicts(evidence: Evidence, verdicts: pd.DataFrame) -> pd.DataFrame:
    """Boolean [task, choice], the candidates' Ideal last; <NA> where a candidate is not measured."""
    frame = verdicts[list(evidence)]
    encoded = all(e.cosine is not None for of in evidence.values() for e in of.values())
    known, chosen_by = frame.dropna(), {}
    for name in CHOICES if encoded else BY_EXAMPLES:
        values = {i: known.at[i, c] for i, c in chosen(evidence, name).items() if i in known.index}
        chosen_by[name] = pd.Series(values, dtype="boolean").reindex(frame.index)
    return pd.DataFrame(chosen_by | {ORACLE: ideal(frame)})


# A gate asks where None passes a smaller share than this of its examples; where none is shown nothing could
# choose between the answers, so it does not ask.
GATES = (0.0, 0.5, 1.0)


def gated(
    evidence: Evidence, verdicts: pd.DataFrame, tokens: pd.DataFrame, gate: float
) -> pd.DataFrame:
    """[task; asked, taken, passed, spent]: None always answers; the other column only where the gate asks.

    `evidence` is of None and one other; `visible` takes one of both where both have answered. `spent` counts
    `tokens` [task, column]. Tasks of which a column is not measured are left out.
    """
    (other,) = set(evidence) - {BASELINE}
    measured = {*verdicts[[BASELINE, other]].dropna().index} & {
        *tokens[[BASELINE, other]].dropna().index
    }
    rows = {}
    for i, column in chosen(evidence, "Visible").items():
        if i in measured:
            asked = evidence[BASELINE][i].passed < gate * evidence[BASELINE][i].shown
            taken = column if asked else BASELINE
            spent = tokens.at[i, BASELINE] + (tokens.at[i, other] if asked else 0)
            rows[i] = (asked, taken != BASELINE, bool(verdicts.at[i, taken]), spent)
    return pd.DataFrame.from_dict(
        rows, orient="index", columns=["asked", "taken", "passed", "spent"]
    )


def gated_by_folds(
    evidence: Evidence, verdicts: pd.DataFrame, tokens: pd.DataFrame, folds: int = 5
) -> pd.DataFrame:
    """As `gated`, each fold of tasks by the gate that passes most of the other tasks, and spends least."""
    of = {gate: gated(evidence, verdicts, tokens, gate) for gate in GATES}
    tasks = of[GATES[0]].index
    fold = pd.Series(np.random.default_rng(0).permutation(len(tasks)) % folds, tasks)
    parts = []
    for n in range(folds):
        others = {gate: frame[fold != n] for gate, frame in of.items()}
        best = max(GATES, key=lambda g: (others[g]["passed"].sum(), -others[g]["spent"].sum()))
        parts.append(of[best][fold == n])
    return pd.concat(parts).reindex(tasks)
