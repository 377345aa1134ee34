"""The chunkers of cAST (Sections 2 and 4): the bytes of a file to chunks, and what they cover.

Mode "as-published" is what `astchunk` 0.1.0 writes: sizes in bytes, text rewritten from lines
and columns, leaves over the limit dropped, TypeScript read as TSX. Its indentation and the
definitions in its headers are limited to 2,000 characters.

Mode "lossless" is the paper's fourth design goal: the chunks joined are the file.
Sizes are in characters. What is over the limit is cut at line ends, and a line between characters.
Sizes never count white space.
"""

from dataclasses import dataclass

from pkg_lib.chunking.assembly import (
    as_published,
    fixed_size,
    header,
    lossless,
)
from pkg_lib.chunking.chunk_coverage import ChunkCoverage
from pkg_lib.chunking.languages import GRAMMARS, language_of
from pkg_lib.chunking.source import Source
from pkg_lib.chunking.windows import LINE_METHODS, METHODS
from pkg_lib.core.registry import unknown
from pkg_lib.core.types import UserError
from pkg_lib.core.workers import paused_collector

MODES = ("as-published", "lossless")
MAX_SIZE = 2000  # Section 4
# The median of cast chunks over the standard library is 63 lines; the paper matches the two this
# way.
LINES = 60
# RepoCoder's windows, from which RepoEval comes.
WINDOW_LINES = 20
WINDOW_STEP = 10


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a source file.

    Attributes:
        document: Printable name of the file.
        start: First byte in the file.
        stop: Byte after the last one.
        first: First line, counted from 1.
        last: Last line, inclusive.
        text: The text; as published, its layout may differ from the file's. Chunk expansion puts a
            header before it.
        size: Number of characters without white space, without those of a header.
    """

    document: str
    start: int
    stop: int
    first: int
    last: int
    text: str
    size: int

    @property
    def source(self) -> str:
        """The file and the lines, as "document:first-last"."""
        return f"{self.document}:{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class ChunkedFile:
    """The chunks of a file in order, and what they cover of it.

    Attributes:
        chunks: The chunks, in the order of the file. Chunks of the method sliding-window and chunks
            with `chunk_overlap` share text with their neighbours.
        coverage: How many bytes of the file are in chunks, and why the others are not.
    """

    chunks: list[Chunk]
    coverage: ChunkCoverage


@dataclass(frozen=True, slots=True)
class Chunker:
    """Cuts source files into chunks.

    Attributes:
        method: One of METHODS.
        mode: One of MODES; methods of lines are always lossless. The chunks of sliding-window overlap, so
            joined they are not the file.
        max_size: Largest size of a chunk without white space, in characters (as published: in
            bytes).
        lines: Number of lines of a chunk; used by methods of lines only.
        chunk_overlap: Number of nodes of the tree that a chunk shares with each neighbour, which
            may exceed max_size. Of the mode as-published only.
        chunk_expansion: Whether a header precedes each chunk, with the file's name and the classes
            and functions around the chunk. Of the mode as-published only.
        step: Number of lines from the start of a chunk to that of the next one; used by the method
            sliding-window only.

    Raises:
        UserError: A setting is unknown or too small, or does not apply to the method or mode.
    """

    method: str = "cast"
    mode: str = "lossless"
    max_size: int = MAX_SIZE
    lines: int = LINES
    chunk_overlap: int = 0
    chunk_expansion: bool = False
    step: int = WINDOW_STEP

    def __post_init__(self) -> None:
        """Check the settings."""
        if self.method not in METHODS:
            raise unknown("method", self.method, METHODS)
        if self.mode not in MODES:
            raise unknown("mode", self.mode, MODES)
        if self.max_size < 1 or self.lines < 1:
            raise UserError("max_size and lines must be at least 1")
        if self.chunk_overlap < 0 or self.step < 1:
            raise UserError("chunk_overlap must be at least 0, and step at least 1")
        if self.method != "sliding-window" and self.step != WINDOW_STEP:
            raise UserError("step is an option of the method sliding-window")
        if self.method not in LINE_METHODS and self.lines != LINES:
            raise UserError(f"lines is an option of the methods {' and '.join(LINE_METHODS)}")
        if self.method == "sliding-window" and self.step > self.lines:
            raise UserError(
                f"step = {self.step}: give at most the {self.lines} lines of a window; "
                "a larger step would leave lines out"
            )
        by_nodes = self.mode == "as-published" and self.method not in LINE_METHODS
        if (self.chunk_overlap or self.chunk_expansion) and not by_nodes:
            raise UserError(
                "chunk overlap and chunk expansion repeat or add text; "
                "they need the mode as-published and a method that reads the syntax tree"
            )

    def chunk(
        self,
        data: bytes,
        document: str,
        language: str | None = None,
    ) -> ChunkedFile:
        """Cut one file into chunks.

        Args:
            data: The bytes of the file.
            document: Its printable name.
            language: Its language; by default the one of the suffix of its name.

        Returns:
            The chunks and their coverage.

        Raises:
            UserError: The language is unknown.
        """
        language = language or language_of(document)
        if language is None:
            known = ", ".join(GRAMMARS)
            raise UserError(
                f"{document}: no language has this suffix; choose --language from: {known}"
            )
        GRAMMARS.get_or_fail(language)
        source = Source(data)
        coverage = ChunkCoverage(document, language, len(data))
        coverage.utf8 = source.utf8
        coverage.has_returns = b"\r" in data
        with paused_collector():
            if self.method in LINE_METHODS:
                step = self.lines if self.method == "fixed-size" else self.step
                pieces = fixed_size(source, coverage, self.lines, step)
            elif self.mode == "lossless":
                pieces = lossless(source, coverage, self.max_size, self.method)
            else:
                pieces = as_published(
                    source,
                    coverage,
                    self.max_size,
                    self.method,
                    self.chunk_overlap,
                )
        chunks = []
        for piece in pieces:
            first, last = source.lines(piece.start, piece.stop)
            text = piece.text
            if self.chunk_expansion:
                text = header(document, piece.definitions) + text
            chunk = Chunk(
                document,
                piece.start,
                piece.stop,
                first,
                last,
                text,
                piece.size,
            )
            chunks.append(chunk)
        coverage.chunks = len(chunks)
        return ChunkedFile(chunks, coverage)
