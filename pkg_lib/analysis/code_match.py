"""How far a completion is the reference, as CrossCodeEval measures it (Ding et al., 2023): code and identifier match.

Comments and empty lines are left out first. Every measure is a fraction of one completion; means over completions are theirs.
"""

from __future__ import annotations

import keyword
import re
from dataclasses import dataclass

from rapidfuzz import fuzz

from pkg_lib.types import UserError

_WORD = re.compile(r"\w+")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'')
_COMMENTS = {
    "python": re.compile(r"^[ \t]*#.*$", re.M),
    "java": re.compile(r"/\*.*?\*/|^[ \t]*//[^\n]*$", re.M | re.S),
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
    ours, theirs = code_lines(completion, language), code_lines(reference, language)
    found, wanted = identifiers("\n".join(ours), language), identifiers("\n".join(theirs), language)
    edit = edit_similarity("\n".join(ours), "\n".join(theirs))
    return Match(float(ours == theirs), edit, float(found == wanted), f1(set(found), set(wanted)))


def code_lines(text: str, language: str = "python") -> list[str]:
    """The lines with code, without their indentation."""
    comments = _COMMENTS["python" if language == "python" else "java"]
    return [line.strip() for line in comments.sub("", text).split("\n") if line.strip()]


def edit_similarity(a: str, b: str) -> float:
    """1 less the insertions and deletions from a to b over both lengths, to two decimals as fuzzywuzzy gives it; 1 for two
    empty texts."""
    return round(fuzz.ratio(a.strip(), b.strip())) / 100


def identifiers(text: str, language: str = "python") -> list[str]:
    """The words outside plain strings that are no keywords, in order."""
    words = _WORD.findall(_STRING.sub("", text))
    return [w for w in words if _IDENTIFIER.fullmatch(w) and w not in KEYWORDS[language]]


def f1(found: set[str], wanted: set[str]) -> float:
    """2 TP / (2 TP + FP + FN); 0 where neither holds anything, as CrossCodeEval counts it."""
    both = 2 * len(found & wanted)
    return both / (len(found) + len(wanted)) if found or wanted else 0.0
