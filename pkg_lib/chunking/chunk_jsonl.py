"""Chunks of files and directories as JSON lines, and back; bytes as PEP 383 escapes them."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from pkg_lib.chunking.chunk_coverage import CoverageReport
from pkg_lib.chunking.chunker import ChunkedFile, Chunker
from pkg_lib.chunking.languages import language_of
from pkg_lib.chunking.source import encode
from pkg_lib.core.limits import MAX_ROW_BYTES
from pkg_lib.core.reading import absolute, parse, shown
from pkg_lib.core.source_tree import (
    MAX_CHUNKED_BYTES,
    UnreadableFileError,
    files_first,
    find,
    read_each,
    read_file,
)
from pkg_lib.core.types import UserError
from pkg_lib.core.workers import in_processes

IGNORED = {".git", "__pycache__", "node_modules"}
File = tuple[str, bytes]  # printable name, contents


def walk(
    root: Path,
    report: CoverageReport | None = None,
    languages: set[str] | None = None,
) -> Iterator[File]:
    """Read the source files of a directory.

    Args:
        root: A directory.
        report: Where files that are left out are recorded.
        languages: The languages to read; by default every known language.

    Yields:
        Each file's printable path below the root and its bytes. The files of a directory come
        before its subdirectories.

    Raises:
        UserError: `root` is not a directory, or cannot be read.
    """
    if not root.is_dir():
        raise UserError(f"{root}: no such directory; give a directory of source files")

    def wanted(name: str) -> bool:
        language = language_of(name)
        return language is not None and (languages is None or language in languages)

    tree = find(root, wanted, IGNORED, MAX_CHUNKED_BYTES, max_tree=None)
    tree.files.sort(key=lambda file: files_first(file.place))
    if report is not None:
        report.skipped = tree.skipped
    for file, data in read_each(tree, MAX_CHUNKED_BYTES):
        yield file.name, data


def chunk_files(
    files: Iterable[File], chunker: Chunker, processes: int = 1
) -> Iterator[ChunkedFile]:
    """Chunk files in order; the result is the same for any number of processes.

    Args:
        files: Printable name and contents of each file, as `walk` yields them. The suffix of the
            name decides the language.
        chunker: The method and its settings, which apply to all files.
        processes: Number of processes; 1 chunks in this one.

    Returns:
        One result per file, in the order of the files. Files are taken and chunked while the
        results are read.

    Raises:
        UserError: `processes` is less than 1. While the results are read: a file has an unknown
            suffix, or a worker process died.
    """
    if processes < 1:
        raise UserError(f"processes = {processes}: give 1 or more")
    work = ((chunker, file) for file in files)
    return in_processes(_chunk, work, processes) if processes > 1 else map(_chunk, work)


def _chunk(work: tuple[Chunker, File]) -> ChunkedFile:
    chunker, (name, data) = work
    return chunker.chunk(data, name)


def write_chunks(
    path: Path,
    chunker: Chunker,
    language: str | None,
    out: BinaryIO,
    processes: int = 1,
) -> CoverageReport:
    """Write the chunks of a file, or of all source files of a directory, as JSON lines.

    Args:
        path: A file or a directory.
        chunker: The chunker.
        language: Language of a single file; by default its suffix decides.
        out: Where the lines are written.
        processes: Number of processes for a directory.

    Returns:
        What the chunks cover.

    Raises:
        UserError: There is no source file that can be read.
    """
    name = shown(str(path))
    report = CoverageReport()
    files: Iterable[ChunkedFile]
    if path.is_dir():
        files = chunk_files(walk(path, report), chunker, processes)
    elif not path.exists() and not path.is_symlink():
        raise UserError(f"{name} does not exist; give a file or directory")
    else:
        try:
            data = read_file(absolute(path), MAX_CHUNKED_BYTES)
        except (OSError, UnreadableFileError) as e:
            raise UserError(f"{name}: {e}; give a file or directory") from e
        files = [chunker.chunk(data, shown(path.name), language)]
    for file in files:
        report.files.append(file.coverage)
        for chunk in file.chunks:
            out.write(json.dumps(asdict(chunk)).encode("ascii") + b"\n")
    out.flush()
    if not report.files:
        skipped = report.skipped.one_line_summary()
        why = f"that can be read ({skipped})" if skipped else "of a known language"
        raise UserError(f"{name} contains no source file {why}; give another file or directory")
    return report


def join_chunks(lines: BinaryIO, out: BinaryIO) -> None:
    """Write the texts of chunks one after another.

    Args:
        lines: Chunks as `write_chunks` writes them.
        out: Where the texts are written.

    Raises:
        UserError: A line is not a chunk.
    """
    number = 0
    while text := lines.readline(MAX_ROW_BYTES + 1):
        number += 1
        try:
            if len(text) > MAX_ROW_BYTES:
                raise ValueError("it is too long")
            out.write(encode(parse(text)["text"]))
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
        ) as e:
            problem = "is not a chunk as `pkg-lib cast chunk FILE` writes it"
            raise UserError(f"line {number} of standard input {problem}") from e
    out.flush()
