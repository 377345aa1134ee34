"""Similarity of a completion and its reference, as CrossCodeEval measures it (Ding et al., 2023).

Line comments are removed first. The authors' scorer cuts at every "#" and "//" of every language.
Here a comment sign counts only in its own language and outside strings.
"""

import re
import tomllib
from pathlib import Path

from rapidfuzz import fuzz

from pkg_lib.core.registry import Registry

_WORD = re.compile(r"\w+")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_QUOTED = r"""
    \"{3}(?:[^\\]|\\.)*?\"{3} | '{3}(?:[^\\]|\\.)*?'{3} | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
"""
_STRING = re.compile(_QUOTED, re.S | re.X)
# Group 1 is kept: a literal or a block comment. Anything else is a comment up to the end of its
# line.
_PYTHON_COMMENT = re.compile(rf"({_QUOTED}) | \#[^\n]*", re.S | re.X)
_OTHER_COMMENT = re.compile(rf"({_QUOTED} | `(?:[^`\\]|\\.)*` | /\*.*?\*/) | //[^\n]*", re.S | re.X)
_WORDS_FILE = Path(__file__).with_name("keywords.toml")
_WORDS: dict[str, str] = tomllib.loads(_WORDS_FILE.read_text("utf8"))
KEYWORDS: Registry[frozenset[str]] = Registry(
    "language",
    {language: frozenset(words.split()) for language, words in _WORDS.items()},
)


def match(
    completion: str,
    reference: str,
    language: str = "python",
) -> dict[str, float]:
    """Compare a completion with its reference (Table 8 of the cAST paper).

    Args:
        completion: Generated code.
        reference: The original code.
        language: A key of KEYWORDS.

    Returns:
        Values from 0 to 1: ``exact`` match of the lines; ``edit`` similarity with two decimals, as
        fuzzywuzzy gives it; ``identifiers_exact``, whether the identifiers are the same in order;
        and ``identifiers_f1`` of their sets.

    Raises:
        UserError: The language is unknown.
    """
    KEYWORDS.get_or_fail(language)
    text = without_comments(completion, language)
    wanted = without_comments(reference, language)
    names = identifiers(text, language)
    wanted_names = identifiers(wanted, language)
    common = len(set(names) & set(wanted_names))
    total = len(set(names)) + len(set(wanted_names))
    return {
        "exact": float(code_lines(text) == code_lines(wanted)),
        "edit": round(fuzz.ratio(text.strip(), wanted.strip())) / 100,
        "identifiers_exact": float(names == wanted_names),
        "identifiers_f1": 2 * common / total if total else 0.0,
    }


def without_comments(
    text: str,
    language: str = "python",
) -> str:
    """Remove line comments. Literals and block comments are kept.

    Args:
        text: Source code.
        language: A key of KEYWORDS.
    """
    comment = _PYTHON_COMMENT if language == "python" else _OTHER_COMMENT
    return comment.sub(lambda found: found[1] or "", text)


def code_lines(text: str) -> list[str]:
    """Return the lines that are not empty, stripped.

    Args:
        text: Source code.
    """
    lines = (line.strip() for line in text.split("\n"))
    return [line for line in lines if line]


def identifiers(
    text: str,
    language: str = "python",
) -> list[str]:
    """Return the identifiers outside string literals in order, without keywords.

    Args:
        text: Source code.
        language: A key of KEYWORDS.
    """
    words = _WORD.findall(_STRING.sub("", text))
    names = filter(_IDENTIFIER.fullmatch, words)
    return [name for name in names if name not in KEYWORDS[language]]
