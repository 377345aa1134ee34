"""How far a completion is the reference, as CrossCodeEval measures it (Ding et al., 2023).

Comments up to the end of a line are left out first; block comments stay, as in the authors' scorer. Theirs
cuts at every "#" and "//" of every language; here a mark counts only in its own and outside strings.
"""

from __future__ import annotations

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
KEYWORDS = Registry("language", {language: frozenset(words.split()) for language, words in _WORDS.items()})


def match(completion: str, reference: str, language: str = "python") -> dict[str, float]:
    """Table 8: exact match of the lines, edit similarity; the identifiers in order, and F1 of their sets.

    UserError for an unknown language.
    """
    KEYWORDS.get_or_fail(language)
    text, wanted = without_comments(completion, language), without_comments(reference, language)
    names, wanted_names = identifiers(text, language), identifiers(wanted, language)
    return {
        "exact": float(code_lines(text) == code_lines(wanted)),
        "edit": edit_similarity(text, wanted),
        "identifiers_exact": float(names == wanted_names),
        "identifiers_f1": f1(set(names), set(wanted_names)),
    }


def without_comments(text: str, language: str = "python") -> str:
    """The text less its comments up to the end of a line; literals and block comments stay."""
    comments = _COMMENTS["python" if language == "python" else "java"]
    return comments.sub(lambda kept: kept[1] or "", text)


def code_lines(text: str) -> list[str]:
    """The lines with anything on them, without their indentation."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def edit_similarity(a: str, b: str) -> float:
    """1 less the insertions and deletions over both lengths, to two decimals as fuzzywuzzy has it."""
    return round(fuzz.ratio(a.strip(), b.strip())) / 100


def identifiers(text: str, language: str = "python") -> list[str]:
    """The words outside string literals that are no keywords, in order."""
    words = _WORD.findall(_STRING.sub("", text))
    return [w for w in words if _IDENTIFIER.fullmatch(w) and w not in KEYWORDS[language]]


def f1(names: set[str], wanted: set[str]) -> float:
    """2 TP / (2 TP + FP + FN); 0 where neither holds anything, as CrossCodeEval counts it."""
    return 2 * len(names & wanted) / (len(names) + len(wanted)) if names or wanted else 0.0
