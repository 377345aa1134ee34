"""How far a completion is the reference, as CrossCodeEval measures it (Ding et al., 2023): code and identifier match.

Comments up to the end of a line are left out first, wherever they begin; block comments stay, as they do in the authors'
scorer. Theirs cuts at every "#" and "//" of every language, so also in a string and at Python's floor division; here a mark
counts only in its own language and outside string literals. Every measure is a fraction of one completion; means over
completions are theirs.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass

from rapidfuzz import fuzz

from pkg_lib.core.types import UserError

_WORD = re.compile(r"\w+")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUOTED = "|".join(
    [rf"{quote * 3}(?:[^\\]|\\.)*?{quote * 3}" for quote in "\"'"]
    + [rf"{quote}(?:[^{quote}\\\n]|\\.)*{quote}" for quote in "\"'"]
)
_STRING = re.compile(_QUOTED, re.S)
_COMMENTS = {  # what is kept (a literal, a block comment), or a comment up to the end of its line
    "python": re.compile(rf"({_QUOTED})|#[^\n]*", re.S),
    "java": re.compile(rf"({_QUOTED}|`(?:[^`\\]|\\.)*`|/\*.*?\*/)|//[^\n]*", re.S),
}
_C_LIKE = (
    "abstract boolean break byte case catch char class const continue default do double else enum extends false final finally "
    "float for if implements import instanceof int interface long new null package private protected public return short static "
    "super switch this throw throws true try void volatile while"
)
KEYWORDS: dict[str, frozenset[str]] = {
    "python": frozenset(keyword.kwlist),
    "java": frozenset(f"{_C_LIKE} assert goto native strictfp synchronized transient var".split()),
    "csharp": frozenset(
        f"{_C_LIKE} as base bool checked decimal delegate event explicit extern fixed foreach goto implicit in internal is lock "
        "namespace object operator out override params readonly ref sbyte sealed sizeof stackalloc string struct typeof uint "
        "ulong unchecked unsafe ushort using var virtual".split()
    ),
    "typescript": frozenset(
        f"{_C_LIKE} any as async await debugger declare delete export from function get in is keyof let module namespace never "
        "number of readonly require set string symbol type typeof undefined unknown var with yield".split()
    ),
}


@dataclass(frozen=True, slots=True)
class Match:
    """Exact match of lines, edit similarity, exact match of the identifiers' sequence, F1 of their sets; all from 0 to 1."""

    exact: float
    edit: float
    identifiers_exact: float
    identifiers_f1: float


def match(completion: str, reference: str, language: str = "python") -> Match:
    """The four measures of Table 8. UserError for an unknown language."""
    if language not in KEYWORDS:
        raise UserError(f"unknown language '{language}'; choose from: {', '.join(KEYWORDS)}")
    ours, theirs = without_comments(completion, language), without_comments(reference, language)
    found, wanted = identifiers(ours, language), identifiers(theirs, language)
    exact = float(code_lines(ours) == code_lines(theirs))
    return Match(exact, edit_similarity(ours, theirs), float(found == wanted), f1(set(found), set(wanted)))


def without_comments(text: str, language: str = "python") -> str:
    """The text less its comments up to the end of a line; literals and block comments stay."""
    comments = _COMMENTS["python" if language == "python" else "java"]
    return comments.sub(lambda found: found[1] or "", text)


def code_lines(text: str) -> list[str]:
    """The lines with anything on them, without their indentation."""
    return [line.strip() for line in text.split("\n") if line.strip()]


def edit_similarity(a: str, b: str) -> float:
    """1 less the insertions and deletions from a to b over both lengths, to two decimals as fuzzywuzzy gives it; 1 for two
    empty texts."""
    return round(fuzz.ratio(a.strip(), b.strip())) / 100


def identifiers(text: str, language: str = "python") -> list[str]:
    """The words outside string literals that are no keywords, in order."""
    words = _WORD.findall(_STRING.sub("", text))
    return [w for w in words if _IDENTIFIER.fullmatch(w) and w not in KEYWORDS[language]]


def f1(found: set[str], wanted: set[str]) -> float:
    """2 TP / (2 TP + FP + FN); 0 where neither holds anything, as CrossCodeEval counts it."""
    both = 2 * len(found & wanted)
    return both / (len(found) + len(wanted)) if found or wanted else 0.0
