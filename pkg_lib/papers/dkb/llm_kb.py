"""LLM-KB's graph (Sections 6.2, 6.5.3 and C.2): a model lists each file's class and dependencies, batch by batch.

Files are cut at 15,000 characters. A file of a batch is processed when the answer names it, by path or else by file name; the
rest is "SKIPPED/MISSED by LLM" (Listing 3). So a file can be processed and have no record, when the answer gives it no class, or
names another file of its name: records, not processed files, make the graph. An answer that is not JSON names no file, so its
whole batch is missed. The paper prints neither the batch size nor retries; both are options here.
"""

from __future__ import annotations

import json
import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pkg_lib.core.types import Generation
from pkg_lib.generation.asking import Asker
from pkg_lib.graph.text.llm import json_part
from pkg_lib.papers.dkb.dkb_prompts import EXTRACTION, fill

TRUNCATED_AT = 15_000  # characters of a file, Listing 3
BATCH = 4  # files a prompt
MAX_NEW_TOKENS = 700  # a record has about 60 tokens; a small model that repeats itself is cut here

NOT_JSON, CUT_OFF, NO_RESULTS = "no JSON", "cut off", 'no list "results"'
NO_RECORD, NO_FILE, NOT_IN_BATCH, NO_CLASS = (
    "no object",
    "names no file",
    "names a file not in the batch",
    "names no class",
)
TWICE = "names a file again"


@dataclass(frozen=True, slots=True)
class Record:
    """What a model said of one file. `path` is the file's own, however the model wrote it."""

    path: str
    class_name: str
    dependencies: tuple[str, ...]


@dataclass
class Extraction:
    """A repository's records by path; files that answers `named`; faults of answers and records by reason; what it cost.

    `truncated` files were longer than what the model was shown; `by_name` records named a file by its last part only;
    `told_apart` files were named by their path, or by a file name that no other one of the batch has.
    """

    files: list[str]
    records: dict[str, Record] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    told_apart: set[str] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)
    truncated: list[str] = field(default_factory=list)
    answers: list[Generation] = field(default_factory=list)
    by_name: int = 0
    retried: int = 0

    @property
    def skipped(self) -> list[str]:
        """The files that Listing 3 reports."""
        return [f for f in self.files if f not in self.named]

    @property
    def success_rate(self) -> float | None:
        """Equation 6, over file names as the paper counts them: skipped files with the same name are one."""
        names = {posixpath.basename(f) for f in self.skipped}
        return (len(self.files) - len(names)) / len(self.files) if self.files else None

    @property
    def success_by_path(self) -> float | None:
        """The share of the files that answers name so that no other file of the batch is meant; never above Equation 6."""
        return len(self.told_apart) / len(self.files) if self.files else None

    @property
    def seconds(self) -> float:
        return sum(a.meta["seconds"] for a in self.answers)


def batches(paths: Sequence[str], size: int) -> list[tuple[str, ...]]:
    """The paths in order, `size` at a time."""
    return [tuple(paths[i : i + size]) for i in range(0, len(paths), size)]


def prompt_of(batch: Sequence[str], texts: Mapping[str, str]) -> str:
    """The published prompt over a batch of files (Listings 3 and 6)."""
    content = "".join(f"\n--- FILE: {path} ---\n{texts[path][:TRUNCATED_AT]}\n" for path in batch)
    return fill(EXTRACTION, batch_content=content)


def extract(texts: Mapping[str, str], asker: Asker, batch: int = BATCH, retries: int = 0) -> Extraction:
    """Asks for every file, then up to `retries` times, one file a prompt, for those that were skipped."""
    found = Extraction(list(texts), truncated=[p for p, t in texts.items() if len(t) > TRUNCATED_AT])
    _round(found, texts, batches(found.files, batch), asker)
    for attempt in range(1, retries + 1):
        skipped = found.skipped
        found.retried += len(skipped)
        # Greedy decoding answers the same prompt in the same way, so a second retry says which it is.
        _round(found, texts, batches(skipped, 1), asker, "" if attempt == 1 else f"\nAttempt {attempt}.\n")
    return found


def _round(
    found: Extraction, texts: Mapping[str, str], parts: list[tuple[str, ...]], asker: Asker, more: str = ""
) -> None:
    asked = {part[0]: (part, prompt_of(part, texts) + more) for part in parts}
    answers = asker.ask({name: prompt for name, (_, prompt) in asked.items()})
    for name, (part, _) in asked.items():
        found.answers.append(answers[name])
        read(found, part, answers[name].raw, answers[name].finish)


def read(found: Extraction, batch: Sequence[str], raw: str, finish: str = "end") -> None:
    """Takes one answer's records into `found`, and counts what cannot be taken."""
    results = _results(raw)
    if isinstance(results, str):
        found.faults[CUT_OFF if results == NOT_JSON and finish == "length" else results] += 1
        return
    found.named |= _named(batch, results)
    found.told_apart |= _told_apart(batch, results)
    for value in results:
        if fault := _take(found, batch, value):
            found.faults[fault] += 1


def _results(raw: str) -> list[Any] | str:
    """The list "results" of an answer, or what is wrong with the answer."""
    try:
        value = json.loads(json_part(raw))
    except (ValueError, RecursionError):
        return NOT_JSON
    results = value.get("results") if isinstance(value, dict) else None
    return results if isinstance(results, list) else NO_RESULTS


def _named(batch: Sequence[str], results: Sequence[Any]) -> set[str]:
    """The files of the batch that the answer names: Listing 3's two steps, whatever else it says of them."""
    normal = _paths(results)
    names = {posixpath.basename(p) for p in normal}
    return {p for p in batch if _normal(p) in normal or posixpath.basename(p) in names}


def _told_apart(batch: Sequence[str], results: Sequence[Any]) -> set[str]:
    normal, names = _paths(results), Counter(map(posixpath.basename, batch))
    return {p for p in _named(batch, results) if _normal(p) in normal or names[posixpath.basename(p)] == 1}


def _paths(results: Sequence[Any]) -> set[str]:
    paths = [v.get("file_path") for v in results if isinstance(v, dict)]
    return {_normal(p) for p in paths if isinstance(p, str) and p.strip()}


def _normal(path: str) -> str:
    return posixpath.normpath(path.strip().replace("\\", "/"))


def _take(found: Extraction, batch: Sequence[str], value: Any) -> str:
    if not isinstance(value, dict):
        return NO_RECORD
    named = value.get("file_path")
    if not isinstance(named, str) or not named.strip():
        return NO_FILE
    path, exact = _match(_normal(named), batch)
    if path is None:
        return NOT_IN_BATCH
    name, needs = value.get("class_name"), value.get("dependencies")
    if not isinstance(name, str) or not name.strip():
        return NO_CLASS
    if path in found.records:
        return TWICE
    found.by_name += not exact
    texts = (
        tuple(dict.fromkeys(d.strip() for d in needs if isinstance(d, str)))
        if isinstance(needs, list)
        else ()
    )
    found.records[path] = Record(path, name.strip(), texts)
    return ""


def _match(normal: str, batch: Sequence[str]) -> tuple[str | None, bool]:
    """(the file of the batch that a record is of, whether by its whole path)."""
    for path in batch:
        if _normal(path) == normal:
            return path, True
    return next((p for p in batch if posixpath.basename(p) == posixpath.basename(normal)), None), False
