"""Documentation of a library under new names: its code is renamed, its prose is not."""

import inspect
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pkg_lib.core.store import ROOT

WORD = re.compile(r"[^\W\d]\w*")
# Code in a docstring: a line of a session, something in backticks, the name of a parameter or of See Also.
CODE = re.compile(
    r"(?m)^[ \t]*(?:>>>|\.\.\.).*$|``[^`\n]+``|`[^`\n]+`|^[ \t]*[\w.*]+(?:, [\w.*]+)*(?= ?:)"
)

# Program texts that run elsewhere: in the sandbox, beside a library, in a process of their own.
PROGRAMS: dict[str, str] = tomllib.loads(
    Path(__file__).with_name("programs.toml").read_text("utf8")
)


def renamed(code: str, names: Mapping[str, str]) -> str:
    """Every word of a piece of code by its new name."""
    return WORD.sub(lambda m: names.get(m[0], m[0]), code)


def documents(owners: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    """Dotted new name -> signature and docstring, of each public function, class and method of the owners.

    `owners` are modules and classes by their dotted names. What has no docstring is left out, and of
    documents with one last name and one first paragraph all but the first.
    """
    found: dict[str, str] = {}
    known: set[tuple[str, str]] = set()
    for place, owner in owners.items():
        public = getattr(owner, "__all__", None) or dir(owner)
        for name in sorted(n for n in public if not n.startswith("_")):
            item = getattr(owner, name, None)
            text = inspect.getdoc(item) if callable(item) or isinstance(item, property) else None
            same = (name, first_paragraph(text or ""))
            if text and same not in known:
                known.add(same)
                head = renamed(f"{place}.{name}{_signature(item)}", names)
                about = CODE.sub(lambda m: renamed(m[0], names), text)
                found.setdefault(renamed(f"{place}.{name}", names), f"{head}\n{about}")
    return found


def documents_apart(places: Iterable[str], names: Mapping[str, str]) -> dict[str, str]:
    """`documents` in a process of its own: scipy, once it is loaded, adds to docstrings of numpy."""
    given = json.dumps([[*places], dict(names)])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAMS["documents apart"], given],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)


def first_paragraph(text: str) -> str:
    """Of a docstring, on one line; a paragraph that is only the signature is passed over."""
    paragraphs = [" ".join(p.split()) for p in text.strip().split("\n\n")]
    return next((p for p in paragraphs if not re.fullmatch(r"[\w.]+\(.*\)", p)), paragraphs[0])


def _signature(item: Any) -> str:
    try:
        return re.sub(r" at 0x[0-9a-f]+", "", str(inspect.signature(item)))
    except (TypeError, ValueError):
        return "(...)" if callable(item) else ""


def session(text: str) -> str:
    """The code of a docstring's interactive sessions, as one program."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line[4:] for line in lines if line.startswith((">>>", "...")))
