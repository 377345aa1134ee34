"""Does the evidence reach the context? Tables on recall, paired differences, variants, and answers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.sentences import chance, counted, finding, listed
from pkg_lib.analysis.stats import ALPHA, FEWEST_FOR_BOOTSTRAP, Difference, mean_difference
from pkg_lib.analysis.tables import DASH, percent, probability, signed
from pkg_lib.data.questions import gold
from pkg_lib.papers.dkb.measurement import READING, READINGS, SOURCE
from pkg_lib.papers.dkb.number_tables import (
    NAN,
    UNKNOWN,
    Rows,
    number_table,
    published_rows,
    shown_name,
)
from pkg_lib.papers.dkb.question_tasks import named
from pkg_lib.papers.dkb.repository_study import RepositoryStudy
from pkg_lib.papers.dkb.settings import BASE, LLM_KB, OURS, SAME_SIZE

# A name like a type's has at least two humps.
TYPE_NAME = re.compile(r"\b[A-Z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+\b")
MANY_SIGNS = 16  # differences up to which all changes of sign are counted
SIGN_SAMPLES = 100_000
SCORES = ("recall", "precision")
VARIANT_LABELS = {"as published": "as published, coupled"}  # stored name -> row of the table
READING_NOTE = (
    f'A type is reached if it is "{READING}": the context has lines of its declaration, or names it in the '
    "graph's summary, which only contexts from a graph have."
)
Evidence = dict[str, Any]  # what `evidence_of` returns


# Paired differences


def sign_flip_difference(values: pd.Series, baseline: pd.Series) -> Difference:
    """Compare two measures over the questions where neither is missing.

    Args:
        values: Value by question.
        baseline: Value by question of what it is compared with.

    Returns:
        The mean difference with its bootstrap interval and the exact p of a sign-flip test. From 17
        differences on, p is that of 100,000 random changes of sign.
    """
    difference = mean_difference(values, baseline)
    if difference is None:
        return Difference(0, NAN, NAN, NAN)
    differences = (values - baseline).dropna().to_numpy()
    changed = differences[differences != 0]
    if len(changed) <= MANY_SIGNS:
        signs = np.array(list(product((-1, 1), repeat=len(changed))))
    else:
        signs = np.random.default_rng(0).choice((-1, 1), (SIGN_SAMPLES, len(changed)))
    # scipy's permutation_test doubles the smaller tail, which is not 1 for a mean of almost 0.
    as_far = np.abs(signs @ changed) >= abs(changed.sum()) - 1e-12
    return replace(difference, p=float(as_far.mean()))


def pipelines_of(evidence: Evidence) -> list[str]:
    """List the pipelines that were measured.

    Args:
        evidence: The measured contexts.

    Returns:
        Their names in the order of the contexts.
    """
    pipelines: pd.Series = evidence["rows"]["pipeline"]
    return list(pipelines.unique())


def in_one_reading(evidence: Evidence, reading: str = READING) -> pd.DataFrame:
    """Return the measured contexts in one reading of what it means that a type reaches a context.

    Args:
        evidence: The measured contexts.
        reading: One of `measurement.READINGS`.

    Returns:
        One row per pipeline and question.
    """
    rows: pd.DataFrame = evidence["rows"]
    return rows[rows["reading"] == reading]


def kinds_of(evidence: Evidence) -> list[str]:
    """List the kinds of questions.

    Args:
        evidence: The measured contexts.

    Returns:
        Each kind once, in the order of the contexts.
    """
    kinds: pd.Series = evidence["rows"]["kind"]
    return [kind for kind in kinds.unique() if kind]


def recall(
    evidence: Evidence,
    pipeline: str,
    kinds: Sequence[str] = (),
    reading: str = READING,
) -> pd.Series:
    """Return the recall of the needed types.

    Args:
        evidence: The measured contexts.
        pipeline: A measured pipeline.
        kinds: Kinds of questions; empty for all.
        reading: One of `measurement.READINGS`.

    Returns:
        Recall by question.
    """
    rows = in_one_reading(evidence, reading)
    rows = rows[rows["pipeline"] == pipeline]
    if kinds:
        rows = rows[rows["kind"].isin(kinds)]
    return rows.set_index("question")["recall"]


def recall_difference(
    evidence: Evidence,
    first: str,
    second: str,
    kinds: Sequence[str] = (),
    reading: str = READING,
) -> Difference:
    """Compare the recall of two pipelines.

    Args:
        evidence: The measured contexts.
        first: A measured pipeline.
        second: The pipeline that it is compared with.
        kinds: Kinds of questions; empty for all.
        reading: One of `measurement.READINGS`.

    Returns:
        The difference over questions; see `sign_flip_difference`.
    """
    values = recall(evidence, first, kinds, reading)
    baseline = recall(evidence, second, kinds, reading)
    return sign_flip_difference(values, baseline)


def _groups(evidence: Evidence) -> dict[str, tuple[list[str], str]]:
    """Return the groups of questions that are compared, each with its kinds and a reading.

    All questions are compared in each reading, and each kind of question in the reading that the tables
    use first.
    """
    kinds = kinds_of(evidence)
    groups: dict[str, tuple[list[str], str]] = {"all": ([], READING)}
    for reading in READINGS:
        if reading != READING:
            groups[f"all, {reading}"] = ([], reading)
    if "upstream" in kinds and "multi-hop" in kinds:
        groups["upstream and multi-hop"] = (["upstream", "multi-hop"], READING)
    for kind in kinds:
        groups[kind] = ([kind], READING)
    return groups


# Tables


def evidence_table(evidence: Evidence) -> ResultTable:
    """Tabulate recall and precision of the contexts in each reading, and their size.

    Args:
        evidence: The measured contexts.

    Returns:
        The table, one row per pipeline.
    """
    groups = evidence["rows"].groupby(["pipeline", "reading"])
    means = groups.mean(numeric_only=True)
    columns = {f"{reading}: {score}": 3 for reading, score in product(READINGS, SCORES)}
    columns |= {"characters": 0, "excerpts": 1}
    rows = {}
    for pipeline in pipelines_of(evidence):
        cells: list[float] = []
        for reading in READINGS:
            cells += means.loc[(pipeline, reading), list(SCORES)].tolist()
        sizes = means.loc[(pipeline, READING), ["characters", "excerpts"]]
        rows[pipeline] = [*cells, *sizes]
    questions = evidence["rows"]["question"].nunique()
    notes = (
        "Recall is the share of the needed types that reach the context. Source: the context has lines of "
        "the type's declaration. Listed: it has them, or names the type in the graph's summary, which only "
        "contexts from a graph have. Named: the type's name is anywhere in the context.",
        f"No-Graph: the {evidence['k']} chunks nearest to the question. DKB: these, and excerpts of the "
        f"types at most {counted(evidence['depth'], 'edge')} away in a graph that a parser builds. "
        "LLM-KB: the same with a graph that a language model writes. No-Graph, same size: as many of the "
        f"nearest chunks as fit into DKB's context. Means over {questions} questions.",
    )
    title = f"Types that reach the context, {shown_name(evidence['repository'])}"
    return number_table(title, "method", columns, rows, *notes)


def differences_table(evidence: Evidence) -> ResultTable:
    """Tabulate the differences in recall, paired over questions.

    Args:
        evidence: The measured contexts.

    Returns:
        The table, one row per two pipelines and group of questions.
    """
    rows: Rows = {}
    for first, second in product((OURS, LLM_KB), (BASE, SAME_SIZE)):
        if first not in pipelines_of(evidence):
            continue
        for name, (kinds, reading) in _groups(evidence).items():
            difference = recall_difference(evidence, first, second, kinds, reading)
            rows[f"{first} minus {second} | {name}"] = [
                difference.n,
                recall(evidence, first, kinds, reading).mean(),
                recall(evidence, second, kinds, reading).mean(),
                signed(difference.value, 3),
                _interval(difference),
                probability(difference.p),
            ]
    columns = {
        "n": 0,
        "recall of the first": 3,
        "recall of the second": 3,
        "difference": 3,
        "95 % interval": 3,
        "p": 3,
    }
    note = (
        "Paired over questions: bootstrap interval, exact sign-flip test, not corrected for the number of "
        f"rows. Fewer than {FEWEST_FOR_BOOTSTRAP} questions, or questions that all have the same "
        "difference, have no interval. Kinds with five or fewer questions cannot reach p < 0.05. "
        "Interval and p come from different methods, so the interval can exclude 0 where p is above 0.05. "
        "Local questions are about what one or two types do (an answer may have to name more), multi-hop "
        "ones along a chain of calls, upstream ones about what uses a type, and semantics ones about what "
        f"code means. {READING_NOTE} Rows with source or named use these readings instead."
    )
    title = f"Differences in recall, {shown_name(evidence['repository'])}"
    return number_table(title, "first minus second | kind of question", columns, rows, note)


def _interval(difference: Difference) -> str:
    """The interval of a difference; a dash if the questions are too few or have equal differences."""
    if difference.n < FEWEST_FOR_BOOTSTRAP or difference.low == difference.high:
        return DASH
    return f"{signed(difference.low, 3)} to {signed(difference.high, 3)}"


def questions_table(study: RepositoryStudy, evidence: Evidence) -> ResultTable:
    """Tabulate the recall question by question.

    Args:
        study: The repository with its questions.
        evidence: Its measured contexts.

    Returns:
        The table, one row per question.
    """
    pipelines = pipelines_of(evidence)
    rows: Rows = {}
    for question in study.questions:
        recalls = [recall(evidence, pipeline).loc[question.id] for pipeline in pipelines]
        rows[f"{question.id} {question.theme}"] = [question.kind, len(question.needs), *recalls]
    columns = {"kind": 0, "types needed": 0}
    columns |= dict.fromkeys(pipelines, 2)
    title = "Recall by question"
    return number_table(title, "question", columns, rows, READING_NOTE)


def variants_table(evidence: Evidence) -> ResultTable:
    """Tabulate DKB with one thing changed at a time.

    Args:
        evidence: The measured contexts.

    Returns:
        The table, one row per variant.
    """
    variants = evidence["variants"]
    groups = variants.groupby(["reading", "pipeline"])
    means = groups[["recall", "precision", "characters"]].mean()
    rows = {}
    for name in variants["pipeline"].unique():
        in_reading, precision, characters = means.loc[(READING, name)]
        in_source = means.loc[(SOURCE, name), "recall"]
        label = VARIANT_LABELS.get(name, name)
        rows[label] = [in_reading, in_source, precision, characters]
    columns = {
        "recall (listed)": 3,
        "recall (source)": 3,
        "precision (listed)": 3,
        "characters": 0,
    }
    note = (
        "Depth: how many edges are followed from the types of the nearest chunks (DKB: 1). Interface "
        "consumers: types that refer to an interface which such a type implements. Coupled: only files with "
        "a node are embedded. As published, coupled: types are identified by simple names, a chunk "
        "stands for the type that is named like its file instead of for the types on its lines, and only "
        "files with a node are embedded. Neighbours nearest to the question first: the neighbouring "
        "types are ordered by their similarity to the question, so that the context's limit cuts the others. "
        "Neighbours' lines nearest to the question: of each neighbour, the context shows the chunks nearest "
        "to the question instead of the first lines."
    )
    title = f"DKB with one thing changed, on {shown_name(evidence['repository'])}"
    return number_table(title, "variant", columns, rows, note)


def unrecorded_table(name: str) -> ResultTable:
    """Return the table that stands for evidence that was not recorded.

    Args:
        name: Name of the repository.

    Returns:
        The table, whose only cell is empty.
    """
    rows = {"not recorded": [NAN]}
    title = f"Types that reach the context, {shown_name(name)}"
    return number_table(title, "quantity", {"value": 0}, rows, UNKNOWN)


# Tables 8 and 9: answers


def answer_measures(study: RepositoryStudy) -> pd.DataFrame:
    """Measure the answers of a model by a rule.

    Args:
        study: The repository with its questions.

    Returns:
        One row per pipeline and question: ``share`` of the needed types that the answer names, and the
        number of ``invented`` names like a type's that are nowhere in the repository.
    """
    rows = []
    for (pipeline, answers), question in product(study.answers.items(), study.questions):
        raw = answers[question.id].raw
        full_names = gold(question, study.graph)
        needs = {study.graph.nodes[name].simple for name in full_names}
        invented = set(TYPE_NAME.findall(raw)) - study.words
        rows.append((pipeline, question.id, named(needs, raw), len(invented)))
    return pd.DataFrame(rows, columns=["pipeline", "question", "share", "invented"])


def answers_table(study: RepositoryStudy) -> ResultTable:
    """Tabulate which of the needed types the answers name.

    Args:
        study: The repository with its questions.

    Returns:
        The table, one row per method.
    """
    measures = answer_measures(study)
    rows: Rows = {}
    for pipeline in (BASE, SAME_SIZE, OURS, LLM_KB):
        part = measures[measures["pipeline"] == pipeline]
        if part.empty and pipeline == SAME_SIZE:
            continue  # no method of the paper
        rows[pipeline] = _answer_cells(part)
    columns = {
        "all types named": 0,
        "some types named": 0,
        "no type named": 0,
        "mean share named": 3,
        "invented names": 0,
    }
    note = (
        "Numbers of answers that name all, some or none of the types that the question needs. This does not "
        "say whether an answer is correct; nobody judged these answers. "
        f"{study.model}, greedy, at most 256 tokens. Invented: names in the form of a type's name "
        "that occur nowhere in the repository."
    )
    title = f"Types named in the answers about the {shown_name(study.name)}"
    return number_table(title, "method", columns, rows, note, UNKNOWN)


def published_answers_table() -> ResultTable:
    """Tabulate how a person judged the answers in the paper (Tables 8 and 9).

    Returns:
        The table, one row per repository and method.
    """
    rows: Rows = {}
    for row in published_rows("table8_9_correctness"):
        rows[f"{row.repository}, {row.approach}"] = [row.correct, row.partial, row.incorrect]
    columns = dict.fromkeys(["correct", "partially correct", "incorrect"], 0)
    note = "Numbers of answers, as a person judged them for the paper."
    title = "Tables 8 and 9, as published"
    return number_table(title, "repository, method", columns, rows, note)


def _answer_cells(measures: pd.DataFrame) -> list[float]:
    """Count the answers that name all, some or none of the types, and the invented names."""
    if measures.empty:
        return [NAN] * 5
    share = measures["share"]
    all_named = (share == 1).sum()
    none_named = (share == 0).sum()
    some_named = len(share) - all_named - none_named
    invented = measures["invented"].sum()
    return [all_named, some_named, none_named, share.mean(), invented]


# Findings


# Findings


def recall_finding(evidence: Mapping[str, Evidence | None]) -> list[str]:
    """Compare the contexts of DKB and of vector retrieval of the same size on the paper's repositories.

    Args:
        evidence: Name of a repository -> its measured contexts; None if they were not recorded.

    Returns:
        One sentence; none if nothing was recorded.
    """
    recorded = [of_repository for of_repository in evidence.values() if of_repository]
    if not recorded:
        return []
    by_source = [_compared_recall(of_repository, SOURCE) for of_repository in recorded]
    with_names = [_compared_recall(of_repository, READING) for of_repository in recorded]
    names = [shown_name(of_repository["repository"]) for of_repository in recorded]
    ours = [f"{compared.ours} on {name}" for compared, name in zip(by_source, names, strict=True)]
    return [
        f"Of the types (such as classes) that an answer needs, {OURS}'s context shows the source of "
        f"{listed(ours)}, and vector retrieval with a context of the same size that of "
        f"{listed(compared.same_size for compared in by_source)} ({_significance(by_source, names)}); "
        f"counting also the types that {OURS}'s context only lists by name, its share is "
        f"{listed(compared.ours for compared in with_names)} ({_significance(with_names, names)})."
    ]


def _significance(compared: Sequence["ComparedRecall"], names: Sequence[str]) -> str:
    """Say on which repositories DKB differs from vector retrieval, without a correction of p."""
    significant = [name for row, name in zip(compared, names, strict=True) if row.p < ALPHA]
    if not significant:
        return "no difference is significant"
    where = listed(significant)
    return f"significantly different from vector retrieval on {where}, p < {ALPHA}, not corrected"


@dataclass(frozen=True)
class ComparedRecall:
    """The recall of DKB and of a No-Graph context of the same size, printed.

    Attributes:
        ours: DKB's mean recall, such as "60 %".
        same_size: That of No-Graph.
        p: p-value of the difference.
    """

    ours: str
    same_size: str
    p: float


def _compared_recall(evidence: Evidence, reading: str) -> ComparedRecall:
    recalls = in_one_reading(evidence, reading).groupby("pipeline")["recall"].mean()
    difference = recall_difference(evidence, OURS, SAME_SIZE, reading=reading)
    ours, same_size = (f"{percent(recalls[name], 0)} %" for name in (OURS, SAME_SIZE))
    return ComparedRecall(ours, same_size, difference.p)


def answers_finding(scores: Mapping[str, pd.DataFrame]) -> list[str]:
    """Compare the types that answers name with DKB's contexts and with those of vector retrieval.

    Args:
        scores: Name of a repository -> the frame of `entity_scores.recorded_scores`.

    Returns:
        One sentence; none if nothing was recorded.
    """
    parts = []
    for name, of_repository in scores.items():
        by_question = of_repository.pivot(index="question", columns="pipeline", values="f1")
        if {OURS, BASE} <= set(by_question):
            difference = sign_flip_difference(by_question[OURS], by_question[BASE])
            means = f"{by_question[OURS].mean():.2f} against {by_question[BASE].mean():.2f}"
            parts.append(f"{means} on {shown_name(name)} ({chance(difference.p)})")
    return finding(f"F1 of the types that the answers name, {OURS} against {BASE}", parts)
