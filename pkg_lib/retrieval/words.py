"""The words of code and prose that BM25 compares.

There are two tokenizers. Each splits both texts and queries.

``ascii`` is the tokenizer of the committed study. It splits a word at every letter outside a to z
and drops combining marks: "café" becomes "caf", and "IDs" becomes "ds".

``unicode`` is the default everywhere else. It follows these rules:

- Compatibility forms (full-width letters, ligatures, superscripts) are replaced, and case is
  folded.
- Accents are removed, and so is the optional pointing of Hebrew and Arabic. Vowel signs that are
  part of the spelling, as in Devanagari, Thai and Korean, are kept.
- Identifiers are split at underscores, changes of case, and digits. A name that is split is also
  kept whole: "HTTPServer" gives http, server and httpserver, and "utf8" gives utf, 8 and utf8.
- The plural of an acronym is the acronym: "URLs" gives url, "GPUs" gives gpu.
- Scripts without spaces between words (Chinese, Japanese, Thai and others) give single characters
  and pairs of neighbours. Korean does as well, because its particles follow the noun directly.
- English stop words and single ASCII letters are dropped, and English words are reduced to their
  stems.
"""

import re
import unicodedata
from collections.abc import Callable
from functools import cache, lru_cache
from itertools import pairwise

import regex
import Stemmer

from pkg_lib.core.registry import Registry
from pkg_lib.data.corpora import ASCII, UNICODE

Tokenizer = Callable[[str], list[str]]

_stem: Callable[[str], str] = Stemmer.Stemmer("english").stemWord

_ASCII_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")

LONGEST_NAME = 60  # characters; a longer run is encoded data, which nobody searches for as a whole
# Scripts without spaces between words, and Hangul. Each character can be a word.
_UNSPACED = (
    r"\p{Han}\p{Hiragana}\p{Katakana}\u30fc\p{Bopomofo}\p{Hangul}\p{Yi}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\p{Javanese}\p{Balinese}\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}"
)
# Marks that can be left out without changing the word: accents on letters of European alphabets,
# the points of Hebrew, the vowels, hamza and lengthening stroke of Arabic, invisible characters.
_OPTIONAL = regex.compile(
    r"[\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
    r"\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7"
    r"\u0610-\u061a\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0640"
    r"\u00ad\u200c-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ufe00-\ufe0f]+"
)
# An apostrophe that is part of a word: п'ять, צה"ל. In Catalan a raised dot has this role:
# col·lecció.
_INNER = regex.compile(
    r"(?<=\p{Cyrillic})['’](?=\p{Cyrillic})|(?<=\p{Hebrew})[׳״'’\"](?=\p{Hebrew})|(?<=[lL])·(?=[lL])"
)
# Letters that Unicode does not decompose, as they are written without their stroke or ligature.
_BASE_LETTERS = str.maketrans(
    dict(zip("øØđĐłŁħĦŧŦıðÐʼ", "oOdDlLhHtTidD’", strict=True))
    | {"æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "þ": "th", "Þ": "TH"}
)

# A run of letters and digits, with an English ending such as 's or n't. In rb's' and b's' the
# letters before the quotation mark are the prefix of a string.
_ENDING = r"(?:(?<=\w\w)(?<!\b[rRbBfF]{2})['’](?i:s|t|d|m|re|ve|ll)(?!\w))?"
_RUN = regex.compile(r"[\p{L}\p{M}\p{N}]+" + _ENDING)
_ASCII_RUN = re.compile("[A-Za-z0-9]+" + _ENDING, re.ASCII)
_DOTTED = regex.compile(
    r"(?<![\p{L}\p{N}_.])(?:\p{Lu}\.){2,}(?:\p{Lu}(?![\p{L}\p{N}_]))?"
)  # U.S.A.
_PLURAL_OF_ACRONYM = regex.compile(r"\p{Lu}{2,}s")
_ACRONYM = r"\p{Lu}{2,}s(?![\p{Ll}\p{M}])|\p{Lu}+(?![\p{Ll}\p{M}])"
_PART = regex.compile(
    rf"[{_UNSPACED}][{_UNSPACED}\p{{M}}]*|{_ACRONYM}|\p{{Lu}}?[\p{{Ll}}\p{{M}}]+|\p{{N}}+"
    rf"|(?:(?![{_UNSPACED}])[\p{{Lo}}\p{{Lm}}\p{{M}}])+"
)
_BEGINS_UNSPACED = regex.compile(f"[{_UNSPACED}]")
_CHARACTER = regex.compile(r"\X")
# Plurals that the stemmer does not reduce: of words without a vowel (pdfs, but not css), and gpus.
_PLURAL_WITHOUT_VOWEL = re.compile(
    r"[b-df-hj-np-tv-z]{1,}[b-df-hj-np-rtv-z]s|[b-df-hj-np-tv-z]{2}us"
)


@cache
def _stop_words() -> frozenset[str]:
    """The list of bm25s, which imports a compiler; whoever only reads results does without."""
    from bm25s.stopwords import STOPWORDS_EN

    return frozenset(STOPWORDS_EN)


def ascii_tokens(text: str) -> list[str]:
    """Return the words of a text by the rules of the committed study.

    Args:
        text: Code or prose.

    Returns:
        Lower-case English stems, without stop words and one-letter names.
    """
    tokens = []
    stop_words = _stop_words()
    for match in _ASCII_WORD.findall(text):
        word = match.lower()
        if word not in stop_words and (len(word) > 1 or word.isdigit()):
            tokens.append(_stem(word))
    return tokens


def unicode_tokens(text: str) -> list[str]:
    """Return the words of a text in any language, with identifiers split.

    Args:
        text: Code or prose.

    Returns:
        Words by the rules of this module, in the order of the text.
    """
    if text.isascii():
        runs = _ASCII_RUN
    else:
        text, runs = fold(text), _RUN
    text = _DOTTED.sub(lambda match: match[0].replace(".", "") + " ", text)
    tokens: list[str] = []
    for run in runs.findall(text):
        # Names repeat in code, so that nearly every run is known. Long ones waste memory.
        tokens += _known_run(run) if len(run) <= LONGEST_NAME else _split_run(run)
    return tokens


def fold(text: str) -> str:
    """Replace compatibility forms and remove accents and other optional marks; case is kept.

    Args:
        text: Any text; characters that are not valid Unicode are left as they are.

    Returns:
        The text in normal form C, in which a Korean syllable is one character.
    """
    text = unicodedata.normalize("NFKD", text.translate(_BASE_LETTERS))
    text = _OPTIONAL.sub("", text)
    folded: str = _INNER.sub("", unicodedata.normalize("NFC", text))
    return folded


@lru_cache(maxsize=1 << 17)
def _known_run(run: str) -> tuple[str, ...]:
    return tuple(_split_run(run))


def _split_run(run: str) -> list[str]:
    """Return the tokens of a run of letters and digits."""
    run = _without_ending(run)
    parts = _PART.findall(run)
    tokens: list[str] = []
    spaced = 0
    for part in parts:
        if _BEGINS_UNSPACED.match(part):
            tokens += _characters_and_pairs(part)
            continue
        spaced += 1
        tokens += _word(part)
    if spaced == len(parts) > 1 and len(run) <= LONGEST_NAME:
        tokens += _word(run)
    return tokens


def _without_ending(run: str) -> str:
    """Remove 's, 're and the like; "don't" becomes "dont", as it is also written."""
    word, apostrophe, ending = run.replace("’", "'").partition("'")
    if apostrophe and ending in "tT" and word[-1] in "nN":
        return word + ending
    return word


def _characters_and_pairs(part: str) -> list[str]:
    """Return characters and pairs of neighbours, as Lucene's CJK analyzer does."""
    characters: list[str] = _CHARACTER.findall(part)
    pairs = [first + second for first, second in pairwise(characters)]
    return characters + pairs


def _word(part: str) -> list[str]:
    """Return a word as it is compared; nothing for a stop word or a single ASCII letter."""
    if _PLURAL_OF_ACRONYM.fullmatch(part):
        part = part[:-1]
    word = part.casefold()
    if not word.isascii():
        digits = (str(unicodedata.decimal(c, c)) for c in word)
        word = "".join(digits)
    if not word.isascii():
        return [word]
    if word in _stop_words() or (len(word) == 1 and not word.isdigit()):
        return []
    if _PLURAL_WITHOUT_VOWEL.fullmatch(word):
        return [word[:-1]]
    return [_stem(word)]


TOKENIZERS: Registry[Tokenizer] = Registry(
    "tokenizer", {ASCII: ascii_tokens, UNICODE: unicode_tokens}
)
