"""Pass two, facts to graph: by Java's scopes (Java Language Specification, 6.3 to 6.5) or as published.

Scopes from the inside out: type variables; members of the enclosing types, declared or inherited; single
imports; the file's package; imports on demand with java.lang. A name of no type of the project is external;
one that two imports on demand have is ambiguous: it gets no edge and is reported.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import reduce

from pkg_lib.graph.types.java import Facts, Import, Reference
from pkg_lib.graph.types.typegraph import TypeGraph, TypeNode, ordered, simple_name

LABEL = dict.fromkeys(
    ("field", "constant", "parameter", "rest", "component", "bean_parameter"), "injects"
)
LABEL |= {"extends": "extends", "implements": "implements", "bean": "provides"}
EXTRA = ("arguments", "beans")  # edges that the paper does not have: see `graph_of`
# Names that java.lang brings into every file; they matter where a project's import on demand has them too.
JAVA_LANG = set(
    """AutoCloseable Boolean Byte CharSequence Character Class ClassLoader Cloneable Comparable Deprecated
    Double Enum Error Exception Float FunctionalInterface Integer Iterable Long Math Module Number
    Object Override Package Process Readable Record Runnable Runtime RuntimeException SafeVarargs Short
    StackWalker StrictMath String StringBuffer StringBuilder SuppressWarnings System Thread ThreadGroup
    ThreadLocal Throwable Void""".split()
)


class Ambiguous(Exception):
    """A name that two imports on demand bring; `args` are the candidates."""


@dataclass
class Resolution:
    """The graph and what became of every written type name."""

    graph: TypeGraph = field(default_factory=lambda: TypeGraph("resolved"))
    references: Counter[str] = field(default_factory=Counter)
    ambiguous: list[tuple[str, str, tuple[str, ...]]] = field(
        default_factory=list
    )  # path, name, candidates
    again: list[tuple[str, str]] = field(
        default_factory=list
    )  # path, type that an earlier file has declared


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
        self.singles: dict[tuple[str, str], list[Import]] = defaultdict(
            list
        )  # by path and simple name
        self._inherited: dict[str, dict[str, str]] = {}
        for path, file in facts.items():
            self._declare(path, file)

    def _declare(self, path: str, facts: Facts) -> None:
        for i in facts.imports:
            if not i.on_demand:
                self.singles[path, i.name.rpartition(".")[2]].append(i)
        names = [full(facts.package, t.name) for t in facts.types]
        declared = set()
        for name, t in zip(names, facts.types, strict=True):
            if name in self.nodes:
                self.again.append((path, name))
                continue
            declared.add(name)
            self.nodes[name] = TypeNode(name, t.kind, path, t.first, t.last)
            outer, _, simple = t.name.rpartition(".")
            place = (
                self.members[full(facts.package, outer)] if outer else self.packages[facts.package]
            )
            place.setdefault(simple.partition("#")[0], name)
            if not outer and not t.public:
                self.hidden.add(name)
        for r in facts.references:
            if (
                r.place in ("extends", "implements")
                and not r.argument
                and names[r.owner] in declared
            ):
                self.supertypes[names[r.owner]].append(r)

    def find(self, reference: Reference, path: str, inside: bool = True) -> str | None:
        """The full name of the type that a reference means, None for an external one; raises Ambiguous.

        `inside`: members of the owner itself are in scope; in its supertypes they are not.
        """
        first, *rest = reference.name.split(".")
        outer = self._simple(first, reference.owner, path, inside)
        return self._dotted(reference.name) if outer is None and rest else self._inner(outer, rest)

    def _inner(self, outer: str | None, parts: list[str]) -> str | None:
        return reduce(lambda name, part: name and self.member(name, part), parts, outer)

    def _simple(self, name: str, owner: int, path: str, inside: bool) -> str | None:
        facts = self.facts[path]
        enclosing = facts.types[owner].name
        while enclosing:
            if inside and (member := self.member(full(facts.package, enclosing), name)):
                return member
            inside, enclosing = True, enclosing.rpartition(".")[0]
        for i in self.singles.get((path, name), ()):
            target = self._dotted(i.name)
            if target or not i.static:
                return target
        if neighbour := self.packages.get(facts.package, {}).get(name):
            return neighbour
        types = {self._in(i.name, name, i.static) for i in facts.imports if i.on_demand}
        types |= {
            self._in("java.lang", name, False)
            or (f"java.lang.{name}" if name in JAVA_LANG else None)
        }
        if len(types - {None}) > 1:
            raise Ambiguous(*sorted(types - {None}))
        return next(iter(types & self.nodes.keys()), None)

    def _in(self, place: str, name: str, static: bool) -> str | None:
        """The type that an import on demand brings: of a package or type, inherited ones if static."""
        if place in self.packages:
            target = self.packages[place].get(name)
            return None if target in self.hidden else target
        outer = self._dotted(place) or ""
        return self.member(outer, name) if static else self.members.get(outer, {}).get(name)

    def _dotted(self, name: str) -> str | None:
        """A full name with its package: the longest package that has such a type."""
        parts = name.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            top = self.packages.get(".".join(parts[:cut]), {}).get(parts[cut])
            if target := self._inner(top, parts[cut + 1 :]):
                return target
        return None

    def member(self, outer: str, name: str) -> str | None:
        """A type's member type, its own or an inherited one."""
        return self.members.get(outer, {}).get(name) or self._inherits(outer).get(name)

    def _inherits(self, outer: str) -> dict[str, str]:
        """Simple name -> type, of inherited members; nothing more is inherited around a cycle."""
        if outer not in self._inherited:
            self._inherited[outer] = {}
            members: dict[str, str] = {}
            for r in self.supertypes.get(outer, ()):
                with suppress(Ambiguous):
                    if above := self.find(r, self.nodes[outer].path, inside=False):
                        members = self._inherits(above) | self.members.get(above, {}) | members
            self._inherited[outer] = members
        return self._inherited[outer]


def full(package: str, name: str) -> str:
    return f"{package}.{name}" if package else name


def graph_of(facts: Mapping[str, Facts], extra: Collection[str] = ()) -> Resolution:
    """The graph of path -> facts, paths in the order in which a type that is declared twice counts.

    `extra`: "arguments" adds edges to the type arguments of supertypes (`extends Repository<Order>`), "beans"
    to what methods with Spring's @Bean return (`provides`) and take (`injects`).
    """
    project, resolution = Project(facts), Resolution()
    edges: dict[tuple[str, str], set[str]] = defaultdict(set)
    ambiguous: set[tuple[str, str, tuple[str, ...]]] = set()
    for path, file in facts.items():
        for r in file.references:
            owner = full(file.package, file.types[r.owner].name)
            if project.nodes[owner].path != path or (
                r.place.startswith("bean") and "beans" not in extra
            ):
                continue
            inherits, target = r.place in ("extends", "implements"), None
            label = "arguments" if inherits and r.argument else LABEL[r.place]
            if r.variable:
                outcome = "type variable"
            elif label == "arguments" and label not in extra:
                outcome = "argument of a supertype"  # Repository<Order> is extended, Order is not
            else:
                try:
                    target = project.find(r, path, inside=not inherits)
                    outcome = "edge" if target else "external"
                except Ambiguous as e:
                    ambiguous.add((path, r.name, e.args))
                    outcome = "ambiguous"
            # A type that holds itself, such as a list's node, depends on nothing else.
            if target == owner and label not in ("extends", "implements"):
                outcome = "the type itself"
            elif target:
                edges[owner, target].add(label)
            resolution.references[outcome] += 1
    resolution.ambiguous, resolution.again = sorted(ambiguous), sorted(project.again)
    resolution.graph = ordered("resolved", project.nodes, edges)
    return resolution


def published(facts: Mapping[str, Facts]) -> TypeGraph:
    """The graph as Listing 1 builds it, from the same facts: types are keyed by simple names.

    Of two types of one name the last file in the order of `os.walk` counts. Each type of a file gets all its
    fields and constructors. Only a type that is written as one name is seen. Inheritance replaces `injects`.
    Supertypes, which the listing omits, count as one name too, and an interface extends nothing: found by
    trying; so Shopizer and OpenMRS Core have exactly the published numbers.
    """
    nodes: dict[str, TypeNode] = {}
    injected: dict[str, dict[str, str]] = {}  # path -> target -> label
    inherited: dict[tuple[str, str], dict[str, str]] = defaultdict(
        dict
    )  # path, simple name -> the same
    for path in sorted(facts, key=_walked):
        types, references = facts[path].types, [r for r in facts[path].references if r.bare]
        for t in types:
            nodes[simple_name(t.name)] = TypeNode(
                simple_name(t.name), t.kind, path, t.first, t.last
            )
        for r in references:
            owner = types[r.owner]
            if r.place == "implements" or (r.place == "extends" and owner.kind == "class"):
                inherited[path, simple_name(owner.name)][r.name] = r.place
        names = [r.name for r in references if r.place in ("field", "parameter")]
        injected[path] = dict.fromkeys(names, "injects")
    edges = {
        (name, target): {label}
        for name, node in nodes.items()
        for target, label in (injected[node.path] | inherited[node.path, name]).items()
        if target in nodes
    }
    return ordered("as-published", nodes, edges)


def _walked(path: str) -> list[tuple[bool, str]]:
    """A directory's files stand before those of the directories in it."""
    *folders, name = path.split("/")
    return [*((True, folder) for folder in folders), (False, name)]
