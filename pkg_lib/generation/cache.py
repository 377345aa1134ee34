"""The generation cache: JSONL files with one completion a line, appended as soon as it exists.

A torn last line (after a kill, or on a full disk) is cut off before the next line is appended. A
damaged line is reported, and its prompt is completed again. A file that cannot be read at all is
reported by the runs that need it, and is never replaced. ``pack`` folds NAME.jsonl into
NAME.jsonl.gz; later answers are appended to a new NAME.jsonl.
"""

import json
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from pkg_lib.core import limits, reading
from pkg_lib.core.reading import (
    NUMBER,
    PACKED,
    DamagedFileError,
    Kinds,
    ScannedRow,
    is_there,
    shown,
)
from pkg_lib.core.store import CACHE, advice_for, read_rows, sha256_of, write_jsonl, write_packed
from pkg_lib.core.types import Generation, UserError, digest

log = logging.getLogger(__name__)

MAX_PROMPT_TOKENS = 2**31  # a larger number of tokens is not plausible
TEXT_OR_NULL = (str, type(None))
# What is recorded beside an answer, if it is known. Other fields may be anything.
META: Kinds = {
    "seconds": (*NUMBER, type(None)),
    "settings": TEXT_OR_NULL,
    "prompt_sha256": TEXT_OR_NULL,
    "context_sha256": TEXT_OR_NULL,
    "revision": TEXT_OR_NULL,
}
FIELDS: Kinds = {
    "key": str,
    "task_id": str,
    "raw": str,
    "tokens": list,
    "finish": frozenset({"end", "length", "settled"}),
    "prompt_tokens": int,
}
# The stages of a study whose rows an earlier version did not pack.
UNPACKED_STAGES = ("contexts", "runs", "feedback", "replay")
# Where completions are stored: those of the study, and answers about tutorials, topics and Java files.
COMPLETION_FOLDERS = (
    CACHE,
    "structured/answers",
    "tasks/topics/*/answers",
    "repo_qa/*/answers",
)


def generation_key(
    model: str,
    revision: str,
    prompt: str,
    params: dict[str, Any],
    sample: int = 0,
) -> str:
    """Compute the key of a completion: SHA-256 over everything that decides the text.

    Args:
        model: The model's name.
        revision: What identifies its weights.
        prompt: The prompt's text.
        params: The parameters of decoding.
        sample: Number of the completion, if several are sampled from one prompt.

    Returns:
        32 hexadecimal digits.
    """
    parameters = json.dumps(params, sort_keys=True)
    return digest(model, revision, prompt, parameters, str(sample))[:32]


def stored_files(
    folder: Path,
    pattern: str = "**/*.jsonl",
    own: str = "",
) -> list[Path]:
    """List the files of a cache below a folder, packed or not.

    Args:
        folder: The folder.
        pattern: Which files, by their plain names.
        own: The name of a folder in it that comes last.

    Returns:
        The files. If two hold the same key, the later one counts. Plain files follow the packed
        ones, because they were appended to since.
    """
    paths = sorted(folder.glob(pattern + PACKED))
    paths += sorted(folder.glob(pattern))
    last = folder / own
    return sorted(paths, key=lambda path: bool(own) and path.is_relative_to(last))


def packed(path: Path) -> Path:
    """Return the path at which a file's packed answers are stored.

    Args:
        path: The file by its plain name, NAME.jsonl.

    Returns:
        NAME.jsonl.gz in the same directory. It need not exist.
    """
    return path.with_name(path.name + PACKED)


def stored(path: Path) -> bool:
    """Tell whether a file of a cache exists, packed or not.

    Args:
        path: The file by its plain name, NAME.jsonl.

    Returns:
        Whether NAME.jsonl or NAME.jsonl.gz exists. Either of them may be damaged.
    """
    return is_there(path) or is_there(packed(path))


def pack(folder: Path) -> None:
    """Pack all files of a cache: the same answers give the same bytes.

    Damaged lines are moved to NAME.jsonl.damaged.

    Args:
        folder: The directory of the cache; directories below it are packed as well.

    Raises:
        UserError: Some files cannot be read whole. They stay, and the others are packed.
    """
    errors = _for_each(sorted(folder.glob("**/*.jsonl")), _pack_file)
    if errors:
        raise UserError(*errors)


def pack_completions(results: Path) -> list[str]:
    """Pack the completions of a results directory, wherever they are stored.

    Args:
        results: The results directory.

    Returns:
        One line for each file that cannot be read whole and therefore stays.
    """
    left: list[str] = []
    for place in COMPLETION_FOLDERS:
        for folder in sorted(results.glob(place)):
            try:
                pack(folder)
            except UserError as e:
                left += e.args
    return left


def pack_rows(results: Path) -> list[str]:
    """Pack rows that an earlier version left plain, unless they were written again since.

    Args:
        results: The results directory.

    Returns:
        One line for each file that is damaged and therefore stays.
    """
    paths: list[Path] = []
    for stage in UNPACKED_STAGES:
        paths += sorted(results.glob(f"{stage}/**/*.jsonl"))
    return _for_each(paths, _pack_rows_of)


def _for_each(paths: list[Path], pack_one: Callable[[Path], None]) -> list[str]:
    """Pack files and then remove them; return the errors of those that stay."""
    errors = []
    for path in paths:
        try:
            if not path.is_file():  # replacing it, such as a link, would destroy it
                kind = "a directory, not a file" if path.is_dir() else "not a regular file"
                raise DamagedFileError(f"{shown(str(path))} is {kind}; it is left as it is")
            pack_one(path)
            path.unlink()
        except (UserError, OSError) as e:
            errors.append(str(e))
    return errors


def _pack_file(path: Path) -> None:
    """Join a file of a cache with its packed part. Of one key the last row counts."""
    rows: dict[str, dict[str, Any]] = {}
    damaged = []
    for file in filter(is_there, (packed(path), path)):
        for row in read_answers(file, {"key": str}):
            if row.value is not None:
                rows[row.value["key"]] = row.value
            elif row.line.text is None:  # the line is too long to be kept aside
                raise DamagedFileError.of(file, row.why, row.number, advice_for)
            elif row.line.ended or file != path:
                # A plain file's unfinished last line is cut off, as before an append.
                damaged.append(row)
    keep_aside(path, damaged)
    lines = [json.dumps(row, sort_keys=True) + "\n" for row in rows.values()]
    write_packed(packed(path), "".join(lines).encode())


def _pack_rows_of(path: Path) -> None:
    if is_there(packed(path)):
        for _ in reading.lines(packed(path), advice_for):
            pass  # the packed file is sound, so the plain one may go
    else:
        write_jsonl(packed(path), read_rows(path))


def keep_aside(path: Path, damaged: Iterable[ScannedRow]) -> None:
    """Append the damaged lines of a file that is about to be replaced to FILE.damaged.

    Args:
        path: The file.
        damaged: Its damaged lines.

    Raises:
        UserError: They cannot be written.
    """
    lines = [row.line for row in damaged if not row.line.blank]
    texts = [line.text + b"\n" for line in lines if line.text]
    if not texts:
        return
    aside = path.with_name(f"{path.name}.damaged")
    if obstacle := reading.describe_obstacle(aside):
        raise UserError(f"cannot keep damaged lines: {obstacle}")
    try:
        with aside.open("ab") as file:
            file.writelines(texts)
    except OSError as e:
        advice = "free space or change the directory"
        raise UserError(f"cannot write {aside}: {e.strerror or e}; {advice}") from e
    log.warning("%s: %d damaged lines are kept in %s", path, len(texts), aside.name)


def read_answers(
    path: Path,
    fields: reading.Fields = (),
    optional: Kinds | None = None,
) -> Iterator[ScannedRow]:
    """Yield each line of a file of a cache, like ``reading.scan``.

    The last line of a plain file counts as damaged if no newline ends it, whatever it holds: the
    next append will cut it off.

    Args:
        path: The file, packed or plain.
        fields: The fields that each row must have.
        optional: What other fields must be, if they are present.

    Yields:
        The lines.

    Raises:
        DamagedFileError: The file cannot be read.
    """
    for row in reading.scan(path, fields, optional, advice_for):
        is_torn = not row.line.ended and path.suffix != PACKED
        yield row._replace(value=None, why="it is cut off") if is_torn else row


def read_generations(path: Path) -> Iterator[tuple[ScannedRow, Generation | None]]:
    """Yield each line of a file of completions with its completion.

    Args:
        path: The file, packed or plain.

    Yields:
        The line, and its completion or None if the line is damaged.

    Raises:
        DamagedFileError: The file cannot be read.
    """
    for row in read_answers(path, FIELDS, {"meta": dict}):
        if row.value is None:
            yield row, None
            continue
        why = _fault(row.value)
        if why:
            yield row._replace(why=why), None
        else:
            yield row, Generation(**row.value)


def _fault(row: dict[str, Any]) -> str:
    """Describe what is wrong within the fields of a row; "" if nothing is."""
    if not set(map(type, row["tokens"])) <= {int}:
        return "field tokens holds something else than whole numbers"
    if not 0 <= row["prompt_tokens"] < MAX_PROMPT_TOKENS:
        return "field prompt_tokens is not a plausible number of tokens"
    unknown = row.keys() - set(Generation.__slots__)
    if unknown:
        return f"field {min(unknown)} is unknown"
    return reading.fault_of(row.get("meta", {}), (), META)


@dataclass(frozen=True, eq=False)
class _AnswersOfFile:
    """What a file of completions held when it was read.

    Attributes:
        found: Its completions.
        faults: Its damaged lines.
    """

    found: list[Generation]
    faults: list[ScannedRow]


# The files that some cache holds, by their contents. Experiments of one model have the same files,
# and parsing them takes a second or two.
_HELD: WeakValueDictionary[tuple[str, str], _AnswersOfFile] = WeakValueDictionary()


def _read_file(path: Path) -> _AnswersOfFile:
    """Read a file of completions; one with the contents of a file that a cache holds is not parsed.

    Raises:
        DamagedFileError: The file cannot be read.
    """
    contents = _contents_digest(path)
    held = _HELD.get((contents, path.suffix))
    if held is not None:
        return held
    # The whole file is read first. If it is damaged at its end, it may be wrong before it, too.
    found, faults = [], []
    for row, generation in read_generations(path):
        if generation is None:
            faults.append(row)
        else:
            found.append(generation)
    answers = _AnswersOfFile(found, faults)
    if contents and _contents_digest(path) == contents:  # nobody wrote to it in the meantime
        _HELD[contents, path.suffix] = answers
    return answers


def _contents_digest(path: Path) -> str:
    """Identify the contents of a file; "" if it is too large, or cannot be read."""
    try:
        if path.stat().st_size > limits.MAX_FILE_BYTES:
            return ""
        return sha256_of(path)
    except (OSError, DamagedFileError):
        return ""


class GenerationCache:
    """All completions below one directory.

    Args:
        root: The directory.
        own: The folder in it, named after a benchmark, whose answers count if another folder has
            answers to the same prompts.

    Attributes:
        rows: Completion by key.
        files: The file of a completion by key.
        damaged: Damaged lines as FILE:LINE.
        unreadable: The files that cannot be read, with the error.
    """

    def __init__(self, root: Path, own: str = "") -> None:
        self.root = root
        self.own = own
        self.rows: dict[str, Generation] = {}
        self.files: dict[str, Path] = {}
        self.damaged: list[str] = []
        self.unreadable: dict[Path, DamagedFileError] = {}
        self._by_prompt: dict[tuple[str | None, str | None], Generation] = {}
        self._held: dict[Path, _AnswersOfFile] = {}
        self._sizes: dict[Path, int] = {}  # of each file when it was last read or written here
        self._is_cleared = False
        self.refresh()

    def refresh(self) -> None:
        """Read the files again if another process wrote to them; do nothing after ``clear``."""
        paths = stored_files(self.root, own=self.own)
        sizes = {path: _size(path) for path in paths}
        if self._is_cleared or sizes == self._sizes:
            return
        self._sizes = sizes
        self._by_prompt = {}
        self.damaged.clear()
        self.unreadable.clear()
        for path in sizes:  # all of them: of two answers with one key the later file's counts
            try:
                self._load(path)
            except DamagedFileError as e:
                self.unreadable[path] = e

    def _load(self, path: Path) -> None:
        answers = _read_file(path)
        self._held[path] = answers
        faults = answers.faults
        too_long = 0
        for generation in answers.found:
            self.rows[generation.key] = generation
            self.files[generation.key] = path
            too_long += len(generation.raw) > limits.MAX_ANSWER_BYTES
        self.damaged += [f"{path}:{row.number}" for row in faults]
        if faults:
            others = f", and {len(faults) - 1} more lines" if len(faults) > 1 else ""
            log.warning(
                "%s, line %d is damaged: %s%s; damaged answers are ignored, "
                "and `run` generates them again",
                path,
                faults[0].number,
                faults[0].why,
                others,
            )
        if too_long:
            size = limits.MAX_ANSWER_BYTES // 2**20
            message = "%s: answers longer than %d MB, which count as empty solutions: %d"
            log.warning(message, path, size, too_long)

    def require(self, path: Path) -> None:
        """Refuse to continue without a file that cannot be read.

        Args:
            path: A file of the cache, by its plain name.

        Raises:
            DamagedFileError: The file exists, packed or not, and cannot be read.
        """
        for file in (path, packed(path)):
            if file in self.unreadable:
                raise self.unreadable[file]

    def append(self, name: str, generation: Generation) -> None:
        """Append a completion to a file, and hand it to the operating system before returning.

        Args:
            name: Path of the file below the cache's directory.
            generation: The completion.

        Raises:
            UserError: The file cannot be written.
        """
        path = self.root / name
        row = {name: getattr(generation, name) for name in Generation.__slots__}
        append_line(path, row)
        self._sizes[path] = path.stat().st_size
        self.rows[generation.key] = generation
        self.files[generation.key] = path
        self._by_prompt = {}

    def clear(self) -> None:
        """Forget what was read; the files stay."""
        self.rows.clear()
        self._held.clear()
        self._by_prompt = {}
        self._is_cleared = True

    def by_prompt(self) -> Mapping[tuple[str | None, str | None], Generation]:
        """Return completions by prompt digest and settings; each is None if it is not stored."""
        if not self._by_prompt:
            for generation in self.rows.values():
                prompt = generation.meta.get("prompt_sha256")
                settings = generation.meta.get("settings")
                self._by_prompt[prompt, settings] = generation
        return self._by_prompt


def _size(path: Path) -> int:
    """Return the bytes of a file; -1 for a link without target, which reading it reports."""
    try:
        return path.stat().st_size
    except OSError:
        return -1


def append_line(path: Path, row: dict[str, Any]) -> None:
    """Append one line of JSON to a file; a torn line before it is cut off.

    Args:
        path: The file, which is created if it does not exist.
        row: The row.

    Raises:
        UserError: The file cannot be written, or no reader would accept the line or the file.
    """
    line = json.dumps(row, sort_keys=True).encode() + b"\n"
    if len(line) > limits.MAX_ROW_BYTES:
        size = f"{len(line):,} bytes, and {limits.MAX_ROW_BYTES:,} is the limit"
        name = row.get("task_id", "an answer")
        raise UserError(f"{path}: the row of {name} has {size}; it is not stored")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    file.seek(0)
                    file.truncate(file.read().rfind(b"\n") + 1)
            end = file.seek(0, os.SEEK_END)
            if end + len(line) > limits.MAX_FILE_BYTES:
                advice = "move it elsewhere and continue with a new file"
                raise UserError(f"{path} has reached {limits.MAX_FILE_BYTES:,} bytes: {advice}")
            file.write(line)
    except OSError as e:
        reason = f"{e.strerror or e}; free space or change the directory"
        raise UserError(f"cannot write the generation cache {path}: {reason}") from e
