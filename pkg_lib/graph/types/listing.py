"""The graph as Listing 1 builds it, from the same facts: types are keyed by simple names.

What follows from the listing, and is kept here on purpose:
- Two types of one name are one node; the file that comes last gives its path and its edges, in the order of
  `os.walk` with sorted entries: files of a directory before those of the directories in it.
- The queries run over the whole file, so each type of a file gets the fields and constructors of all of
  them; and a type that has a field of its own type gets an edge to itself.
- Only a type that is written as one name is seen: no generics, arrays, dotted names or `Type... rest`.
- A pair has one label; inheritance is added last and replaces `injects`.
The listing omits supertypes. Found by trying: they too count only where they are written as one name, and
what an interface extends gives nothing. So Shopizer and OpenMRS Core have exactly the published numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pkg_lib.graph.types.java import Facts
from pkg_lib.graph.types.typegraph import TypeGraph, TypeNode, ordered, simple_name


def graph_of(facts: Mapping[str, Facts]) -> TypeGraph:
    """The graph of path -> facts."""
    nodes: dict[str, TypeNode] = {}
    of_file: dict[str, dict[str, str]] = {}  # path -> target -> label
    of_type: dict[str, dict[str, dict[str, str]]] = {}  # path -> simple name -> target -> label
    for path in sorted(facts, key=_walked):
        types, inherited = facts[path].types, defaultdict(dict)
        for t in types:
            nodes[simple_name(t.name)] = TypeNode(simple_name(t.name), t.kind, path, t.first, t.last)
        for r in facts[path].references:
            owner = types[r.owner]
            if r.bare and (r.place == "implements" or (r.place == "extends" and owner.kind == "class")):
                inherited[simple_name(owner.name)][r.name] = r.place
        of_type[path] = inherited
        injected = [r.name for r in facts[path].references if r.bare and r.place in ("field", "parameter")]
        of_file[path] = dict.fromkeys(injected, "injects")
    edges = {
        (name, target): {label}
        for name, node in nodes.items()
        for target, label in (of_file[node.path] | of_type[node.path].get(name, {})).items()
        if target in nodes
    }
    return ordered("as-published", nodes, edges)


def _walked(path: str) -> list[tuple[bool, str]]:
    *folders, name = path.split("/")
    return [*((True, folder) for folder in folders), (False, name)]
