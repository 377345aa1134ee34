"""Pass two of the type graph: from facts to edges, by Java's scopes or as published.

The scopes follow the Java Language Specification (6.3 to 6.5), from the inside out: type variables;
members of the enclosing types, declared or inherited; single imports; the file's package; imports
on demand and java.lang. A name that means no type of the project is external. A name that two
imports on demand bring is ambiguous: it gets no edge and is reported.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from pkg_lib.core.source_tree import files_first
from pkg_lib.graph.types.java import Facts, Import, Reference
from pkg_lib.graph.types.typegraph import (
    TypeGraph,
    TypeNode,
    simple_name,
)

# The label of an edge by the place of its reference.
LABEL = {
    "field": "injects",
    "constant": "injects",
    "parameter": "injects",
    "rest": "injects",
    "component": "injects",
    "bean_parameter": "injects",
    "extends": "extends",
    "implements": "implements",
    "bean": "provides",
}
INHERITANCE = ("extends", "implements")
EXTRA = (
    "arguments",
    "beans",
)  # edges that the paper does not have: see `graph_of`
# Names that java.lang brings into every file; they matter if an import on demand of a project has
# them too.
JAVA_LANG = set(
    """AutoCloseable Boolean Byte CharSequence Character Class ClassLoader Cloneable Comparable
    Deprecated Double Enum Error Exception Float FunctionalInterface Integer Iterable Long Math
    Module Number Object Override Package Process Readable Record Runnable Runtime
    RuntimeException SafeVarargs Short StackWalker StrictMath String StringBuffer StringBuilder
    SuppressWarnings System Thread ThreadGroup ThreadLocal Throwable Void""".split()
)


class AmbiguousNameError(Exception):
    """Two imports on demand bring the same name.

    Attributes:
        args: The candidates: full names of the types that the name may mean, sorted.
    """


@dataclass
class Resolution:
    """A type graph, and what became of the type names that it was made from.

    Attributes:
        graph: The graph.
        references: Number of references by what they turned out to be.
        ambiguous: (path, name, candidates) of each ambiguous name.
        redeclared: (path, type) of each type that an earlier file has declared.
    """

    graph: TypeGraph = field(default_factory=lambda: TypeGraph("resolved"))
    references: Counter[str] = field(default_factory=Counter)
    ambiguous: list[tuple[str, str, tuple[str, ...]]] = field(default_factory=list)
    redeclared: list[tuple[str, str]] = field(default_factory=list)


class Project:
    """All types of a repository, with the imports of their files.

    Attributes:
        facts: The facts of each file.
        nodes: The types by full name.
        redeclared: (path, type) of each type that an earlier file has declared.
    """

    def __init__(self, facts: Mapping[str, Facts]) -> None:
        self.facts = facts
        self.nodes: dict[str, TypeNode] = {}
        self.redeclared: list[tuple[str, str]] = []
        # Simple name -> full name of the top-level types of each package and of the members of each
        # type.
        self._packages: dict[str, dict[str, str]] = defaultdict(dict)
        self._members: dict[str, dict[str, str]] = defaultdict(dict)
        self._inherited: dict[str, dict[str, str]] = {}
        self._hidden: set[str] = set()  # top-level types that other packages do not see
        self._supertypes: dict[str, list[Reference]] = defaultdict(list)
        # Imports of one type, by path and simple name.
        self._single_imports: dict[tuple[str, str], list[Import]] = defaultdict(list)
        for path, file in facts.items():
            self._declare(path, file)

    def _declare(self, path: str, facts: Facts) -> None:
        for imported in facts.imports:
            if not imported.on_demand:
                simple = imported.name.rpartition(".")[2]
                self._single_imports[path, simple].append(imported)
        for declared in facts.types:
            name = full_name(facts.package, declared.name)
            if name in self.nodes:
                self.redeclared.append((path, name))
                continue
            self.nodes[name] = TypeNode(
                name,
                declared.kind,
                path,
                declared.first,
                declared.last,
            )
            outer = declared.name.rpartition(".")[0]
            if outer:
                siblings = self._members[full_name(facts.package, outer)]
            else:
                siblings = self._packages[facts.package]
            siblings.setdefault(simple_name(name), name)
            if not outer and not declared.public:
                self._hidden.add(name)
        for reference in facts.references:
            owner = full_name(
                facts.package,
                facts.types[reference.owner].name,
            )
            is_supertype = reference.place in INHERITANCE and not reference.argument
            if is_supertype and self.nodes[owner].path == path:
                self._supertypes[owner].append(reference)

    def find(
        self,
        reference: Reference,
        path: str,
        inside: bool = True,
    ) -> str | None:
        """Find the type that a reference means.

        Args:
            reference: A reference.
            path: Its file.
            inside: Whether members of the owner are in scope; in the owner's supertypes they are
                not.

        Returns:
            The full name of the type, None for an external one.

        Raises:
            AmbiguousNameError: Two imports on demand bring the name.
        """
        first, *rest = reference.name.split(".")
        outer = self._simple(first, reference.owner, path, inside)
        if outer is None and rest:
            return self._dotted(reference.name)
        return self._nested(outer, rest)

    def _simple(self, name: str, owner: int, path: str, inside: bool) -> str | None:
        """Find the type that a simple name means in a type of a file."""
        facts = self.facts[path]
        enclosing = facts.types[owner].name
        while enclosing:
            member = inside and self._member(full_name(facts.package, enclosing), name)
            if member:
                return member
            inside = True
            enclosing = enclosing.rpartition(".")[0]
        for imported in self._single_imports.get((path, name), ()):
            target = self._dotted(imported.name)
            if target or not imported.static:
                return target
        neighbour = self._packages.get(facts.package, {}).get(name)
        if neighbour:
            return neighbour
        found = {self._on_demand("java.lang", name, static=False)}
        if found == {None} and name in JAVA_LANG:
            found = {f"java.lang.{name}"}
        for imported in facts.imports:
            if imported.on_demand:
                found.add(self._on_demand(imported.name, name, imported.static))
        candidates = sorted(target for target in found if target)
        if len(candidates) > 1:
            raise AmbiguousNameError(*candidates)
        return candidates[0] if candidates and candidates[0] in self.nodes else None

    def _on_demand(self, place: str, name: str, static: bool) -> str | None:
        """Find the type that an import on demand brings from a package or type."""
        if place in self._packages:
            target = self._packages[place].get(name)
            return None if target in self._hidden else target
        outer = self._dotted(place) or ""
        if static:
            return self._member(outer, name)
        return self._members.get(outer, {}).get(name)

    def _dotted(self, name: str) -> str | None:
        """Find a type by its full name, with the longest package that has such a type."""
        parts = name.split(".")
        for cut in range(len(parts) - 1, 0, -1):
            package = ".".join(parts[:cut])
            top = self._packages.get(package, {}).get(parts[cut])
            target = self._nested(top, parts[cut + 1 :])
            if target:
                return target
        return None

    def _nested(self, name: str | None, parts: list[str]) -> str | None:
        """Find the member of a type that a path of simple names leads to."""
        for part in parts:
            name = self._member(name, part) if name else None
        return name

    def _member(self, outer: str, name: str) -> str | None:
        """Find a member of a type, declared or inherited."""
        member = self._members.get(outer, {}).get(name)
        return member or self._inherits(outer).get(name)

    def _inherits(self, outer: str) -> dict[str, str]:
        """Return the inherited members of a type; around a cycle nothing more is inherited."""
        if outer not in self._inherited:
            self._inherited[outer] = {}
            members: dict[str, str] = {}
            for reference in self._supertypes.get(outer, ()):
                with suppress(AmbiguousNameError):
                    above = self.find(
                        reference,
                        self.nodes[outer].path,
                        inside=False,
                    )
                    if above:
                        members = self._inherits(above) | self._members.get(above, {}) | members
            self._inherited[outer] = members
        return self._inherited[outer]


def full_name(package: str, name: str) -> str:
    """Join a package and the name of a type in it.

    Args:
        package: Name of the package; "" for the unnamed one.
        name: Name of the type in its file, such as "Outer.Inner".

    Returns:
        The name by which the resolved graph knows the type, such as "org.shop.Outer.Inner".
    """
    return f"{package}.{name}" if package else name


def graph_of(facts: Mapping[str, Facts], extra: Collection[str] = ()) -> Resolution:
    """Build the type graph of a repository by Java's scopes.

    Args:
        facts: The facts of each file; of a type that is declared twice, the first file counts.
        extra: "arguments" adds edges to the type arguments of supertypes (`extends
            Repository<Order>`). "beans" adds edges to what methods with Spring's @Bean return
            (`provides`) and take (`injects`).
    """
    project = Project(facts)
    resolution = Resolution()
    edges: dict[tuple[str, str], set[str]] = defaultdict(set)
    ambiguous: set[tuple[str, str, tuple[str, ...]]] = set()
    for path, file in facts.items():
        for reference in file.references:
            owner = full_name(file.package, file.types[reference.owner].name)
            is_bean = reference.place.startswith("bean")
            if project.nodes[owner].path != path or (is_bean and "beans" not in extra):
                continue
            label = LABEL[reference.place]
            inherits = label in INHERITANCE
            if inherits and reference.argument:
                label = "arguments"
            target = None
            if reference.variable:
                outcome = "type variable"
            elif label == "arguments" and label not in extra:
                outcome = "argument of a supertype"  # Repository<Order> is extended, Order is not
            else:
                try:
                    target = project.find(reference, path, inside=not inherits)
                    outcome = "edge" if target else "external"
                except AmbiguousNameError as e:
                    ambiguous.add((path, reference.name, e.args))
                    outcome = "ambiguous"
            if target == owner and label not in INHERITANCE:
                outcome = "the type itself"  # as in a list's node: it depends on nothing else
            elif target:
                edges[owner, target].add(label)
            resolution.references[outcome] += 1
    resolution.ambiguous = sorted(ambiguous)
    resolution.redeclared = sorted(project.redeclared)
    resolution.graph = TypeGraph.of("resolved", project.nodes, edges)
    return resolution


def published(facts: Mapping[str, Facts]) -> TypeGraph:
    """Build the type graph as the paper's Listing 1 does: types are keyed by simple names.

    Of two types of one name the last file in the order of `os.walk` counts. Each type of a file
    gets all its fields and constructors. Only a type that is written as one name is seen.
    Inheritance replaces `injects`. The listing omits supertypes; that they count as one name too,
    and that an interface extends nothing, was found by trying. With these rules Shopizer and
    OpenMRS Core have the published numbers.

    Args:
        facts: The facts of each file.
    """
    nodes: dict[str, TypeNode] = {}
    injected: dict[str, set[str]] = {}  # targets of all types of a file
    # The label of each target, by the path and the name of the type that refers to it.
    inherited: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for path in sorted(facts, key=files_first):
        injected[path] = set()
        types = facts[path].types
        for declared in types:
            name = simple_name(declared.name)
            nodes[name] = TypeNode(
                name,
                declared.kind,
                path,
                declared.first,
                declared.last,
            )
        for reference in facts[path].references:
            owner = types[reference.owner]
            if not reference.bare:
                continue
            if reference.place in ("field", "parameter"):
                injected[path].add(reference.name)
            elif reference.place == "implements" or (
                reference.place == "extends" and owner.kind == "class"
            ):
                labels = inherited[path, simple_name(owner.name)]
                labels[reference.name] = reference.place
    edges: dict[tuple[str, str], set[str]] = {}
    for name, node in nodes.items():
        labels = dict.fromkeys(injected[node.path], "injects")
        labels |= inherited[node.path, name]
        for target in labels.keys() & nodes.keys():
            edges[name, target] = {labels[target]}
    return TypeGraph.of("as-published", nodes, edges)
