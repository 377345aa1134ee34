"""What a first look at some tasks found, and the same numbers on all tasks.

The first look preceded the study. Its numbers are constants here; the others are computed.
"""

from collections.abc import Sequence

from pkg_lib.analysis.cells import difference_cell, rate_cell
from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.stats import BASELINE, paired_score
from pkg_lib.analysis.tables import percent
from pkg_lib.data.corpora import PUBLISHED, corpus_in_words
from pkg_lib.evaluation.results import Results
from pkg_lib.papers.pkg.candidate_families import (
    ALONE,
    RETRIEVAL,
    SAMPLES,
    VISIBLE,
    Selections,
)
from pkg_lib.papers.pkg.strata import STRATA, VALID, copies, strata
from pkg_lib.papers.pkg.validity_tables import (
    Experiments,
    agreement_cell,
    copy_agreement,
)

SMALL, LARGE, MBPP = "0.5B HumanEval", "1.5B HumanEval", "0.5B MBPP"
FUNCTION, BLOCK = "Func-PKG", "Block-PKG"
# Corpora of the first look -> pass@1 that it found by visible examples.
FIRST_RATES = {
    "textbook+stdlib": "64.0",
    "pkg-contexts": "65.2",
    "python-docs": "61.6",
}
# Size -> what it found where the context is valid, and elsewhere.
FIRST_STRATA = {
    "0.5B": ("44 → 53 of 63", "42 → 9 of 99"),
    "1.5B": ("52 → 57 of 63", "62 → 19 of 99"),
}
EXPERIMENTS_BY_SIZE = {
    "0.5B": SMALL,
    "1.5B": LARGE,
}
SAME, NOT_SAME = "the same", "not the same"
FEW = "40 tasks there, all here"
RETRIEVED_AGAIN = "contexts retrieved again: bodies as blocks, guarded pruning"
BY_EXAMPLES = "by visible examples"


def compared_cells(
    first: str,
    here: str,
    why: str = NOT_SAME,
) -> list[str]:
    """Set a number of the first look beside the one computed here.

    Args:
        first: Text of the first look.
        here: Text computed here.
        why: Reason for a difference.

    Returns:
        Both texts, and the reason or that they are the same.
    """
    is_same = first.removesuffix(" %") in here
    return [first, here, SAME if is_same else why]


def change_from_baseline(
    results: Results,
    method: str,
    kinds: Sequence[str] = (),
) -> str:
    """Print how many tasks pass without and with a method.

    Args:
        results: The experiment.
        method: The method.
        kinds: Kinds of contexts that count; all by default.

    Returns:
        Text such as "44 → 53 of 63: +14.3 (−0.7 to +28.9)".
    """
    verdicts = results.verdicts([BASELINE, method]).dropna()
    if kinds:
        context = strata(results, method).reindex(verdicts.index)
        verdicts = verdicts[context.isin(kinds)]
    difference = paired_score(verdicts[method], verdicts[BASELINE])
    passed = f"{verdicts[BASELINE].sum()} → {verdicts[method].sum()} of {len(verdicts)}"
    return f"{passed}: {difference_cell(difference)}"


def selection_change(
    selections: Selections,
    experiment: str,
    family: str = RETRIEVAL,
) -> str:
    """Print what selection by visible examples gains over the baseline.

    Args:
        selections: Selected verdicts by experiment and family.
        experiment: Label of the experiment.
        family: Family of candidates.

    Returns:
        Text such as "53.7 → 61.0: +7.3 (+4.2 to +12.4)".
    """
    verdicts = selections[experiment, family]
    difference = paired_score(verdicts[VISIBLE], verdicts[ALONE])
    before = percent(float(verdicts[ALONE].mean()))
    after = percent(float(verdicts[VISIBLE].mean()))
    return f"{before} → {after}: {difference_cell(difference)}"


def _agreement_cells(results: Results) -> list[str]:
    """How often both methods have the verdict of the renamed context."""
    rates = {m: agreement_cell(copy_agreement(results, m)) for m in (FUNCTION, BLOCK)}
    shares = [round(float(rate.split()[0])) for rate in rates.values()]
    within = all(84 <= share <= 90 for share in shares)
    here = "; ".join(f"{method} {rate}" for method, rate in rates.items())
    return ["84 to 90 %", here, SAME if within else NOT_SAME]


def _validity_rows(experiments: Experiments) -> dict[str, list[str]]:
    """Rows on context validity and copying."""
    rows = {}
    for size, (where_valid, elsewhere) in FIRST_STRATA.items():
        results = experiments[EXPERIMENTS_BY_SIZE[size]]
        valid = change_from_baseline(results, FUNCTION, [VALID])
        other = change_from_baseline(results, FUNCTION, STRATA[1:])
        rows[f"{size}, {FUNCTION}, valid context"] = compared_cells(where_valid, valid)
        rows[f"{size}, {FUNCTION}, elsewhere"] = compared_cells(elsewhere, other)
        rows[f"{size}, verdicts as those of the context"] = _agreement_cells(results)
    copied = rate_cell(copies(experiments[SMALL], FUNCTION))
    rows[f"the renamed context alone, {FUNCTION}"] = compared_cells("38.9 %", copied)
    return rows


def _prompt_rows(results: Results) -> dict[str, list[str]]:
    """Rows on prompt variants."""
    half, less = "half of the loss back", f"{FEW}: less than half"
    # What is varied -> method, text of the first look, reason for a difference
    variants = {
        "no code was found": (
            f"{BASELINE}, no code was found",
            "22 → 23 of 40",
            f"{FEW}: it does cost",
        ),
        "another task's function": (f"{FUNCTION}, swapped", "22 → 9 of 40", FEW),
        BLOCK: (BLOCK, "a loss", "here its size"),
        f"{BLOCK}, context first": (f"{BLOCK}, context first", half, less),
        f"{BLOCK}, earlier turn": (f"{BLOCK}, earlier turn", half, less),
    }
    rows = {}
    for name, (method, first, why) in variants.items():
        rows[f"0.5B, {name}"] = [first, change_from_baseline(results, method), why]
    return rows


def _selection_rows(selections: Selections) -> dict[str, list[str]]:
    """Rows on selection by visible examples."""
    rows = {}
    for corpus, rate in FIRST_RATES.items():
        here = selection_change(selections, f"{SMALL}, {corpus}")
        rows[corpus] = compared_cells(f"53.0 → {rate}", here, RETRIEVED_AGAIN)
    published = selection_change(selections, SMALL)
    larger = selection_change(selections, LARGE)
    contexts = corpus_in_words(PUBLISHED)
    rows[contexts] = compared_cells(
        "53.0 → 65.4", published, "on the 156 tasks that all methods measured"
    )
    rows[f"{contexts}, 1.5B"] = compared_cells(
        "69.9 → 78.2", larger, "a task; how ties fell is not known"
    )
    mbpp = selection_change(selections, MBPP)
    rows["MBPP"] = ["35 → 42 to 44", mbpp, "scored by the tests not shown"]
    samples = selection_change(selections, SMALL, SAMPLES)
    rows["four samples instead"] = ["30.6 of 40", samples, FEW]
    no_worse = f"{FEW}: no worse than samples"
    rows["four that retrieve"] = ["24 of 40", published, no_worse]
    corpus = next(iter(FIRST_RATES))
    again = selection_change(selections, f"{SMALL}, {corpus}")
    rows[f"four that retrieve, {corpus}"] = ["24 of 40", again, FEW]
    return {f"{BY_EXAMPLES}: {name}": cells for name, cells in rows.items()}


def first_look_table(
    experiments: Experiments,
    selections: Selections,
) -> ResultTable | None:
    """Set every number of the first look beside the same number on all tasks.

    Args:
        experiments: Experiments with the authors' contexts.
        selections: Selected verdicts by experiment and family.

    Returns:
        One row per number; None if an experiment of the first look was not measured.
    """
    needed = {(label, RETRIEVAL) for label in (SMALL, LARGE, MBPP)}
    needed |= {(f"{SMALL}, {corpus}", RETRIEVAL) for corpus in FIRST_RATES}
    needed.add((SMALL, SAMPLES))
    if not needed <= set(selections) or not {SMALL, LARGE} <= set(experiments):
        return None
    if any(experiments[label].corpus != "published" for label in (SMALL, LARGE)):
        return None
    rows = _validity_rows(experiments)
    rows |= _prompt_rows(experiments[SMALL])
    rows |= _selection_rows(selections)
    columns = ["first look", "here (95 %)", "why"]
    return ResultTable.of("What a first look found, on all tasks", rows, columns, "what")
