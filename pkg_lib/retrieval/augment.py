"""The functions that retrieved code calls, put before it (Step 3 of the paper's first version).

A name means the first of these: what the text or a function around it binds (of which only a local `def` is
resolved); a top-level function of the document; a builtin; the one top-level function of other documents that
takes the arguments (the graph knows no imports, so it may be a namesake). `self.name` and `cls.name` mean the
document's one method of this name. Equal texts are one function; an ambiguous name is left out.
"""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections import defaultdict, deque
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache

from pkg_lib.graph.code import UNPARSABLE, syntax_tree
from pkg_lib.graph.schema import NAME, PKG

AMBIGUOUS, TOO_LONG, UNKNOWN = "ambiguous", "over the budget", "not in the graph"
_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True, slots=True)
class Augmented:
    """A text after the IMPL nodes `added`, the nearest call last; `left_out`: name -> why."""

    text: str
    added: tuple[int, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Function:
    """A NAME node with its IMPL node and the IMPL's text."""

    name: str
    node: int
    impl: int
    document: int
    first: int
    last: int
    payload: str

    @property
    def text(self) -> str:
        return textwrap.dedent(self.payload)

    @property
    def at_top(self) -> bool:
        return not self.payload[:1].isspace()

    @property
    def definition(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        nodes = ast.walk(parsed(self.payload) or ast.Module([]))
        return next(
            (n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)), None
        )

    @property
    def is_method(self) -> bool:
        given = self.definition.args if self.definition else ast.arguments([], [])
        first = [a.arg for a in (*given.posonlyargs, *given.args)][:1]
        return not self.at_top and first in (["self"], ["cls"])

    def holds(self, other: _Function) -> bool:
        return (
            self.document == other.document
            and self.first <= other.first
            and other.last <= self.last
        )


class Calls:
    """Resolves calls over one graph."""

    def __init__(self, graph: PKG) -> None:
        self.graph = graph
        self.functions: dict[int, _Function] = {}  # by NAME node
        self.namesakes: dict[str, list[_Function]] = defaultdict(list)
        self.neighbours: dict[int, list[_Function]] = defaultdict(list)  # by document
        for node in graph.of_type(NAME).tolist():
            impl = int(graph.children(node)[0])
            place = (int(column[node]) for column in (graph.document, graph.first, graph.last))
            function = _Function(graph.payload(node), node, impl, *place, graph.payload(impl))
            self.functions[node] = function
            self.namesakes[function.name].append(function)
            self.neighbours[function.document].append(function)

    def augment(self, node: int, text: str, budget: int) -> Augmented:
        """What pruning left of an IMPL or BLOCK, after whole functions of at most `budget` characters."""
        added: dict[int, str] = {}
        defined: dict[str, str] = {}
        left_out: dict[str, str] = {}
        around = self._around(node)
        waiting = deque(self._called(text, around, left_out))
        while waiting:
            function = waiting.popleft()
            name, helper = function.name, f"{function.text}\n\n\n"
            if function in around:
                continue
            if name in defined:  # the same again, or a namesake that would hide the first
                if defined[name] != helper:
                    left_out[name] = AMBIGUOUS
            elif len(helper) > budget:
                left_out[name] = TOO_LONG
            else:
                budget -= len(helper)
                added[function.impl] = defined[name] = helper
                waiting += self._called(helper, self._around(function.node), left_out)
        order = tuple(reversed(added))
        return Augmented("".join(added[i] for i in order) + text, order, left_out)

    def _called(
        self, text: str, around: list[_Function], left_out: dict[str, str]
    ) -> list[_Function]:
        """What a text calls, in its order; notes in `left_out` what could not be resolved."""
        tree, called = parsed(text), []
        if tree is None:
            return []
        bound = set().union(*bindings(tree))
        for (name, method), calls in calls_of(tree).items():
            if not method and name in bound:
                continue
            candidates = self._meant(name, method, around, calls)
            distinct = {f.text: f for f in reversed(candidates or ())}
            if len(distinct) == 1:
                called += distinct.values()
            elif candidates is not None:
                left_out.setdefault(name, AMBIGUOUS if distinct else UNKNOWN)
        return called

    def _meant(
        self, name: str, method: bool, around: list[_Function], calls: list
    ) -> list[_Function] | None:
        """What a name may mean; None where it is bound to what is no function of the graph."""
        here = [f for f in self.namesakes.get(name, ()) if f.document == around[0].document]
        if method:
            return [f for f in here if f.is_method]
        for outer in around:
            local, others = bindings(outer.definition) if outer.definition else ((), ())
            if name in others:
                return None
            if name in local:
                return [f for f in here if f != outer and outer.holds(f)]
        top = [f for f in here if f.at_top]
        if top or name in _BUILTINS:
            return top or None
        others = [f for f in self.namesakes.get(name, ()) if f.at_top and f.definition]
        return [f for f in others if all(takes(f.definition.args, call) for call in calls)]

    def _around(self, node: int) -> list[_Function]:
        """The function that a node belongs to and the functions around that, innermost first."""
        while self.graph.parent[node] >= 0:
            node = int(self.graph.parent[node])
        function = self.functions[node]
        outer = [f for f in self.neighbours[function.document] if f.holds(function)]
        return sorted(outer, key=lambda f: (f.last - f.first, -f.node))


@lru_cache(maxsize=512)
def parsed(text: str) -> ast.Module | None:
    """The syntax tree of a function's or a block's text by itself; None where it has none."""
    text = textwrap.dedent(text)
    # A block may start in the middle of an "if" chain; a string in column 0 keeps dedent from working.
    text = text.removeprefix("el") if text.startswith("elif") else text
    for source in (text, f"if 1:\n{text}") if text[:1].isspace() else (text,):
        with suppress(*UNPARSABLE):
            return syntax_tree(source)
    return None


def bindings(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Names of local functions, and of anything else, bound at any depth below a node."""
    functions: set[str] = set()
    others: set[str | None] = set()  # None: `except E:` and `case _:` bind nothing
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                functions |= {name} if node is not tree else set()
            case (
                ast.Name(id=name, ctx=ast.Store() | ast.Del())
                | ast.arg(arg=name)
                | ast.ClassDef(name=name)
            ):
                others.add(name)
            case ast.alias(name=name, asname=renamed):
                others.add((renamed or name).partition(".")[0])
            case ast.ExceptHandler(name=name) | ast.MatchAs(name=name) | ast.MatchStar(name=name):
                others.add(name)
            case ast.MatchMapping(rest=name):
                others.add(name)
    return functions, others - {None}


def calls_of(tree: ast.AST) -> dict[tuple[str, bool], list[ast.Call]]:
    """(name, whether it is a method of self or cls) -> its calls, in the order of the text."""
    named: dict[tuple[str, bool], list[ast.Call]] = defaultdict(list)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    for call in sorted(
        calls, key=lambda c: (c.lineno, c.col_offset, c.end_lineno, c.end_col_offset)
    ):
        match call.func:
            case ast.Name(id=name):
                named[name, False].append(call)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                named[name, True].append(call)
    return named


def takes(parameters: ast.arguments, call: ast.Call) -> bool:
    """Whether a function with these parameters accepts the call; unknown arguments (*a, **k) count as yes."""
    if any(isinstance(a, ast.Starred) for a in call.args) or any(
        k.arg is None for k in call.keywords
    ):
        return True
    positional = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    named = {k.arg for k in call.keywords}
    unknown = named - {a.arg for a in (*parameters.args, *parameters.kwonlyargs)}
    too_many = len(call.args) > len(positional)
    if (too_many and not parameters.vararg) or (unknown and not parameters.kwarg):
        return False
    required = positional[len(call.args) : len(positional) - len(parameters.defaults)]
    keywords = zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
    return {*required, *(a.arg for a, default in keywords if default is None)} <= named
