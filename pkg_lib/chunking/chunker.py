"""Chunkers by name: a file's bytes -> Chunks and the file's Account (Sections 2 and 4 of cAST).

Mode "as-published" is what `astchunk` 0.1.0 writes: sizes in bytes, text written anew from lines and columns,
leaves over the limit dropped, TypeScript read as TSX (but no indent beyond column 2,000). Mode "lossless" is
the fourth design goal: the chunks concatenated are the file; sizes in characters; what is over the limit is
cut at line ends, a line between characters. Sizes never count white space.
"""

from dataclasses import dataclass
from typing import NamedTuple

from pkg_lib.chunking import assembly
from pkg_lib.chunking.account import Account
from pkg_lib.chunking.languages import GRAMMARS, language_of
from pkg_lib.chunking.source import Source
from pkg_lib.core.registry import unknown
from pkg_lib.core.types import UserError
from pkg_lib.core.workers import paused_collector

# As the authors run it; without its merging; one chunk for every node that fits (Table 2); the baseline.
METHODS = ("cast", "algorithm-1", "split-only", "fixed-size")
MODES = ("as-published", "lossless")
MAX_SIZE = 2000  # Section 4
LINES = 60  # the median of cast chunks over the standard library is 63, and the paper matches the two so


@dataclass(frozen=True, slots=True)
class Chunk:
    """Bytes `start` to `stop`, lines `first` to `last` (from 1); as published `text` is laid out anew."""

    document: str
    start: int
    stop: int
    first: int
    last: int
    text: str
    size: int

    @property
    def source(self) -> str:
        return f"{self.document}:{self.first}-{self.last}"


class Chunked(NamedTuple):
    """What a chunker makes of one file."""

    chunks: list[Chunk]
    account: Account


@dataclass(frozen=True, slots=True)
class Chunker:
    """A method, a mode and their limits (`lines`: of fixed-size alone); UserError for what cannot be."""

    method: str = "cast"
    mode: str = "lossless"
    max_size: int = MAX_SIZE
    lines: int = LINES

    def __post_init__(self) -> None:
        for what, value, names in (("method", self.method, METHODS), ("mode", self.mode, MODES)):
            if value not in names:
                raise unknown(what, value, names)
        if self.max_size < 1 or self.lines < 1:
            raise UserError("max_size and lines are at least 1")

    def chunk(self, data: bytes, document: str, language: str | None = None) -> Chunked:
        """The chunks of one file, in order; UserError where neither its suffix nor `language` is known."""
        language = language or language_of(document)
        if language is None:
            known = ", ".join(GRAMMARS)
            raise UserError(
                f"{document}: no language has this suffix; give --language, one of {known}"
            )
        GRAMMARS.get_or_fail(language)
        source = Source(data)
        with paused_collector():
            if self.method == "fixed-size":
                *columns, account = assembly.fixed(source, self.lines)
            else:
                assemble = assembly.lossless if self.mode == "lossless" else assembly.published
                *columns, account = assemble(source, language, self.max_size, self.method)
        rows = zip(*columns, strict=True)
        chunks = [
            Chunk(document, a, b, *source.lines(a, b), text, size) for a, b, text, size in rows
        ]
        account |= {"bytes_in": len(data), "chunks": len(chunks)}
        account |= {"utf8": source.utf8, "returns": b"\r" in data}
        return Chunked(chunks, Account(document, language, **account))
