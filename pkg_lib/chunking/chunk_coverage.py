"""What chunking keeps of a file: how many bytes are in chunks, and why the others are not."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from pkg_lib.core.source_tree import Skipped
from pkg_lib.core.store import LARGE, LARGER, first_few

# The published algorithm cannot split a leaf of the tree, such as a long string. It writes line
# ends and indentation again, which loses tabs, carriage returns and spaces at line ends.
LEAF = "leaf over the limit"
BETWEEN = "white space between chunks"
LAYOUT = "layout written anew"  # these names are in stored tables
OUTSIDE = "outside the tree"
REASONS = (LEAF, BETWEEN, LAYOUT, OUTSIDE)


@dataclass(slots=True)
class ChunkCoverage:
    """How much of one file is in its chunks.

    Attributes:
        document: Printable name of the file.
        language: Language that the file was parsed as.
        bytes_in: Size of the file in bytes.
        bytes_in_chunks: Bytes of the file that its chunks contain.
        chunks: Number of chunks.
        lost: Number of bytes that no chunk contains, by reason.
        leaves_over: Leaves of the tree that are larger than the limit.
        parse_errors: ERROR and MISSING nodes of the tree; None if the file was not parsed.
        utf8: Whether the file is UTF-8.
        has_returns: Whether the file contains carriage returns.
    """

    document: str
    language: str
    bytes_in: int
    bytes_in_chunks: int = 0
    chunks: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    leaves_over: int = 0
    parse_errors: int | None = None
    utf8: bool = True
    has_returns: bool = False

    @property
    def bytes_lost(self) -> int:
        """Number of bytes that no chunk contains."""
        return self.lost.total()

    @property
    def balanced(self) -> bool:
        """Whether the bytes in chunks and the lost bytes add up to the file."""
        accounted = self.bytes_in_chunks + self.bytes_lost
        return self.bytes_in == accounted and min(self.lost.values(), default=0) >= 0


_REMARKS: dict[str, Callable[[ChunkCoverage], object]] = {
    "have syntax errors": lambda file: file.parse_errors,
    "are not UTF-8": lambda file: not file.utf8,
    "are empty": lambda file: not file.bytes_in,
    "have line ends other than LF": lambda file: file.has_returns,
    f"are {LARGER}": lambda file: file.bytes_in > LARGE,
}


@dataclass
class CoverageReport:
    """Coverage of many files.

    Attributes:
        files: Coverage of each file that was chunked.
        skipped: Files that were not read, by reason.
    """

    files: list[ChunkCoverage] = field(default_factory=list)
    skipped: Skipped = field(default_factory=Skipped)

    def __str__(self) -> str:
        """Summarize the report, one fact per line."""
        lost = sum((file.lost for file in self.files), Counter())
        total = 0
        chunks = 0
        for file in self.files:
            total += file.bytes_in
            chunks += file.chunks
        kept = total - lost.total()
        lines = [
            f"{len(self.files):,} files, {total:,} bytes ="
            f" {kept:,} in {chunks:,} chunks + {lost.total():,} lost"
        ]
        for reason, count in lost.most_common():
            if count:
                lines.append(f"  {count:,} bytes: {reason}")
        for remark, applies in _REMARKS.items():
            names = [file.document for file in self.files if applies(file)]
            if names:
                lines.append(f"  {len(names):,} files {remark} ({first_few(names)})")
        lines += [f"  {line}" for line in self.skipped.summary()]
        if not all(file.balanced for file in self.files):
            lines.append("does not add up")
        return "\n".join(lines)
