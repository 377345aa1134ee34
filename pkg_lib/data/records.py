"""Files of published benchmarks in a variable's directory: a JSON record a line, and source trees."""

from __future__ import annotations

import gzip
import json
import os
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pkg_lib.core.types import BenchmarkMissing, UserError

T = TypeVar("T")


def benchmark_file(variable: str, names: Sequence[str], title: str, source: str) -> Path:
    """The first of the files that the variable's directory holds. BenchmarkMissing where it holds none."""
    folder = os.environ.get(variable)
    paths = [Path(folder, name) for name in names] if folder else []
    if path := next((p for p in paths if p.exists()), None):
        return path
    raise BenchmarkMissing(
        f"{title} is not at hand: take {source} and set {variable} to the directory that holds {names[0]}"
    )


def read_records(path: Path, title: str, make: Callable[[Any], T]) -> list[T]:
    """What `make` makes of each record, gzip or plain. UserError names a line that is none."""
    try:
        data = path.read_bytes()
        lines = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf8").split("\n")
    except (OSError, ValueError, EOFError, zlib.error) as e:
        raise UserError(f"{title} cannot be read: {path}: {e}") from e
    rows = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    return [_made(line, make, f"{path}:{number} is no record of {title}") for number, line in rows]


def _made(line: str, make: Callable[[Any], T], wrong: str) -> T:
    try:
        return make(json.loads(line))
    except KeyError as e:
        raise UserError(f"{wrong}: field {e} is missing") from e
    except (ValueError, TypeError, AttributeError) as e:
        raise UserError(f"{wrong}: {e}") from e


def read_tree(root: Path) -> dict[str, str]:
    """path -> text of the UTF-8 Python files of a directory or zip, in order; UserError for neither."""
    if root.is_dir():
        files = {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*.py")}
    else:
        try:
            with zipfile.ZipFile(root) as archive:
                files = {name: archive.read(name) for name in archive.namelist() if name.endswith(".py")}
        except (OSError, zipfile.BadZipFile) as e:
            raise UserError(f"{root} is neither a directory of Python files nor a zip of them ({e})") from e
    texts = {}
    for path in sorted(files, key=lambda p: p.split("/")):
        try:
            texts[path] = files[path].decode("utf8").replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError:
            continue
    return texts


def read_repository(variable: str, name: str) -> dict[str, str]:
    """`read_tree` of repositories/NAME, or NAME.zip, below the variable's directory."""
    place = Path(os.environ[variable], "repositories", name)
    for path in (place, place.with_name(f"{name}.zip")):
        if path.exists() and (files := read_tree(path)):
            return files
    raise UserError(f"{place} (or .zip) with Python files is not there; put it there ({variable})")
