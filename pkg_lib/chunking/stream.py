"""The source files of a tree and their chunks, written as JSON lines and joined back into bytes.

What is unreadable is named by reason, and the rest goes on. Bytes that are not UTF-8 are surrogates in `text`
(PEP 383), escaped in the JSON, and come back as they were.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import BinaryIO

from pkg_lib.chunking.account import Accounts
from pkg_lib.chunking.chunker import Chunked, Chunker
from pkg_lib.chunking.languages import SUFFIXES, language_of
from pkg_lib.chunking.source import encode
from pkg_lib.core.remarks import LINK
from pkg_lib.core.types import UserError
from pkg_lib.core.workers import ordered

SPECIAL, UNREADABLE = "not a regular file", "unreadable"
SKIP = {".git", "__pycache__", "node_modules"}
BATCH = 1 << 20  # bytes that a worker process gets at once
File = tuple[str, bytes]


def walk(root: Path, accounts: Accounts, languages: set[str] | None = None) -> Iterator[File]:
    """(path below `root`, bytes) of every source file in sorted order; UserError when `root` is no directory.

    Links are not followed, so a loop of them ends nothing. Files of other suffixes are not counted.
    """
    if not root.is_dir():
        raise UserError(f"{root}: no such directory; give an existing tree of source files")

    def skip(reason: str, path: str | Path) -> None:
        accounts.skipped.setdefault(reason, []).append(Path(path).relative_to(root).as_posix())

    def unreadable(error: OSError) -> None:
        skip(f"{UNREADABLE} ({error.strerror})", error.filename)

    for folder, folders, names in os.walk(root, onerror=unreadable):
        for name in sorted(folders):
            if (Path(folder) / name).is_symlink():
                skip(LINK, Path(folder) / name)
        folders[:] = sorted(set(folders) - SKIP)
        for name in sorted(names):
            path, language = Path(folder) / name, language_of(name)
            if language is None or (languages is not None and language not in languages):
                continue
            try:
                mode = path.lstat().st_mode
                if stat.S_ISREG(mode):
                    yield path.relative_to(root).as_posix(), path.read_bytes()
                else:
                    skip(LINK if stat.S_ISLNK(mode) else SPECIAL, path)
            except OSError as e:
                skip(f"{UNREADABLE} ({e.strerror})", path)


def chunk_files(files: Iterable[File], chunker: Chunker, processes: int = 1) -> Iterator[Chunked]:
    """One Chunked a (name, bytes), in order; the same whatever the number of processes."""
    if processes < 1:
        raise UserError(f"processes = {processes}: give 1 or more")
    if processes == 1:
        yield from (chunker.chunk(data, name) for name, data in files)
    else:
        for batch in ordered(partial(_chunk_batch, chunker), _batches(files), processes):
            yield from batch


def _batches(files: Iterable[File]) -> Iterator[list[File]]:
    """Files held back until they are worth a worker's way."""
    batch, size = [], 0
    for file in files:
        batch.append(file)
        size += len(file[1])
        if size >= BATCH:
            yield batch
            batch, size = [], 0
    yield batch


def _chunk_batch(chunker: Chunker, files: list[File]) -> list[Chunked]:
    return [chunker.chunk(data, name) for name, data in files]


def split(path: Path, chunker: Chunker, language: str | None, out: BinaryIO, processes: int = 1) -> str:
    """Writes the chunks of a file or of all files below a directory; returns the accounts in words.

    UserError when there is no such file, when it cannot be read, or when nothing says its language.
    """
    accounts = Accounts()
    tree = chunk_files(walk(path, accounts), chunker, processes) if path.is_dir() else None
    for chunked in tree or [_chunked(path, chunker, language)]:
        accounts.files.append(chunked.account)
        out.writelines(json.dumps(asdict(chunk)).encode("ascii") + b"\n" for chunk in chunked.chunks)
    out.flush()
    return str(accounts)


def _chunked(path: Path, chunker: Chunker, language: str | None) -> Chunked:
    try:
        data = path.read_bytes()
    except OSError as e:
        raise UserError(f"cannot read {path}: {e.strerror}; give a source file or a tree of them") from e
    if language is None and language_of(path.name) is None:
        known = ", ".join(SUFFIXES)
        raise UserError(f"{path}: its suffix is none of {known}; name the language with --language")
    return chunker.chunk(data, path.name, language)


def join(lines: BinaryIO, out: BinaryIO) -> None:
    """Writes the texts of JSON lines one after another; UserError for a line that is no chunk."""
    for number, text in enumerate(lines, 1):
        try:
            out.write(encode(json.loads(text)["text"]))
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise UserError(
                f"line {number} of standard input is no chunk; give what `chunk FILE` writes"
            ) from e
    out.flush()
