"""Files and trees of files -> chunks and one ledger. What cannot be read is named by reason, and the rest goes on."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from pkg_lib.chunking.account import Ledger
from pkg_lib.chunking.chunker import Chunk, Chunked, Chunker
from pkg_lib.chunking.languages import language_of
from pkg_lib.core.remarks import LINK
from pkg_lib.core.types import UserError
from pkg_lib.core.workers import ordered

SPECIAL, UNREADABLE = "not a regular file", "unreadable"
SKIP = {".git", "__pycache__", "node_modules"}


def read(path: Path) -> bytes:
    """The bytes of a file; UserError in one line where it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as e:
        raise UserError(f"cannot read {path}: {e.strerror}; give an existing, readable file") from e


def walk(root: Path, ledger: Ledger, languages: set[str] | None = None) -> Iterator[tuple[str, bytes]]:
    """(path below `root`, bytes) of every source file in sorted order; UserError when `root` is no directory.

    Links are not followed, so a loop of them ends nothing. Files of other suffixes are not counted.
    """
    if not root.is_dir():
        raise UserError(f"{root}: no such directory; give an existing tree of source files")

    def unreadable(error: OSError) -> None:
        ledger.skip(f"{UNREADABLE} ({error.strerror})", _below(error.filename, root))

    for folder, folders, names in os.walk(root, onerror=unreadable):
        for name in sorted(folders):
            if (Path(folder) / name).is_symlink():
                ledger.skip(LINK, _below(Path(folder) / name, root))
        folders[:] = sorted(set(folders) - SKIP)
        for name in sorted(names):
            language = language_of(name)
            if language is not None and (languages is None or language in languages):
                yield from _file(Path(folder) / name, root, ledger)


def _file(path: Path, root: Path, ledger: Ledger) -> Iterator[tuple[str, bytes]]:
    name = _below(path, root)
    try:
        mode = path.lstat().st_mode
        if not stat.S_ISREG(mode):
            ledger.skip(LINK if stat.S_ISLNK(mode) else SPECIAL, name)
            return
        data = path.read_bytes()
    except OSError as e:
        ledger.skip(f"{UNREADABLE} ({e.strerror})", name)
        return
    yield name, data


def _below(path: str | Path, root: Path) -> str:
    return Path(path).relative_to(root).as_posix()


BATCH = 1 << 20  # bytes that a worker process gets at once
File = tuple[str, bytes]


def chunk_files(files: Iterable[File], chunker: Chunker, processes: int = 1) -> Iterator[Chunked]:
    """One Chunked a (name, bytes), in order; the same whatever the number of processes. UserError for less than one.

    Files are held back until a batch is full, so that a worker's answer is worth its way.
    """
    if processes < 1:
        raise UserError(f"processes = {processes}: give 1 or more")
    if processes == 1:
        yield from (chunker.chunk(data, name) for name, data in files)
        return
    for made in ordered(_chunk_batch, ((chunker, batch) for batch in _batches(files)), processes):
        yield from made


def _batches(files: Iterable[File]) -> Iterator[list[File]]:
    batch, size = [], 0
    for file in files:
        batch.append(file)
        size += len(file[1])
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _chunk_batch(work: tuple[Chunker, list[File]]) -> list[Chunked]:
    chunker, files = work
    return [chunker.chunk(data, name) for name, data in files]


def chunk_tree(
    root: Path, chunker: Chunker, languages: set[str] | None = None, processes: int = 1
) -> tuple[list[Chunk], Ledger]:
    """All chunks of a tree, and its ledger; UserError when `root` is no directory."""
    ledger, chunks = Ledger(), []
    for found in chunk_files(walk(root, ledger, languages), chunker, processes):
        chunks += found.chunks
        ledger.accounts.append(found.account)
    return chunks, ledger
