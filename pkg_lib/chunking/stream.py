"""Chunks as JSON lines: written for a file or a tree, and joined back into bytes.

Bytes that are not UTF-8 are surrogates in `text` (PEP 383), escaped in the JSON, and come back as they were.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import BinaryIO

from pkg_lib.chunking.account import Ledger
from pkg_lib.chunking.chunker import Chunk, Chunked, Chunker
from pkg_lib.chunking.languages import SUFFIXES, check_language, language_of
from pkg_lib.chunking.source import encode
from pkg_lib.chunking.trees import read, walk
from pkg_lib.core.types import UserError


def split(path: Path, chunker: Chunker, language: str | None, out: BinaryIO) -> str:
    """Writes the chunks of a file or of all files below a directory; returns the ledger in words.

    UserError when there is no such file, when it cannot be read, or when nothing says its language.
    """
    ledger = Ledger()
    if path.is_dir():
        for name, data in walk(path, ledger):
            _write(chunker.chunk(data, name), ledger, out)
    else:
        if not path.exists():
            raise UserError(f"{path} does not exist; give a source file or a tree of them")
        if language is not None:
            check_language(language)
        elif language_of(path.name) is None:
            raise UserError(
                f"{path}: its suffix is none of {', '.join(SUFFIXES)}; name the language with --language"
            )
        _write(chunker.chunk(read(path), path.name, language), ledger, out)
    out.flush()
    return str(ledger)


def _write(made: Chunked, ledger: Ledger, out: BinaryIO) -> None:
    ledger.accounts.append(made.account)
    out.writelines(line(chunk) for chunk in made.chunks)


def line(chunk: Chunk) -> bytes:
    """The chunk as one line of JSON, in ASCII."""
    return json.dumps(asdict(chunk)).encode("ascii") + b"\n"


def join(lines: BinaryIO, out: BinaryIO) -> None:
    """Writes the texts of JSON lines one after another; UserError for a line that is no chunk."""
    for number, text in enumerate(lines, 1):
        try:
            row = json.loads(text)
            out.write(encode(row["text"]))
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            raise UserError(
                f"line {number} of standard input is no chunk; give what `chunk FILE` writes"
            ) from e
    out.flush()
