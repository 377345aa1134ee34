"""A tree's source files and their chunks, as JSON lines and back; what is not UTF-8 is escaped (PEP 383)."""

import json
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
from pkg_lib.core.reading import absolute, parse
from pkg_lib.core.source_tree import (
    MAX_CHUNKED_BYTES,
    Skipped,
    SourceFile,
    Unreadable,
    find,
    read_each,
    read_file,
)
from pkg_lib.core.store import shown
from pkg_lib.core.types import UserError
from pkg_lib.core.workers import in_processes

IGNORED = {".git", "__pycache__", "node_modules"}
File = tuple[str, bytes]


def walk(root: Path, accounts: Accounts, languages: set[str] | None = None) -> Iterator[File]:
    """Read the source files of a tree.

    Args:
        root: A directory.
        accounts: Where files that are left out are recorded.
        languages: Only these; every known language by default.

    Yields:
        Each file's printable path below the root and its bytes; a directory's files before its directories.

    Raises:
        UserError: `root` is no directory, or cannot be read.
    """
    if not root.is_dir():
        raise UserError(f"{root}: no such directory; give an existing tree of source files")

    def wanted(name: str) -> bool:
        language = language_of(name)
        return language is not None and (languages is None or language in languages)

    tree = find(root, wanted, IGNORED, MAX_CHUNKED_BYTES, max_tree=None)
    tree.files.sort(key=_files_first)
    accounts.skipped = tree.skipped.by_reason
    for file, data in read_each(tree, MAX_CHUNKED_BYTES):
        yield file.name, data


def _files_first(file: SourceFile) -> list[tuple[bool, str]]:
    *folders, name = file.place.split("/")
    return [*((True, folder) for folder in folders), (False, name)]


def chunk_files(files: Iterable[File], chunker: Chunker, processes: int = 1) -> Iterator[Chunked]:
    """One Chunked a (name, bytes), in order; the same whatever the number of processes."""
    if processes < 1:
        raise UserError(f"processes = {processes}: give 1 or more")
    chunk = partial(_chunk, chunker)
    return in_processes(chunk, files, processes) if processes > 1 else map(chunk, files)


def _chunk(chunker: Chunker, file: File) -> Chunked:
    return chunker.chunk(file[1], file[0])


def split(
    path: Path, chunker: Chunker, language: str | None, out: BinaryIO, processes: int = 1
) -> str:
    """Writes the chunks of a file or of all files below a directory; returns the accounts in words."""
    accounts = Accounts()
    if not path.exists() and not path.is_symlink():
        raise UserError(f"{shown(str(path))} does not exist; name a file or directory")
    if path.is_dir():
        files = chunk_files(walk(path, accounts), chunker, processes)
    else:
        try:
            data = read_file(absolute(path), MAX_CHUNKED_BYTES)
        except (OSError, Unreadable) as e:
            name = shown(str(path))
            raise UserError(f"{name}: {e}; name a file or directory") from e
        files = [chunker.chunk(data, shown(path.name), language)]
    for chunked in files:
        accounts.files.append(chunked.account)
        out.writelines(
            json.dumps(asdict(chunk)).encode("ascii") + b"\n" for chunk in chunked.chunks
        )
    out.flush()
    if not accounts.files:
        why = Skipped(accounts.skipped).in_one_line()
        skipped = f"; {why}" if why else ""
        what = (
            "no source file that can be read" if skipped else "no source file of a known language"
        )
        raise UserError(f"{shown(str(path))} holds {what}; give a tree that holds some{skipped}")
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
            raise UserError(
                f"line {number} of standard input is no chunk, as `chunk FILE` writes it"
            ) from e
    out.flush()
