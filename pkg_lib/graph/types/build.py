"""Build the type graph of a repository and report what was built.

A `store` keeps the facts of each file with its SHA-256, so that only changed files are parsed
again.
"""

import hashlib
import json
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import networkx as nx
from pydantic import TypeAdapter

from pkg_lib.core import reading, workers
from pkg_lib.core.reading import shown
from pkg_lib.core.registry import unknown
from pkg_lib.core.source_tree import (
    EMPTY,
    NAMED,
    SourceTree,
    UnreadableFileError,
    reader,
)
from pkg_lib.core.store import first_few, write_text
from pkg_lib.core.types import UserError
from pkg_lib.graph.types import resolve
from pkg_lib.graph.types.java import (
    NO_TYPE,
    VERSION,
    Facts,
    facts_of,
)
from pkg_lib.graph.types.scan import SUFFIX, scan
from pkg_lib.graph.types.typegraph import MODES, TypeGraph

FACTS = TypeAdapter(Facts)
PART = 64  # least files of a worker's part: an archive's directory is read again for each part
WORTH_A_PROCESS = 200  # files; with fewer a second process takes longer to start than it saves


class ParsedFile(NamedTuple):
    """What became of a file in a worker.

    Attributes:
        sha256: Digest of its bytes in hex; "" if it is unreadable.
        facts: Its types and references; None if the store has those of these bytes.
    """

    sha256: str
    facts: Facts | None


Store = dict[str, tuple[str, Facts]]  # path -> SHA-256 and facts of the file


@dataclass
class BuiltGraph:
    """A type graph and what it was built from.

    Attributes:
        tree: The Java files.
        facts: The facts of each file.
        parsed: Number of files that the store did not know.
        resolution: The graph, and what became of the references.
        seconds: Seconds of each step, and their total.
    """

    tree: SourceTree
    facts: dict[str, Facts]
    parsed: int
    resolution: resolve.Resolution = field(default_factory=resolve.Resolution)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def graph(self) -> TypeGraph:
        """The graph."""
        return self.resolution.graph

    @property
    def files(self) -> list[str]:
        """Paths of the Java files, those that were not read included."""
        read = [file.name for file in self.tree.files]
        skipped = [path for path, _ in self.tree.skipped.rows()]
        return sorted(read + [path for path in skipped if path.endswith(SUFFIX)])

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """(path, reason) of what gave no type."""
        skipped = self.tree.skipped.rows()
        for path, file in self.facts.items():
            if file.reason:
                skipped.append((path, file.reason))
        return sorted(skipped)

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """(path, remark) of files that gave their types."""
        remarks = []
        for path, file in self.facts.items():
            if not file.reason:
                remarks += [(path, remark) for remark in file.remarks]
        return sorted(remarks)


def build(
    root: Path,
    mode: str = MODES[0],
    processes: int = 1,
    store: Path | None = None,
    extra: Collection[str] = (),
) -> BuiltGraph:
    """Build the type graph of a repository.

    Args:
        root: A directory or zip archive.
        mode: How names are resolved, one of MODES.
        processes: Number of processes; the graph is the same for any number.
        store: File that keeps the facts of each file.
        extra: Edges of resolve.EXTRA to add.

    Raises:
        UserError: An argument is unknown or too small, or `root` contains no Java file that can be
            read.
    """
    if processes < 1:
        raise UserError(f"processes = {processes}: give 1 or more")
    if mode not in MODES:
        raise unknown("mode", mode, MODES)
    for edges in sorted(set(extra) - set(resolve.EXTRA)):
        raise unknown("edges", edges, resolve.EXTRA)
    if extra and mode != "resolved":
        advice = "extra edges need mode resolved"
        raise UserError(f"mode {mode} has only the paper's edges; {advice}")
    with workers.paused_collector():  # facts are many small tuples without a cycle
        start = time.perf_counter()
        tree = scan(root)
        scanned = time.perf_counter()
        known = _load(store) if store else {}
        entries = _read(tree, known, processes)
        facts = {path: file for path, (_, file) in entries.items()}
        _require_readable(tree, facts)
        if store:
            _save_store(store, entries)
        parsed = len(entries.keys() - known.keys())
        for path in entries.keys() & known.keys():
            parsed += entries[path][0] != known[path][0]
        seconds = {
            "scan": scanned - start,
            "parse": time.perf_counter() - scanned,
        }
        return in_mode(
            BuiltGraph(tree, facts, parsed, seconds=seconds),
            mode,
            extra,
        )


def _require_readable(tree: SourceTree, facts: dict[str, Facts]) -> None:
    """Refuse a tree of which no file could be read.

    Raises:
        UserError: No file was read; a file that declares no type was.
    """
    if any(file.reason in ("", NO_TYPE) for file in facts.values()):
        return
    for path, file in facts.items():
        tree.skipped.add(path, file.reason)
    why = tree.skipped.one_line_summary()
    raise UserError(f"{shown(str(tree.root))} contains no {SUFFIX} file that can be read: {why}")


def in_mode(built: BuiltGraph, mode: str, extra: Collection[str] = ()) -> BuiltGraph:
    """Build the graph of the same files in another mode (pass two).

    Args:
        built: A graph; the seconds of its scan and its parsing are kept.
        mode: One of MODES.
        extra: Edges of resolve.EXTRA to add.
    """
    start = time.perf_counter()
    if mode == "resolved":
        resolution = resolve.graph_of(built.facts, extra)
    else:
        resolution = resolve.Resolution(resolve.published(built.facts))
    seconds = {step: built.seconds[step] for step in ("scan", "parse")}
    seconds["resolve"] = time.perf_counter() - start
    seconds["total"] = sum(seconds.values())
    return replace(built, resolution=resolution, seconds=seconds)


def _read(tree: SourceTree, known: Store, processes: int) -> Store:
    """Read the facts of each file, in several processes if there are many files."""
    files = []
    for file in tree.files:
        sha256, _ = known.get(file.name, ("", None))
        files.append((file.place, sha256))
    size = max(PART, len(files) // (8 * processes))
    work = [(tree.root, files[i : i + size]) for i in range(0, len(files), size)]
    if processes > 1 and len(files) - len(known) >= WORTH_A_PROCESS:
        parts = workers.in_processes(_parse_part, work, min(processes, len(work)))
    else:
        parts = map(_parse_part, work)
    entries = {}
    for file, parsed in zip(tree.files, chain.from_iterable(parts), strict=True):
        entries[file.name] = (
            parsed.sha256,
            parsed.facts or known[file.name][1],
        )
    return entries


def _parse_part(
    work: tuple[Path, list[tuple[str, str]]],
) -> list[ParsedFile]:
    """Parse some files of a tree, in a worker.

    Args:
        work: The root, and for each file its place and the SHA-256 that the store knows, if any.
    """
    root, files = work
    with reader(root) as read:
        parsed = []
        for place, known in files:
            try:
                data = read(place)
                if not data:
                    raise UnreadableFileError(EMPTY)
            except UnreadableFileError as e:
                parsed.append(ParsedFile("", Facts(reason=str(e))))
                continue
            sha256 = hashlib.sha256(data).hexdigest()
            facts = None if sha256 == known else facts_of(data)
            parsed.append(ParsedFile(sha256, facts))
    return parsed


def _save_store(store: Path, entries: Store) -> None:
    rows: list[object] = [{"version": VERSION}]
    for path, (sha256, facts) in entries.items():
        if sha256:
            rows.append(
                [
                    path,
                    sha256,
                    {name: getattr(facts, name) for name in Facts.__slots__},
                ]
            )
    write_text(store, "".join(json.dumps(row) + "\n" for row in rows))


def _load(store: Path) -> Store:
    """Read a store; return nothing if there is none of this version.

    Raises:
        DamagedFileError: The file is damaged, or is not a store.
    """
    known: Store = {}
    if not reading.is_there(store):
        return known
    why = "it is not a store of parsed files"
    advice = "name another file for --store"
    for line in reading.lines(store, advice):
        try:
            if line.text is None:
                raise ValueError("it is too long")
            row = reading.parse(line.text)
            if line.number > 1:
                path, sha256, facts = row
                known[path] = (
                    sha256,
                    FACTS.validate_python(facts),
                )
            elif row.keys() != {"version"}:
                raise ValueError(why)
            elif row["version"] != VERSION:
                return {}
        except (ValueError, TypeError, AttributeError) as e:
            raise reading.DamagedFileError.of(store, why, line.number, advice) from e
    return known


def save(graph: TypeGraph, path: Path) -> None:
    """Write a graph as networkx' node-link JSON.

    Nodes have the attributes `type` and `path`, edges the attribute `relation`. Lines are not
    saved.

    Args:
        graph: A type graph, of any mode.
        path: The file. Missing directories above it are created.

    Raises:
        UserError: The file cannot be written.
    """
    write_text(
        path,
        json.dumps(
            nx.node_link_data(graph.digraph, edges="edges"),
            indent=1,
        )
        + "\n",
    )


def lines(built: BuiltGraph) -> list[str]:
    """Summarize what was built, one fact per line.

    Args:
        built: A graph that `build` or `in_mode` returned.

    Returns:
        The lines: files, nodes, edges, references, then everything unusual with its first paths,
        and the seconds of each step.
    """
    graph = built.graph
    resolution = built.resolution
    text = [f"{shown(str(built.tree.root))}: {len(built.files):,} files, mode {graph.mode}"]
    text.append(_counted("nodes", graph.node_counts()))
    text.append(_counted("edges", graph.edge_counts()))
    if resolution.references:
        references = dict(resolution.references.most_common())
        text.append(_counted("type names", references))
    unusual: dict[str, list[str]] = {}

    def note(what: str, name: str) -> None:
        unusual.setdefault(what, []).append(name)

    for path, name, candidates in resolution.ambiguous:
        note(
            "ambiguous",
            f"{name} in {path} is {' or '.join(candidates)}",
        )
    for group in graph.cycles():
        note("cyclic inheritance", ", ".join(group))
    for path, name in resolution.redeclared:
        note(
            "declared in another file too",
            f"{name} in {path}",
        )
    for path, reason in built.skipped:
        note(f"skipped, {reason}", path)
    for path, remark in built.remarks:
        note(f"notes, {remark}", path)
    if not built.skipped:
        text.append("skipped: none")
    for what, names in unusual.items():
        text.append(f"{what}: {len(names):,} ({first_few(names, NAMED)})")
    steps = [f"{step} {s:.2f}" for step, s in built.seconds.items() if step != "total"]
    total = f"{built.seconds['total']:.2f} s ({', '.join(steps)})"
    return [*text, f"{total}; {built.parsed:,} files parsed"]


def _counted(what: str, counts: dict[str, int]) -> str:
    names = ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "none"
    return f"{sum(counts.values()):,} {what}: {names}"
