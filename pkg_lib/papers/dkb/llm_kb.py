"""LLM-KB (Sections 6.2, 6.5.3, C.2): a model lists each file's class and dependencies, batch by batch.

A file is processed when the answer names it, by path or else by file name; the rest is "SKIPPED/MISSED by
LLM" (Listing 3). A processed file without a class has no record; records make the graph.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from posixpath import basename, normpath
from typing import Any, NamedTuple

from pkg_lib.core.types import Generation
from pkg_lib.data.structuring import json_part
from pkg_lib.generation.generator import Generator
from pkg_lib.graph.types.typegraph import TypeGraph, TypeNode

TRUNCATED_AT = 15_000  # characters of a file, Listing 3
BATCH = 4  # files a prompt; the paper prints neither this nor retries
MAX_NEW_TOKENS = 700  # a record has about 60 tokens; a small model that repeats itself is cut here

with Path(__file__).with_name("prompts.toml").open("rb") as file:
    PROMPTS: dict[str, str] = tomllib.load(file)


def fill(template: str, **values: str) -> str:
    """The template with its values; any other brace, in the template or in a value, stays as it is."""
    return re.sub(r"\{(context|question|batch_content)\}", lambda place: values[place[1]], template)


class FileRecord(NamedTuple):
    class_name: str
    dependencies: tuple[str, ...]


@dataclass
class Extraction:
    """A repository's records by path, and what became of the answers."""

    files: list[str]
    records: dict[str, FileRecord] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)  # files
    identified: set[str] = field(
        default_factory=set
    )  # of them those where no other of the batch is meant
    faults: Counter[str] = field(default_factory=Counter)
    answers: list[Generation] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)  # first file -> prompt without an answer
    by_name: int = 0  # records that named a file by its last part only

    @property
    def skipped(self) -> list[str]:
        return [f for f in self.files if f not in self.named]

    @property
    def success_rate(self) -> float:
        """Equation 6, over file names as the paper counts: skipped files of one name are one."""
        return (len(self.files) - len(set(map(basename, self.skipped)))) / len(self.files)

    @property
    def dependencies(self) -> set[tuple[str, str]]:
        """(class, dependency) as the model named them."""
        return {(r.class_name, d) for r in self.records.values() for d in r.dependencies}

    def graph(self) -> TypeGraph:
        """Nodes are extracted class names, the first file's of several; other dependencies are left out (the
        paper's "graph cleaning")."""
        paths = [path for path in reversed(self.files) if path in self.records]
        nodes = {(name := self.records[p].class_name): TypeNode(name, "class", p) for p in paths}
        edges = {(a, b): {"depends_on"} for a, b in self.dependencies if b in nodes and a != b}
        return TypeGraph.of("llm-kb", nodes, edges)

    def read(self, batch: Sequence[str], raw: str, finish: str = "end") -> None:
        """Takes one answer's records, and counts what cannot be taken."""
        try:
            answer = json.loads(json_part(raw))
        except (ValueError, RecursionError):
            self.faults["cut off" if finish == "length" else "no JSON"] += 1
            return
        results = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(results, list):
            self.faults['no list "results"'] += 1
            return
        paths, namesakes = {_path(result) for result in results}, Counter(map(basename, batch))
        named = {p for p in batch if basename(p) in set(map(basename, paths))}
        self.named |= named
        self.identified |= {p for p in named if normpath(p) in paths or namesakes[basename(p)] == 1}
        self.faults += Counter(filter(None, [self._take(batch, result) for result in results]))

    def _take(self, batch: Sequence[str], result: Any) -> str:
        """Takes one of the results; says what is wrong with it."""
        path = _path(result)
        if not path:
            return "names no file" if isinstance(result, dict) else "no object"
        exact = [p for p in batch if normpath(p) == path]
        meant = exact or [p for p in batch if basename(p) == basename(path)]
        if not meant:
            return "names a file not in the batch"
        name, needs = result.get("class_name"), result.get("dependencies")
        if not isinstance(name, str) or not name.strip():
            return "names no class"
        if meant[0] in self.records:
            return "names a file again"
        self.by_name += not exact
        texts = [d.strip() for d in needs if isinstance(d, str)] if isinstance(needs, list) else []
        self.records[meant[0]] = FileRecord(name.strip(), tuple(dict.fromkeys(texts)))
        return ""


def _path(result: Any) -> str:
    """The path that one of the results gives, "" for none."""
    path = result.get("file_path") if isinstance(result, dict) else None
    return (
        normpath(path.strip().replace("\\", "/")) if isinstance(path, str) and path.strip() else ""
    )


def prompt_of(batch: Sequence[str], texts: Mapping[str, str]) -> str:
    """The published prompt over a batch of files (Listings 3 and 6)."""
    content = "".join(f"\n--- FILE: {path} ---\n{texts[path][:TRUNCATED_AT]}\n" for path in batch)
    return fill(PROMPTS["extraction"], batch_content=content)


def extraction_of(
    texts: Mapping[str, str], generator: Generator, batch: int = BATCH, retries: int = 0
) -> Extraction:
    """What a model's stored answers say of all files, then `retries` times of skipped ones, one a prompt."""
    extraction = Extraction(list(texts))
    for attempt in range(retries + 1):
        left, size = extraction.skipped, 1 if attempt else batch
        parts = [left[i : i + size] for i in range(0, len(left), size)]
        # Greedy decoding answers the same prompt in the same way, so a second retry says which it is.
        more = f"\nAttempt {attempt}.\n" if attempt > 1 else ""
        prompts = {part[0]: prompt_of(part, texts) + more for part in parts}
        answers = [generator.stored(prompt) for prompt in prompts.values()]
        if None in answers:
            extraction.missing = prompts
            break
        extraction.answers += answers
        for part, answer in zip(parts, answers, strict=True):
            extraction.read(part, answer.raw, answer.finish)
    return extraction
