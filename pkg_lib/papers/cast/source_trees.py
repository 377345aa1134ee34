"""Source trees of the paper's four languages for chunk statistics: the packages of the tasks, and three archives of npm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from pkg_lib.chunking.account import Accounts
from pkg_lib.chunking.statistics import statistics
from pkg_lib.chunking.trees import walk
from pkg_lib.core.store import versions, write_json, write_text
from pkg_lib.data.archives import npm, unpacked
from pkg_lib.data.packages import PACKAGES, tree
from pkg_lib.papers.cast import cast_store as store
from pkg_lib.papers.cast.cast_columns import CHUNKERS


@dataclass(frozen=True, slots=True)
class Tree:
    """One archive of the npm registry that holds sources of `language`."""

    language: str
    label: str
    path: str
    sha256: str

    @property
    def archive(self) -> str:
        """A file name of its own: scoped packages share the last part of theirs."""
        return f"npm-{self.path.replace('/-/', '/').replace('/', '-').removeprefix('@')}"


TREES = (
    Tree(
        "java",
        "@capacitor/android 6.1.2 (MIT)",
        "@capacitor/android/-/android-6.1.2.tgz",
        "d436f18152580f7b935bd839e7db3ad6ba2ab48a53cdb3488bd162140e01d736",
    ),
    Tree(
        "csharp",
        "react-native-windows 0.74.0 (MIT)",
        "react-native-windows/-/react-native-windows-0.74.0.tgz",
        "c9c46a6acb5987b26a027e605ae962932d5fe1d2b5bbf92597415c653519793b",
    ),
    Tree(
        "typescript",
        "rxjs 7.8.1 (Apache-2.0)",
        "rxjs/-/rxjs-7.8.1.tgz",
        "c532167725ab7d085123209156c93cef22f2479cb9c8527060f1cd903aa9d149",
    ),
)


def sources(language: str) -> tuple[str, list[tuple[str, bytes]]]:
    """(what it is, (path, bytes) of the files of a language); declarations (.d.ts) are no sources."""
    if language == "python":
        roots = {p.label: tree(p) for p in PACKAGES.values()}
        files = [
            (f"{label}/{n}", data)
            for label, root in roots.items()
            for n, data in walk(root, Accounts(), {"python"})
        ]
        return ", ".join(roots), [f for f in files if f[0].endswith(".py")]
    about = next(t for t in TREES if t.language == language)
    root: Path = unpacked(about.archive, about.sha256, npm(about.path))
    found = walk(root, Accounts(), {language})
    return about.label, [f for f in found if not f[0].endswith(".d.ts")]


def measure(results: Path, say: Callable[[str], None]) -> pd.DataFrame:
    """Writes chunk_statistics.csv, a row a language and chunker, and what it was made from; returns it."""
    chunkers = [*CHUNKERS.values(), replace(CHUNKERS["cast"], mode="lossless")]
    frames, corpora = [], {}
    for language in ("python", *(t.language for t in TREES)):
        corpora[language], files = sources(language)
        say(f"{language}: {len(files)} files of {corpora[language]}")
        frames.append(statistics(files, chunkers))
    found = pd.concat(frames, ignore_index=True)
    write_text(
        store.home(results) / "chunk_statistics.csv",
        found.to_csv(index=False, lineterminator="\n", float_format="%.6g"),
    )
    write_json(
        store.home(results) / "chunk_statistics.meta.json", {"corpora": corpora, "versions": versions()}
    )
    return found
