"""What chunking keeps: of every file, how many bytes are in chunks, and why the others are not."""

from collections import Counter
from dataclasses import dataclass, field

from pkg_lib.core.source_tree import Skipped
from pkg_lib.core.store import LARGE, LARGER, first_few

# A leaf (a long string, a comment) has no parts in the published algorithm; layout written anew from columns
# loses tabs, returns and spaces at line ends; no node covers what is outside the tree.
REASONS = (
    "leaf over the limit",
    "white space between chunks",
    "layout written anew",
    "outside the tree",
)
LEAF, BETWEEN, LAYOUT, UNSEEN = REASONS


@dataclass(frozen=True, slots=True)
class Account:
    """One file; `lost`: bytes by reason; `leaves_over`, `lines_cut`: over the limit; `returns`: has CRs."""

    document: str
    language: str
    bytes_in: int
    bytes_in_chunks: int
    chunks: int
    lost: Counter[str] = field(default_factory=Counter)
    leaves_over: int = 0
    lines_cut: int = 0
    parse_errors: int | None = None  # ERROR and MISSING nodes; None: not parsed
    utf8: bool = True
    returns: bool = False

    @property
    def bytes_lost(self) -> int:
        return self.lost.total()

    @property
    def balanced(self) -> bool:
        accounted = self.bytes_in_chunks + self.bytes_lost
        return self.bytes_in == accounted and min(self.lost.values(), default=0) >= 0


@dataclass
class Accounts:
    """The accounts of many files, and by reason the names of what was not read at all."""

    files: list[Account] = field(default_factory=list)
    skipped: dict[str, list[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        lost = sum((a.lost for a in self.files), Counter())
        total, chunks = sum(a.bytes_in for a in self.files), sum(a.chunks for a in self.files)
        remarks = {
            "do not parse everywhere": [a.document for a in self.files if a.parse_errors],
            "are not UTF-8": [a.document for a in self.files if not a.utf8],
            "are empty": [a.document for a in self.files if not a.bytes_in],
            "have line ends other than LF": [a.document for a in self.files if a.returns],
            f"are {LARGER}": [a.document for a in self.files if a.bytes_in > LARGE],
        }
        balance = f"{total - lost.total():,} in {chunks:,} chunks + {lost.total():,} lost"
        rows = [f"{len(self.files):,} files, {total:,} bytes = {balance}"]
        rows += [f"  {n:,} bytes: {reason}" for reason, n in lost.most_common() if n]
        rows += [f"  {len(n):,} files {what} ({first_few(n)})" for what, n in remarks.items() if n]
        rows += [f"  {line}" for line in Skipped(self.skipped).summary()]
        return "\n".join(
            rows if all(a.balanced for a in self.files) else [*rows, "does not add up"]
        )
