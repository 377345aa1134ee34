"""Function calls inside retrieved code, looked up among the graph's NAME nodes (Step 3 of the paper's first version).

"When we encounter a function call within a retrieved function or code block, we perform a search over the V_name nodes":
the called functions, and those that they call, are put before the retrieved text, so that it is self-contained. The
function that the text is part of is not: a block would no longer be a block.

Which function a name means, in this order; the first that knows the name decides:
1. The text itself, or a function around it, binds it: a variable, a parameter, an import or a class cannot be resolved
   (which object it is, is not known before the code runs); a local `def` can.
2. A function at the top level of the same document.
3. A builtin: never looked for in other documents.
4. A function at the top level of another document, if its name is unique in the corpus and it can take the arguments.
`self.name(...)` and `cls.name(...)` mean the one method of this name in the same document; methods of other objects,
whose class nobody knows, are not looked for. Equal texts count as one function. A name that stays ambiguous is left out.
The graph does not know a module's imports, so that rule 4 may take a namesake of an imported function.
"""

from __future__ import annotations

import ast
import builtins
import textwrap
import warnings
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from pkg_lib.graph.schema import NAME, PKG

AMBIGUOUS, TOO_LONG, UNKNOWN = "ambiguous", "over the budget", "not in the graph"
_BUILTINS = frozenset(dir(builtins))
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Augmented:
    """A text with what it calls. `added` are the IMPL nodes put before it, the nearest call last.

    `left_out` says for each called name why its function is not there: AMBIGUOUS, TOO_LONG or UNKNOWN. Builtins, local
    variables and methods of unknown objects are not named.
    """

    text: str
    added: tuple[int, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a piece of code binds, at any depth: names of local functions, and names of anything else."""

    functions: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()


@dataclass
class Calls:
    """Resolves calls over one graph; its tables are made at the first use."""

    graph: PKG

    @cached_property
    def _named(self) -> dict[str, list[int]]:
        """Function name -> its NAME nodes, in graph order."""
        nodes = self.graph.of_type(NAME)
        return _grouped(self.graph.payloads(nodes), nodes.tolist())

    @cached_property
    def _of_document(self) -> dict[int, list[int]]:
        """Document -> its NAME nodes."""
        nodes = self.graph.of_type(NAME)
        return _grouped(self.graph.document[nodes].tolist(), nodes.tolist())

    def augment(self, node: int, text: str, budget: int) -> Augmented:
        """The text of an IMPL or BLOCK, and before it the functions that it calls, and those that these call.

        `text` is what pruning left of the node. `budget` limits the characters put before it. Functions come whole or
        not at all, nearest calls first.
        """
        added: dict[int, str] = {}
        defined: dict[str, str] = {}
        left_out: dict[str, str] = {}
        around = self._around(node)
        there = {impl for _, impl in around}
        waiting = deque(self._wanted(text, around, left_out))
        while waiting:
            name, impl = waiting.popleft()
            helper = textwrap.dedent(self.graph.payload(impl)) + "\n\n\n"
            if impl in there:
                continue
            if name in defined:  # the same again, or a namesake that would hide the first
                if defined[name] != helper:
                    left_out[name] = AMBIGUOUS
            elif len(helper) > budget:
                left_out[name] = TOO_LONG
            else:
                budget -= len(helper)
                added[impl] = defined[name] = helper
                waiting += self._wanted(helper, self._around(impl), left_out)
        order = tuple(reversed(added))
        return Augmented("".join(added[i] for i in order) + text, order, left_out)

    def _wanted(
        self, text: str, around: list[tuple[int, int]], left_out: dict[str, str]
    ) -> list[tuple[str, int]]:
        """(name, IMPL node) of the calls in a text, in the order of the text; notes which could not be resolved."""
        tree, resolved = parsed(text), []
        inside = bindings(tree) if tree else Scope()
        for (name, method), calls in calls_of(tree).items() if tree else ():
            if method or not {name} & (inside.functions | inside.others):
                nodes = self._methods(name, around) if method else self._functions(name, around, calls)
                impls = self._distinct(nodes)
                if len(impls) == 1:
                    resolved.append((name, impls[0]))
                elif nodes is not None:
                    left_out.setdefault(name, AMBIGUOUS if impls else UNKNOWN)
        return resolved

    def _around(self, node: int) -> list[tuple[int, int]]:
        """(NAME, IMPL) of the function that a node belongs to and of the functions around that, innermost first."""
        graph = self.graph
        while graph.parent[node] >= 0:
            node = int(graph.parent[node])
        outer = [n for n in self._of_document[int(graph.document[node])] if self._within(node, n)]
        return [(n, self._impl(n)) for n in sorted(outer, key=lambda n: (graph.last[n] - graph.first[n], -n))]

    def _impl(self, name: int) -> int:
        return int(self.graph.children(name)[0])

    def _here(self, name: str, around: list[tuple[int, int]]) -> list[int]:
        """The NAME nodes of a name in the document of the text."""
        document = self.graph.document[around[0][0]]
        return [n for n in self._named.get(name, ()) if self.graph.document[n] == document]

    def _functions(self, name: str, around: list[tuple[int, int]], calls: list[ast.Call]) -> list[int] | None:
        """NAME nodes that a plain name may mean; None where it is bound to something that is no function of the graph."""
        here = self._here(name, around)
        for outer, impl in around:
            function = _function(self.graph.payload(impl))
            scope = bindings(function) if function else Scope()
            if name in scope.others:
                return None
            if name in scope.functions:
                return [n for n in here if n != outer and self._within(n, outer)]
        top = [n for n in here if self._indent(n) == 0]
        if top or name in _BUILTINS:
            return top or None
        return [n for n in self._named.get(name, ()) if self._indent(n) == 0 and self._takes(n, calls)]

    def _methods(self, name: str, around: list[tuple[int, int]]) -> list[int]:
        """NAME nodes of this name with `self` or `cls` as first parameter in the document of the text."""
        return [n for n in self._here(name, around) if self._indent(n) > 0 and self._is_method(n)]

    def _within(self, node: int, outer: int) -> bool:
        first, last = self.graph.first, self.graph.last
        return bool(first[outer] <= first[node] and last[node] <= last[outer])

    def _distinct(self, names: Iterable[int] | None) -> list[int]:
        """IMPL nodes of NAME nodes, the first of each text."""
        impls = [self._impl(n) for n in names or ()]
        return list({textwrap.dedent(self.graph.payload(i)): i for i in reversed(impls)}.values())[::-1]

    def _indent(self, name: int) -> int:
        text = self.graph.payload(self._impl(name))
        return len(text) - len(text.lstrip(" \t\f"))

    def _is_method(self, name: int) -> bool:
        function = _function(self.graph.payload(self._impl(name)))
        arguments = [*function.args.posonlyargs, *function.args.args] if function else []
        return bool(arguments) and arguments[0].arg in ("self", "cls")

    def _takes(self, name: int, calls: list[ast.Call]) -> bool:
        function = _function(self.graph.payload(self._impl(name)))
        return function is not None and all(takes(function.args, call) for call in calls)


def _grouped(keys: Iterable, values: Iterable[int]) -> dict:
    groups = defaultdict(list)
    for key, value in zip(keys, values, strict=True):
        groups[key].append(value)
    return groups


@lru_cache(maxsize=512)
def parsed(text: str) -> ast.Module | None:
    """The syntax tree of a function's or a block's text by itself; None where it has none (a broken or half text)."""
    text = textwrap.dedent(text)
    # A block may start in the middle of an "if" chain; a string in column 0 keeps dedent from working.
    tries = (
        [text, "if 1:\n" + text] if text[:1].isspace() else [text[2:] if text.startswith("elif") else text]
    )
    for source in tries:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)
                return ast.parse(source)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _function(payload: str) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """The syntax tree of an IMPL's text."""
    tree = parsed(payload)
    first = tree.body[0] if tree and tree.body else None
    first = first.body[0] if isinstance(first, ast.If) else first
    return first if isinstance(first, _FUNCTION) else None


def bindings(tree: ast.AST) -> Scope:
    """Names bound below a node, the node's own name not among them.

    Inner scopes count too, so a name that is a variable anywhere in a function is never taken for another's function.
    """
    functions: set[str] = set()
    others: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTION) and node is not tree:
            functions.add(node.name)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            others.add(node.id)
        elif isinstance(node, ast.arg):
            others.add(node.arg)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            others |= {(a.asname or a.name).partition(".")[0] for a in node.names}
        elif isinstance(node, ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            others.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            others.add(node.rest)
    return Scope(frozenset(functions), frozenset(others))


def calls_of(tree: ast.AST) -> dict[tuple[str, bool], list[ast.Call]]:
    """(name, whether it is a method of self or cls) -> its calls, in the order of the text."""
    named: dict[tuple[str, bool], list[ast.Call]] = defaultdict(list)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)]
    for call in sorted(
        calls, key=lambda c: (c.lineno, c.col_offset, c.end_lineno or 0, c.end_col_offset or 0)
    ):
        match call.func:
            case ast.Name(id=name):
                named[name, False].append(call)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                named[name, True].append(call)
    return named


def takes(parameters: ast.arguments, call: ast.Call) -> bool:
    """Whether a function with these parameters accepts the call's arguments; unknown (*args, **kwargs) counts as yes."""
    if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
        return True
    positional = [a.arg for a in (*parameters.posonlyargs, *parameters.args)]
    named = {k.arg for k in call.keywords}
    if len(call.args) > len(positional) and not parameters.vararg:
        return False
    by_name = {a.arg for a in (*parameters.args, *parameters.kwonlyargs)}
    if not named <= by_name and not parameters.kwarg:
        return False
    required = positional[len(call.args) : len(positional) - len(parameters.defaults)]
    required += [
        a.arg for a, d in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True) if d is None
    ]
    return set(required) <= named
