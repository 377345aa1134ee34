"""Question files in YAML: questions about a repository, and the types that an answer needs.

questions:
  - id: Q1
    kind: upstream          # optional; results are also shown by kind
    theme: controllers      # optional
    question: Which controllers use the cart?
    needs: [CartController, com.example.shop.model.Cart]  # simple names if they are unambiguous
    first_only: [Cart]      # optional: types that only the first of two readings has
    second_only: []         # optional: types that only the second reading has
    outside: [HttpSession]  # optional: types of libraries that a right answer mentions
"""

from collections import Counter
from collections.abc import Sequence
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
OptionalText = Annotated[str, BeforeValidator(lambda value: value or "")]


@dataclass(frozen=True, config=ConfigDict(extra="forbid", coerce_numbers_to_str=True))
class Question:
    """One question.

    Attributes:
        id: Unique within its file.
        question: The text.
        needs: Names of the types that a right answer mentions, simple or full.
        kind: Group by which results are shown.
        theme: Free text.
        first_only: Types that only the first reading has. Where a gold list was read twice, `needs`
            is what both readings have.
        second_only: Types that only the second reading has.
        outside: Simple names of types of libraries that a right answer mentions.
    """

    id: Text
    question: Text
    needs: Annotated[tuple[Text, ...], Field(min_length=1)]
    kind: OptionalText = ""
    theme: OptionalText = ""
    first_only: tuple[Text, ...] = ()
    second_only: tuple[Text, ...] = ()
    outside: tuple[Text, ...] = ()


QUESTIONS = TypeAdapter(Annotated[list[Question], Field(min_length=1)])


def read_questions(path: Path) -> list[Question]:
    """Read a file of questions.

    Args:
        path: The file.

    Returns:
        Questions in the order of the file.

    Raises:
        UserError: The file is not YAML, a field is wrong, or two questions have the same id.
    """
    try:
        content = yaml.safe_load(read_text(path, "give a YAML file of questions"))
        rows = content.get("questions") if isinstance(content, dict) else None
        questions = QUESTIONS.validate_python(rows)
    except ValidationError as e:
        first = e.errors(include_url=False)[0]
        place = "questions"
        for part in first["loc"]:
            place += f" {part + 1 if isinstance(part, int) else part}"
        raise UserError(f"{path}: {place}: {first['msg']}") from e
    except RecursionError as e:
        raise UserError(f"{path}: no YAML can be read (it is nested too deep)") from e
    except (ValueError, yaml.YAMLError) as e:
        raise UserError(f"{path}: no YAML can be read ({' '.join(str(e).split())})") from e
    for name, count in Counter(q.id for q in questions).items():
        if count > 1:
            raise UserError(f"{path}: two questions have the id {name}")
    return questions


def gold(question: Question, graph: TypeGraph) -> list[str]:
    """Return the full names of the types that a question needs, each once.

    Args:
        question: The question.
        graph: Type graph of the repository.

    Raises:
        UserError: A name means no type or several.
    """
    return [full_name(graph, n, f"question {question.id}") for n in dict.fromkeys(question.needs)]


def disputed(question: Question, graph: TypeGraph) -> list[str]:
    """Return the full names of the types that only one of two readings has.

    Args:
        question: The question.
        graph: Type graph of the repository.

    Raises:
        UserError: A name means no type or several, or is needed too.
    """
    names = dict.fromkeys((*question.first_only, *question.second_only))
    found = [full_name(graph, name, f"question {question.id}") for name in names]
    for name in set(found) & set(gold(question, graph)):
        raise UserError(f"question {question.id}: {name} is needed, so both readings have it")
    return found


def outside(question: Question, graph: TypeGraph) -> list[str]:
    """Return the types of libraries that a question needs.

    Args:
        question: The question.
        graph: Type graph of the repository.

    Raises:
        UserError: A name is a type of the repository.
    """
    for name in question.outside:
        if name in graph.by_simple:
            raise UserError(
                f"question {question.id}: {name} is a type of the repository; list it under needs"
            )
    return list(question.outside)


def agreement(questions: Sequence[Question]) -> float:
    """Return the share of the types of either reading that both have.

    Args:
        questions: Questions whose lists were read twice.
    """
    both = 0
    either = 0
    for question in questions:
        both += len({*question.needs})
        either += len({*question.needs, *question.first_only, *question.second_only})
    return both / either


def full_name(
    graph: TypeGraph,
    name: str,
    what: str,
) -> str:
    """Return the full name of a type.

    Args:
        graph: Type graph of the repository.
        name: The simple or full name.
        what: What needs the type, for the message.

    Raises:
        UserError: The name means no type or several.
    """
    same = [name] if name in graph.nodes else graph.by_simple.get(name, [])
    if len(same) > 1:
        raise UserError(f"{what}: {name} means {', '.join(same)}; give one in full")
    if not same:
        close = get_close_matches(name, graph.by_simple, 3, 0.5)
        near = f" ({', '.join(close)}?)" if close else ""
        raise UserError(f"{what}: {name} is no type of the repository; name one that is{near}")
    return same[0]
