"""Builds the type graph of a repository and says what was built: what `typegraph` prints.

With a `store` (a file), what stands in each file is kept with the file's SHA-256: only changed files are
parsed again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx

from pkg_lib.core.remarks import first_few, shown
from pkg_lib.core.store import write_text
from pkg_lib.core.types import UserError
from pkg_lib.core.workers import ordered as in_order
from pkg_lib.core.workers import paused_collector
from pkg_lib.graph.types import listing, resolve
from pkg_lib.graph.types.java import VERSION, Declared, Facts, Import, Reference, facts_of
from pkg_lib.graph.types.scan import JavaTree, by_reason, scan
from pkg_lib.graph.types.typegraph import MODES, TypeGraph

Named = list[tuple[str, str]]  # (path, what is said of it)
Rows = list[list[Any]]
PARTS = Facts.__slots__
PART = 64  # files that a worker gets at a time, at least: an archive's directory is read again for each part
WORTH_A_PROCESS = 200  # files; with fewer a second process takes longer to start than it saves


@dataclass
class BuiltGraph:
    """A repository's graph and what went in. `seconds` by step; `parsed` files were not known to the store.

    `skipped` gave no type: (path, reason); `remarks` of files that gave theirs nevertheless.
    """

    root: str
    files: list[str]
    facts: dict[str, Facts]
    skipped: Named
    remarks: Named
    resolution: resolve.Resolution = field(default_factory=resolve.Resolution)
    seconds: dict[str, float] = field(default_factory=dict)
    parsed: int = 0

    @property
    def graph(self) -> TypeGraph:
        return self.resolution.graph


def build(
    root: Path,
    mode: str = "resolved",
    processes: int = 1,
    store: Path | None = None,
    extra: Collection[str] = (),
) -> BuiltGraph:
    """The graph of a directory or zip archive, with `extra` edges of resolve.EXTRA.

    UserError for an unknown mode or extra, no process, a root that is neither or holds no Java.
    """
    check(mode, processes, extra)
    with paused_collector():  # facts are many small tuples without a cycle
        start = time.perf_counter()
        tree = scan(root)
        scanned = time.perf_counter()
        known = _load(store) if store else {}
        entries = dict(sorted(_facts(tree, known, processes)))
        if store:
            rows = ([path, sha, *map(partial(getattr, f), PARTS)] for path, (sha, f) in entries.items())
            write_text(store, "".join(json.dumps(row) + "\n" for row in [{"version": VERSION}, *rows]))
        seconds = {"scan": scanned - start, "parse": time.perf_counter() - scanned}
        facts = {path: f for path, (_, f) in entries.items()}
        skipped = sorted([*tree.skipped, *((p, f.reason) for p, f in facts.items() if f.reason)])
        remarks = sorted((p, r) for p, f in facts.items() for r in f.remarks if not f.reason)
        files = sorted({*tree.paths, *(p for p, _ in tree.skipped if p.endswith(".java"))})
        parsed = sum(known.get(path, ("",))[0] != sha for path, (sha, _) in entries.items())
        facts = {path: f for path, f in facts.items() if f.types}
        built = BuiltGraph(str(root), files, facts, skipped, remarks, seconds=seconds, parsed=parsed)
        return in_mode(built, mode, extra)


def in_mode(built: BuiltGraph, mode: str, extra: Collection[str] = ()) -> BuiltGraph:
    """The same files' graph in a mode: pass two; the time of pass one is the same."""
    check(mode, 1, extra)
    start = time.perf_counter()
    if mode == "resolved":
        resolution = resolve.graph_of(built.facts, extra)
    else:
        resolution = resolve.Resolution(listing.graph_of(built.facts))
    steps = {s: built.seconds[s] for s in ("scan", "parse")} | {"resolve": time.perf_counter() - start}
    return replace(built, resolution=resolution, seconds=steps | {"total": sum(steps.values())})


def check(mode: str, processes: int, extra: Collection[str] = ()) -> None:
    """UserError for an unknown mode or extra edges, or no process."""
    if mode not in MODES:
        raise UserError(f"unknown mode '{mode}'; choose from: {', '.join(MODES)}")
    if processes < 1:
        raise UserError(f"processes = {processes}: give 1 or more")
    if unknown := sorted(set(extra) - set(resolve.EXTRA)):
        raise UserError(f"unknown edges '{unknown[0]}'; choose from: {', '.join(resolve.EXTRA)}")
    if extra and mode != "resolved":
        raise UserError(f"mode {mode} has the paper's edges alone; give extra ones with mode resolved")


def _facts(
    tree: JavaTree, known: dict[str, tuple[str, Facts]], processes: int
) -> Iterator[tuple[str, tuple[str, Facts]]]:
    """(path, (SHA-256, facts)) of every file; one that cannot be read joins `tree.skipped`."""
    size = max(PART, len(tree.paths) // (8 * processes))
    parts = [tree.paths[i : i + size] for i in range(0, len(tree.paths), size)]
    old = [(str(tree.root), part, {p: known[p][0] for p in part if p in known}) for part in parts]
    many = processes > 1 and len(tree.paths) - len(known) >= WORTH_A_PROCESS
    answers = in_order(parse_part, old, min(processes, len(parts))) if many else map(parse_part, old)
    for part, answer in zip(parts, answers, strict=True):
        for path, value in zip(part, answer, strict=True):
            if isinstance(value, str):
                tree.skipped.append((path, value))
            else:
                sha, facts = value
                yield path, (sha, known[path][1] if facts is None else facts)


def parse_part(work: tuple[str, list[str], dict[str, str]]) -> list[tuple[str, Facts | None] | str]:
    """(root, paths, known SHA-256) -> of each path (SHA-256, facts, None where known), or a reason."""
    root, paths, known = work
    answers: list[tuple[str, Facts | None] | str] = []
    with JavaTree(Path(root)) as tree:
        for path in paths:
            data = tree.read(path)
            sha = "" if isinstance(data, str) else hashlib.sha256(data).hexdigest()
            answers.append((sha, None if known.get(path) == sha else facts_of(data)) if sha else data)
    return answers


def _load(store: Path) -> dict[str, tuple[str, Facts]]:
    """What a store holds; nothing where there is none of this version. UserError for a damaged one."""
    if not store.exists():
        return {}
    try:
        head, *rows = map(json.loads, store.read_text("utf8").splitlines())
        return {row[0]: (row[1], _restored(*row[2:])) for row in rows if head == {"version": VERSION}}
    except (OSError, ValueError, TypeError, LookupError) as e:
        raise UserError(f"{store} is no store of parsed files; delete it, it is made again") from e


def _restored(
    package: str, imports: Rows, types: Rows, references: Rows, reason: str, remarks: list[str]
) -> Facts:
    declared = tuple(Declared(*t[:4], tuple(t[4]), t[5]) for t in types)
    names = tuple(Import(*i) for i in imports), declared, tuple(Reference(*r) for r in references)
    return Facts(package, *names, reason, tuple(remarks))


def save(graph: TypeGraph, path: Path) -> None:
    """Writes the graph as networkx' node-link JSON."""
    write_text(path, json.dumps(nx.node_link_data(graph.nx(), edges="edges"), indent=1) + "\n")


def lines(built: BuiltGraph) -> list[str]:
    """What was built, one figure a line; of what was skipped the first paths a reason."""
    graph, about = built.graph, built.resolution
    counts = {"nodes": graph.node_counts(), "edges": graph.edge_counts()}
    text = [f"{shown(built.root)}: {len(built.files):,} files, mode {graph.mode}"]
    text += [f"{sum(part.values()):,} {word}: {_listed(part)}" for word, part in counts.items()]
    text += [f"type names: {_listed(dict(about.references.most_common()))}"] if about.references else []
    clashes = [f"{name} in {path} is {' or '.join(which)}" for path, name, which in about.ambiguous]
    again = [f"{name} in {path}" for path, name in about.again]
    cycles = [", ".join(group) for group in graph.cycles()]
    rare = {"ambiguous": clashes, "cyclic inheritance": cycles, "declared in another file too": again}
    for word, names in rare.items():
        text += [f"{word}: {len(names):,} ({first_few(names)})"] if names else []
    for word, rows in {"skipped": built.skipped, "remarked": built.remarks}.items():
        paths = {reason: [p for p, r in rows if r == reason] for reason in by_reason(rows)}
        text += [f"{word}: {len(ps):,} {reason} ({first_few(ps)})" for reason, ps in paths.items()]
        text += [] if rows else [f"{word}: none"]
    times = ", ".join(f"{step} {s:.2f}" for step, s in built.seconds.items() if step != "total")
    return [*text, f"{built.seconds['total']:.2f} s ({times}); {built.parsed:,} files parsed"]


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items()) or "none"
