"""Function calls inside retrieved code, looked up among the NAME nodes (Step 3 of the paper's first version).

The functions that a text calls, and those that they call, are put before it, so that it is self-contained;
the function that it is part of is not. Which function a name means, the first that knows it decides:
1. The text, or a function around it, binds it: only a local `def` can be resolved.
2. A function at the top level of the same document.
3. A builtin: never looked for in other documents.
4. A function at the top level of another document, if its name is unique and it takes the arguments.
`self.name(...)` and `cls.name(...)` mean the one method of this name in the document. Equal texts are one
function; a name that stays ambiguous is left out. The graph knows no imports: rule 4 may take a namesake.
"""

from __future__ import annotations

import ast
import builtins
import textwrap
import warnings
from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import lru_cache

from pkg_lib.graph.schema import NAME, PKG

AMBIGUOUS, TOO_LONG, UNKNOWN = "ambiguous", "over the budget", "not in the graph"
_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True, slots=True)
class Augmented:
    """A text with what it calls. `added` are the IMPL nodes put before it, the nearest call last.

    `left_out` says for each called name why its function is not there: AMBIGUOUS, TOO_LONG or UNKNOWN.
    """

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
        return next((n for n in nodes if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)), None)

    @property
    def is_method(self) -> bool:
        given = self.definition.args if self.definition else ast.arguments([], [])
        first = [a.arg for a in (*given.posonlyargs, *given.args)][:1]
        return not self.at_top and first in (["self"], ["cls"])

    def holds(self, other: _Function) -> bool:
        return self.document == other.document and self.first <= other.first and other.last <= self.last


class Calls:
    """Resolves calls over one graph."""

    def __init__(self, graph: PKG) -> None:
        self.graph = graph
        self.functions: dict[int, _Function] = {}  # by NAME node
        self.namesakes: dict[str, list[_Function]] = defaultdict(list)
        self.neighbours: dict[int, list[_Function]] = defaultdict(list)  # by document
        for node in graph.of_type(NAME).tolist():
            name, impl, document = (
                graph.payload(node),
                int(graph.children(node)[0]),
                int(graph.document[node]),
            )
            lines = int(graph.first[node]), int(graph.last[node])
            function = _Function(name, node, impl, document, *lines, graph.payload(impl))
            self.functions[node] = function
            self.namesakes[name].append(function)
            self.neighbours[document].append(function)

    def augment(self, node: int, text: str, budget: int) -> Augmented:
        """The text that pruning left of an IMPL or BLOCK, and before it the functions that it calls.

        `budget` limits the characters put before it. Functions come whole or not at all, nearest calls first.
        """
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

    def _called(self, text: str, around: list[_Function], left_out: dict[str, str]) -> list[_Function]:
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
        self, name: str, method: bool, around: list[_Function], calls: list[ast.Call]
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
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def bindings(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Names of local functions, and of anything else, bound at any depth below a node."""
    functions: set[str] = set()
    others: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if node is not tree:
                functions.add(name)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                others.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                others |= {(a.asname or a.name).partition(".")[0] for a in names}
            case (
                ast.ClassDef(name=str(name)) | ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name))
            ):
                others.add(name)
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                others.add(name)
    return functions, others


def calls_of(tree: ast.AST) -> dict[tuple[str, bool], list[ast.Call]]:
    """(name, whether it is a method of self or cls) -> its calls, in the order of the text."""
    named: dict[tuple[str, bool], list[ast.Call]] = defaultdict(list)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    for call in sorted(calls, key=lambda c: (c.lineno, c.col_offset, c.end_lineno, c.end_col_offset)):
        match call.func:
            case ast.Name(id=name):
                named[name, False].append(call)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                named[name, True].append(call)
    return named


def takes(parameters: ast.arguments, call: ast.Call) -> bool:
    """Whether a function with these parameters accepts the call; unknown arguments (*a, **k) count as yes."""
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return True
    positional = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    named, by_name = (
        {k.arg for k in call.keywords},
        {a.arg for a in (*parameters.args, *parameters.kwonlyargs)},
    )
    too_many = len(call.args) > len(positional) and not parameters.vararg
    if too_many or (not named <= by_name and not parameters.kwarg):
        return False
    required = positional[len(call.args) : len(positional) - len(parameters.defaults)]
    keywords = zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True)
    return {*required, *(a.arg for a, default in keywords if default is None)} <= named
