"""Question files in YAML: what is asked about a repository, and the types that an answer needs.

questions:
  - id: Q1
    kind: upstream          # optional; evidence is also shown by kind
    theme: controllers      # optional
    question: Which controllers use the cart?
    needs: [CartController, com.example.shop.model.Cart]  # full names where simple ones are not enough
"""

from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import (
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
)
from pydantic.dataclasses import dataclass

from pkg_lib.core.reading import read_text
from pkg_lib.core.types import UserError
from pkg_lib.graph.types.typegraph import TypeGraph

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Remark = Annotated[str, BeforeValidator(lambda value: value or "")]
FORM = ConfigDict(extra="forbid", coerce_numbers_to_str=True)


@dataclass(frozen=True, config=FORM)
class Question:
    id: Text
    question: Text
    needs: Annotated[tuple[Text, ...], Field(min_length=1)]
    kind: Remark = ""
    theme: Remark = ""


def read_questions(path: Path) -> list[Question]:
    """The questions of a file in its order; UserError names the file and what is wrong with it."""
    try:
        content = yaml.safe_load(read_text(path, "give a YAML file of questions"))
        rows = content.get("questions") if isinstance(content, dict) else None
        questions = TypeAdapter(Annotated[list[Question], Field(min_length=1)]).validate_python(
            rows
        )
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        at = " ".join(
            ["questions", *(str(p + 1) if isinstance(p, int) else p for p in first["loc"])]
        )
        raise UserError(f"{path}: {at}: {first['msg']}") from e
    except RecursionError as e:
        raise UserError(f"{path}: no YAML can be read (it is nested too deep)") from e
    except (ValueError, yaml.YAMLError) as e:
        raise UserError(f"{path}: no YAML can be read ({' '.join(str(e).split())})") from e
    if twice := next(
        (q.id for i, q in enumerate(questions) if q.id in {p.id for p in questions[:i]}), None
    ):
        raise UserError(f"{path}: two questions have the id {twice}")
    return questions


def gold(question: Question, graph: TypeGraph) -> list[str]:
    """The full names of the types that a question needs; UserError for a name of none or several."""
    return [full_name(graph, n, f"question {question.id}") for n in dict.fromkeys(question.needs)]


def full_name(graph: TypeGraph, name: str, what: str) -> str:
    """The full name of a type that is named in full or simply; UserError for a name of none or several."""
    same = [name] if name in graph.nodes else graph.by_simple.get(name, [])
    if len(same) > 1:
        raise UserError(f"{what}: {name} means {', '.join(same)}; give one in full")
    if not same:
        close = get_close_matches(name, graph.by_simple, 3, 0.5)
        near = f" ({', '.join(close)}?)" if close else ""
        raise UserError(f"{what}: {name} is no type of the repository; name one that is{near}")
    return same[0]
