"""Does a context hold the task's solution? Its function, renamed, is run against the task's own tests.

This uses tests and the reference solution: it explains a result and is no method of retrieval. A context's
*forms* are the programs that it could be as the solution, after IMPORTS, which a model would add: each of its
functions that takes the arguments of the tests' first call, renamed to the entry point; where it has no
function, its statements as the body of one, if there is a `return`.
"""

from __future__ import annotations

import ast
import builtins
import copy
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations
from typing import Any

from pkg_lib.core.types import Context, Task, UserError, digest
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.execution.sandbox import Job, run_jobs
from pkg_lib.generation.extraction import blocks
from pkg_lib.retrieval.augment import parsed, takes
from pkg_lib.retrieval.columns import base

NEAR = 0.8  # of either likeness: a near-duplicate
SECONDS = 3.0  # of a test process, where the benchmark grants more
ORDERS = 12  # of a body's names that are tried as its parameters
UNITS = 10  # that are judged for a task before its context stays empty
IMPORTS = "import collections, functools, heapq, itertools, math, random, re, string\nfrom typing import *\n"
IMPORTS += "from collections import *\n"
_KEPT = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign)


@dataclass(frozen=True, slots=True)
class Leak:
    """What a context is as the solution of a task.

    `callable`: it has a form; `passes`: one passes. `jaccard` and `edit`: likeness to the reference, 0 to 1.
    `statements` are digests of its statements, by which those of a solution are found in it.
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
    """What each text is as the solution of its task, all of one benchmark; run in the sandbox.

    `control`: as the benchmark judges its own solutions.
    """
    jobs, places = [], []
    for place, (task, text) in enumerate(pairs):
        rules = BENCHMARKS.get_or_fail(task.benchmark)
        for form in forms(task, text):
            job = (rules.control_job if control else rules.job)(task, form, "pkg-paper")
            if isinstance(job, Job):
                jobs.append(replace(job, seconds=min(job.seconds or SECONDS, SECONDS)))
                places.append(place)
    outcomes = run_jobs(jobs, rules.limits(task) if jobs else None)
    passing = {place for place, o in zip(places, outcomes, strict=True) if o.status == "passed"}
    about = enumerate(pairs)
    return [Leak(i in places, i in passing, *likeness(t, text), statements(text)) for i, (t, text) in about]


def code(text: str) -> list[ast.stmt]:
    """The statements of a context; of one that is cut or holds prose, up to where it stops being Python."""
    if whole := parsed(text):
        return whole.body
    found: list[ast.stmt] = []
    for source in [block.code for block in blocks(text)] or [text]:
        lines = source.splitlines()
        trees = (parsed("\n".join(lines[:end])) for end in range(len(lines), 0, -1))
        found += next((tree.body for tree in trees if tree), [])
    return found


def forms(task: Task, text: str) -> list[str]:
    """The programs that a context could be as the task's solution."""
    name, call, own, body = task.entry_point, _first_call(task), _reference(task), code(text)
    if functions := [n for n in body if isinstance(n, ast.FunctionDef)]:
        fitting = dict.fromkeys(f.name for f in functions if call is None or takes(f.args, call))
        kept = [n for n in body if isinstance(n, _KEPT)]
        return [IMPORTS + _renamed(kept, {other: name, name: other}) for other in fitting]
    if own is None or not any(isinstance(n, ast.Return) for top in body for n in ast.walk(top)):
        return []
    names, called = _names(body)
    parameters = [a.arg for a in own.args.args]
    orders = permutations(names, len(parameters) if call is None else len(call.args))
    unknown = [n for n in called if not hasattr(builtins, n)]
    recursive = {unknown[0]: name} if len(unknown) == 1 else {}
    inside = textwrap.indent(_renamed(body, recursive), "    ")
    return [
        f"{IMPORTS}def {name}({', '.join(order)}):\n{inside}\n"
        for order in (parameters, *islice(orders, ORDERS))
    ]


def _first_call(task: Task) -> ast.Call | None:
    """The first call of the entry point in the tests; None where it stands in none."""
    tree = parsed("\n".join(BENCHMARKS.get_or_fail(task.benchmark).tests(task, "standard")))
    calls = [n for n in ast.walk(tree or ast.Module([])) if isinstance(n, ast.Call)]
    named = [
        c for c in calls if isinstance(c.func, ast.Name) and c.func.id in (task.entry_point, "candidate")
    ]
    return min(named, key=lambda c: (c.lineno, c.col_offset), default=None)


def _reference(task: Task) -> ast.FunctionDef | None:
    """The function of the benchmark's own solution."""
    body = code(BENCHMARKS.get_or_fail(task.benchmark).program(task, task.solution))
    return next((n for n in body if isinstance(n, ast.FunctionDef) and n.name == task.entry_point), None)


def renamed_reference(task: Task) -> str:
    """The benchmark's own solution under another name: the control, which must pass."""
    body = code(BENCHMARKS.get_or_fail(task.benchmark).program(task, task.solution))
    return _renamed(body, {task.entry_point: f"{task.entry_point}_retrieved"})


def _renamed(body: Sequence[ast.stmt], names: dict[str, str]) -> str:
    tree = copy.deepcopy(ast.Module([*body], []))
    for node in ast.walk(tree):
        for field in ("id", "name", "arg"):
            if isinstance(old := getattr(node, field, None), str):
                setattr(node, field, names.get(old, old))
    return ast.unparse(tree)


def _names(body: Sequence[ast.stmt]) -> tuple[list[str], list[str]]:
    """(values by how likely they come from outside: never bound, bound here, builtins; what is called)."""
    nodes = [n for top in body for n in ast.walk(top)]
    names = sorted((n for n in nodes if isinstance(n, ast.Name)), key=lambda n: (n.lineno, n.col_offset))
    bound = {n.id for n in names if not isinstance(n.ctx, ast.Load)}
    calls = [n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    called, values = list(dict.fromkeys(calls)), dict.fromkeys(n.id for n in names)
    found = sorted(values.keys() - called, key=list(values).index)
    return sorted(found, key=lambda n: (hasattr(builtins, n), n in bound)), called


def _tokens(body: Sequence[ast.stmt]) -> list[str]:
    """The words and signs of a body without its docstring, names numbered so that renaming hides no copy."""
    body = body[1:] if _is_text(body[0]) else body
    nodes = [n for top in body for n in ast.walk(top) if isinstance(n, ast.Name | ast.arg)]
    nodes = sorted(nodes, key=lambda n: (n.lineno, n.col_offset))
    names = dict.fromkeys(n.id if isinstance(n, ast.Name) else n.arg for n in nodes)
    own = (n for n in names if not hasattr(builtins, n))
    return re.findall(r"\w+|[^\w\s]", _renamed(body, {n: f"v{i}" for i, n in enumerate(own)}))


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def likeness(task: Task, text: str) -> tuple[float, float]:
    """(MinHash estimate of Jaccard over triples of tokens, 1 - normalised token edit distance).

    Of the function body that is most like the reference's, or of the statements without a function.
    """
    from datasketch import MinHash
    from rapidfuzz.distance import Levenshtein

    own, body = _reference(task), code(text)
    if own is None or not body:
        return 0.0, 0.0

    def hashed(tokens: list[str]) -> MinHash:
        sketch = MinHash(num_perm=128, seed=1)
        sketch.update_batch([" ".join(tokens[i : i + 3]).encode() for i in range(max(1, len(tokens) - 2))])
        return sketch

    wanted = _tokens(own.body)
    units = [_tokens(n.body) for n in body if isinstance(n, ast.FunctionDef)] or [_tokens(body)]
    jaccard = max(hashed(wanted).jaccard(hashed(tokens)) for tokens in units)
    return round(float(jaccard), 3), round(
        max(Levenshtein.normalized_similarity(wanted, u) for u in units), 3
    )


def statements(text: str) -> tuple[str, ...]:
    """Digests of a text's statements as `ast.unparse` writes them, of compound ones their heads.

    Names are kept; docstrings and the heads of functions, whose names must differ, are left out.
    """
    nodes = (n for top in code(text) for n in ast.walk(top) if isinstance(n, ast.stmt))
    found = [n for n in nodes if not _is_text(n) and not isinstance(n, ast.FunctionDef)]
    heads = (ast.unparse(n).split("\n")[0] if hasattr(n, "body") else ast.unparse(n) for n in found)
    return tuple(digest(head)[:8] for head in heads)


class LeakFree:
    """A column's best unit that does not leak, of the first UNITS; empty where all leak or none is left.

    A diagnostic and no method: it looks at the tests. Of the published contexts those of the task are left.
    """

    def __init__(self, knowledge: Any, of: str) -> None:
        self.knowledge, self.of, self.column = knowledge, of, f"{of}, leak-free"

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order."""
        ranked = base(self.of, self.knowledge).ranked(tasks, UNITS)
        chosen, left = {}, dict(enumerate(ranked))
        while left:
            heads = {i: next(units, None) for i, units in left.items()}
            units = [(i, *unit) for i, unit in heads.items() if unit]
            # Pruning may take from a unit what leaks, or leave alone what does: either is a leak.
            leaks = judge([(tasks[i], text) for i, whole, c in units for text in (whole, c.text or "")])
            free = [not (a.leaks or b.leaks) for a, b in zip(leaks[::2], leaks[1::2], strict=True)]
            chosen |= {i: c for (i, _, c), is_free in zip(units, free, strict=True) if is_free}
            left = {i: rest for i, rest in left.items() if heads[i] and i not in chosen}
        empty = (Context(t.id, self.column, "") for t in tasks)
        return [replace(chosen.get(i, c), column=self.column) for i, c in enumerate(empty)]


class Swapped:
    """A column's contexts, each given to another task: what the mere presence of foreign code does.

    By the digest of their texts the contexts move on as far as the commonest text is common, over all tasks
    of the benchmark: no task gets its own text, and each context is used once. Who has none stays so.
    """

    def __init__(self, knowledge: Any, of: str) -> None:
        self.knowledge, self.of, self.column = knowledge, of, f"{of}, swapped"

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order. UserError where most contexts are one text."""
        every = base(self.of, self.knowledge).retrieve(load_benchmark(tasks[0].benchmark))
        order = sorted((c for c in every if c.text), key=lambda c: (c.sha256, digest(c.task_id)))
        texts = [c.sha256 for c in order]
        step = max(map(texts.count, texts), default=0)
        if 2 * step > len(order):
            raise UserError(f"{step} of {len(order)} contexts of {self.of} are one text; none can be swapped")
        pairs = zip(order, order[step:] + order[:step], strict=True)
        given = {c.task_id: replace(other, task_id=c.task_id, defines_task=None) for c, other in pairs}
        empty = (Context(t.id, self.column, "") for t in tasks)
        return [replace(given.get(c.task_id, c), column=self.column) for c in empty]
