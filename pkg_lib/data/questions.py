"""Question files in YAML: what is asked about a repository, and the types that a complete answer needs (the
gold list).

repository: shop                 # optional, a name for tables
questions:
  - id: Q1
    kind: upstream               # optional; evidence is also shown by kind theme: controllers           #
    optional question: Which controllers use the cart? needs: [CartController, com.example.shop.model.Cart]
    # simple names, or full ones where a simple name is not enough
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pkg_lib.core.types import Task, UserError
from pkg_lib.graph.types.typegraph import TypeGraph


@dataclass(frozen=True, slots=True)
class Question:
    id: str
    question: str
    needs: tuple[str, ...]
    kind: str = ""
    theme: str = ""

    def task(self) -> Task:
        """The question as a Task, which is what a Retriever takes; nothing of the gold list is in it."""
        return Task(self.id, "repo-qa", self.question, "", "", "")


def read_questions(path: Path) -> list[Question]:
    """The questions of a file in its order; UserError names the file and what is wrong with it."""
    try:
        found = yaml.safe_load(path.read_text("utf8"))
    except OSError as e:
        raise UserError(f"{path} cannot be read ({e.strerror}); give a YAML file of questions") from e
    except (ValueError, yaml.YAMLError) as e:
        raise UserError(f"{path}: no YAML can be read ({' '.join(str(e).split())})") from e
    rows = found.get("questions") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not rows:
        raise UserError(f'{path}: a list "questions" is needed, each with id, question and needs')
    questions = [_question(path, n, row) for n, row in enumerate(rows, 1)]
    if twice := next((q.id for i, q in enumerate(questions) if q.id in {p.id for p in questions[:i]}), None):
        raise UserError(f"{path}: two questions have the id {twice}")
    return questions


def _question(path: Path, number: int, row: Any) -> Question:
    where = f"{path}: question {number}"
    if not isinstance(row, dict):
        raise UserError(f"{where} is no mapping with id, question and needs")
    if unknown := sorted(map(str, set(row) - {"id", "question", "needs", "kind", "theme"})):
        raise UserError(f"{where} has '{unknown[0]}'; it takes id, question, needs, kind, theme")
    needs = row.get("needs")
    if not isinstance(needs, list) or not needs or not all(isinstance(n, str) for n in needs):
        raise UserError(f"{where}: needs is a list of type names, at least one")
    texts = {n: row.get(n) for n in ("id", "question")}
    if missing := next(
        (n for n, t in texts.items() if not isinstance(t, (str, int)) or not str(t).strip()), None
    ):
        raise UserError(f"{where} has no {missing}")
    return Question(str(row["id"]), str(row["question"]).strip(), tuple(dict.fromkeys(needs)), *_about(row))


def _about(row: Mapping[str, Any]) -> tuple[str, str]:
    return str(row.get("kind") or ""), str(row.get("theme") or "")


def gold(question: Question, graph: TypeGraph) -> list[str]:
    """The full names of the types that a question needs; UserError for a name of none or several."""
    found = []
    for name in question.needs:
        if name in graph.nodes:
            found.append(name)
            continue
        same = sorted(n.name for n in graph.nodes.values() if n.simple == name)
        if len(same) != 1:
            which = (
                f"means {', '.join(same)}; give one in full"
                if same
                else "is no type of the repository; name one that is"
            )
            raise UserError(f"question {question.id}: {name} {which}")
        found += same
    return found
