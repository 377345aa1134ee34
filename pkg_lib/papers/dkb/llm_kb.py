"""LLM-KB (Sections 6.2, 6.5.3 and C.2): a model lists the class and dependencies of each file.

Files are sent in batches. A file counts as processed if the answer names it, by its path or else by
its file name. The others are "SKIPPED/MISSED by LLM" (Listing 3). A processed file without a class
gives no record. The graph is built from the records.
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

TRUNCATED_AT = 15_000  # characters of a file (Listing 3)
BATCH = 4  # files of a prompt; the paper states neither this number nor that of retries
MAX_NEW_TOKENS = 700  # a record has about 60 tokens; this stops a model that repeats itself

with Path(__file__).with_name("prompts.toml").open("rb") as file:
    PROMPTS: dict[str, str] = tomllib.load(file)


def fill(template: str, **values: str) -> str:
    """Put values into a prompt.

    Args:
        template: A text of prompts.toml.
        **values: Value by name; the names are context, question and batch_content.

    Returns:
        The prompt. Other braces, in the template or in a value, are kept.
    """
    names = r"\{(context|question|batch_content)\}"
    return re.sub(names, lambda match: values[match[1]], template)


class FileRecord(NamedTuple):
    """What a model says about a file.

    Attributes:
        class_name: Its class.
        dependencies: Names of the types that it uses, each once.
    """

    class_name: str
    dependencies: tuple[str, ...]


@dataclass
class Extraction:
    """The records of a repository, and what went wrong with the answers.

    Attributes:
        files: Paths of all files.
        records: Record by path.
        named: Files that an answer names.
        identified: Those of them that cannot be confused with another file of the batch.
        faults: How often each fault occurred.
        answers: The answers that were read.
        missing: Prompts without a stored answer, by the first file of each.
        by_name: Number of records that name their file by its last part only.
    """

    files: list[str]
    records: dict[str, FileRecord] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)
    identified: set[str] = field(default_factory=set)
    faults: Counter[str] = field(default_factory=Counter)
    answers: list[Generation] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    by_name: int = 0

    @property
    def skipped(self) -> list[str]:
        """Files that no answer names, in order."""
        return [path for path in self.files if path not in self.named]

    @property
    def success_rate(self) -> float:
        """Share of processed files (Equation 6).

        As in the paper, skipped files are counted by name: two of the same name count once.
        """
        total = len(self.files)
        skipped_names = {basename(path) for path in self.skipped}
        return (total - len(skipped_names)) / total

    @property
    def dependencies(self) -> set[tuple[str, str]]:
        """Pairs of a class and a dependency, as the model named them."""
        pairs = set()
        for record in self.records.values():
            for dependency in record.dependencies:
                pairs.add((record.class_name, dependency))
        return pairs

    def graph(self) -> TypeGraph:
        """Build the graph of the extracted classes.

        Returns:
            One node per class name; the first file wins if several have it. Dependencies that are
            no extracted class are left out (the paper's "graph cleaning").
        """
        nodes: dict[str, TypeNode] = {}
        for path in reversed(self.files):
            if path in self.records:
                name = self.records[path].class_name
                nodes[name] = TypeNode(name, "class", path)
        edges = {}
        for user, used in self.dependencies:
            if used in nodes and user != used:
                edges[user, used] = {"depends_on"}
        return TypeGraph.of("llm-kb", nodes, edges)

    def read(
        self,
        batch: Sequence[str],
        raw: str,
        finish: str = "end",
    ) -> None:
        """Take the records of one answer, and count its faults.

        Args:
            batch: Paths of the files in the prompt.
            raw: The answer.
            finish: Why decoding stopped; "length" if the answer was cut off.
        """
        try:
            answer = json.loads(json_part(raw))
        except (ValueError, RecursionError):
            fault = "cut off at the token limit" if finish == "length" else "no JSON"
            self.faults[fault] += 1
            return
        results = _field(answer, "results")
        if not isinstance(results, list):
            self.faults['no list "results"'] += 1
            return
        self._count_named(batch, results)
        for result in results:
            fault = self._take(batch, result)
            if fault:
                self.faults[fault] += 1

    def _count_named(self, batch: Sequence[str], results: list[Any]) -> None:
        """Record which files of a batch the results name."""
        paths = {_path(result) for result in results}
        names = {basename(path) for path in paths}
        files_of_name = Counter(basename(path) for path in batch)
        for path in batch:
            name = basename(path)
            if name not in names:
                continue
            self.named.add(path)
            if normpath(path) in paths or files_of_name[name] == 1:
                self.identified.add(path)

    def _take(self, batch: Sequence[str], result: Any) -> str:
        """Take one of the results; return its fault, "" for none."""
        path = _path(result)
        if not path:
            return "names no file" if isinstance(result, dict) else "no object"
        by_path = [file for file in batch if normpath(file) == path]
        by_name = [file for file in batch if basename(file) == basename(path)]
        if not by_name:
            return "names a file not in the batch"
        class_name = _text(result, "class_name")
        if not class_name:
            return "names no class"
        file = (by_path or by_name)[0]
        if file in self.records:
            return "names a file again"
        if not by_path:
            self.by_name += 1
        dependencies = _field(result, "dependencies")
        if not isinstance(dependencies, list):
            dependencies = []
        names = [name.strip() for name in dependencies if isinstance(name, str)]
        unique = dict.fromkeys(names)
        self.records[file] = FileRecord(class_name, tuple(unique))
        return ""


def _field(value: Any, name: str) -> Any:
    """Return a field of an object; None if there is none, or if the value is no object."""
    return value.get(name) if isinstance(value, dict) else None


def _text(value: Any, name: str) -> str:
    """Return a field of an object that is text, without white space around it; "" for none."""
    text = _field(value, name)
    return text.strip() if isinstance(text, str) else ""


def _path(result: Any) -> str:
    """Return the path that one of the results gives, "" for none."""
    path = _text(result, "file_path")
    return normpath(path.replace("\\", "/")) if path else ""


def prompt_of(batch: Sequence[str], texts: Mapping[str, str]) -> str:
    """Return the published prompt for a batch of files (Listings 3 and 6).

    Args:
        batch: Paths of the files.
        texts: Text of each file by path.

    Returns:
        The prompt.
    """
    content = ""
    for path in batch:
        text = texts[path][:TRUNCATED_AT]
        content += f"\n--- FILE: {path} ---\n{text}\n"
    return fill(PROMPTS["extraction"], batch_content=content)


def extraction_of(
    texts: Mapping[str, str],
    generator: Generator,
    batch: int = BATCH,
    retries: int = 0,
) -> Extraction:
    """Read a model's stored answers about all files.

    Args:
        texts: Text of each file by path.
        generator: The model, with its stored answers.
        batch: Number of files of a prompt.
        retries: How often skipped files are sent again, each in a prompt of its own.

    Returns:
        The extraction. It ends before the first attempt whose answers are not all stored; these
        prompts are in `missing`.
    """
    extraction = Extraction(list(texts))
    for attempt in range(retries + 1):
        size = 1 if attempt else batch
        files = extraction.skipped
        prompts = {}
        answered = []
        for start in range(0, len(files), size):
            part = files[start : start + size]
            prompt = prompt_of(part, texts)
            if attempt > 1:
                # Greedy decoding answers the same prompt in the same way, so later retries state
                # their number.
                prompt += f"\nAttempt {attempt}.\n"
            prompts[part[0]] = prompt
            answer = generator.stored(prompt)
            if answer:
                answered.append((part, answer))
        if len(answered) < len(prompts):
            extraction.missing = prompts
            break
        for part, answer in answered:
            extraction.answers.append(answer)
            extraction.read(part, answer.raw, answer.finish)
    return extraction
