"""Documentation of a library under new names: its code is renamed, its prose is not."""

import inspect
import re
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

WORD = re.compile(r"[^\W\d]\w*")
# Code in a docstring: a line of a session, something in backticks, the name of a parameter or of See Also.
CODE = re.compile(r"(?m)^[ \t]*(?:>>>|\.\.\.).*$|``[^`\n]+``|`[^`\n]+`|^[ \t]*[\w.*]+(?:, [\w.*]+)*(?= ?:)")


def renamed(code: str, names: Mapping[str, str]) -> str:
    """Every word of a piece of code by its new name."""
    return WORD.sub(lambda m: names.get(m[0], m[0]), code)


def renamed_in(text: str, names: Mapping[str, str], code: re.Pattern[str] = CODE) -> str:
    """A text whose `code` alone is renamed."""
    return code.sub(lambda m: renamed(m[0], names), text)


def documents(owners: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, str]:
    """Dotted new name -> signature and docstring, of each public function, class and method of the owners.

    `owners` are modules and classes by their dotted names; what has no docstring is left out.
    """
    found: dict[str, str] = {}
    for place, owner in owners.items():
        for name, item in _members(owner):
            text = inspect.getdoc(item) if callable(item) or isinstance(item, property) else None
            if text:
                head = renamed(f"{place}.{name}{_signature(item)}", names)
                found.setdefault(renamed(f"{place}.{name}", names), f"{head}\n{renamed_in(text, names)}")
    return found


def _members(owner: Any) -> Iterator[tuple[str, Any]]:
    public = getattr(owner, "__all__", None) if isinstance(owner, ModuleType) else None
    for name in sorted(public or dir(owner)):
        item = getattr(owner, name, None)
        if not name.startswith("_") and item is not None and not isinstance(item, ModuleType):
            yield name, item


def _signature(item: Any) -> str:
    try:
        return str(inspect.signature(item))
    except (TypeError, ValueError):
        return "(...)" if callable(item) else ""


def session(text: str) -> str:
    """The code of a docstring's interactive sessions, as one program."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line[4:] for line in lines if line.startswith((">>>", "...")))
