"""Builds the type graph of a repository and says what was built: what `typegraph` prints.

With a `store`, each file's facts are kept with its SHA-256: only changed files are parsed again.
"""

import hashlib
import json
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import networkx as nx
from pydantic import TypeAdapter

from pkg_lib.core import reading, workers
from pkg_lib.core.registry import unknown
from pkg_lib.core.source_tree import EMPTY, NAMED, Skipped, Unreadable, reader
from pkg_lib.core.store import first_few, shown, write_text
from pkg_lib.core.types import UserError
from pkg_lib.graph.types import resolve
from pkg_lib.graph.types.java import NO_TYPE, VERSION, Facts, facts_of
from pkg_lib.graph.types.scan import SUFFIX, JavaTree, scan
from pkg_lib.graph.types.typegraph import MODES, TypeGraph

FACTS = TypeAdapter(Facts)
PART = 64  # files that a worker gets at a time, at least: an archive's directory is read again for each part
WORTH_A_PROCESS = 200  # files; with fewer a second process takes longer to start than it saves
Known = dict[
    str, tuple[str, Facts]
]  # path -> SHA-256 of the file ("": it cannot be read), what it says


@dataclass
class BuiltGraph:
    """A graph and what went in."""

    tree: JavaTree
    facts: dict[str, Facts]
    parsed: int  # files that the store did not know
    resolution: resolve.Resolution = field(default_factory=resolve.Resolution)
    seconds: dict[str, float] = field(default_factory=dict)  # by step

    @property
    def graph(self) -> TypeGraph:
        return self.resolution.graph

    @property
    def files(self) -> list[str]:
        return sorted([*self.tree.paths, *(p for p, _ in self.tree.skipped if p.endswith(SUFFIX))])

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """(path, reason) of what gave no type."""
        return sorted(
            [*self.tree.skipped, *((p, f.reason) for p, f in self.facts.items() if f.reason)]
        )

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """(path, remark) of files that gave their types nevertheless."""
        return sorted((p, r) for p, f in self.facts.items() for r in f.remarks if not f.reason)


def build(
    root: Path,
    mode: str = MODES[0],
    processes: int = 1,
    store: Path | None = None,
    extra: Collection[str] = (),
) -> BuiltGraph:
    """The graph of a directory or zip archive, with `extra` edges of resolve.EXTRA.

    UserError for an unknown mode or extra, no process, a root that is neither or holds no Java.
    """
    if processes < 1:
        raise UserError(f"processes = {processes}: give 1 or more")
    if mode not in MODES:
        raise unknown("mode", mode, MODES)
    if others := sorted(set(extra) - set(resolve.EXTRA)):
        raise unknown("edges", others[0], resolve.EXTRA)
    if extra and mode != "resolved":
        raise UserError(
            f"mode {mode} has the paper's edges alone; give extra ones with mode resolved"
        )
    with workers.paused_collector():  # facts are many small tuples without a cycle
        start = time.perf_counter()
        tree = scan(root)
        scanned = time.perf_counter()
        known = _load(store) if store else {}
        entries = _read(tree, known, processes)
        _require_readable(tree, entries)
        if store:
            _save(store, entries)
        parsed = sum(known.get(path, ("",))[0] != sha for path, (sha, _) in entries.items())
        seconds = {"scan": scanned - start, "parse": time.perf_counter() - scanned}
        facts = {path: facts for path, (_, facts) in entries.items()}
        return in_mode(BuiltGraph(tree, facts, parsed, seconds=seconds), mode, extra)


def _require_readable(tree: JavaTree, entries: Known) -> None:
    """Refuse a tree of which no file could be read; UserError names what was skipped.

    Args:
        tree: What was found.
        entries: What was read of it; a file that is skipped has a reason.
    """
    reasons = {path: facts.reason for path, (_, facts) in entries.items()}
    if any(reason in ("", NO_TYPE) for reason in reasons.values()):
        return  # a file was read, even if it declares no type
    skipped = Skipped()
    for path, reason in [*tree.skipped, *reasons.items()]:
        skipped.add(path, reason)
    why = skipped.in_one_line()
    raise UserError(f"{shown(str(tree.root))} holds no {SUFFIX} file that can be read: {why}")


def in_mode(built: BuiltGraph, mode: str, extra: Collection[str] = ()) -> BuiltGraph:
    """The same files' graph in a mode: pass two; the time of pass one is the same."""
    start = time.perf_counter()
    if mode == "resolved":
        resolution = resolve.graph_of(built.facts, extra)
    else:
        resolution = resolve.Resolution(resolve.published(built.facts))
    steps = {s: built.seconds[s] for s in ("scan", "parse")} | {
        "resolve": time.perf_counter() - start
    }
    return replace(built, resolution=resolution, seconds=steps | {"total": sum(steps.values())})


def _read(tree: JavaTree, known: Known, processes: int) -> Known:
    files = [
        (place, known[path][0] if path in known else "") for path, place in tree.places.items()
    ]
    size = max(PART, len(files) // (8 * processes))
    parts = [files[i : i + size] for i in range(0, len(files), size)]
    work = [(tree.root, part) for part in parts]
    many = processes > 1 and len(files) - len(known) >= WORTH_A_PROCESS
    count = min(processes, len(parts))
    answers = workers.in_processes(parse_part, work, count) if many else map(parse_part, work)
    rows = zip(tree.paths, chain.from_iterable(answers), strict=True)
    return {path: (sha, facts or known[path][1]) for path, (sha, facts) in rows}


def parse_part(work: tuple[Path, list[tuple[str, str]]]) -> list[tuple[str, Facts | None]]:
    """Parse some files of a tree, in a worker.

    Args:
        work: The root, and of each file its place and the SHA-256 of what is known of it, if any.

    Returns:
        Of each file its SHA-256 ("": it cannot be read), and its facts (None: they are known).
    """
    root, files = work
    parsed: list[tuple[str, Facts | None]] = []
    with reader(root) as read:
        for place, known in files:
            try:
                data = read(place)
            except Unreadable as e:
                parsed.append(("", Facts(reason=str(e))))
                continue
            if not data:
                parsed.append(("", Facts(reason=EMPTY)))
                continue
            sha = hashlib.sha256(data).hexdigest()
            parsed.append((sha, None if sha == known else facts_of(data)))
    return parsed


def _save(store: Path, entries: Known) -> None:
    rows: list[object] = [{"version": VERSION}]
    for path, (sha, facts) in entries.items():
        rows += (
            [[path, sha, {name: getattr(facts, name) for name in Facts.__slots__}]] if sha else []
        )
    write_text(store, "".join(json.dumps(row) + "\n" for row in rows))


def _load(store: Path) -> Known:
    """What a store holds; nothing where there is none of this version. UserError for a damaged one."""
    if not reading.is_there(store):
        return {}
    known: Known = {}
    advice = "name another file for --store"
    for line in reading.lines(store, advice):
        try:
            if line.text is None:
                raise ValueError("it is too long")
            value = reading.parse(line.text)
            if line.number == 1:
                if value != {"version": VERSION}:
                    if isinstance(value, dict) and value.keys() == {"version"}:
                        return {}  # of another version of this program
                    raise ValueError("it is no store of parsed files")
                continue
            path, sha, facts = value
            known[path] = sha, FACTS.validate_python(facts)
        except (ValueError, TypeError) as e:
            why = "it is no store of parsed files"
            raise reading.Damaged.of(store, why, line.number, advice) from e
    return known


def save(graph: TypeGraph, path: Path) -> None:
    """Writes the graph as networkx' node-link JSON."""
    write_text(path, json.dumps(nx.node_link_data(graph.digraph, edges="edges"), indent=1) + "\n")


def lines(built: BuiltGraph) -> list[str]:
    """What was built, one figure a line; of what was skipped the first paths a reason."""
    graph, about = built.graph, built.resolution
    counts = {"nodes": graph.node_counts(), "edges": graph.edge_counts()}
    counts |= {"type names": dict(about.references.most_common())} if about.references else {}
    text = [f"{shown(str(built.tree.root))}: {len(built.files):,} files, mode {graph.mode}"]
    for word, part in counts.items():
        names = ", ".join(f"{name} {n:,}" for name, n in part.items()) or "none"
        text.append(f"{sum(part.values()):,} {word}: {names}")
    odd = {
        "ambiguous": [
            f"{name} in {path} is {' or '.join(which)}" for path, name, which in about.ambiguous
        ],
        "cyclic inheritance": [", ".join(group) for group in graph.cycles()],
        "declared in another file too": [f"{name} in {path}" for path, name in about.again],
    }
    for word, rows in {"skipped": built.skipped, "notes": built.remarks}.items():
        if word == "skipped" and not rows:
            text.append("skipped: none")
        for path, reason in rows:
            odd.setdefault(f"{word}, {reason}", []).append(path)
    text += [
        f"{word}: {len(names):,} ({first_few(names, NAMED)})"
        for word, names in odd.items()
        if names
    ]
    times = ", ".join(f"{step} {s:.2f}" for step, s in built.seconds.items() if step != "total")
    return [*text, f"{built.seconds['total']:.2f} s ({times}); {built.parsed:,} files parsed"]
