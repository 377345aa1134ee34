"""Selection among the solutions of several methods by signals that need no hidden test."""

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from pkg_lib.analysis.stats import BASELINE, ORACLE
from pkg_lib.evaluation.reranking import (
    CandidateScore,
    choose,
    choose_as_printed,
)
from pkg_lib.evaluation.results import ideal
from pkg_lib.evaluation.signals import Signals

Candidates = Mapping[str, Signals]  # method -> test-free signals of its solution of one task
SignalsByMethod = Mapping[str, Mapping[str, Signals]]  # method -> task id -> test-free signals


def _by_visible_examples(candidates: Candidates) -> str:
    """Most visible examples passed. Ties go to the baseline, then to the earlier method."""
    return max(candidates, key=lambda m: (candidates[m].passed, m == BASELINE))


def _by_examples_then_agreement(candidates: Candidates) -> str:
    """Most visible examples passed. Ties go to the most common behaviour, then to the baseline."""
    agreeing = _agreeing(candidates)
    return max(candidates, key=lambda m: (candidates[m].passed, agreeing[m], m == BASELINE))


def _codet(candidates: Candidates) -> str:
    """CodeT (Chen et al., 2022): candidates of one behaviour times the examples that they pass."""
    agreeing = _agreeing(candidates)

    def score(method: str) -> tuple[int, bool]:
        signals = candidates[method]
        passed = signals.passed if signals.shown else 1
        return agreeing[method] * passed, method == BASELINE

    return max(candidates, key=score)


def _agreeing(candidates: Candidates) -> dict[str, int]:
    """Count the candidates that behave as each does; unknown behaviour agrees only with itself."""
    counts = Counter(signals.behaviour for signals in candidates.values())
    return {m: counts[s.behaviour] if s.behaviour else 1 for m, s in candidates.items()}


def _scores(candidates: Candidates) -> dict[str, CandidateScore]:
    """The signals that Equation 11 of the PKG paper uses."""
    scores = {}
    for method, s in candidates.items():
        scores[method] = CandidateScore(
            s.parses,
            s.runs,
            s.runs_as_written,
            s.cosine or 0.0,
            s.cosine_as_printed or 0.0,
        )
    return scores


BY_SIMILARITY: dict[str, Callable[[Candidates], str]] = {
    "Equation 11, as printed": lambda candidates: choose_as_printed(_scores(candidates)),
    "Equation 11, authors' code": lambda candidates: choose(_scores(candidates)),
}
BY_EXAMPLES: dict[str, Callable[[Candidates], str]] = {
    "Visible": _by_visible_examples,
    "Visible, then agreement": _by_examples_then_agreement,
    "CodeT": _codet,
}
SELECTIONS = BY_SIMILARITY | BY_EXAMPLES


def selected_methods(
    signals: SignalsByMethod,
    selection: str,
) -> dict[str, str]:
    """Select a method for each task.

    Args:
        signals: The candidates' test-free signals.
        selection: A name of SELECTIONS.

    Returns:
        Task id -> selected method, for the tasks with signals of every candidate.
    """
    select = SELECTIONS[selection]
    selected = {}
    for task in next(iter(signals.values())):
        candidates = {m: by_task[task] for m, by_task in signals.items() if task in by_task}
        if len(candidates) == len(signals):
            selected[task] = select(candidates)
    return selected


def selected_verdicts(
    signals: SignalsByMethod,
    verdicts: pd.DataFrame,
) -> pd.DataFrame:
    """Look up the verdicts of the selected solutions.

    Selections by similarity need embeddings; without them they are left out.

    Args:
        signals: The candidates' test-free signals.
        verdicts: Verdicts [task, method].

    Returns:
        Verdicts [task, selection] with the oracle over the candidates last; <NA> where a candidate
        was not measured.
    """
    frame = verdicts[list(signals)]
    measured = frame.dropna().to_dict("index")
    all_signals = [s for by_task in signals.values() for s in by_task.values()]
    embedded = all(s.cosine is not None for s in all_signals)
    columns = {}
    for name in SELECTIONS if embedded else BY_EXAMPLES:
        passed = {}
        for task, method in selected_methods(signals, name).items():
            if task in measured:
                passed[task] = measured[task][method]
        columns[name] = pd.Series(passed, dtype="boolean").reindex(frame.index)
    return pd.DataFrame(columns | {ORACLE: ideal(frame)})


# Retrieval is used if the baseline passes a smaller share of the visible examples than this.
# Without visible examples it is not used, since nothing could select between the two solutions.
GATES = (0.0, 0.5, 1.0)


def gate_retrieval(
    signals: SignalsByMethod,
    verdicts: pd.DataFrame,
    tokens: pd.DataFrame,
    gate: float,
) -> pd.DataFrame:
    """Use the other method only where the baseline fails visible examples.

    Where both have answered, the selection by visible examples takes one of the two solutions.

    Args:
        signals: Test-free signals of the baseline and of one other method.
        verdicts: Verdicts [task, method].
        tokens: Number of tokens [task, method].
        gate: Share of the visible examples below which the other method is used.

    Returns:
        One row per task that both methods measured: ``asked`` (the other method was used),
        ``taken`` (its solution was selected), ``passed`` and ``spent`` (tokens).
    """
    (other,) = set(signals) - {BASELINE}
    methods = [BASELINE, other]
    # Dictionaries, since a look-up in a frame costs a hundred times as much.
    verdicts_of = verdicts[methods].dropna().to_dict("index")
    tokens_of = tokens[methods].dropna().to_dict("index")
    rows = {}
    for task, selected in selected_methods(signals, "Visible").items():
        if task not in verdicts_of or task not in tokens_of:
            continue
        first = signals[BASELINE][task]
        asked = first.passed < gate * first.shown
        method = selected if asked else BASELINE
        spent = tokens_of[task][BASELINE]
        if asked:
            spent += tokens_of[task][other]
        rows[task] = (asked, method != BASELINE, bool(verdicts_of[task][method]), spent)
    columns = ["asked", "taken", "passed", "spent"]
    return pd.DataFrame.from_dict(rows, orient="index", columns=columns)


def cross_validated_gate(
    signals: SignalsByMethod,
    verdicts: pd.DataFrame,
    tokens: pd.DataFrame,
    folds: int = 5,
) -> pd.DataFrame:
    """Gate each fold of tasks by the value of GATES that is best on the other tasks.

    The best gate passes most tasks, and spends the fewest tokens among equals.

    Args:
        signals: Test-free signals of the baseline and of one other method.
        verdicts: Verdicts [task, method].
        tokens: Number of tokens [task, method].
        folds: Number of folds.

    Returns:
        The same columns as `gate_retrieval`.
    """
    gated = {gate: gate_retrieval(signals, verdicts, tokens, gate) for gate in GATES}
    tasks = gated[GATES[0]].index
    fold = pd.Series(np.random.default_rng(0).permutation(len(tasks)) % folds, tasks)
    parts = []
    for n in range(folds):
        training = {gate: frame[fold != n] for gate, frame in gated.items()}
        best = max(
            GATES, key=lambda gate: (training[gate]["passed"].sum(), -training[gate]["spent"].sum())
        )
        parts.append(gated[best][fold == n])
    return pd.concat(parts).reindex(tasks)
