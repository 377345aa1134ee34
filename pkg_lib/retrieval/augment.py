"""Put the functions that retrieved code calls before it (Step 3 of the paper's first version).

A called name means the first of these:

1. What the text, or a function around it, binds. Only a local ``def`` can be resolved.
2. A top-level function of the same document.
3. A builtin, which is not added.
4. The one top-level function of other documents that accepts the arguments. The graph has no
   imports, so this may be another function of the same name.

``self.name`` and ``cls.name`` mean the one method of this name in the document. Functions of equal
text count as one. A name that stays ambiguous is left out.
"""

from __future__ import annotations

import ast
import builtins
import textwrap
from collections import defaultdict, deque
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from pkg_lib.core.python_syntax import parsed_or_none
from pkg_lib.graph.nodes import NAME
from pkg_lib.graph.schema import Graph

AMBIGUOUS = "ambiguous"
TOO_LONG = "over the budget"
UNKNOWN = "not in the graph"
_BUILTINS = frozenset(dir(builtins))
_Definition = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Augmented:
    """Code after the functions that it calls.

    Attributes:
        text: The functions, then the code.
        added: IMPL nodes of the functions, in the order of the text.
        left_out: Called names that were not added, with the reason.
    """

    text: str
    added: tuple[int, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)


class _Call(NamedTuple):
    """A name that code calls, and whether it is called on ``self`` or ``cls``."""

    name: str
    method: bool


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of the graph: its NAME and IMPL nodes, its lines, and its dedented text."""

    name: str
    node: int
    impl: int
    document: int
    first: int
    last: int
    text: str
    at_top: bool

    @property
    def definition(self) -> _Definition | None:
        tree = parse_fragment(self.text)
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, _Definition):
                return node
        return None

    @property
    def is_method(self) -> bool:
        if self.at_top or self.definition is None:
            return False
        arguments = self.definition.args
        positional = arguments.posonlyargs + arguments.args
        return bool(positional) and positional[0].arg in ("self", "cls")

    def contains(self, other: _Function) -> bool:
        return (
            self.document == other.document
            and self.first <= other.first
            and other.last <= self.last
        )


_Functions = list[_Function]


class CallResolver:
    """Finds the functions of a graph that code calls.

    Args:
        graph: A graph of code.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._by_node: dict[int, _Function] = {}  # by NAME node
        self._by_name: dict[str, _Functions] = defaultdict(list)
        self._by_document: dict[int, _Functions] = defaultdict(list)
        for node in graph.of_type(NAME).tolist():
            impl = int(graph.children(node)[0])
            payload = graph.payload(impl)
            function = _Function(
                graph.payload(node),
                node,
                impl,
                int(graph.document[node]),
                int(graph.first[node]),
                int(graph.last[node]),
                textwrap.dedent(payload),
                at_top=not payload[:1].isspace(),
            )
            self._by_node[node] = function
            self._by_name[function.name].append(function)
            self._by_document[function.document].append(function)

    def augment(
        self,
        node: int,
        text: str,
        budget: int,
    ) -> Augmented:
        """Put the functions that a text calls before it, and those that they call.

        Args:
            node: The IMPL or BLOCK node that was retrieved.
            text: What pruning left of it.
            budget: The most characters of added functions. Only whole functions are added.

        Returns:
            The text after its functions, those that the text itself calls last.
        """
        texts: dict[str, str] = {}  # of the added functions, by name
        added: list[int] = []
        left_out: dict[str, str] = {}
        enclosing = self._enclosing(node)
        waiting = deque(self._called(text, enclosing, left_out))
        while waiting:
            function = waiting.popleft()
            name = function.name
            addition = f"{function.text}\n\n\n"
            if function in enclosing:
                continue
            if name in texts:
                if texts[name] != addition:  # it would hide the function of this name
                    left_out[name] = AMBIGUOUS
            elif len(addition) > budget:
                left_out[name] = TOO_LONG
            else:
                budget -= len(addition)
                texts[name] = addition
                added.append(function.impl)
                around = self._enclosing(function.node)
                waiting += self._called(addition, around, left_out)
        before = "".join(reversed(texts.values()))
        return Augmented(before + text, tuple(reversed(added)), left_out)

    def _called(
        self,
        text: str,
        enclosing: _Functions,
        left_out: dict[str, str],
    ) -> _Functions:
        """Return what a text calls, in its order; note in `left_out` what cannot be resolved."""
        tree = parse_fragment(text)
        if tree is None:
            return []
        functions, others = _bound_names(tree)
        called: _Functions = []
        for call, sites in _calls(tree).items():
            if not call.method and call.name in functions | others:
                continue
            candidates = self._candidates(call, enclosing, sites)
            if candidates is None:
                continue
            distinct = {function.text: function for function in reversed(candidates)}
            if len(distinct) == 1:
                called += distinct.values()
            else:
                left_out.setdefault(call.name, AMBIGUOUS if distinct else UNKNOWN)
        return called

    def _candidates(
        self,
        call: _Call,
        enclosing: _Functions,
        sites: list[ast.Call],
    ) -> _Functions | None:
        """Return the functions that a name may mean; None if it is bound to something else."""
        document = enclosing[0].document
        namesakes = self._by_name.get(call.name, [])
        local = [function for function in namesakes if function.document == document]
        if call.method:
            return [function for function in local if function.is_method]
        for outer in enclosing:
            if outer.definition is None:
                continue
            functions, others = _bound_names(outer.definition)
            if call.name in others:
                return None
            if call.name in functions:
                return [f for f in local if f != outer and outer.contains(f)]
        at_top = [function for function in local if function.at_top]
        if at_top:
            return at_top
        if call.name in _BUILTINS:
            return None
        return [function for function in namesakes if _accepts_all(function, sites)]

    def _enclosing(self, node: int) -> _Functions:
        """Return the function of a node and the functions around that, innermost first."""
        while self.graph.parent[node] >= 0:
            node = int(self.graph.parent[node])
        function = self._by_node[node]
        neighbours = self._by_document[function.document]
        outer = [other for other in neighbours if other.contains(function)]
        return sorted(outer, key=lambda other: (other.last - other.first, -other.node))


@lru_cache(maxsize=512)
def parse_fragment(text: str) -> ast.Module | None:
    """Parse a function or a block that was cut out of its file.

    Args:
        text: Indented code; a block may begin with ``elif``.

    Returns:
        Its syntax tree; None if it does not parse.
    """
    text = textwrap.dedent(text)
    if text.startswith("elif"):
        text = text.removeprefix("el")
    tree = parsed_or_none(text)
    if tree is None and text[:1].isspace():  # a string in column 0 keeps dedent from working
        tree = parsed_or_none(f"if 1:\n{text}")
    return tree


def _bound_names(tree: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names of local functions, and other names, bound at any depth below a node."""
    functions: set[str] = set()
    others: set[str | None] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                if node is not tree:
                    functions.add(name)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                others.add(name)
            case ast.alias(name=name, asname=renamed):
                others.add((renamed or name).partition(".")[0])
            case ast.MatchMapping(rest=name):
                others.add(name)
            case (
                ast.ClassDef(name=name)
                | ast.ExceptHandler(name=name)
                | ast.MatchAs(name=name)
                | ast.MatchStar(name=name)
            ):
                others.add(name)
    return functions, {name for name in others if name is not None}


def _calls(tree: ast.AST) -> dict[_Call, list[ast.Call]]:
    """Return the names that are called, in the order of the text, with the places of the calls."""
    sites = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    sites.sort(key=lambda site: (site.lineno, site.col_offset))
    found: dict[_Call, list[ast.Call]] = defaultdict(list)
    for site in sites:
        match site.func:
            case ast.Name(id=name):
                found[_Call(name, False)].append(site)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                found[_Call(name, True)].append(site)
    return found


def _accepts_all(function: _Function, calls: list[ast.Call]) -> bool:
    """Tell whether a function is at the top of its document and accepts all calls."""
    if not function.at_top or function.definition is None:
        return False
    return all(accepts_call(function.definition.args, call) for call in calls)


def accepts_call(parameters: ast.arguments, call: ast.Call) -> bool:
    """Tell whether a function accepts the arguments of a call.

    Args:
        parameters: The parameters of the function.
        call: A call of any function.

    Returns:
        True if it does, or if ``*args`` or ``**kwargs`` of the call hide the arguments.
    """
    given = {keyword.arg for keyword in call.keywords}
    if None in given or any(isinstance(argument, ast.Starred) for argument in call.args):
        return True
    positional = [a.arg for a in parameters.posonlyargs + parameters.args]
    keywords = {a.arg for a in parameters.args + parameters.kwonlyargs}
    count = len(call.args)
    if count > len(positional) and not parameters.vararg:
        return False
    if given - keywords and not parameters.kwarg:
        return False
    required = positional[count : len(positional) - len(parameters.defaults)]
    for index, parameter in enumerate(parameters.kwonlyargs):
        if parameters.kw_defaults[index] is None:
            required.append(parameter.arg)
    return given.issuperset(required)
