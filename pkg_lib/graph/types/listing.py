"""The graph as Listing 1 builds it, from the same facts as the resolved one: types are keyed by their simple names.

What follows from the listing, and is kept here on purpose:
- Two types of one name are one node; the file that comes last gives its path and its edges. Files come in sorted order here,
  in that of the file system there.
- The queries run over the whole file, so each type of a file gets the fields and constructors of all of them; and a type that
  has a field of its own type gets an edge to itself.
- Only a field or parameter whose written type is one name is seen: no generics, arrays, dotted names or
  `Type... rest`.
- A pair has one label; inheritance is added last and replaces `injects`.
- Supertypes: every name in them, type arguments too (Section C.1.3). The listing omits this part; the rules are those of the
  appendix, with an interface's supertypes as `extends`.
"""

from __future__ import annotations

from collections.abc import Mapping

from pkg_lib.graph.types.java import Facts, simple_name
from pkg_lib.graph.types.typegraph import TypeGraph, TypeNode, ordered


def graph_of(facts: Mapping[str, Facts]) -> TypeGraph:
    """The graph of path -> facts."""
    nodes: dict[str, TypeNode] = {}
    for path, found in facts.items():
        for t in found.types:
            simple = simple_name(t.name)
            nodes[simple] = TypeNode(simple, t.kind, path, t.first, t.last)
    edges: dict[tuple[str, str], set[str]] = {}
    for name, node in nodes.items():
        for target, label in _edges(name, facts[node.path]):
            if target in nodes:
                edges[name, target] = {label}
    return ordered("as-published", nodes, edges)


def _edges(name: str, facts: Facts) -> list[tuple[str, str]]:
    """(target, label) in the order in which the listing adds them."""
    found = [
        (r.name, "injects")
        for place in ("field", "parameter")
        for r in facts.references
        if r.place == place and r.bare
    ]
    own = {i for i, t in enumerate(facts.types) if simple_name(t.name) == name}
    for label in ("extends", "implements"):
        for r in facts.references:
            if r.place == label and r.owner in own:
                found += [(part, label) for part in r.name.split(".")]
    return found
