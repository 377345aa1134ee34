"""The generation cache: append-only JSONL, one line per completion, written as soon as it is there.

A torn last line (a kill, a full disk) is cut off before the next append. A damaged line is reported, and
its prompt is completed again. A file that cannot be read at all is reported by the runs that need it, and is
never replaced. `pack` folds NAME.jsonl into NAME.jsonl.gz; later answers are appended to a new NAME.jsonl.
"""

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pkg_lib.core import limits, reading
from pkg_lib.core.reading import NUMBER, PACKED, Damaged, Kinds, ScannedRow, is_there, shown
from pkg_lib.core.store import advice_for, read_rows, write_jsonl, write_packed
from pkg_lib.core.types import Generation, UserError, digest

log = logging.getLogger(__name__)

# What is recorded beside an answer, where it is: other fields may be anything.
META: Kinds = {
    "seconds": (*NUMBER, type(None)),
    **dict.fromkeys(("settings", "prompt_sha256", "context_sha256", "revision"), (str, type(None))),
}


def generation_key(
    model: str, revision: str, prompt: str, params: dict[str, Any], sample: int = 0
) -> str:
    """The cache key, 32 hex digits: SHA-256 over everything that decides the text."""
    return digest(model, revision, prompt, json.dumps(params, sort_keys=True), str(sample))[:32]


def stored_files(folder: Path, pattern: str = "**/*.jsonl", own: str = "") -> list[Path]:
    """The files of a cache below a folder, packed or not; where two hold one key, the later one counts.

    So what was appended follows what is packed, and the folder `own` comes last.
    """
    paths = [p for end in (PACKED, "") for p in sorted(folder.glob(pattern + end))]
    return sorted(paths, key=lambda p: p.relative_to(folder).parts[0] == own)


def packed(path: Path) -> Path:
    """Where a file's packed answers lie."""
    return path.with_name(path.name + PACKED)


def stored(path: Path) -> bool:
    """Whether a file of a cache is there, packed or not."""
    return is_there(path) or is_there(packed(path))


def pack(folder: Path) -> None:
    """Pack all files of a cache: the same answers give the same bytes.

    Damaged lines are moved to NAME.jsonl.damaged.

    Args:
        folder: The directory of the cache; directories below it are packed, too.

    Raises:
        UserError: Some files cannot be read whole. They stay as they are, and the others are packed.
    """
    left = []
    for path in sorted(folder.glob("**/*.jsonl")):
        try:
            _pack_file(path)
        except (UserError, OSError) as e:
            left.append(str(e))
    if left:
        raise UserError(*left)


def _pack_file(path: Path) -> None:
    """Pack one file of a cache. UserError or OSError if it stays as it is."""
    _require_regular(path)
    rows, damaged = _rows_by_key(path)
    keep_aside(path, damaged)
    text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows.values())
    write_packed(packed(path), text.encode())
    path.unlink()


def _require_regular(path: Path) -> None:
    """Refuse what is no file, and a link that leads to none: to replace it would destroy it."""
    if path.is_dir():
        raise Damaged(f"{shown(str(path))} is a directory, not a file; it is left as it is")
    if not path.is_file():
        raise Damaged(f"{shown(str(path))} is not a regular file; it is left as it is")


def _rows_by_key(path: Path) -> tuple[dict[str, dict[str, Any]], list[ScannedRow]]:
    """The rows of a file and its packed part, of one key the last at the first one's place; damaged lines."""
    rows: dict[str, dict[str, Any]] = {}
    damaged = []
    for file in (packed(path), path):
        for row in read_answers(file, {"key": str}) if is_there(file) else ():
            if row.value is not None:
                rows[row.value["key"]] = row.value
            elif row.line.text is None:  # it could not be kept aside
                raise Damaged.of(file, row.why, row.number, advice_for)
            elif (
                row.line.ended or file != path
            ):  # an unfinished last line is cut off as before an append
                damaged.append(row)
    return rows, damaged


def keep_aside(path: Path, damaged: Iterable[ScannedRow]) -> None:
    """Append the damaged lines of a file that is about to be replaced to FILE.damaged.

    Args:
        path: The file.
        damaged: Its damaged lines.

    Raises:
        UserError: They cannot be written.
    """
    texts = [row.line.text + b"\n" for row in damaged if row.line.text and not row.line.blank]
    if not texts:
        return
    aside = path.with_name(f"{path.name}.damaged")
    try:
        if obstacle := reading.in_the_way(aside):
            raise UserError(f"cannot keep damaged lines: {obstacle}")
        with aside.open("ab") as file:
            file.writelines(texts)
    except OSError as e:
        raise UserError(
            f"cannot write {aside}: {e.strerror or e}; free space or change the directory"
        ) from e
    log.warning("%s: %d damaged lines are kept in %s", path, len(texts), aside.name)


def pack_rows(results: Path) -> list[str]:
    """Pack rows that an earlier version left plain, except where their column was made again since.

    Args:
        results: The results directory.

    Returns:
        One line for each file that is damaged and therefore stays as it is.
    """
    left = []
    stages = ("contexts", "evaluations", "feedback", "replay/*/*/shown")
    for path in (p for stage in stages for p in sorted(results.glob(f"{stage}/**/*.jsonl"))):
        try:
            _require_regular(path)
            if is_there(packed(path)):
                for _ in reading.lines(packed(path), advice_for):
                    pass  # it is sound, so the plain file may go
            else:
                write_jsonl(packed(path), read_rows(path))
            path.unlink()
        except (UserError, OSError) as e:
            left.append(str(e))
    return left


def read_answers(
    path: Path, fields: reading.Fields = (), optional: Kinds | None = None
) -> Iterator[ScannedRow]:
    """Yield each line of a file of a cache, as `reading.scan` does.

    A last line without a newline counts as damaged in a plain file, whatever it holds: the next append will
    cut it off.

    Args:
        path: The file, packed or plain.
        fields: The fields that each row must have.
        optional: What other fields must be, if they are there.

    Raises:
        Damaged: The file cannot be read.
    """
    for row in reading.scan(path, fields, optional, advice_for):
        torn = not row.line.ended and path.suffix != PACKED
        yield row._replace(value=None, why="it is cut off") if torn else row


def read_generations(path: Path) -> Iterator[tuple[ScannedRow, Generation | None]]:
    """Yield each line of a file of completions with its completion; None if the line is damaged.

    Args:
        path: The file, packed or plain.

    Raises:
        Damaged: The file cannot be read.
    """
    from pydantic import ValidationError  # slow to import, and not needed without a cache

    check = _checked()
    for row in read_answers(path):
        why, generation = row.why, None
        if row.value is not None:
            try:
                generation = check(row.value)
                why = reading.fault_of(generation.meta, (), META)
            except ValidationError as e:
                why = _fault(row.value, e)
            if generation is not None and not 0 <= generation.prompt_tokens < 2**31:
                why = "field prompt_tokens is not a plausible number of tokens"
        if why:
            yield row._replace(why=why), None
        else:
            yield row, generation


def _fault(row: dict[str, Any], error: Any) -> str:
    """What is wrong with the row of an answer, in the words of `fault_of`."""
    fault = error.errors(include_input=False, include_url=False)[0]
    name, *within = map(str, fault["loc"])
    if fault["type"] in ("missing", "missing_argument"):
        return f"field {name} is missing"
    if fault["type"].startswith("unexpected"):
        return f"field {name} is unknown"
    expected = {
        "tokens": "a list of whole numbers",
        "finish": "one of end, length, settled",
        "meta": "an object",
    }
    value = reading.brief(row[name])
    if name == "tokens" and within:
        value += f" with {reading.brief(row[name][int(within[0])])} in it"
    is_number = name == "prompt_tokens"
    return f"field {name} is {value}, not {expected.get(name, 'a whole number' if is_number else 'text')}"


def _size(path: Path) -> int:
    """Bytes of a file; -1 for a link that leads nowhere, which is reported when the file is read."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


@cache
def _checked() -> Callable[[Any], Generation]:
    from pydantic import TypeAdapter

    return TypeAdapter(Generation).validate_python


class GenerationCache:
    """All completions below one directory; `folders`: key -> its file's first folder (the benchmark's).

    Of two answers to one prompt the one in the benchmark's `own` folder counts. `damaged` names damaged
    lines as FILE:LINE; `unreadable` has the files that cannot be read, with the error. UserError: not
    writable.
    """

    def __init__(self, root: Path, own: str = "") -> None:
        self.root = root
        self.rows: dict[str, Generation] = {}
        self.folders: dict[str, str] = {}
        self.damaged: list[str] = []
        self.unreadable: dict[Path, Damaged] = {}
        self.own = own
        self._by_prompt: dict[tuple[str | None, str | None], Generation] = {}
        self._sizes: dict[
            Path, int
        ] = {}  # bytes of each file when it was last read or written here
        self._cleared = False
        self.refresh()

    def refresh(self) -> None:
        """Read the files again if another process has written to them; nothing once `clear` was called."""
        paths = stored_files(self.root, own=self.own)
        sizes = {path: _size(path) for path in paths}
        if self._cleared or sizes == self._sizes:
            return
        self._sizes, self._by_prompt = sizes, {}
        self.damaged.clear()
        self.unreadable.clear()
        for path in paths:  # all of them, since of two answers with one key the later file's counts
            try:
                self._load(path)
            except Damaged as e:
                self.unreadable[path] = e

    def _load(self, path: Path) -> None:
        found: list[Generation] = []
        faults: list[ScannedRow] = []
        for row, generation in read_generations(path):
            if generation is None:
                faults.append(row)
            else:
                found.append(generation)
        # Only now, since a file that turns out to be damaged at its end may be wrong before it, too.
        folder = path.relative_to(self.root).parts[0]
        for generation in found:
            self.rows[generation.key] = generation
            self.folders[generation.key] = folder
        self.damaged += [f"{path}:{row.number}" for row in faults]
        if faults:
            others = f", and {len(faults) - 1} more lines" if len(faults) > 1 else ""
            what = "%s, line %d is damaged: %s%s; damaged answers are ignored, and `run` generates them again"
            log.warning(what, path, faults[0].number, faults[0].why, others)
        if too_long := sum(len(generation.raw) > limits.MAX_ANSWER_BYTES for generation in found):
            size = limits.MAX_ANSWER_BYTES // 2**20
            what = "%s: answers longer than %d MB, which count as empty solutions: %d"
            log.warning(what, path, size, too_long)

    def require(self, path: Path) -> None:
        """Refuse to go on without a file that cannot be read.

        Args:
            path: A file of the cache, by its plain name.

        Raises:
            Damaged: The file is there, packed or not, and cannot be read.
        """
        for file in (path, packed(path)):
            if file in self.unreadable:
                raise self.unreadable[file]

    def append(self, name: str, generation: Generation) -> None:
        """Writes one line to `root/name` and hands it to the operating system before returning."""
        path = self.root / name
        append_line(path, {k: getattr(generation, k) for k in Generation.__slots__})
        self._sizes[path] = path.stat().st_size
        self.rows[generation.key] = generation
        self.folders[generation.key] = Path(name).parts[0]
        self._by_prompt = {}

    def clear(self) -> None:
        """Forgets what was read; the files stay."""
        self.rows.clear()
        self._by_prompt = {}
        self._cleared = True

    def by_prompt(self) -> Mapping[tuple[str | None, str | None], Generation]:
        """(digest of the prompt, settings) -> answer; None for what is not stored with it."""
        if not self._by_prompt:
            about = (
                (g.meta.get("prompt_sha256"), g.meta.get("settings"), g) for g in self.rows.values()
            )
            self._by_prompt = {(prompt, settings): g for prompt, settings, g in about}
        return self._by_prompt


def append_line(path: Path, row: dict[str, Any]) -> None:
    """Append one line of JSON to a file; a torn line before it is cut off.

    Args:
        path: The file, which is made where there is none.
        row: What to write.

    Raises:
        UserError: The file cannot be written, or no reader would accept the line or the file.
    """
    line = json.dumps(row, sort_keys=True).encode() + b"\n"
    if len(line) > limits.MAX_ROW_BYTES:
        size = f"{len(line):,} bytes, and {limits.MAX_ROW_BYTES:,} is the limit"
        raise UserError(
            f"{path}: the row of {row.get('task_id', 'an answer')} has {size}; it is not stored"
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as f:
            if f.tell():
                f.seek(-1, os.SEEK_END)
                if f.read(1) != b"\n":
                    f.seek(0)
                    f.truncate(f.read().rfind(b"\n") + 1)
            if f.seek(0, os.SEEK_END) + len(line) > limits.MAX_FILE_BYTES:
                advice = "move it elsewhere and continue with a new file"
                raise UserError(f"{path} has reached {limits.MAX_FILE_BYTES:,} bytes: {advice}")
            f.write(line)
    except OSError as e:
        advice = f"{e.strerror or e}; free or change the directory"
        raise UserError(f"cannot write the generation cache {path}: {advice}") from e
