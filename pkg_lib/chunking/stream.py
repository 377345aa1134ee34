"""Chunks as JSON lines: written for a file or a tree, and joined back into bytes.

Bytes that are not UTF-8 are surrogates in `text` (PEP 383), escaped in the JSON, and come back as they were.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from pkg_lib.chunking.account import Accounts
from pkg_lib.chunking.chunker import Chunked, Chunker
from pkg_lib.chunking.languages import SUFFIXES, language_of
from pkg_lib.chunking.source import encode
from pkg_lib.chunking.trees import chunk_files, walk
from pkg_lib.core.types import UserError


def split(path: Path, chunker: Chunker, language: str | None, out: BinaryIO, processes: int = 1) -> str:
    """Writes the chunks of a file or of all files below a directory; returns the accounts in words.

    UserError when there is no such file, when it cannot be read, or when nothing says its language.
    """
    accounts = Accounts()
    if path.is_dir():
        chunked: Iterable[Chunked] = chunk_files(walk(path, accounts), chunker, processes)
    else:
        chunked = [_chunked(path, chunker, language)]
    for made in chunked:
        accounts.files.append(made.account)
        out.writelines(json.dumps(asdict(chunk)).encode("ascii") + b"\n" for chunk in made.chunks)
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
