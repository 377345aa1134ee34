"""The name of a corpus as a typed value: what is read, and how contexts are retrieved from it.

A name consists of one or more corpora, joined by "+", and of options that differ from the study's:

    textbook
    textbook+source:/home/me/code
    textbook, embedder BGE-base@COMMIT, top 3, 4000 characters, tokenizer unicode
    bolt://HOST[:PORT][/NAME]

`parse_corpus` reads a name and `CorpusSpec.name` prints it. No other code takes a name apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from pkg_lib.core import embedders
from pkg_lib.core.reading import absolute, shown
from pkg_lib.core.types import UserError

# Tokenizers of BM25 (retrieval/words.py): the committed study's, and the one for everything else.
TOKENIZER_NAMES = ASCII, UNICODE = "ascii", "unicode"
MINILM = embedders.DEFAULT
# Corpora that are the user's own code or text. Their embedder is the quick one by default; that of
# the committed study's corpora stays, so that its results can be repeated.
SOURCE = (
    "source"  # source:DIR, a directory of the user; also the first part of its documents' names
)
_OWN_SOURCES = (SOURCE, "docstrings")
CONTEXT_CHARS = 2000  # a row of PythonAlpaca has 349 tokens (Table 9)
_GRAPH_DATABASE = re.compile(r"(bolt|neo4j)(\+s|\+ssc)?://")
_NAME = re.compile(
    r"(?P<corpora>.*?)"
    r"(?:, embedder (?P<embedder>.+?))?"
    r"(?:, top (?P<top_k>[1-9][0-9]*))?"
    r"(?:, (?P<length>[1-9][0-9]*) characters)?"
    r"(?:, tokenizer (?P<tokenizer>\w+))?",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class CorpusPart:
    """One of the corpora that a name joins.

    Attributes:
        source: A registered corpus such as "textbook", or the text before the colon of
            "source:DIR".
        value: The text after the colon, such as a path or a package; None without a colon.
    """

    source: str
    value: str | None = None

    @property
    def name(self) -> str:
        """The part as a name contains it."""
        return self.source if self.value is None else f"{self.source}:{self.value}"


@dataclass(frozen=True, slots=True)
class CorpusSpec:
    """A corpus and how contexts are retrieved from it.

    Attributes:
        parts: The corpora that are read together, in order.
        embedder: Name of the embedder, with its commit unless it is a default one; "" is replaced
            by the corpus's default (`default_embedder`).
        top_k: Number of retrieved units that form a context.
        length: Maximum length of each unit in characters.
        tokenizer: Name of BM25's tokenizer; "" for the corpus's default (`corpora.tokenizer_of`).

    Raises:
        UserError: The printed name would mean another corpus.
    """

    parts: tuple[CorpusPart, ...]
    embedder: str = ""
    top_k: int = 1
    length: int = CONTEXT_CHARS
    tokenizer: str = ""

    def __post_init__(self) -> None:
        """Fill in the default embedder, and check that the name can be read back."""
        if not self.embedder:
            object.__setattr__(self, "embedder", default_embedder(self.parts))
        if self.is_stored_graph and len(self.parts) > 1:
            raise UserError(
                "a graph in a graph database is a whole corpus; "
                "bolt://HOST[:PORT][/NAME] cannot be joined with another"
            )
        fields = {field: getattr(self, field) for field in CorpusSpec.__slots__}
        if _fields_of(self.name) != fields:
            raise UserError(
                f"corpus {shown(self.name)} would be read as another corpus: a path must not "
                "contain '+' or end like ', top 3'; rename it, or use a link"
            )

    @property
    def documents(self) -> str:
        """The name without retrieval options: corpora of equal documents have equal ones."""
        return "+".join(part.name for part in self.parts)

    @property
    def name(self) -> str:
        """The canonical name, which `parse_corpus` reads. Default options are omitted."""
        texts = [self.documents]
        if self.embedder != default_embedder(self.parts):
            texts.append(f"embedder {self.embedder}")
        if self.top_k != 1:
            texts.append(f"top {self.top_k}")
        if self.length != CONTEXT_CHARS:
            texts.append(f"{self.length} characters")
        if self.tokenizer:
            texts.append(f"tokenizer {self.tokenizer}")
        return ", ".join(texts)

    def __str__(self) -> str:
        """Return the name, which `parse_corpus` reads."""
        return self.name

    @property
    def has_default_options(self) -> bool:
        """Whether contexts are retrieved with the defaults of these corpora."""
        return self == CorpusSpec(self.parts)

    @property
    def is_stored_graph(self) -> bool:
        """Whether the corpus is a graph in a graph database."""
        return any(_GRAPH_DATABASE.match(part.name) for part in self.parts)

    def with_absolute_paths(self) -> CorpusSpec:
        """Make the directories of source:DIR absolute, since notebooks run in another directory.

        Returns:
            The same corpus. Its name no longer depends on the working directory.
        """
        parts = []
        for part in self.parts:
            if part.source == SOURCE and part.value:
                part = CorpusPart(SOURCE, str(absolute(part.value)))
            parts.append(part)
        return replace(self, parts=tuple(parts))


def default_embedder(parts: tuple[CorpusPart, ...]) -> str:
    """Return the embedder of a corpus whose name chooses none.

    Args:
        parts: The corpora that are read together.

    Returns:
        The study's embedder; the quantized one where a part is a directory or package of the user.
    """
    is_own = any(part.source in _OWN_SOURCES and part.value is not None for part in parts)
    return embedders.INT8 if is_own else MINILM


def parse_corpus(name: str | CorpusSpec) -> CorpusSpec:
    """Parse the name of a corpus; the inverse of `CorpusSpec.name`.

    The name is not looked up: whether the corpora exist is for `corpora.check_name`.

    Args:
        name: A name as described at the top of this module. A `CorpusSpec` is returned unchanged.

    Returns:
        The corpora and the options. An option that the name omits has its default.

    Raises:
        UserError: A graph in a graph database is joined with something, or the name is ambiguous.
    """
    return name if isinstance(name, CorpusSpec) else CorpusSpec(**_fields_of(name))


def _fields_of(name: str) -> dict[str, Any]:
    """The fields of a `CorpusSpec`, before it checks them."""
    match = _NAME.fullmatch(name)
    assert match is not None  # every group is optional, and the first one takes any text
    # The address of a graph may contain "+", as in bolt+s://HOST.
    is_graph = _GRAPH_DATABASE.match(match["corpora"])
    names = [match["corpora"]] if is_graph else match["corpora"].split("+")
    parts = []
    for text in names:
        source, colon, value = text.partition(":")
        parts.append(CorpusPart(source, value if colon else None))
    return {
        "parts": tuple(parts),
        "embedder": match["embedder"] or default_embedder(tuple(parts)),
        "top_k": int(match["top_k"] or 1),
        "length": int(match["length"] or CONTEXT_CHARS),
        "tokenizer": match["tokenizer"] or "",
    }
