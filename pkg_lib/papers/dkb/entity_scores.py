"""Scores of answers by the types that they name: precision, recall and F1.

A right answer names the types of a question's gold list. An answer that names other types of the
repository, or types that do not exist, is less precise. Not counted are types that only one of two
readings has, names that stand in the question, and names of libraries that the sources use.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis.result_table import ResultTable
from pkg_lib.analysis.tables import number
from pkg_lib.core.store import read_json, results_dir, slug, versions, write_json
from pkg_lib.data.questions import Question, agreement, disputed, gold, outside
from pkg_lib.graph.types.typegraph import TypeGraph
from pkg_lib.papers.dkb.number_tables import NAN, UNKNOWN, Rows, number_table, shown_name
from pkg_lib.papers.dkb.repository_study import RepositoryStudy, folder_of
from pkg_lib.papers.dkb.settings import ANSWER_TOKENS, ARMS, SAME_SIZE

# A name like a type's has at least two humps. A shorter one, such as "Order", may be a word of a sentence,
# so it counts as the name of a type only inside of backticks.
TYPE_NAME = re.compile(r"\b[A-Z][A-Za-z0-9]*[a-z0-9][A-Z][A-Za-z0-9]*\b")
WORD = re.compile(r"\w+")
IN_BACKTICKS = re.compile(r"`([^`]+)`")

SCORE_COLUMNS = [
    "pipeline",
    "question",
    "precision",
    "recall",
    "f1",
    "wrong",
    "invented",
    "prompt_tokens",
    "answer_tokens",
]


@dataclass(frozen=True)
class EntityScore:
    """What an answer names.

    Attributes:
        right: Names of the gold list.
        missed: Names of the gold list that the answer lacks.
        wrong: Other types of the repository.
        invented: Names like a type's that are nowhere in the repository.
    """

    right: set[str]
    missed: set[str]
    wrong: set[str]
    invented: set[str]

    @property
    def precision(self) -> float:
        """Share of the counted names that are right; NaN if the answer names none."""
        named = len(self.right) + len(self.wrong) + len(self.invented)
        return len(self.right) / named if named else NAN

    @property
    def recall(self) -> float:
        """Share of the gold list that the answer names; NaN if the question names all of it."""
        needed = len(self.right) + len(self.missed)
        return len(self.right) / needed if needed else NAN

    @property
    def f1(self) -> float:
        """Harmonic mean of precision and recall; 0 if the answer names nothing right."""
        if not self.right:
            return 0.0
        return 2 * self.precision * self.recall / (self.precision + self.recall)


def entity_score(
    question: Question,
    answer: str,
    graph: TypeGraph,
    words: Collection[str],
) -> EntityScore:
    """Score an answer by the types that it names.

    Args:
        question: The question, with its gold list.
        answer: A model's answer.
        graph: The resolved type graph of the repository.
        words: All words of the repository's sources.

    Returns:
        The score.

    Raises:
        UserError: A list of the question names a type that is not where the list says.
    """
    in_question = set(WORD.findall(question.question))
    needed = {graph.nodes[name].simple for name in gold(question, graph)}
    needed.update(outside(question, graph))
    needed -= in_question  # repeating the question shows no knowledge
    neutral = {graph.nodes[name].simple for name in disputed(question, graph)}
    neutral |= in_question
    like_types = set(TYPE_NAME.findall(answer))
    code = " ".join(IN_BACKTICKS.findall(answer))
    named = like_types.union(WORD.findall(code))
    others = named - needed - neutral
    wrong = {name for name in others if name in graph.by_simple}
    unknown = (others & like_types) - wrong
    invented = {name for name in unknown if name not in words}
    return EntityScore(
        right=needed & named,
        missed=needed - named,
        wrong=wrong,
        invented=invented,
    )


def entity_scores(study: RepositoryStudy) -> pd.DataFrame:
    """Score the stored answers of a study.

    Args:
        study: The repository and its questions.

    Returns:
        One row per pipeline and question: `precision`, `recall`, `f1`, the numbers of `wrong` and
        `invented` names, and the numbers of tokens of the prompt and of the answer.
    """
    rows = []
    for (pipeline, answers), question in product(study.answers.items(), study.questions):
        answer = answers[question.id]
        score = entity_score(question, answer.raw, study.graph, study.words)
        rates = (score.precision, score.recall, score.f1)
        counts = (len(score.wrong), len(score.invented), answer.prompt_tokens, len(answer.tokens))
        rows.append((pipeline, question.id, *rates, *counts))
    return pd.DataFrame(rows, columns=SCORE_COLUMNS)


def _scores_file(results: Path, repository: str, model: str) -> Path:
    return folder_of(results, repository) / "answers" / slug(model) / "entities.json"


def record_scores(study: RepositoryStudy) -> None:
    """Store the scores of a study's answers, so that its sources are not needed to show them.

    Args:
        study: The repository and its questions. Pipelines without all answers are left out.
    """
    scores = entity_scores(study)
    if scores.empty:
        return
    stored = {
        "repository": study.name,
        "model": study.model,
        "digest": study.digest,
        # JSON has no NaN.
        "scores": scores.astype(object).where(scores.notna(), None).to_dict("split", index=False),
        "versions": versions(),
    }
    write_json(_scores_file(study.results, study.name, study.model), stored)


def recorded_scores(repository: str, model: str) -> pd.DataFrame:
    """Read the scores of the answers about a repository.

    Args:
        repository: Name of the repository.
        model: The model that answered.

    Returns:
        The frame of `entity_scores`; empty if nothing is stored.
    """
    path = _scores_file(results_dir(), repository, model)
    if not path.exists():
        return pd.DataFrame(columns=SCORE_COLUMNS)
    scores = pd.DataFrame(**read_json(path)["scores"])
    return scores.astype(dict.fromkeys(("precision", "recall", "f1"), float))


def entities_table(study: RepositoryStudy, others: Mapping[str, pd.DataFrame]) -> ResultTable:
    """Tabulate the answers by the types that they name.

    Args:
        study: The repository and its questions.
        others: Name of another repository -> its `recorded_scores`, by the same model.

    Returns:
        The table, one row per repository and pipeline, with means over the questions.
    """
    rows: Rows = {}
    for repository, scores in {study.name: entity_scores(study), **others}.items():
        for pipeline in ARMS:
            part = scores[scores["pipeline"] == pipeline]
            if part.empty and pipeline == SAME_SIZE:
                continue  # no method of the paper
            means = part[["precision", "recall", "f1"]].mean()
            names = part[["wrong", "invented"]].sum() if len(part) else [NAN, NAN]
            rows[f"{shown_name(repository)}, {pipeline}"] = [len(part) or NAN, *means, *names]
    columns = {
        "answers": 0,
        "precision": 3,
        "recall": 3,
        "F1": 3,
        "wrong names": 0,
        "invented names": 0,
    }
    notes = [
        "Means over questions. An answer is right where it names the types of the gold list. Other "
        "types of the repository are wrong, and names like a type's that are nowhere in it are "
        "invented; both lower precision. A name of one word, such as Order, counts only in backticks, "
        "and names that are in the question do not count. Precision leaves out answers that name no type. "
        f"{study.model}, greedy, at most {ANSWER_TOKENS} tokens.",
    ]
    if any(question.first_only or question.second_only for question in study.questions):
        share = number(agreement(study.questions), 2)
        notes.append(
            f"The gold lists were read twice by one author; {share} of all types are in both readings."
        )
    title = "Precision and recall of the types that the answers name"
    return number_table(title, "repository, method", columns, rows, *notes, UNKNOWN)


def question_scores_table(
    repository: str,
    questions: Sequence[Question],
    scores: pd.DataFrame,
) -> ResultTable:
    """Tabulate F1 of the answers question by question (Table 10).

    Args:
        repository: Name of the repository.
        questions: Its questions.
        scores: Their `recorded_scores`.

    Returns:
        The table, one row per question, and one column per pipeline that answered.
    """
    f1: Any = scores.pivot(index="question", columns="pipeline", values="f1")
    pipelines = [name for name in ARMS if name in f1]
    rows: Rows = {}
    for question in questions:
        cells = [NAN] * len(pipelines)
        if question.id in f1.index:
            cells = [float(f1.at[question.id, name]) for name in pipelines]
        rows[f"{question.id} {question.theme}"] = [len(question.needs), *cells]
    columns = {"types needed": 0, **dict.fromkeys(pipelines, 2)}
    note = (
        "F1 of the types that an answer names, as in the table above. The paper's Tables 10 to 12 have a "
        "person's judgement of each answer."
    )
    return number_table(
        f"F1 of the answers by question, {shown_name(repository)}", "question", columns, rows, note
    )
