"""Does a context hold the task's solution? Renamed to the entry point, it is run against the task's tests.

This uses the tests and the reference solution: it explains a result and is no method. A context's *forms* are
the programs that it could be, after IMPORTS, which a model would add: each of its functions that takes as
many arguments as the reference, renamed; without one its statements as the body of one, if they return.
"""

from __future__ import annotations

import ast
import builtins
import copy
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, permutations
from typing import Any

from pkg_lib.core.types import Context, Task, UserError, digest
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.execution.batches import run_with_limits
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.generation.extraction import blocks
from pkg_lib.retrieval.augment import parsed, takes
from pkg_lib.retrieval.methods import retriever_of

NEAR = 0.8  # of either likeness: a near-duplicate
SECONDS = 3.0  # of a test process, where the benchmark grants more
ORDERS = 6  # of a body's names that are tried as its parameters
UNITS = 10  # that are judged for a task before its context stays empty
IMPORTS = """import collections, functools, heapq, itertools, math, random, re, string
from math import ceil, floor, gcd, sqrt
from collections import *
from typing import *
"""
_KEPT = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)


@dataclass(frozen=True, slots=True)
class Leak:
    """What a context is as a solution. `callable`: it has a form; `passes`: one does; `statements`: digests.

    Likeness to the reference, 0 to 1: `jaccard` (MinHash) over triples of tokens, `edit` over tokens.
    """

    callable: bool
    passes: bool
    jaccard: float
    edit: float
    statements: tuple[str, ...]

    @property
    def leaks(self) -> bool:
        return self.passes or max(self.jaccard, self.edit) >= NEAR


def judge(pairs: Sequence[tuple[Task, str]], control: bool = False) -> list[Leak]:
    """What each text is as its task's solution (all of one benchmark; `control`: by the rule for its own)."""
    jobs: list[tuple[Job, Limits]] = []
    places: list[int] = []
    for place, (task, text) in enumerate(pairs):
        rules = BENCHMARKS.get_or_fail(task.benchmark)
        for form in forms(task, text):
            job = (rules.control_job if control else rules.job)(task, form, "pkg-paper")
            if isinstance(job, Job):
                seconds = job.seconds if control else min(job.seconds or SECONDS, SECONDS)
                jobs.append((replace(job, seconds=seconds), rules.limits(task)))
                places.append(place)
    outcomes = run_with_limits(jobs)
    passing = {place for place, o in zip(places, outcomes, strict=True) if o.status == "passed"}
    return [
        Leak(i in places, i in passing, *likeness(t, x), statements(x))
        for i, (t, x) in enumerate(pairs)
    ]


@lru_cache(maxsize=4096)
def code(text: str) -> list[ast.stmt]:
    """The statements of a context; of one that is cut or holds prose, up to where it stops being Python."""
    found: list[ast.stmt] = []
    for source in [text] if parsed(text) else [block.code for block in blocks(text)] or [text]:
        lines = source.splitlines()
        trees = (parsed("\n".join(lines[:end])) for end in range(len(lines), 0, -1))
        found += next((tree.body for tree in trees if tree), [])
    return found


def forms(task: Task, text: str) -> list[str]:
    """The programs that a context could be as the task's solution."""
    name, own, body = task.entry_point, _reference(task), code(text)
    if own is None:
        return []
    required = own.args.args[: len(own.args.args) - len(own.args.defaults)]
    if functions := [n for n in body if isinstance(n, ast.FunctionDef)]:
        call = ast.Call(ast.Name(name), required, [])
        fitting = dict.fromkeys(f.name for f in functions if takes(f.args, call))
        kept = [n for n in body if isinstance(n, _KEPT)]
        return [IMPORTS + _renamed(kept, {other: name, name: other}) for other in fitting]
    if not any(isinstance(n, ast.Return) for top in body for n in ast.walk(top)):
        return []
    calls = (n.func for top in body for n in ast.walk(top) if isinstance(n, ast.Call))
    called = {f.id for f in calls if isinstance(f, ast.Name)}
    unknown = [n for n in called if not hasattr(builtins, n)]
    inside = _renamed(body, {unknown[0]: name} if len(unknown) == 1 else {})  # taken for recursion
    values = (n for n in _names(body) if n not in called)
    orders = islice(permutations(values, len(required)), ORDERS)
    heads = (
        f"def {name}({', '.join(order)}):\n" for order in ([a.arg for a in own.args.args], *orders)
    )
    return [f"{IMPORTS}{head}{textwrap.indent(inside, '    ')}\n" for head in heads]


def reference_renamed(task: Task) -> str:
    """The benchmark's own solution under another name: the control, which must pass."""
    program = BENCHMARKS.get_or_fail(task.benchmark).program(task, task.solution)
    return _renamed(code(program), {task.entry_point: f"{task.entry_point}_retrieved"})


def _reference(task: Task) -> ast.FunctionDef | None:
    body = code(BENCHMARKS.get_or_fail(task.benchmark).program(task, task.solution))
    return next(
        (n for n in body if isinstance(n, ast.FunctionDef) and n.name == task.entry_point), None
    )


def _renamed(body: Sequence[ast.stmt], names: dict[str, str]) -> str:
    tree = copy.deepcopy(ast.Module([*body], []))
    for node in ast.walk(tree):
        for field in ("id", "name", "arg"):
            if isinstance(old := getattr(node, field, None), str):
                setattr(node, field, names.get(old, old))
    return ast.unparse(tree)


def _names(body: Sequence[ast.stmt]) -> list[str]:
    """Its names: those that it never binds, in the order of the text; those that it does; builtins."""
    nodes = [n for top in body for n in ast.walk(top) if isinstance(n, ast.Name)]
    bound = {n.id for n in nodes if not isinstance(n.ctx, ast.Load)}
    nodes.sort(key=lambda n: (hasattr(builtins, n.id), n.id in bound, n.lineno, n.col_offset))
    return list(dict.fromkeys(n.id for n in nodes))


def likeness(task: Task, text: str) -> tuple[float, float]:
    """(`jaccard`, `edit`) of the function body most like the reference's, or of statements without one."""
    from datasketch import MinHash
    from rapidfuzz.distance import Levenshtein

    own, body = _reference(task), code(text)
    if own is None or not body:
        return 0.0, 0.0

    def tokens(body: list[ast.stmt]) -> list[str]:  # names numbered, so that renaming hides no copy
        names = {
            name: f"v{i}" for i, name in enumerate(_names(body)) if not hasattr(builtins, name)
        }
        return re.findall(r"\w+|[^\w\s]", _renamed(body[_is_text(body[0]) :], names))

    def hashed(words: list[str]) -> MinHash:
        sketch = MinHash(num_perm=128, seed=1)
        sketch.update_batch(
            [" ".join(words[i : i + 3]).encode() for i in range(max(1, len(words) - 2))]
        )
        return sketch

    wanted = tokens(own.body)
    units = [tokens(n.body) for n in body if isinstance(n, ast.FunctionDef)] or [tokens(body)]
    jaccard = max(hashed(wanted).jaccard(hashed(words)) for words in units)
    edit = max(Levenshtein.normalized_similarity(wanted, words) for words in units)
    return round(float(jaccard), 3), round(edit, 3)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def statements(text: str) -> tuple[str, ...]:
    """Digests of statements as `ast.unparse` writes them, of compound ones their heads; names are kept.

    Docstrings and heads of functions, whose names must differ, are left out.
    """
    nodes = (n for top in code(text) for n in ast.walk(top) if isinstance(n, ast.stmt))
    found = [
        ast.unparse(n) for n in nodes if not _is_text(n) and not isinstance(n, ast.FunctionDef)
    ]
    return tuple(digest(source.split("\n")[0])[:8] for source in found)


class LeakFree:
    """A column's best unit that does not leak, of the first UNITS; empty where there is none. No method."""

    def __init__(self, knowledge: Any, of: str) -> None:
        self.knowledge, self.of, self.column = knowledge, of, f"{of}, leak-free"

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order."""
        chosen = {t.id: Context(t.id, self.column, "") for t in tasks}
        left = list(
            zip(tasks, retriever_of(self.of, self.knowledge).ranked(tasks, UNITS), strict=True)
        )
        while left:
            units = [(t, rest, *unit) for t, rest in left if (unit := next(rest, None))]
            # Pruning may take from a unit what leaks, or leave what does: either is a leak.
            leaks = judge([(t, text) for t, _, whole, c in units for text in (whole, c.text or "")])
            left = []
            for (task, rest, _, c), *pair in zip(units, leaks[::2], leaks[1::2], strict=True):
                if any(leak.leaks for leak in pair):
                    left.append((task, rest))
                else:
                    chosen[task.id] = replace(c, column=self.column)
        return list(chosen.values())


class Swapped:
    """A column's contexts, each given to another task, over all tasks; who has none stays without.

    In the order of their digests they move on by as many as the commonest text has: none meets its own.
    """

    def __init__(self, knowledge: Any, of: str) -> None:
        self.knowledge, self.of, self.column = knowledge, of, f"{of}, swapped"

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order. UserError where most contexts are one text."""
        every = retriever_of(self.of, self.knowledge).retrieve(load_benchmark(tasks[0].benchmark))
        order = sorted((c for c in every if c.text), key=lambda c: (c.sha256, digest(c.task_id)))
        texts = [c.sha256 for c in order]
        step = max(map(texts.count, texts), default=0)
        if 2 * step > len(order):
            raise UserError(
                f"{step} of {len(order)} contexts of {self.of} are one text; none can be swapped"
            )
        others = dict(zip([c.task_id for c in order], order[step:] + order[:step], strict=True))
        empty = Context("", self.column, "")
        about = {"column": self.column, "defines_task": None}
        return [replace(others.get(t.id, empty), task_id=t.id, **about) for t in tasks]
