"""Builds the type graph of a repository and says what was built: what `typegraph` prints and dkb.ipynb shows.

With a `store` (a file), what was found in each file is kept with the file's SHA-256, so that after a change
only the changed files are parsed.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import networkx as nx

from pkg_lib.core.remarks import FEW, first_few, shown
from pkg_lib.core.store import write_text
from pkg_lib.core.types import UserError
from pkg_lib.core.workers import ordered as in_order
from pkg_lib.core.workers import paused_collector
from pkg_lib.graph.types import listing as published
from pkg_lib.graph.types import resolve
from pkg_lib.graph.types.java import VERSION, Declared, Facts, Import, Reference, facts_of
from pkg_lib.graph.types.scan import JavaTree, by_reason, scan
from pkg_lib.graph.types.typegraph import MODES, TypeGraph

Named = list[tuple[str, str]]  # (path, what is said of it)
PART = 64  # files that a worker gets at a time, at least: an archive's directory is read again for each part
WORTH_A_PROCESS = 200  # files; with fewer a second process takes longer to start than it saves


@dataclass
class BuiltGraph:
    """A repository's graph and what went in. `seconds` by step; `parsed` files were not known to the store.

    `skipped` gave no type: (path, reason); `remarks`: (path, what is unusual), of files that gave their types
    nevertheless.
    """

    root: str
    graph: TypeGraph
    files: list[str]
    facts: dict[str, Facts]
    skipped: Named
    remarks: Named
    seconds: dict[str, float] = field(default_factory=dict)
    parsed: int = 0
    references: Counter[str] = field(default_factory=Counter)
    ambiguous: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    again: list[tuple[str, str]] = field(default_factory=list)

    @property
    def cycles(self) -> list[list[str]]:
        return self.graph.cycles()


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
        entries = dict(_facts(tree, known, processes))
        if store:
            _keep(store, entries)
        parsed = time.perf_counter()
        facts = {path: f for path, (_, f) in sorted(entries.items()) if f.types}
        skipped = sorted([*tree.skipped, *((p, f.reason) for p, (_, f) in entries.items() if f.reason)])
        remarks = sorted((p, r) for p, (_, f) in entries.items() for r in f.remarks if not f.reason)
        files = sorted({*tree.paths, *(p for p, _ in tree.skipped if p.endswith(".java"))})
        built = BuiltGraph(str(root), TypeGraph(mode), files, facts, skipped, remarks)
        built.seconds = {"scan": scanned - start, "parse": parsed - scanned}
        built.parsed = sum(known.get(path, ("",))[0] != sha for path, (sha, _) in entries.items())
        return in_mode(built, mode, extra)


def in_mode(built: BuiltGraph, mode: str, extra: Collection[str] = ()) -> BuiltGraph:
    """The same files' graph in a mode: pass two; the time of pass one is the same."""
    check(mode, 1, extra)
    start = time.perf_counter()
    if mode == "as-published":
        again = replace(
            built, graph=published.graph_of(built.facts), references=Counter(), ambiguous=[], again=[]
        )
    else:
        r = resolve.graph_of(built.facts, extra)
        again = replace(built, graph=r.graph, references=r.references, ambiguous=r.ambiguous, again=r.again)
    steps = {s: built.seconds[s] for s in ("scan", "parse")} | {"resolve": time.perf_counter() - start}
    again.seconds = steps | {"total": sum(steps.values())}
    return again


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
    found: list[tuple[str, Facts | None] | str] = []
    with JavaTree(Path(root)) as tree:
        for path in paths:
            data = tree.read(path)
            if isinstance(data, str):
                found.append(data)
                continue
            sha = hashlib.sha256(data).hexdigest()
            found.append((sha, None if known.get(path) == sha else facts_of(data)))
    return found


def _keep(store: Path, found: dict[str, tuple[str, Facts]]) -> None:
    lines = [json.dumps({"version": VERSION})]
    lines += [
        json.dumps([path, sha, f.package, f.imports, f.types, f.references, f.reason, f.remarks])
        for path, (sha, f) in sorted(found.items())
    ]
    write_text(store, "\n".join(lines) + "\n")


def _load(store: Path) -> dict[str, tuple[str, Facts]]:
    """What a store holds; nothing where there is none of this version. UserError for a damaged one."""
    if not store.exists():
        return {}
    try:
        head, *lines = store.read_text("utf8").splitlines()
        if json.loads(head) != {"version": VERSION}:
            return {}
        return dict(_entry(json.loads(line)) for line in lines)
    except (OSError, ValueError, TypeError) as e:
        raise UserError(f"{store} is no store of parsed files; delete it, it is made again") from e


def _entry(row: list[Any]) -> tuple[str, tuple[str, Facts]]:
    path, sha, package, imports, types, references, reason, remarks = row
    declared = tuple(Declared(*t[:4], tuple(t[4]), t[5]) for t in types)
    made = Facts(
        package,
        tuple(Import(*i) for i in imports),
        declared,
        tuple(Reference(*r) for r in references),
        reason,
        tuple(remarks),
    )
    return path, (sha, made)


def save(graph: TypeGraph, path: Path) -> None:
    """Writes the graph as networkx' node-link JSON."""
    write_text(path, json.dumps(nx.node_link_data(graph.nx(), edges="edges"), indent=1) + "\n")


def lines(built: BuiltGraph, named: int = FEW) -> list[str]:
    """What was built, one figure a line; of what was skipped the first `named` paths a reason."""
    graph = built.graph
    found = [f"{shown(built.root)}: {len(built.files):,} files, mode {graph.mode}"]
    for word, counts in (("nodes", graph.node_counts()), ("edges", graph.edge_counts())):
        found.append(f"{sum(counts.values()):,} {word}: {_listed(counts)}")
    if built.references:
        found.append(f"type names: {_listed(dict(built.references.most_common()))}")
    found += [
        f"ambiguous in {shown(path)}: {name} is {' or '.join(which)}"
        for path, name, which in built.ambiguous[:named]
    ]
    found += _more("ambiguous names", len(built.ambiguous), named)
    found += [f"cyclic inheritance: {', '.join(group)}" for group in built.cycles[:named]]
    found += _more("cycles of inheritance", len(built.cycles), named)
    if built.again:
        again = [f"{name} in {path}" for path, name in built.again]
        found.append(f"declared in another file too: {len(again):,} ({first_few(again, named)})")
    found += _named("skipped", built.skipped, named)
    found += _named("remarked", built.remarks, named)
    times = ", ".join(f"{step} {s:.2f}" for step, s in built.seconds.items() if step != "total")
    return [*found, f"{built.seconds['total']:.2f} s ({times}); {built.parsed:,} files parsed"]


def _named(word: str, rows: list[tuple[str, str]], most: int) -> list[str]:
    """A line a reason, with the first paths."""
    of = {reason: [p for p, r in rows if r == reason] for reason in by_reason(rows)}
    return [
        f"{word}: {len(paths):,} {reason} ({first_few(paths, most)})" for reason, paths in of.items()
    ] or [f"{word}: none"]


def _more(word: str, count: int, named: int) -> list[str]:
    return [f"{count:,} {word} in all"] if count > named else []


def _listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in counts.items()) or "none"
