"""Documentation of a library under new names: its code is renamed, its prose is not."""

import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from pkg_lib.core.store import ROOT
from pkg_lib.papers.evor.templates import PROGRAMS

WORD = re.compile(r"[^\W\d]\w*")
# Code in a docstring: a line of a session, text in backticks, the name of a parameter or of See Also.
CODE = re.compile(
    r"(?m)^[ \t]*(?:>>>|\.\.\.).*$|``[^`\n]+``|`[^`\n]+`|^[ \t]*[\w.*]+(?:, [\w.*]+)*(?= ?:)"
)
SIGNATURE_ALONE = re.compile(r"[\w.]+\(.*\)")  # a paragraph
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of an object, which differs between runs
PROMPTS_OF_SESSION = (">>>", "...")


def renamed(
    code: str,
    names: Mapping[str, str],
    words: re.Pattern[str] = WORD,
) -> str:
    """Replace every word of a piece of code by its new name.

    Args:
        code: The code.
        names: Old name -> new name.
        words: What a word is.

    Returns:
        The code under new names.
    """

    def new_name(match: re.Match[str]) -> str:
        word = match[0]
        return names.get(word, word)

    return words.sub(new_name, code)


def documents(
    owners: Mapping[str, Any],
    names: Mapping[str, str],
) -> dict[str, str]:
    """Return the documents of a library under new names.

    Members without a docstring are left out. So are all but the first of those with the same last name
    and the same first paragraph.

    Args:
        owners: Dotted name -> module or class.
        names: Old name -> new name.

    Returns:
        Dotted new name -> signature and docstring of each public function, class and method.
    """
    found: dict[str, str] = {}
    known: set[tuple[str, str]] = set()
    for place, owner in owners.items():
        public = getattr(owner, "__all__", None) or dir(owner)
        for name in sorted(public):
            if name.startswith("_"):
                continue
            member = getattr(owner, name, None)
            text = _docstring(member)
            summary = (name, first_paragraph(text))
            if not text or summary in known:
                continue
            known.add(summary)
            path = f"{place}.{name}"
            signature = renamed(path + _signature(member), names)
            about = CODE.sub(lambda match: renamed(match[0], names), text)
            found.setdefault(renamed(path, names), f"{signature}\n{about}")
    return found


def documents_apart(
    places: Iterable[str],
    names: Mapping[str, str],
) -> dict[str, str]:
    """Return `documents`, made in another process.

    Once scipy is loaded, it adds to docstrings of numpy.

    Args:
        places: Dotted names of modules and classes.
        names: Old name -> new name.
    """
    arguments = json.dumps([list(places), dict(names)])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS["documents apart"], arguments],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def first_paragraph(text: str) -> str:
    """Return the first paragraph of a docstring on one line.

    Args:
        text: The docstring. A paragraph that is only the signature is passed over.
    """
    first, *others = text.strip().split("\n\n")
    for paragraph in (first, *others):
        on_one_line = " ".join(paragraph.split())
        if not SIGNATURE_ALONE.fullmatch(on_one_line):
            return on_one_line
    return " ".join(first.split())


def session(text: str) -> str:
    """Return the code of a docstring's interactive sessions as one program.

    Args:
        text: The docstring.
    """
    code = []
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.startswith(PROMPTS_OF_SESSION):
            code.append(stripped[4:])
    return "\n".join(code)


def _docstring(member: Any) -> str:
    """The docstring of a function, class, method or property; "" for anything else."""
    if callable(member) or isinstance(member, property):
        return inspect.getdoc(member) or ""
    return ""


def _signature(member: Any) -> str:
    """A member's signature, without what differs between runs."""
    try:
        return ADDRESS.sub("", str(inspect.signature(member)))
    except (TypeError, ValueError):
        return "(...)" if callable(member) else ""
