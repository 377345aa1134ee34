"""The generation cache: append-only JSONL, one line per completion, written as soon as it is there.

A torn last line (a kill, a full disk) is cut off before the next append; a damaged one is generated again.
"""

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pkg_lib.core.types import Generation, UserError, digest

log = logging.getLogger(__name__)


def generation_key(model: str, revision: str, prompt: str, params: dict[str, Any], sample: int = 0) -> str:
    """The cache key, 32 hex digits: SHA-256 over everything that decides the text."""
    return digest(model, revision, prompt, json.dumps(params, sort_keys=True), str(sample))[:32]


def read_jsonl(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """(line number, object) of a JSONL file; None for a line that is not a JSON object."""
    with path.open("rb") as f:
        for number, line in enumerate(f, 1):
            try:
                row = json.loads(line) if line.endswith(b"\n") else None
            except ValueError:
                row = None
            yield number, row if isinstance(row, dict) else None


class GenerationCache:
    """All completions below one directory; `folders`: key -> its file's first folder (the benchmark's).

    Of two answers to one prompt the one in the benchmark's `own` folder counts. UserError: not writable.
    """

    def __init__(self, root: Path, own: str = "") -> None:
        self.root = root
        self.rows: dict[str, Generation] = {}
        self.folders: dict[str, str] = {}
        self.damaged: list[str] = []
        paths = sorted(root.rglob("*.jsonl")) if root.is_dir() else []
        for path in sorted(paths, key=lambda p: p.relative_to(root).parts[0] == own):
            self._load(path)

    def _load(self, path: Path) -> None:
        from pydantic import TypeAdapter, ValidationError  # slow to import, and not needed without a cache

        check = TypeAdapter(Generation).validate_python
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
        append_line(self.root / name, {k: getattr(generation, k) for k in Generation.__slots__})
        self.rows[generation.key] = generation
        self.folders[generation.key] = Path(name).parts[0]


def append_line(path: Path, row: dict[str, Any]) -> None:
    """Appends one line of JSON; a torn line before it is cut off. UserError where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as f:
            if f.tell():
                f.seek(-1, os.SEEK_END)
                if f.read(1) != b"\n":
                    f.seek(0)
                    f.truncate(f.read().rfind(b"\n") + 1)
            f.write(json.dumps(row, sort_keys=True).encode() + b"\n")
    except OSError as e:
        advice = f"{e.strerror}; free or change the directory"
        raise UserError(f"cannot write the generation cache {path}: {advice}") from e
