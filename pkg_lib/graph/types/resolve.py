"""Which type a name means: pass two of the graph, by the scopes of the Java Language Specification (Sections
6.3 to 6.5).

From the inside out: type variables; members of the enclosing types, declared or inherited; single imports;
the file's package; imports on demand together with java.lang. A name that means no type of the project is
external. Two imports on demand that both have it make it ambiguous: it gets no edge and is reported.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from pkg_lib.graph.types.java import Facts, Import, Reference
from pkg_lib.graph.types.typegraph import TypeGraph, TypeNode, ordered

LABEL = dict.fromkeys(("field", "constant", "parameter", "rest", "component", "bean_parameter"), "injects")
LABEL |= {"extends": "extends", "implements": "implements", "bean": "provides"}
EXTRA = ("arguments", "beans")  # edges that the paper does not have: see `graph_of`
# Names that java.lang brings into every file; they matter where a project's import on demand has them too.
JAVA_LANG = frozenset(
    [
        "AutoCloseable",
        "Boolean",
        "Byte",
        "CharSequence",
        "Character",
        "Class",
        "ClassLoader",
        "Cloneable",
        "Comparable",
        "Deprecated",
        "Double",
        "Enum",
        "Error",
        "Exception",
        "Float",
        "FunctionalInterface",
        "Integer",
        "Iterable",
        "Long",
        "Math",
        "Module",
        "Number",
        "Object",
        "Override",
        "Package",
        "Process",
        "Readable",
        "Record",
        "Runnable",
        "Runtime",
        "RuntimeException",
        "SafeVarargs",
        "Short",
        "StackWalker",
        "StrictMath",
        "String",
        "StringBuffer",
        "StringBuilder",
        "SuppressWarnings",
        "System",
        "Thread",
        "ThreadGroup",
        "ThreadLocal",
        "Throwable",
        "Void",
    ]
)


class Ambiguous(Exception):
    """A name that two imports on demand bring; `args` are the candidates."""


@dataclass
class Resolution:
    """The graph and what became of every written type name. `ambiguous`: (path, name, candidates); `again`:
    (path, type) of types whose full name another file has declared before."""

    graph: TypeGraph
    references: Counter[str] = field(default_factory=Counter)
    ambiguous: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    again: list[tuple[str, str]] = field(default_factory=list)


class Project:
    """All types of a repository with what their files import."""

    def __init__(self, facts: Mapping[str, Facts]) -> None:
        self.facts = facts
        self.nodes: dict[str, TypeNode] = {}
        self.again: list[tuple[str, str]] = []
        self.packages: dict[str, dict[str, str]] = defaultdict(dict)
        self.hidden: set[str] = set()  # top-level types that other packages do not see
        self.members: dict[str, dict[str, str]] = defaultdict(dict)
        self.supertypes: dict[str, list[Reference]] = defaultdict(list)
        self._inherited: dict[str, dict[str, str]] = {}
        for path, found in facts.items():
            self._declare(path, found)

    def _declare(self, path: str, facts: Facts) -> None:
        names = [full(facts.package, t.name) for t in facts.types]
        declared = set()
        for name, t in zip(names, facts.types, strict=True):
            if name in self.nodes:
                self.again.append((path, name))
                continue
            declared.add(name)
            self.nodes[name] = TypeNode(name, t.kind, path, t.first, t.last)
            outer, _, simple = t.name.rpartition(".")
            place = self.members[full(facts.package, outer)] if outer else self.packages[facts.package]
            place.setdefault(simple.partition("#")[0], name)
            if not outer and not t.public:
                self.hidden.add(name)
        for r in facts.references:
            if r.place in ("extends", "implements") and not r.argument and names[r.owner] in declared:
                self.supertypes[names[r.owner]].append(r)

    def find(self, reference: Reference, facts: Facts, inside: bool = True) -> str | None:
        """The full name of the type that a reference means, None for an external one; raises Ambiguous.

        `inside`: members of the owner itself are in scope; in its supertypes they are not.
        """
        first, *rest = reference.name.split(".")
        found = self._simple(first, reference.owner, facts, inside)
        if found is None and rest:
            return self._dotted(reference.name)
        for part in rest:
            found = self.member(found, part) if found else None
        return found

    def _simple(self, name: str, owner: int, facts: Facts, inside: bool) -> str | None:
        enclosing = facts.types[owner].name
        while enclosing:
            if inside and (found := self.member(full(facts.package, enclosing), name)):
                return found
            inside, enclosing = True, enclosing.rpartition(".")[0]
        for i in facts.imports:
            if (
                not i.on_demand
                and i.name.rpartition(".")[2] == name
                and (not i.static or self._dotted(i.name))
            ):
                return self._dotted(i.name)
        if found := self.packages[facts.package].get(name) if facts.package in self.packages else None:
            return found
        return self._on_demand(name, facts.imports)

    def _on_demand(self, name: str, imports: tuple[Import, ...]) -> str | None:
        found = {self._in(i.name, name, i.static) for i in imports if i.on_demand} - {None}
        found |= {
            self._in("java.lang", name, False) or ("java.lang." + name if name in JAVA_LANG else None)
        } - {None}
        if len(found) > 1:
            raise Ambiguous(*sorted(found))
        only = next(iter(found), None)
        return only if only in self.nodes else None

    def _in(self, place: str, name: str, static: bool) -> str | None:
        """The type that an import on demand brings: of a package or type, inherited ones if static."""
        if place in self.packages:
            found = self.packages[place].get(name)
            return None if found in self.hidden else found
        outer = self._dotted(place)
        if outer is None:
            return None
        return self.member(outer, name) if static else self.members.get(outer, {}).get(name)

    def _dotted(self, name: str) -> str | None:
        """A full name with its package: the longest package that has such a type."""
        parts = name.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            found = self.packages.get(".".join(parts[:cut]), {}).get(parts[cut])
            for part in parts[cut + 1 :]:
                found = self.member(found, part) if found else None
            if found:
                return found
        return None

    def member(self, outer: str, name: str) -> str | None:
        """A type's member type, its own or an inherited one."""
        return self.members.get(outer, {}).get(name) or self._inherits(outer).get(name)

    def _inherits(self, outer: str) -> dict[str, str]:
        """Simple name -> type, of inherited members; nothing more is inherited around a cycle."""
        if outer not in self._inherited:
            self._inherited[outer] = {}
            found: dict[str, str] = {}
            for r in self.supertypes.get(outer, ()):
                if above := self._above(outer, r):
                    found = self._inherits(above) | self.members.get(above, {}) | found
            self._inherited[outer] = found
        return self._inherited[outer]

    def _above(self, outer: str, reference: Reference) -> str | None:
        try:
            return self.find(reference, self.facts[self.nodes[outer].path], inside=False)
        except Ambiguous:
            return None


def full(package: str, name: str) -> str:
    """Package and name, the name alone in the unnamed package."""
    return f"{package}.{name}" if package else name


def graph_of(facts: Mapping[str, Facts], extra: Collection[str] = ()) -> Resolution:
    """The graph of path -> facts, paths in the order in which a type that is declared twice counts.

    `extra`: "arguments" adds edges to the type arguments of supertypes (`extends Repository<Order>`), "beans"
    to what methods with Spring's @Bean return (`provides`) and take (`injects`).
    """
    project = Project(facts)
    edges: dict[tuple[str, str], set[str]] = defaultdict(set)
    resolution = Resolution(TypeGraph("resolved"), again=sorted(project.again))
    for path, file in facts.items():
        for r in file.references:
            owner = full(file.package, file.types[r.owner].name)
            wanted = "beans" in extra or not r.place.startswith("bean")
            if wanted and project.nodes[owner].path == path:
                label, target = _edge(resolution, project, path, r, "arguments" in extra)
                outcome = label if target is None else "edge"
                # A type that holds itself, such as a list's node, depends on nothing else.
                if target == owner and label not in ("extends", "implements"):
                    outcome = "the type itself"
                elif target:
                    edges[owner, target].add(label)
                resolution.references[outcome] += 1
    resolution.ambiguous = sorted(set(resolution.ambiguous))
    resolution.graph = ordered("resolved", project.nodes, edges)
    return resolution


def _edge(
    resolution: Resolution, project: Project, path: str, r: Reference, arguments: bool
) -> tuple[str, str | None]:
    """(label, type that is meant), or (what else became of the reference, None)."""
    if r.variable:
        return "type variable", None
    inherits = r.place in ("extends", "implements")
    if inherits and r.argument and not arguments:
        return "argument of a supertype", None  # Repository<Order> is extended, Order is not
    try:
        target = project.find(r, project.facts[path], inside=not inherits)
    except Ambiguous as e:
        resolution.ambiguous.append((path, r.name, e.args))
        return "ambiguous", None
    label = "arguments" if inherits and r.argument else LABEL[r.place]
    return (label, target) if target else ("external", None)
