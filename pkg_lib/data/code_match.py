"""How far a completion is the reference, as CrossCodeEval measures it (Ding et al., 2023).

Comments up to a line's end are left out first. The authors' scorer cuts at every "#" and "//" of every
language; here a mark counts only in its own and outside strings.
"""

import re
import tomllib
from pathlib import Path

from rapidfuzz import fuzz

from pkg_lib.core.registry import Registry

_WORD = re.compile(r"\w+")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_LONG = [rf"{quote * 3}(?:[^\\]|\\.)*?{quote * 3}" for quote in "\"'"]
_QUOTED = "|".join(_LONG + [rf"{quote}(?:[^{quote}\\\n]|\\.)*{quote}" for quote in "\"'"])
_STRING = re.compile(_QUOTED, re.S)
_COMMENTS = {  # what is kept (a literal, a block comment), or a comment up to the end of its line
    "python": re.compile(rf"({_QUOTED})|#[^\n]*", re.S),
    "java": re.compile(rf"({_QUOTED}|`(?:[^`\\]|\\.)*`|/\*.*?\*/)|//[^\n]*", re.S),
}
_WORDS = tomllib.loads(Path(__file__).with_name("keywords.toml").read_text("utf8"))
KEYWORDS = Registry(
    "language", {language: frozenset(words.split()) for language, words in _WORDS.items()}
)


def match(completion: str, reference: str, language: str = "python") -> dict[str, float]:
    """Table 8: exact match of the lines, edit similarity; the identifiers in order, and F1 of their sets.

    Edit similarity has two decimals, as fuzzywuzzy's. UserError for an unknown language.
    """
    KEYWORDS.get_or_fail(language)
    text, wanted = without_comments(completion, language), without_comments(reference, language)
    names, wanted_names = identifiers(text, language), identifiers(wanted, language)
    every, common = len({*names}) + len({*wanted_names}), len({*names} & {*wanted_names})
    return {
        "exact": float(code_lines(text) == code_lines(wanted)),
        "edit": round(fuzz.ratio(text.strip(), wanted.strip())) / 100,
        "identifiers_exact": float(names == wanted_names),
        "identifiers_f1": 2 * common / every if every else 0.0,
    }


def without_comments(text: str, language: str = "python") -> str:
    """The text less its comments up to the end of a line; literals and block comments stay."""
    comments = _COMMENTS["python" if language == "python" else "java"]
    return comments.sub(lambda kept: kept[1] or "", text)


def code_lines(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def identifiers(text: str, language: str = "python") -> list[str]:
    """The words outside string literals that are no keywords, in order."""
    words = _WORD.findall(_STRING.sub("", text))
    return [w for w in words if _IDENTIFIER.fullmatch(w) and w not in KEYWORDS[language]]
