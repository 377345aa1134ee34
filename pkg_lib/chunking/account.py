"""The conservation ledger of chunking: of every file, how many bytes are in chunks, and where the others went.

LEAF      a leaf (a long string, a comment) over the limit: the published algorithm has no parts to split it into
BETWEEN   white space between two chunks, before the first and after the last
LAYOUT    white space inside a chunk that is written anew from columns: tabs, carriage returns, spaces at line ends
UNSEEN    text that no node of the tree covers
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from pkg_lib.core.remarks import LARGE, LARGER, first_few

if TYPE_CHECKING:
    import pandas as pd

LEAF, BETWEEN, LAYOUT, UNSEEN = (
    "leaf over the limit",
    "white space between chunks",
    "layout written anew",
    "outside the tree",
)
REASONS = (LEAF, BETWEEN, LAYOUT, UNSEEN)


@dataclass(frozen=True, slots=True)
class Account:
    """One file. `lost` counts bytes by reason, `bytes_twice` those that stand in two chunks (fixed-size with overlap).

    `leaves_over` leaves were larger than the limit (lost as published, cut at line ends without loss), `lines_cut` lines
    larger than the limit were cut inside; `parse_errors` counts ERROR and MISSING nodes (None: not parsed). `returns` says
    that there are carriage returns.
    """

    document: str
    language: str
    bytes_in: int
    bytes_in_chunks: int
    chunks: int
    lost: Counter[str] = field(default_factory=Counter)
    bytes_twice: int = 0
    leaves_over: int = 0
    lines_cut: int = 0
    parse_errors: int | None = None
    utf8: bool = True
    returns: bool = False

    @property
    def bytes_lost(self) -> int:
        return self.lost.total()

    @property
    def balanced(self) -> bool:
        """Bytes in = bytes in chunks + bytes lost, and no byte is counted below zero."""
        return (
            self.bytes_in == self.bytes_in_chunks - self.bytes_twice + self.bytes_lost
            and min(self.lost.values(), default=0) >= 0
        )


@dataclass
class Ledger:
    """The accounts of many files, and by reason the names of what was not read at all."""

    accounts: list[Account] = field(default_factory=list)
    skipped: dict[str, list[str]] = field(default_factory=dict)

    def skip(self, reason: str, name: str) -> None:
        self.skipped.setdefault(reason, []).append(name)

    @property
    def balanced(self) -> bool:
        return all(a.balanced for a in self.accounts)

    def table(self) -> pd.DataFrame:
        """One row a file: the account's fields, and one column a reason with the bytes that it took."""
        import pandas as pd  # not at the top: every worker process would load it

        rows = [
            {k: v for k, v in asdict(a).items() if k != "lost"} | {r: a.lost[r] for r in REASONS}
            for a in self.accounts
        ]
        columns = [name for name in Account.__slots__ if name != "lost"]
        return pd.DataFrame(rows, columns=[*columns, *REASONS])

    def __str__(self) -> str:
        lost = sum((a.lost for a in self.accounts), Counter())
        total, chunks = sum(a.bytes_in for a in self.accounts), sum(a.chunks for a in self.accounts)
        remarks = {
            "do not parse everywhere": [a.document for a in self.accounts if a.parse_errors],
            "are not UTF-8": [a.document for a in self.accounts if not a.utf8],
            "are empty": [a.document for a in self.accounts if not a.bytes_in],
            "have line ends other than LF": [a.document for a in self.accounts if a.returns],
            f"are {LARGER}": [a.document for a in self.accounts if a.bytes_in > LARGE],
        }
        kept = total - lost.total()
        rows = [
            f"{len(self.accounts):,} files, {total:,} bytes = {kept:,} in {chunks:,} chunks + {lost.total():,} lost",
            *(f"  {n:,} bytes: {reason}" for reason, n in lost.most_common() if n),
            *(
                f"  {len(names):,} files {what} ({first_few(names)})"
                for what, names in remarks.items()
                if names
            ),
            *(
                f"  skipped {len(names):,}: {reason} ({first_few(names)})"
                for reason, names in self.skipped.items()
            ),
            *([] if self.balanced else ["does not add up"]),
        ]
        return "\n".join(rows)
