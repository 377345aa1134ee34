"""Retrieval or another sample? Selection among equally many candidates of each family."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from pkg_lib.analysis import figures, tables
from pkg_lib.analysis.cells import bracketed_rate, difference_cell, rate_cell
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.selection import (
    SignalsByMethod,
    cross_validated_gate,
    selected_verdicts,
)
from pkg_lib.analysis.stats import (
    ALPHA,
    BASELINE,
    ORACLE,
    Difference,
    mean_pass_at_k,
    paired_score,
)
from pkg_lib.analysis.tables import DASH, percent
from pkg_lib.core.types import Generation
from pkg_lib.data.corpora import corpus_in_words
from pkg_lib.evaluation.results import LEAST, Results
from pkg_lib.evaluation.signals import held_out_verdicts, stored_signals
from pkg_lib.papers.pkg.cost import token_counts
from pkg_lib.papers.pkg.labels import models_in_words, selection_label
from pkg_lib.papers.pkg.validity_tables import Experiments
from pkg_lib.retrieval.methods import RERANKED

FAMILY_SIZE = 5  # candidates of a family, with the greedy answer without retrieval
RETRIEVAL, SAMPLES, BOTH = "retrieval", "samples", "both"
HELD_OUT_NOTE = (
    "On MBPP, a task counts as solved if it passes the tests that its prompt does not show. Other "
    "pages count all tests, so their rates differ."
)
VISIBLE = "Visible"  # selection by visible examples
BEST, ALONE = "best other candidate", "alone"
SAMPLE_KS = (1, 2, 5)
# Family -> look and line of its curve.
FAMILY_LOOKS = {
    SAMPLES: (figures.RateLook("plain samples", figures.COLOURS[0]), "-"),
    RETRIEVAL: (figures.RateLook(RETRIEVAL, figures.COLOURS[1], "s", filled=False), "--"),
}
# Benchmark -> what its prompts show of MBPP's tests.
SHOWN_OF_MBPP = {
    "mbpp": "the first test",
    "mbpp-all-asserts": "all tests",
    "mbpp-signature": "the signature",
}


def candidate_families(methods: Sequence[str]) -> dict[str, list[str]]:
    """Choose equally many candidates for each family.

    A family is a set of candidates from one source: retrieval, samples, or both.

    Args:
        methods: The baseline, the methods that retrieve, and samples of the baseline. If there are more
            methods that retrieve than are needed, the first ones are left out.

    Returns:
        Family -> its candidates, at most FAMILY_SIZE, the baseline first. "both" has half of each. A
        family without a candidate is left out.
    """
    others = [method for method in methods if method != BASELINE]
    samples = [method for method in others if method.startswith(BASELINE)]
    retrieving = [method for method in others if not method.startswith(BASELINE)]
    available = [len(family) for family in (samples, retrieving) if family]
    count = min([FAMILY_SIZE - 1, *available])
    families = {
        RETRIEVAL: retrieving[-count:],
        SAMPLES: samples[:count],
    }
    half = count // 2
    if samples and retrieving and count > 1:
        families[BOTH] = [*retrieving[half - count :], *samples[:half]]
    return {name: [BASELINE, *family] for name, family in families.items() if family}


@dataclass(frozen=True)
class CandidateSet:
    """The candidates of one experiment.

    Attributes:
        results: The experiment.
        signals: Method -> task id -> test-free signals.
        verdicts: Verdicts [task, method] by tests that no prompt shows.
        families: Family -> its candidates.
    """

    results: Results
    signals: SignalsByMethod
    verdicts: pd.DataFrame
    families: Mapping[str, list[str]]

    def select(
        self,
        methods: Sequence[str],
        verdicts: pd.DataFrame,
    ) -> pd.DataFrame:
        """Select among candidates by test-free signals.

        Args:
            methods: The candidates.
            verdicts: Verdicts [task, method] by which the selected solutions count.

        Returns:
            Verdicts [task, selection] on the tasks of `verdicts`.
        """
        signals = {}
        for method in methods:
            method_signals = self.signals[method]
            signals[method] = {task: method_signals[task] for task in verdicts.index}
        return selected_verdicts(signals, verdicts[list(methods)])

    def select_in_family(self, family: str) -> pd.DataFrame:
        """Select among the candidates of a family.

        Args:
            family: Name of the family.

        Returns:
            Verdicts [task, selection] on the tasks that every candidate of the experiment
            measured; further BEST, the best method in hindsight, and ALONE, the baseline.
        """
        methods = self.families[family]
        verdicts = self.verdicts.dropna()[methods]
        best = verdicts.drop(columns=BASELINE).mean().idxmax()
        selected = self.select(methods, verdicts)
        return selected.assign(**{BEST: verdicts[best], ALONE: verdicts[BASELINE]})


Candidates = Mapping[str, CandidateSet]  # experiment -> its candidates
Selections = Mapping[tuple[str, str], pd.DataFrame]  # (experiment, family) -> selected verdicts


def read_candidates(
    experiments: Experiments,
    temperature: float,
) -> dict[str, CandidateSet]:
    """Read the signals and verdicts of the methods that were measured on most tasks.

    Args:
        experiments: The experiments.
        temperature: Temperature of the samples of the baseline.

    Returns:
        Experiment -> its candidates.
    """
    candidates = {}
    for label, results in experiments.items():
        retrieving = [method for method in results.retrievers if method != BASELINE]
        samples = results.sample_names(BASELINE, temperature)
        methods = [BASELINE, *retrieving, *samples]
        signals = stored_signals(results, methods)
        verdicts = held_out_verdicts(results, methods)
        enough = verdicts.notna().mean() >= LEAST
        measured = [method for method in methods if signals[method] and enough[method]]
        candidates[label] = CandidateSet(
            results,
            {method: signals[method] for method in measured},
            verdicts[measured],
            candidate_families(measured),
        )
    return candidates


def family_selections(candidates: Candidates) -> dict[tuple[str, str], pd.DataFrame]:
    """Select in every family of every experiment.

    Args:
        candidates: The candidates of the experiments.

    Returns:
        (Experiment, family) -> frame of `CandidateSet.select_in_family`.
    """
    selections = {}
    for label, experiment_candidates in candidates.items():
        for family in experiment_candidates.families:
            selections[label, family] = experiment_candidates.select_in_family(family)
    return selections


def selections_table(
    candidates: Candidates,
    selections: Selections,
) -> ResultTable:
    """Tabulate pass@1 of each selection in each family.

    Args:
        candidates: The candidates of the experiments.
        selections: The result of `family_selections`.

    Returns:
        One row per experiment and family.
    """
    widest = max(selections.values(), key=lambda frame: frame.shape[1])
    names = list(widest.columns)
    rows = {}
    for (label, family), selected in selections.items():
        size = len(candidates[label].families[family])
        rates = [rate_cell(selected[name]) if name in selected else DASH for name in names]
        rows[f"{label}, {family} ({size})"] = [len(selected), *rates]
    labels = map(selection_label, names[:-1])
    columns = ["tasks", *labels, f"{BASELINE} alone"]
    title = "pass@1 in percent by the selection among candidates"
    note = (
        "The number in brackets is that of the candidates, of which one is the greedy "
        f"{BASELINE} answer. Retrieval: the others are answers with retrieved code. Samples: they are "
        "samples without a context. Both: half of each. The 95 % interval follows each rate. If five methods "
        "retrieve, BM25 over rows is left out; the page of an experiment selects among all of its methods."
    )
    rules = (
        "Reranked selects by similarity to the query; the paper's formula and the authors' code "
        "differ (the section on reranking of an experiment's page). By visible examples: the answer "
        "that passes most of the examples in the prompt; then agreement: of these, the one whose "
        "behaviour is most common. CodeT ranks groups of answers with the same behaviour by examples "
        "passed times group size. "
        f"{ORACLE} and {BEST} choose by the hidden tests: {ORACLE} chooses an answer for each task, "
        f"and {BEST} one candidate besides the greedy {BASELINE} answer for all tasks."
    )
    return ResultTable.of(title, rows, columns, "model, candidates", note, rules, HELD_OUT_NOTE)


def families_table(selections: Selections) -> ResultTable:
    """Compare samples with retrieval, with the same selection and number of candidates.

    Args:
        selections: The result of `family_selections`.

    Returns:
        One row per experiment with both families, and selection.
    """
    rows = {}
    for label in dict.fromkeys(label for label, _ in selections):
        for selection in (VISIBLE, ORACLE):
            difference = _samples_minus_retrieval(selections, label, selection)
            if difference is None:
                continue
            rows[f"{label}, {selection_label(selection)}"] = [
                difference.n,
                difference_cell(difference),
                f"{difference.helped} / {difference.hurt}",
                tables.probability(difference.p),
            ]
    columns = [
        "tasks",
        "samples minus retrieval (95 %)",
        "only samples / only retrieval",
        "McNemar p",
    ]
    note = (
        "Differences are in percentage points of pass@1; above 0, samples solve more tasks. Only "
        "samples: tasks that the selection among samples alone solves. The p-values are not corrected."
    )
    title = "Samples against retrieval"
    return ResultTable.of(title, rows, columns, "model, selection", note, HELD_OUT_NOTE)


def _samples_minus_retrieval(
    selections: Selections,
    label: str,
    selection: str,
) -> Difference | None:
    """The paired difference between the families of an experiment; None if it lacks one of them."""
    if not {(label, SAMPLES), (label, RETRIEVAL)} <= set(selections):
        return None
    samples = selections[label, SAMPLES]
    return paired_score(samples[selection], selections[label, RETRIEVAL][selection])


def token_curve(
    candidates: CandidateSet,
    family: str,
) -> pd.DataFrame:
    """Compute pass@1 and tokens as candidates are added one by one.

    Args:
        candidates: The candidates of an experiment.
        family: Name of the family.

    Returns:
        One row per number of candidates: ``tokens`` (mean per task, read and written); pass@1 by
        visible examples as ``value``, ``low`` and ``high`` (95 % Wilson interval) in percent.
    """
    methods = candidates.families[family]
    verdicts = candidates.verdicts.dropna()
    spent = []
    passed = []
    tokens = 0.0
    for size, method in enumerate(methods, start=1):
        completions = candidates.results.completions(method)
        tokens += sum(_read_and_written(completions[task]) for task in verdicts.index)
        selected = candidates.select(methods[:size], verdicts)
        spent.append(tokens / len(verdicts))
        passed.append(int(selected[VISIBLE].sum()))
    rates = figures.wilson_points(passed, len(verdicts))
    return rates.assign(tokens=spent)


def _read_and_written(completion: Generation) -> int:
    """The tokens of a prompt and of its answer."""
    return completion.prompt_tokens + len(completion.tokens)


@figures.styled
def token_curves_figure(candidates: Candidates) -> Figure:
    """Draw pass@1 over tokens for samples and retrieval, selected by visible examples.

    Args:
        candidates: The candidates of the experiments.

    Returns:
        The figure: a panel per experiment, with the number of tasks in parentheses. Filled circles
        are samples, open squares retrieve. The first point is the greedy answer of the baseline.
    """
    titles = []
    curves: list[dict[str, pd.DataFrame]] = []
    for label, experiment_candidates in candidates.items():
        tasks = len(experiment_candidates.verdicts.dropna())
        titles.append(f"{label} ({tasks})")
        families = [family for family in FAMILY_LOOKS if family in experiment_candidates.families]
        curves.append({family: token_curve(experiment_candidates, family) for family in families})
    compared = [of for of in curves if len(of) == len(FAMILY_LOOKS)]
    better = sum(samples_solve_more(of[SAMPLES], of[RETRIEVAL]) for of in compared)
    models = [experiment_candidates.results.model for experiment_candidates in candidates.values()]
    corpora = dict.fromkeys(corpus_in_words(of.results.corpus) for of in candidates.values())
    title = (
        "At equal tokens, samples are ahead of retrieval\n"
        f"in {better} of {len(compared)} experiments with both (estimates),\n"
        f"{' and '.join(corpora)}\n"
        f"{models_in_words(models)}"
    )
    figure, panels = figures.panel_axes(titles, title, "tokens per task", "pass@1 (%)")
    for axes, panel_curves in zip(panels, curves, strict=True):
        for family, (look, line) in FAMILY_LOOKS.items():
            if family in panel_curves:
                curve = panel_curves[family]
                figures.curve_with_intervals(axes, curve["tokens"], curve, look, line)
            else:
                _write_not_measured(axes, look.name)
    panels[0].set_xlim(0, None)
    for axes in panels:
        figures.ticks_inside(axes.xaxis)
        figures.ticks_inside(axes.yaxis)
    figures.panel_legend(figure, panels)
    return figure


def samples_solve_more(
    samples: pd.DataFrame,
    retrieval: pd.DataFrame,
) -> bool:
    """Tell whether samples solve more than retrieval at the tokens of all samples together.

    Args:
        samples: The frame of `token_curve` for samples.
        retrieval: The same for retrieval, interpolated between its points. Beyond its last point, its last
            rate counts.
    """
    last = samples.iloc[-1]
    at_equal_tokens = np.interp(last["tokens"], retrieval["tokens"], retrieval["value"])
    return bool(last["value"] > at_equal_tokens)


def _write_not_measured(
    axes: Axes,
    name: str,
) -> None:
    """Say in a panel which family it lacks."""
    axes.annotate(
        f"{name}:\nnot measured",
        (0.97, 0.05),
        xycoords="axes fraction",
        ha="right",
        fontsize=7,
        color=figures.QUIET,
    )


def samples_table(
    experiments: Experiments,
    temperature: float,
) -> ResultTable:
    """Tabulate pass@k of samples without any context.

    Args:
        experiments: The experiments.
        temperature: Temperature of the samples.

    Returns:
        One row per experiment that has samples.
    """
    rows = {}
    for label, results in experiments.items():
        samples = results.sample_names(BASELINE, temperature)
        verdicts = results.verdicts(samples).dropna() if samples else pd.DataFrame()
        if verdicts.empty:
            continue
        cells = []
        for k in SAMPLE_KS:
            rate = mean_pass_at_k(verdicts, k)
            cells.append(bracketed_rate(rate.value, rate.low, rate.high) if rate else DASH)
        rows[label] = [len(verdicts), len(samples), *cells]
    columns = ["tasks", "samples", *(f"pass@{k}" for k in SAMPLE_KS)]
    title = f"pass@k of {BASELINE} at temperature {temperature}"
    return ResultTable.of(title, rows, columns, "model")


def more_tests_table(
    candidates: Candidates,
    corpus: str,
) -> ResultTable:
    """Judge the same completions and selections by EvalPlus' tests.

    Args:
        candidates: The candidates of the experiments.
        corpus: Name of the corpus.

    Returns:
        One row per method, and per selection in each family, on the tasks with both verdicts.
    """
    rows = {}
    for label, experiment_candidates in candidates.items():
        results = experiment_candidates.results
        families = experiment_candidates.families
        methods = list(dict.fromkeys(m for family in families.values() for m in family))
        plus = Results(results.model, f"{results.benchmark}+", corpus)
        many = plus.verdicts(methods).dropna()
        few = experiment_candidates.verdicts[methods].dropna()
        common = many.index.intersection(few.index)
        if common.empty:
            continue
        few = few.loc[common]
        many = many.loc[common]
        for method in methods:
            if method in results.retrievers:
                rows[f"{label}, {method}"] = _more_tests_cells(few[method], many[method])
        for family, members in families.items():
            by_few = experiment_candidates.select(members, few)
            by_many = experiment_candidates.select(members, many)
            for selection in (VISIBLE, ORACLE):
                name = f"{label}, {selection_label(selection)} of {family} ({len(members)})"
                rows[name] = _more_tests_cells(by_few[selection], by_many[selection])
    columns = ["tasks", "by the benchmark's own tests", "by EvalPlus' tests", "change"]
    where = corpus_in_words(corpus)
    title = f"pass@1 in percent by the benchmark's own tests and by EvalPlus', {where}"
    return ResultTable.of(title, rows, columns, "run, method or selection", HELD_OUT_NOTE)


def _more_tests_cells(
    few: pd.Series,
    many: pd.Series,
) -> list[object]:
    """The cells of `more_tests_table`."""
    difference = paired_score(many, few)
    change = tables.points(difference.value) if difference else DASH
    return [len(few), rate_cell(few), rate_cell(many), change]


def shown_tests_table(
    experiments: Experiments,
    methods: Sequence[str],
    corpus: str,
) -> ResultTable:
    """Compare MBPP's prompts by what they show of the tests.

    Args:
        experiments: The experiments; those on MBPP count.
        methods: Methods that retrieve; the reranker, which selects among all methods, is added.
        corpus: Name of the corpus.

    Returns:
        One row per experiment, method and kind of prompt with a verdict.
    """
    rows = {}
    for label, results in experiments.items():
        if results.benchmark != "mbpp":
            continue
        for method in (BASELINE, *methods, RERANKED):
            for benchmark, shown in SHOWN_OF_MBPP.items():
                prompted = Results(results.model, benchmark, corpus)
                by_all = prompted.verdicts([method])[method]
                if not by_all.notna().any():
                    continue
                by_held_out = DASH
                if shown != "all tests" and method != RERANKED:
                    by_held_out = rate_cell(held_out_verdicts(prompted, [method])[method])
                cells = [by_all.notna().sum(), rate_cell(by_all), by_held_out]
                rows[f"{label}, {method}, {shown}"] = cells
    columns = ["tasks", "pass@1 by all tests", "by the tests not shown"]
    title = "MBPP by what its prompt shows, pass@1 in percent"
    note = (
        f"{RERANKED} selects among the answers of all methods. {DASH}: every test is shown, or the rate "
        f"is not computed ({RERANKED})."
    )
    return ResultTable.of(title, rows, columns, "model, method, shown", note)


def gate_table(
    candidates: Candidates,
    corpus: str,
) -> ResultTable:
    """Use retrieval only where the baseline fails visible examples.

    Args:
        candidates: The candidates of the experiments.
        corpus: Name of the corpus.

    Returns:
        One row per experiment and method that retrieves.
    """
    rows = {}
    for label, experiment_candidates in candidates.items():
        for method in experiment_candidates.families.get(RETRIEVAL, [])[1:]:
            pair = [BASELINE, method]
            completions = {name: experiment_candidates.results.completions(name) for name in pair}
            tokens = token_counts(completions, _read_and_written)
            signals = {name: experiment_candidates.signals[name] for name in pair}
            verdicts = experiment_candidates.verdicts[pair]
            gated = cross_validated_gate(signals, verdicts, tokens)
            without = verdicts[BASELINE].reindex(gated.index)
            tokens_of_both = tokens.reindex(gated.index).sum(axis=1).sum()
            rows[f"{label}, {method}"] = [
                len(gated),
                percent(float(without.mean())),
                percent(gated["passed"].mean()),
                percent(gated["asked"].mean()),
                percent(1 - gated["spent"].sum() / tokens_of_both),
            ]
    columns = [
        "tasks",
        BASELINE,
        f"{BASELINE}, and retrieval where it fails the examples",
        "retrieval used, % of tasks",
        "tokens saved, %",
    ]
    where = corpus_in_words(corpus)
    title = f"Retrieval only where {BASELINE} fails visible examples, {where}"
    note = (
        "Where retrieval is used, the selection by visible examples chooses between its answer and that of "
        f"{BASELINE}. Tokens saved: compared with generating both answers for every task."
    )
    return ResultTable.of(title, rows, columns, "model, method", note, HELD_OUT_NOTE)


def equal_candidates_finding(selections: Selections) -> list[str]:
    """Count the experiments in which samples are significantly better or worse than retrieval.

    Args:
        selections: The result of `family_selections`.

    Returns:
        Two sentences as one text; none if no experiment has both families.
    """
    labels = dict.fromkeys(label for label, _ in selections)
    differences = [_samples_minus_retrieval(selections, label, VISIBLE) for label in labels]
    p_values = [difference.p for difference in differences if difference]
    if not p_values:
        return []
    significant = [d.value for d in differences if d and d.p < ALPHA]
    more = sum(value > 0 for value in significant)
    fewer = len(significant) - more
    return [
        "Instead of retrieving, one can sample several answers and select one by the examples in the "
        "prompt. This solves significantly more tasks than the same selection among the answers of NoRAG "
        f"and of retrieval methods in {more or 'none'} of the {len(p_values)} experiments that have both "
        f"kinds of answers, and significantly fewer in {fewer or 'none'} (p < {ALPHA}, not corrected)."
    ]
