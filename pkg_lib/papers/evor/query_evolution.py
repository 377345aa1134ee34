"""Query evolution (Section 2.1): how q_i follows from a draft and its execution feedback.

M_q is prompted in evor_loop.py. The rules here are compared with it: they need no model.
"""

import re
from collections.abc import Callable

from pkg_lib.papers.evor.code_snippets import lines_with_calls
from pkg_lib.papers.evor.execution_feedback import Draft

WORD = re.compile(r"[^\W\d]\w+")
MISSING_ATTRIBUTE = re.compile(r"has no attribute '(\w+)'")
# A name that does not exist, in an error of Python or of newLISP.
MISSING_NAME = re.compile(
    r"no attribute '(\w+)'|name '(\w+)' is not defined|unexpected keyword argument '(\w+)'"
    r"|No module named '([\w.]+)'|invalid function : \(([^\s()]+)"
)


def missing_attribute(error: str) -> str:
    """Return the attribute that does not exist.

    Args:
        error: An error as the interpreter reports it.

    Returns:
        The first such name; "" if the error is about something else.
    """
    match = MISSING_ATTRIBUTE.search(error)
    return match[1] if match else ""


def missing_name(error: str) -> str:
    """Return the attribute, variable, argument, module or function that does not exist.

    Args:
        error: An error as the interpreter reports it.

    Returns:
        The first such name; "" if the error is about something else.
    """
    match = MISSING_NAME.search(error)
    if match is None:
        return ""
    return match[match.lastindex or 0]


def code_query(draft: Draft) -> str:
    """Return the draft p itself.

    Args:
        draft: The last draft.
    """
    return draft.program


def feedback_query(draft: Draft) -> str:
    """Return the execution feedback F: the error, and the line that leads to it.

    Args:
        draft: The last draft.
    """
    return f"{draft.feedback.error}\n{draft.feedback.line}"


def names_query(draft: Draft) -> str:
    """Return the names in the failing line and in the error.

    Args:
        draft: The last draft. Without a failing line all lines that call a library count.
    """
    lines = [draft.feedback.line]
    if not draft.feedback.line:
        lines = lines_with_calls(draft.program, draft.task.prompt)
    text = " ".join([*lines, draft.feedback.error])
    return " ".join(WORD.findall(text))


def missing_name_query(draft: Draft) -> str:
    """Return the name that does not exist, with the line that uses it.

    Args:
        draft: The last draft.

    Returns:
        The query; the question n if the error is about something else.
    """
    name = missing_name(draft.feedback.error)
    if not name:
        return draft.task.prompt
    words = name.replace("_", " ")
    return f"{name} {words}\n{draft.feedback.line}"


# The ways to formulate a query by rule, by their names in methods.toml.
QUERY_RULES: dict[str, Callable[[Draft], str]] = {
    "code": code_query,
    "feedback": feedback_query,
    "names": names_query,
    "absent names": missing_name_query,
}
