"""The generation cache: append-only JSONL, one line per completion, written as soon as it is there.

A torn last line (a kill, a full disk) is cut off before the next append; a damaged one is generated again.
`pack` folds NAME.jsonl into NAME.jsonl.gz; what comes later is appended to a new NAME.jsonl.
"""

import gzip
import io
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from pkg_lib.core import limits
from pkg_lib.core.store import PACKED, read_packed, read_rows, write_bytes, write_jsonl
from pkg_lib.core.types import Generation, UserError, digest

log = logging.getLogger(__name__)


def generation_key(model: str, revision: str, prompt: str, params: dict[str, Any], sample: int = 0) -> str:
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
    return path.exists() or packed(path).exists()


def pack(folder: Path) -> None:
    """Packs all files below a folder, the same bytes for the same answers; a damaged line goes."""
    for path in sorted(folder.glob("**/*.jsonl")):
        found = (row for p in (packed(path), path) if p.exists() for _, row in read_jsonl(p))
        rows = {row.get("key"): row for row in found if row}  # the last of one key, at the first one's place
        text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows.values())
        write_bytes(packed(path), gzip.compress(text.encode(), mtime=0))
        path.unlink()


def pack_rows(results: Path) -> None:
    """Packs what an earlier version left plain, but where the column was made again since."""
    stages = ("contexts", "evaluations", "feedback", "replay/*/*/shown")
    for path in (p for stage in stages for p in results.glob(f"{stage}/**/*.jsonl")):
        if not packed(path).exists():
            write_jsonl(packed(path), read_rows(path))
        path.unlink()


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """(line number, object) of a JSONL file; None for a line that is not a JSON object.

    UserError for a packed file that is damaged: it is never half written.
    """
    for number, line in enumerate(io.BytesIO(read_packed(path)), 1):
        try:
            row = json.loads(line) if line.endswith(b"\n") else None
        except ValueError:
            row = None
        yield number, row if isinstance(row, dict) else None


@cache
def _checked() -> Callable[[Any], Generation]:
    from pydantic import TypeAdapter

    return TypeAdapter(Generation).validate_python


class GenerationCache:
    """All completions below one directory; `folders`: key -> its file's first folder (the benchmark's).

    Of two answers to one prompt the one in the benchmark's `own` folder counts. UserError: not writable.
    """

    def __init__(self, root: Path, own: str = "") -> None:
        self.root = root
        self.rows: dict[str, Generation] = {}
        self.folders: dict[str, str] = {}
        self.damaged: list[str] = []
        self.own = own
        self._by_prompt: dict[tuple[str | None, str | None], Generation] = {}
        self._sizes: dict[Path, int] = {}  # bytes of each file when it was last read or written here
        self._cleared = False
        self.refresh()

    def refresh(self) -> None:
        """Read the files again if another process has written to them; nothing once `clear` was called."""
        paths = stored_files(self.root, own=self.own)
        sizes = {path: path.stat().st_size for path in paths}
        if self._cleared or sizes == self._sizes:
            return
        self._sizes, self._by_prompt = sizes, {}
        self.damaged.clear()
        for path in paths:  # all of them, since of two answers with one key the later file's counts
            self._load(path)

    def _load(self, path: Path) -> None:
        from pydantic import ValidationError  # slow to import, and not needed without a cache

        check = _checked()
        for number, row in read_jsonl(path):
            try:
                generation = check(row)
            except ValidationError as e:
                self.damaged.append(f"{path}:{number}")
                message = "%s:%d: unreadable cache line ignored, its prompt is generated again (%s)"
                log.warning(message, path, number, e.errors()[0]["msg"])
            else:
                self.rows[generation.key] = generation
                self.folders[generation.key] = path.relative_to(self.root).parts[0]

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
            about = ((g.meta.get("prompt_sha256"), g.meta.get("settings"), g) for g in self.rows.values())
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
        raise UserError(f"{path}: the row of {row.get('task_id', 'an answer')} has {size}; it is not stored")
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
        advice = f"{e.strerror}; free or change the directory"
        raise UserError(f"cannot write the generation cache {path}: {advice}") from e
