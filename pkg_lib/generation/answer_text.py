"""Reduce a model's text to its answer: without reasoning, end tokens and repeated prompts.

docs/extraction.md states the rules in its section "The answer".
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache

from pkg_lib.core.markdown import with_plain_line_ends

MAX_CHARACTERS = 200_000  # of an answer that are read
# Characters of a line before and after a tag in which its quotation marks are searched.
MAX_LINE = 1000
# A notebook reduces the same texts many times. This many texts of this length are remembered.
REMEMBERED = 1 << 15
MAX_REMEMBERED = 8000  # characters
MAX_TOKENS_IN_TEXT = 100  # end tokens in comments and strike-through that do not end the answer

# Opening and closing tags of reasoning. An entry of models.toml may list more.
_REASONING = "think thinking thought thoughts reasoning scratchpad analysis seed:think".split()
REASONING_TAGS: tuple[tuple[str, str], ...] = (
    *((f"<{name}>", f"</{name}>") for name in _REASONING),
    ("[THINK]", "[/THINK]"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", "<|channel|>final<|message|>"),
)
# Tokens that end a text or a turn, as some servers return them.
END_TOKENS = tuple(
    """
    </s>
    <eos>
    <|endoftext|>
    <|end_of_text|>
    <|end_of_turn|>
    <|end_of_sentence|>
    <|endofturn|>
    <|endofprompt|>
    <|im_end|>
    <|im_start|>
    <|im_sep|>
    <|eot_id|>
    <|eom_id|>
    <|EOT|>
    <|eot|>
    <|eos|>
    <|EOS|>
    <|end|>
    <|return|>
    <|eoa|>
    <|user|>
    <|assistant|>
    <|observation|>
    <|start_header_id|>
    <|START_OF_TURN_TOKEN|>
    <|END_OF_TURN_TOKEN|>
    <|END_RESPONSE|>
    <|file_separator|>
    <|file_sep|>
    <file_sep>
    <end_of_turn>
    <start_of_turn>
    <end_of_utterance>
    <｜end▁of▁sentence｜>
    <｜begin▁of▁sentence｜>
    <｜User｜>
    [/INST]
    [EOS]
    [e~[
    """.split()
)
# Tokens that begin a text or the model's turn. These and the end tokens may precede an answer.
START_TOKENS = tuple(
    """
    <s>
    <bos>
    <|begin_of_text|>
    <|startoftext|>
    <|start|>
    <|CHATBOT_TOKEN|>
    [INST]
    """.split()
)
TRIPLES = ('"""', "'''")
_USER_TOKENS = ("<|user|>", "<｜User｜>")  # the text after them is not the model's
_LEADING_TOKEN = "|".join(
    re.escape(token) for token in START_TOKENS + END_TOKENS if token not in _USER_TOKENS
)
_ROLE = (
    r"(?:assistant|model|chatbot|ai)(?=\s*(?:\n|\Z)|[ \t]*<)"
    r"(?:[ \t]*(?:<\|end_header_id\|>|<\|im_sep\|>))?"
)
_LEADING = re.compile(
    rf"(?:\s*(?:{_LEADING_TOKEN})(?:{_ROLE}|(?!\s*(?:user|system|tool)\b)))+", re.I
)
_END_TOKEN = re.compile("|".join(map(re.escape, END_TOKENS)))
_FENCE_START = re.compile(r"^[ \t]*(?:`{3,}|~{3,})", re.M)
_QUOTE = re.compile(r"['\"`]")
# The text that may precede an opening quotation mark: a prefix of a Python string, or no word.
_OPENS_QUOTE = re.compile(r"(?:^|\W)(?:[rbfuRBFU]{1,2})?\Z")
# A byte order mark anywhere, and other characters without width at the start of a line.
_INVISIBLE = re.compile("\ufeff|^[\u200b\u200c\u200d\u200e\u2060]+", re.M)
# A prompt that the server repeats before the answer.
_ECHO = re.compile(r"\s*(?:<s>\s*)?\[INST\].*?\[/INST\]", re.S)


def answer(text: str, tags: Sequence[tuple[str, str]] = ()) -> str:
    r"""Reduce a model's text to its answer.

    The answer is the text after the last closing reasoning tag. If a reasoning tag is opened and
    never closed, there is no answer. The first end token ends the answer. Tags and tokens within
    quotation marks belong to the text.

    Args:
        text: The text that the model wrote.
        tags: Pairs of opening and closing reasoning tags, in addition to ``REASONING_TAGS``.

    Returns:
        The answer with "\n" as line end, without byte order marks, and with at most
        ``MAX_CHARACTERS`` characters.
    """
    pairs = list(REASONING_TAGS)
    pairs.extend((opening, closing) for opening, closing in tags)
    if len(text) > MAX_REMEMBERED:
        return _reduce(text, tuple(pairs))
    return _reduce_once(text, tuple(pairs))


def _reduce(text: str, pairs: tuple[tuple[str, str], ...]) -> str:
    text = _INVISIBLE.sub("", with_plain_line_ends(text))
    text = text[_end_of_reasoning(text, pairs) :]
    echo = _ECHO.match(text)
    if echo and text[echo.end() :].strip():
        text = text[echo.end() :]
    leading = _LEADING.match(text)
    if leading:
        text = text[leading.end() :].lstrip("\n")
    text = text[: _first_end_token(text)]
    for match in _unquoted(_tag_pattern(tuple(opening for opening, _ in pairs)), text):
        if _begins_a_line(text, match):
            return ""
    return text[:MAX_CHARACTERS]


_reduce_once = lru_cache(REMEMBERED)(_reduce)


@lru_cache
def _tag_pattern(tags: tuple[str, ...]) -> re.Pattern[str]:
    """Compile a pattern for tags in any case.

    Before ">", a tag may have blanks or attributes. A channel tag may have options.
    """
    patterns = []
    for tag in tags:
        pattern = re.escape(tag)
        if re.fullmatch(r"</?[\w:]+>", tag):
            pattern = rf"{re.escape(tag[:-1])}(?:[ \t][^<>\n]*)?>"
        options = r"[^<\n]*(?:<\|constrain\|>[^<\n]*)?<\|message\|>"
        patterns.append(pattern.replace(r"<\|message\|>", options))
    return re.compile("|".join(patterns), re.I)


def _end_of_reasoning(text: str, pairs: Sequence[tuple[str, str]]) -> int:
    """Find the end of the last closing reasoning tag; 0 without one.

    A draft may break off inside a string. Triple quotation marks therefore do not hide a closing
    tag that follows its opening tag. If all closing tags after an opening tag are quoted on their
    lines, the last of them counts.
    """
    closing = _tag_pattern(tuple(closing for _, closing in pairs))
    if not closing.search(text):
        return 0
    opening = _tag_pattern(tuple(opening for opening, _ in pairs))
    marks = [(match, True) for match in closing.finditer(text)]
    marks += [(match, False) for match in opening.finditer(text)]
    marks.sort(key=lambda mark: mark[0].start())
    triples = _TripleQuotes(text)
    end = last_quoted = 0
    is_open = False
    for match, is_closing in marks:
        is_quoted = _is_quoted_on_line(text, match.start(), match.end())
        if is_open and not is_closing:
            continue
        if is_open and is_quoted:
            last_quoted = match.end()
            continue
        if not is_open and (is_quoted or triples.enclose(match.start(), since=end, in_pairs=True)):
            continue
        is_open = not is_closing
        if is_closing:
            end, last_quoted = match.end(), 0
    return max(end, last_quoted)


def _begins_a_line(text: str, match: re.Match[str]) -> bool:
    """Tell whether only blanks precede a tag on its line; a special token may be anywhere."""
    line_start = text.rfind("\n", 0, match.start()) + 1
    return match[0].startswith("<|") or not text[line_start : match.start()].strip()


class _TripleQuotes:
    """The positions of the triple quotation marks in a text."""

    def __init__(self, text: str) -> None:
        self._positions: list[list[int]] = []
        for quote in TRIPLES:
            self._positions.append([match.start() for match in re.finditer(quote, text)])

    def enclose(
        self,
        position: int,
        since: int = 0,
        in_pairs: bool = False,
    ) -> bool:
        """Tell whether an odd number of marks precedes a position and another mark follows it.

        Args:
            position: A position in the text.
            since: Only marks from this position on are counted.
            in_pairs: Require an odd number of marks after the position, so that each mark of the
                text has a partner.
        """
        for positions in self._positions:
            place = bisect_left(positions, position)
            before = place - bisect_left(positions, since)
            after = len(positions) - place
            is_followed = after % 2 == 1 if in_pairs else after > 0
            if before % 2 == 1 and is_followed:
                return True
        return False


def _first_end_token(text: str) -> int | None:
    """Find the position of the first token that ends the answer."""
    for number, match in enumerate(_unquoted(_END_TOKEN, text)):
        start = match.start()
        is_text = _is_in_fenced_comment(text, start)
        if match[0] == "</s>":
            is_text = is_text or _closes_strike_through(text, start)
        if not is_text or number >= MAX_TOKENS_IN_TEXT:
            return start
    return None


def _closes_strike_through(text: str, position: int) -> bool:
    """Tell whether an open "<s>" precedes a "</s>" in its paragraph."""
    paragraph = max(
        text.rfind("\n\n", 0, position), text.rfind("```", 0, position), position - MAX_LINE, 0
    )
    opening = text.rfind("<s>", paragraph, position)
    is_open = opening > text.rfind("</s>", paragraph, position)
    return is_open and not _is_quoted_on_line(text, opening, opening + len("<s>"))


def _is_in_fenced_comment(text: str, position: int) -> bool:
    """Tell whether "#" precedes a position on its line, within a fence that is closed later."""
    line_start = text.rfind("\n", 0, position) + 1
    if "#" not in text[line_start:position] or not _FENCE_START.search(text, position):
        return False
    return len(_FENCE_START.findall(text, 0, line_start)) % 2 == 1


def _unquoted(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches that are not part of a quoted string.

    A string is enclosed by quotation marks on the match's own line, or by triple ones anywhere.
    """
    triples = _TripleQuotes(text)
    for match in pattern.finditer(text):
        is_in_triple = triples.enclose(match.start())
        if not is_in_triple and not _is_quoted_on_line(text, match.start(), match.end()):
            yield match


def _is_quoted_on_line(
    text: str,
    start: int,
    end: int,
) -> bool:
    """Tell whether a quotation mark or backtick encloses a span on its line."""
    line_start = text.rfind("\n", 0, start) + 1
    quote = _open_quote(text[max(line_start, start - MAX_LINE) : start])
    after = text[end : end + MAX_LINE].partition("\n")[0]
    return bool(quote) and quote in after


def _open_quote(line: str) -> str:
    """Return the quotation mark that is open at the end of a line; "" if none is.

    A mark after a letter or digit is an apostrophe or a unit such as inches. It opens nothing,
    unless the letters are the prefix of a Python string.
    """
    opened = ""
    for match in _QUOTE.finditer(line):
        mark = match[0]
        if opened:
            opened = "" if mark == opened else opened
        elif mark == "`" or _OPENS_QUOTE.search(line, 0, match.start()):
            opened = mark
    return opened
