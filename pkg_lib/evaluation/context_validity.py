"""Context validity: does a retrieved context contain the task's solution?

A context is valid if copying it, with the function renamed to the entry point, passes the task's
tests. It is invalid if it could be called as a solution but does not pass, and unrelated if it
could not. This uses hidden tests and the reference solution, so it explains results and cannot be
used as a method.

A context is tried as each of these programs. ``IMPORTS``, which a model would add, precede them:

- each of its functions that accepts as many arguments as the reference, renamed;
- without any function, its statements as the body of one, if they return.
"""

from __future__ import annotations

import ast
import builtins
import copy
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, permutations

from pkg_lib.core.python_syntax import is_constant
from pkg_lib.core.types import Task, digest
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.execution.batches import run_with_limits
from pkg_lib.execution.sandbox import Job, Limits
from pkg_lib.generation.extraction import blocks
from pkg_lib.retrieval.augment import accepts_call, parse_fragment

NEAR_DUPLICATE = 0.8  # of either similarity
SECONDS = 3.0  # for a test process, if the benchmark grants more
PARAMETER_ORDERS = 6  # orders of a body's names that are tried as its parameters
IMPORTS = """import collections, functools, heapq, itertools, math, random, re, string
from math import ceil, floor, gcd, sqrt
from collections import *
from typing import *
"""
Body = Sequence[ast.stmt]
Pairs = Sequence[tuple[Task, str]]  # tasks of one benchmark, each with the text of a context
_KEPT = (
    ast.FunctionDef,
    ast.ClassDef,
    ast.Import,
    ast.ImportFrom,
    ast.Assign,
    ast.AnnAssign,
)


@dataclass(frozen=True, slots=True)
class ContextValidity:
    """Whether a context solves its task, and how similar it is to the reference.

    Attributes:
        callable: Whether it could be called as a solution; else it is unrelated.
        passes: Whether it is valid.
        jaccard: MinHash similarity to the reference over triples of tokens, 0 to 1.
        edit: Levenshtein similarity to the reference over tokens, 0 to 1.
        statements: Digests of its statements; see ``statement_digests``.
    """

    callable: bool
    passes: bool
    jaccard: float
    edit: float
    statements: tuple[str, ...]

    @property
    def leaks(self) -> bool:
        """Whether it gives the solution away: it is valid, or nearly a copy of the reference."""
        return self.passes or max(self.jaccard, self.edit) >= NEAR_DUPLICATE


def check_contexts(pairs: Pairs, control: bool = False) -> list[ContextValidity]:
    """Run contexts as solutions, and compare them with the references.

    Args:
        pairs: Tasks of one benchmark, each with the text of a context.
        control: Whether the texts are control solutions; they get the time of the benchmark.

    Returns:
        The validity of each text, in order.

    Raises:
        UserError: The benchmark is unknown, or the sandbox cannot start.
    """
    jobs: list[tuple[Job, Limits]] = []
    positions: list[int] = []
    for position, (task, text) in enumerate(pairs):
        benchmark = BENCHMARKS.get_or_fail(task.benchmark)
        make_job = benchmark.control_job if control else benchmark.job
        for program in candidate_solutions(task, text):
            job = make_job(task, program, "pkg-paper")
            if isinstance(job, Job):
                if not control:
                    seconds = min(job.seconds or SECONDS, SECONDS)
                    job = replace(job, seconds=seconds)
                jobs.append((job, benchmark.limits(task)))
                positions.append(position)
    outcomes = run_with_limits(jobs)
    passing = set()
    for position, outcome in zip(positions, outcomes, strict=True):
        if outcome.status == "passed":
            passing.add(position)
    results = []
    for position, (task, text) in enumerate(pairs):
        jaccard, edit = similarity(task, text)
        validity = ContextValidity(
            callable=position in positions,
            passes=position in passing,
            jaccard=jaccard,
            edit=edit,
            statements=statement_digests(text),
        )
        results.append(validity)
    return results


def find_leaks(pairs: Pairs) -> list[bool]:
    """Tell which contexts give the solution of their task away.

    Args:
        pairs: Tasks of one benchmark, each with the text of a context.

    Returns:
        Whether each text is valid or nearly a copy of the reference.
    """
    return [validity.leaks for validity in check_contexts(pairs)]


def renamed_reference(task: Task) -> str:
    """Return the reference solution under another name: the control, which must be valid.

    Args:
        task: A task of a registered benchmark.

    Returns:
        A program.
    """
    new_name = f"{task.entry_point}_retrieved"
    return _renamed(_reference_statements(task), {task.entry_point: new_name})


def candidate_solutions(task: Task, text: str) -> list[str]:
    """List the programs that a context could be as the task's solution.

    Args:
        task: A task of a registered benchmark.
        text: The text of a context.

    Returns:
        Programs that define the task's entry point.
    """
    reference = _reference(task)
    if reference is None:
        return []
    body = _statements(text)
    parameters = [argument.arg for argument in reference.args.args]
    required = len(parameters) - len(reference.args.defaults)
    if _functions(body):
        programs = _renamed_functions(task.entry_point, required, body)
    else:
        programs = _body_as_function(task.entry_point, parameters, required, body)
    return [IMPORTS + program for program in programs]


def _renamed_functions(
    entry_point: str,
    required: int,
    body: Body,
) -> list[str]:
    """Rename each function that accepts the required number of arguments."""
    name = ast.Name(entry_point)
    call = ast.Call(name, [name] * required, [])
    kept = [statement for statement in body if isinstance(statement, _KEPT)]
    programs = {}  # by name, since a function may be defined twice
    for function in _functions(body):
        if accepts_call(function.args, call):
            exchange = {
                function.name: entry_point,
                entry_point: function.name,
            }
            programs[function.name] = _renamed(kept, exchange)
    return list(programs.values())


def _body_as_function(
    entry_point: str,
    parameters: list[str],
    required: int,
    body: Body,
) -> list[str]:
    """Make functions of statements that return, with several orders of parameters."""
    returns = False
    called = set()
    for node in _walk(body):
        if isinstance(node, ast.Return):
            returns = True
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            called.add(node.func.id)
    if not returns:
        return []
    unknown = [name for name in called if not hasattr(builtins, name)]
    recursion = {unknown[0]: entry_point} if len(unknown) == 1 else {}
    code = textwrap.indent(_renamed(body, recursion), "    ")
    values = [name for name in _names(body) if name not in called]
    orders = islice(permutations(values, required), PARAMETER_ORDERS)
    programs = []
    for names in (parameters, *orders):
        head = f"def {entry_point}({', '.join(names)}):"
        programs.append(f"{head}\n{code}\n")
    return programs


def similarity(task: Task, text: str) -> tuple[float, float]:
    """Compare a context with the reference solution.

    Variables are numbered, so that renaming hides no copy. The function that is most similar
    counts; a context without a function is compared as a whole.

    Args:
        task: A task of a registered benchmark.
        text: The text of a context.

    Returns:
        ``jaccard`` and ``edit`` of ``ContextValidity``.
    """
    from datasketch import MinHash
    from rapidfuzz.distance import Levenshtein

    reference = _reference(task)
    body = _statements(text)
    if reference is None or not body:
        return 0.0, 0.0
    bodies: list[Body] = [function.body for function in _functions(body)]
    expected = _numbered_tokens(reference.body)
    candidates = [_numbered_tokens(candidate) for candidate in bodies or [body]]
    triples = [_triples(tokens) for tokens in (expected, *candidates)]
    sketch, *sketches = MinHash.bulk(
        triples,
        num_perm=128,
        seed=1,
    )
    jaccard = max(sketch.jaccard(other) for other in sketches)
    edit = max(Levenshtein.normalized_similarity(expected, tokens) for tokens in candidates)
    return round(float(jaccard), 3), round(edit, 3)


def _numbered_tokens(body: Body) -> list[str]:
    """Return the tokens of statements without a docstring, each variable replaced by its number."""
    numbers: dict[str, str] = {}
    for number, name in enumerate(_names(body)):
        if not hasattr(builtins, name):
            numbers[name] = f"v{number}"
    without_docstring = body[1:] if is_constant(body[0]) else body
    source = _renamed(without_docstring, numbers)
    return re.findall(r"\w+|[^\w\s]", source)


def _triples(tokens: list[str]) -> list[bytes]:
    triples = []
    for start in range(max(1, len(tokens) - 2)):
        triple = " ".join(tokens[start : start + 3])
        triples.append(triple.encode())
    return triples


def statement_digests(text: str) -> tuple[str, ...]:
    """Return digests of the statements in a text; names are kept.

    Docstrings are left out, and so are the first lines of functions, whose names must differ.

    Args:
        text: A program or the text of a context.

    Returns:
        A digest of each statement; of a compound statement only its first line counts.
    """
    digests = []
    for node in _walk(_statements(text)):
        skipped = isinstance(node, ast.FunctionDef) or is_constant(node)
        if isinstance(node, ast.stmt) and not skipped:
            first_line = ast.unparse(node).split("\n")[0]
            digests.append(digest(first_line)[:8])
    return tuple(digests)


@lru_cache(maxsize=4096)
def _statements(text: str) -> Body:
    """Return the statements of a context.

    If it is not valid Python, its code blocks count. If a block is cut or contains prose, it counts up to
    the line where it stops being Python.
    """
    sources = [text]
    if parse_fragment(text) is None:
        code_blocks = [block.code for block in blocks(text)]
        if code_blocks:
            sources = code_blocks
    found: list[ast.stmt] = []
    for source in sources:
        lines = source.splitlines()
        for end in range(len(lines), 0, -1):
            beginning = "\n".join(lines[:end])
            tree = parse_fragment(beginning)
            if tree is not None:
                found += tree.body
                break
    return found


def _reference_statements(task: Task) -> Body:
    benchmark = BENCHMARKS.get_or_fail(task.benchmark)
    return _statements(benchmark.program(task, task.solution))


def _reference(task: Task) -> ast.FunctionDef | None:
    """Return the function of the reference solution that the tests call."""
    for function in _functions(_reference_statements(task)):
        if function.name == task.entry_point:
            return function
    return None


def _functions(body: Body) -> list[ast.FunctionDef]:
    return [statement for statement in body if isinstance(statement, ast.FunctionDef)]


def _renamed(body: Body, new_names: dict[str, str]) -> str:
    """Return the source of statements with names replaced."""
    tree = copy.deepcopy(ast.Module([*body], []))
    for node in ast.walk(tree):
        for field in ("id", "name", "arg"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                setattr(node, field, new_names.get(name, name))
    return ast.unparse(tree)


def _names(body: Body) -> list[str]:
    """Return names in order of the text: first the never-bound ones, last the builtins."""
    nodes = []
    bound = set()
    for node in _walk(body):
        if isinstance(node, ast.Name):
            nodes.append(node)
            if not isinstance(node.ctx, ast.Load):
                bound.add(node.id)

    def order(node: ast.Name) -> tuple[bool, bool, int, int]:
        return (
            hasattr(builtins, node.id),
            node.id in bound,
            node.lineno,
            node.col_offset,
        )

    nodes.sort(key=order)
    return list(dict.fromkeys(node.id for node in nodes))


def _walk(body: Body) -> Iterator[ast.AST]:
    for statement in body:
        yield from ast.walk(statement)
