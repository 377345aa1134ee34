"""A tree's source files and their chunks, as JSON lines and back; what is not UTF-8 is escaped (PEP 383)."""

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
from pkg_lib.chunking.languages import language_of
from pkg_lib.chunking.source import encode
from pkg_lib.core.limits import MAX_ROW_BYTES
from pkg_lib.core.reading import parse
from pkg_lib.core.store import LINK
from pkg_lib.core.types import UserError
from pkg_lib.core.workers import in_processes

SPECIAL, SKIP = "not a regular file", {".git", "__pycache__", "node_modules"}
File = tuple[str, bytes]


def walk(root: Path, accounts: Accounts, languages: set[str] | None = None) -> Iterator[File]:
    """(path below `root`, bytes) of source files, sorted; UserError: no tree. What is unread: `accounts`."""
    if not root.is_dir():
        raise UserError(f"{root}: no such directory; give an existing tree of source files")

    def skip(reason: str, path: str | Path) -> None:
        accounts.skipped.setdefault(reason, []).append(Path(path).relative_to(root).as_posix())

    def unreadable(error: OSError) -> None:
        skip(f"unreadable ({error.strerror})", error.filename)

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
                skip(f"unreadable ({e.strerror})", path)


def chunk_files(files: Iterable[File], chunker: Chunker, processes: int = 1) -> Iterator[Chunked]:
    """One Chunked a (name, bytes), in order; the same whatever the number of processes."""
    if processes < 1:
        raise UserError(f"processes = {processes}: give 1 or more")
    chunk = partial(_chunk, chunker)
    return in_processes(chunk, files, processes) if processes > 1 else map(chunk, files)


def _chunk(chunker: Chunker, file: File) -> Chunked:
    return chunker.chunk(file[1], file[0])


def split(path: Path, chunker: Chunker, language: str | None, out: BinaryIO, processes: int = 1) -> str:
    """Writes the chunks of a file or of all files below a directory; returns the accounts in words."""
    accounts = Accounts()
    if path.is_dir():
        files = chunk_files(walk(path, accounts), chunker, processes)
    else:
        try:
            files = [chunker.chunk(path.read_bytes(), path.name, language)]
        except OSError as e:
            raise UserError(f"cannot read {path}: {e.strerror}; give a source file or a tree of them") from e
    for chunked in files:
        accounts.files.append(chunked.account)
        out.writelines(json.dumps(asdict(chunk)).encode("ascii") + b"\n" for chunk in chunked.chunks)
    out.flush()
    if not accounts.files:
        raise UserError(f"{path}: no source file of a known language; give a tree that holds some")
    return str(accounts)


def join(lines: BinaryIO, out: BinaryIO) -> None:
    """Writes the texts of JSON lines one after another; UserError for a line that is no chunk."""
    number = 0
    while text := lines.readline(MAX_ROW_BYTES + 1):
        number += 1
        try:
            if len(text) > MAX_ROW_BYTES:
                raise ValueError("it is too long")
            out.write(encode(parse(text)["text"]))
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise UserError(f"line {number} of standard input is no chunk, as `chunk FILE` writes it") from e
    out.flush()
