"""Makes a library that no model knows: a pinned pure-Python library under new names, by rule.

It follows the construction of Scipy-M and Tensorflow-M (Section 2.4). Each word of a public name gets a
synonym (libraries.toml), in every file and file name at once, so that the program stays the same program.

Unchanged are a name whose synonym the library already uses, an attribute of Python's or numpy's own
objects, and one function in KEPT, selected by its hash. Some functions are merged into one with a
further first argument, and some are gathered in a class. In docstrings and other texts only code
changes: examples, what is in backticks, and names of parameters. Comments and data files are unchanged,
and type stubs (.pyi) are left out.
"""

import ast
import importlib
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import indent
from typing import Any

from pkg_lib.core.registry import Registry
from pkg_lib.core.store import write_bytes
from pkg_lib.core.types import UserError, digest
from pkg_lib.data.packages import PACKAGES, PINNED, Package
from pkg_lib.papers.evor.renaming import renamed
from pkg_lib.papers.evor.templates import PROGRAMS, read_toml

SPECS: dict[str, dict[str, Any]] = read_toml("libraries.toml")
KEPT = 5  # one of so many functions keeps its name
NOT_COPIED = (".pyi", ".pyc")
NUMPY_MODULES = ("numpy", "numpy.linalg", "numpy.random")
WORD = re.compile(r"NetworkX|[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
TEST = re.compile(r"(^|/)(tests/|conftest\.py$)")  # of a path
STEM = re.compile(r"[^/.]+(?=[/.])")
PYTHON_FILE = re.compile(r"[\w/]+\.py")
# What matters in Python: comments, strings, and names with what is before and after them.
TOKEN = re.compile(r"""(?sx) [#][^\n]*
    | (?P<prefix>\b[A-Za-z]{1,2})? (?P<quote>"{3}|'{3}|"|') (?P<text>(?:\\.|[^\\])*?) (?P=quote)
    | (?P<before>\bdef\ |\.)? \b(?P<name>[A-Za-z_]\w*) (?P<call>\()?""")
# Strings that are names.
LISTED = re.compile(
    r"(?m)^ *(?:__all__|__slots__)[^\[(]*[\[(][^\])]*|\bparametrize\(\s*\"[\w, ]+\""
)
FIELD = re.compile(r"(\{\{|\}\}|\{(?:[^{}]|\{[^{}]*\})+\})")  # of an f-string: code
IMPORTED = re.compile(r"(?m)^ *(?:import|from(?= +\S+ import)) +([\w.]+)")


def _networkx() -> Package:
    """The pinned archive of networkx. TOML has lists where a package has tuples."""
    fields = dict(PINNED["library"][0])
    for name, value in fields.items():
        if isinstance(value, list):
            fields[name] = tuple(value)
    return Package(**fields)


LIBRARIES: Registry[Package] = Registry("library", (_networkx(), PACKAGES["more-itertools"]))


@dataclass(frozen=True)
class Library:
    """A library with its new names.

    Attributes:
        name: Its name in libraries.toml.
        spec: Its fields in libraries.toml.
        files: Path -> text of its Python files.
        module: Its top-level module.
    """

    name: str
    spec: Mapping[str, Any]
    files: Mapping[str, str]
    module: str

    @property
    def merged(self) -> Sequence[Mapping[str, Any]]:
        """The rows of libraries.toml about functions that are merged into one."""
        rows: Sequence[Mapping[str, Any]] = self.spec.get("merged", ())
        return rows

    @property
    def gathered(self) -> Sequence[Mapping[str, Any]]:
        """The rows of libraries.toml about functions that are gathered in a class."""
        rows: Sequence[Mapping[str, Any]] = self.spec.get("gathered", ())
        return rows

    # Which names change

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """Path -> syntax tree of the library's own files, without its tests."""
        trees = {}
        for path, text in self.files.items():
            if not TEST.search(path):
                trees[path] = ast.parse(text)
        return trees

    @cached_property
    def public(self) -> dict[str, str]:
        """Public name -> its kind: module, class, or function (methods and properties too)."""
        kinds: dict[str, str] = {}
        for path in self.trees:
            stems = STEM.findall(path)
            kinds |= dict.fromkeys(stems, "module")
        for tree in self.trees.values():
            kinds |= _kinds_of_definitions(tree)
        names = sorted(kinds)
        return {name: kinds[name] for name in names if name[0] != "_"}

    @cached_property
    def foreign(self) -> set[str]:
        """Attributes of Python's own objects, of the modules that the files import, and of numpy."""
        known = {"builtins", *NUMPY_MODULES}
        for text in self.files.values():
            for name in IMPORTED.findall(text):
                top = _top_level(name, ".")
                if top in sys.stdlib_module_names or top == "numpy":
                    known.add(name)
        attributes: set[str] = set()
        for name in sorted(known):
            module = importlib.import_module(name)
            attributes.update(dir(module))
            for value in vars(module).values():
                if isinstance(value, type):
                    attributes.update(dir(value))
        return attributes

    @cached_property
    def moved(self) -> dict[str, tuple[str, str]]:
        """Function that becomes private -> what is called instead, and the call's first argument."""
        moved = {}
        for row in self.merged:
            for case, old in row["apis"].items():
                moved[old] = (row["name"], f'"{case}", ')
        for row in self.gathered:
            for method, old in row["apis"].items():
                moved[old] = (f"{row['name']}.{method}", "")
        return moved

    @cached_property
    def given(self) -> dict[str, str]:
        """The new names that libraries.toml gives, of the module, its alias and parameters."""
        given = {self.module: str(self.spec["module"])}
        given.update(self.spec["alias"])
        given.update(self.spec["parameters"])
        return given

    @cached_property
    def names(self) -> dict[str, str]:
        """Old identifier -> new one.

        Raises:
            UserError: Given names collide, or the library lacks one that libraries.toml names.
        """
        names = dict(self.given)
        for old in self.moved:
            names[old] = f"{old}_"
        added = {row["name"] for row in (*self.merged, *self.gathered)}
        given = [*names.values(), *added]
        used = self._used_names()
        self._check(given, used)
        unchanged = {
            *self.spec["keep"],
            *self.spec["skip"],
            *names,
            *self.foreign,
            *self._kept_functions(),
        }
        taken = used.union(given)
        for old in self.public:
            new = self._synonym(old)
            if old not in unchanged and new not in taken:
                names[old] = new
                taken.add(new)
        return names

    def _used_names(self) -> set[str]:
        """Every identifier in the files and their paths; None for other tokens."""
        used: set[str] = set()
        for path, text in self.files.items():
            for source in (path, text):
                used.update(match["name"] for match in TOKEN.finditer(source))
        return used

    def _check(self, given: list[str], used: set[str]) -> None:
        collisions = {name for name in given if name in used or given.count(name) > 1}
        if collisions:
            names = ", ".join(sorted(collisions))
            raise UserError(f"{self.name}: names that collide: {names}; mend libraries.toml")
        missing = self.moved.keys() - self.public.keys()
        if missing:
            names = ", ".join(sorted(missing))
            raise UserError(f"{self.name} has no {names}; mend libraries.toml")

    def _kept_functions(self) -> set[str]:
        """One function in KEPT, by its hash."""
        kept = set()
        for name, kind in self.public.items():
            number = int(digest(name)[:8], 16)
            if kind == "function" and number % KEPT == 0:
                kept.add(name)
        return kept

    @cached_property
    def _synonyms(self) -> dict[str, str]:
        """The words of libraries.toml, capitalized ones too."""
        words: dict[str, str] = self.spec["words"]
        capitalized = {}
        for word, new in words.items():
            capitalized[word.capitalize()] = new.capitalize()
        return capitalized | words

    def _synonym(self, name: str) -> str:
        return renamed(name, self._synonyms, WORD)

    # How a file changes

    def path(self, path: str) -> str:
        """Return a file's path under the new names.

        Args:
            path: The path below the archive's top folder.
        """
        return renamed(path, self.names, STEM)

    def code(self, text: str, bare: bool = False) -> str:
        """Return Python code under the new names.

        Args:
            text: The code.
            bare: Whether a public function may be called without its module, as in docstrings.
        """
        listed = LISTED.sub(lambda match: renamed(match[0], self.names), text)
        return TOKEN.sub(lambda match: self._token(match, bare), listed)

    def _token(self, match: re.Match[str], bare: bool) -> str:
        """A match of TOKEN under the new names."""
        quote = match["quote"]
        if quote:
            prefix = match["prefix"] or ""
            content = self._string(prefix.lower(), match["text"])
            return f"{prefix}{quote}{content}{quote}"
        name = match["name"]
        if not name:  # a comment
            return match[0]
        before = match["before"] or ""
        call = match["call"] or ""
        is_method_call = before == "." and bool(call)
        is_use = before != "def " if bare else is_method_call
        if name not in self.moved or not is_use:
            new_name = self.names.get(name, name)
            return f"{before}{new_name}{call}"
        replacement, first_argument = self.moved[name]
        if not call:
            return f"{before}{replacement}"
        return f"{before}{replacement}{call}{first_argument}"

    def _string(self, prefix: str, text: str) -> str:
        """The content of a string under the new names."""
        if "f" in prefix:
            parts = FIELD.split(text)
            parts[::2] = [self.text(part) for part in parts[::2]]
            parts[1::2] = [self.code(field) for field in parts[1::2]]
            return "".join(parts)
        if text.isidentifier():
            if "_" in text or text in self.given:
                return self.names.get(text, text)
            return text  # a word without "_" may be a key of data
        if PYTHON_FILE.fullmatch(text):
            return self.path(text)
        return self.text(text)

    @cached_property
    def spans(self) -> re.Pattern[str]:
        """Code in a text.

        That is: examples, code in backticks, parameters in stars, the library's name and what it leads
        to, calls and names that are no word of English, and words alone in a line or before a colon.
        """
        parameters = "|".join(self.given)
        modules = "|".join({self.module, *self.spec["alias"]})
        return re.compile(rf"""(?mx) ^[ \t]*>>>.*(?:\n[ \t]*\.\.\..*)*
            | (?P<ticks>`+)[^`\n]+?(?P=ticks)
            | (?<!\*)\*(?:{parameters})\*
            | \b(?:{modules})(?:\.\w+)*\b
            | \b(?=\w*(?:_|[a-z][A-Z]|\())[A-Za-z]\w*
            | (?<=\n)[ ]*\w+(?:,[ ]\w+)*(?=[ ]*:|\n)""")

    def text(self, text: str) -> str:
        """Return a text, such as a docstring, in which only code is under the new names.

        Args:
            text: The text.
        """
        return self.spans.sub(lambda match: self.code(match[0], bare=True), text)

    def rewritten(self) -> dict[str, str]:
        """Return the files under the new names.

        Returns:
            New path -> new text.

        Raises:
            UserError: The library has no doctests, so nothing would show that its names work.
        """
        sources = [self.files[path] for path in self.trees]
        if not any(">>> " in source for source in sources):
            reason = "nothing would show that its new names work"
            raise UserError(f"{self.name} has no doctests: {reason}")
        files = {}
        for path, text in self.files.items():
            whole = text + self._added(path)
            files[self.path(path)] = self.code(whole)
        return files

    def _added(self, path: str) -> str:
        """What is added at a file's end, under the old names: merged functions and new classes."""
        functions = {}
        if path in self.trees:
            for node in self.trees[path].body:
                if isinstance(node, ast.FunctionDef):
                    functions[node.name] = node
        added = ""
        for row in self.merged:
            apis = row["apis"].items()
            cases = {case: functions[old] for case, old in apis if old in functions}
            if cases:
                added += _merged(row, cases)
        for row in self.gathered:
            apis = row["apis"].items()
            methods = [f"{new} = staticmethod({old})" for new, old in apis if old in functions]
            if methods:
                body = "\n    ".join(methods)
                added += PROGRAMS["gathered"].format(**row, methods=body)
        return added


def _top_level(path: str, separator: str) -> str:
    """The first part of a dotted name or of a path."""
    return path.partition(separator)[0]


def _kinds_of_definitions(tree: ast.Module) -> dict[str, str]:
    """Name -> kind of each class and function of a module, and of its public classes' members."""
    definitions = list(tree.body)
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name[0] != "_":
            definitions += node.body
    functions = {}
    classes = {}
    for node in definitions:
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = "function"
        elif isinstance(node, ast.ClassDef):
            classes[node.name] = "class"
    return functions | classes


def _merged(row: Mapping[str, Any], cases: Mapping[str, ast.FunctionDef]) -> str:
    """A function with the parameters of its first case, each summary, and the first description."""
    first = next(iter(cases.values()))
    paragraphs = []
    choices = []
    for case, node in cases.items():
        summary = _split_docstring(node)[0]
        paragraphs.append(f'With ``{row["argument"]}="{case}"``: {summary}')
        choices.append(f'"{case}": {node.name}')
    paragraphs.append(_split_docstring(first)[1])
    about = "\n\n".join(paragraphs)
    return PROGRAMS["merged"].format(
        **row,
        signature=ast.unparse(first.args),
        about=indent(about, "    ").strip(),
        values=" or ".join(f'"{case}"' for case in cases),
        choices=", ".join(choices),
        call=_arguments(first.args),
    )


def _split_docstring(node: ast.FunctionDef) -> tuple[str, str]:
    """The first paragraph of a docstring, and the rest."""
    docstring = ast.get_docstring(node) or ""
    summary, _, description = docstring.partition("\n\n")
    return summary, description


def _arguments(parameters: ast.arguments) -> str:
    """The arguments of a call that passes all parameters on."""
    arguments = [parameter.arg for parameter in (*parameters.posonlyargs, *parameters.args)]
    if parameters.vararg:
        arguments.append(f"*{parameters.vararg.arg}")
    for parameter in parameters.kwonlyargs:
        name = parameter.arg
        arguments.append(f"{name}={name}")
    return ", ".join(arguments)


def library_of(name: str) -> Library:
    """Return a library of libraries.toml, with its tests.

    Args:
        name: Its name.

    Returns:
        The library, which is not renamed yet.

    Raises:
        UserError: The name is unknown, or the archive is not available.
    """
    package = LIBRARIES.get_or_fail(name)
    module = package.sources[0]
    tops = (module, "tests")
    texts = package.files()
    files = {path: text for path, text in texts.items() if _top_level(path, "/") in tops}
    return Library(name, SPECS[name], files, module)


def make(
    name: str,
    output: Path,
    public: bool = False,
) -> Library:
    """Write a library under its new names.

    Args:
        name: A library of libraries.toml.
        output: The directory to write.
        public: Whether the library is written as it is.

    Returns:
        The library.

    Raises:
        UserError: The directory exists, or the library is unknown or not available.
    """
    if output.exists():
        raise UserError(f"{output} exists; name a directory that does not")
    library = library_of(name)
    texts = {} if public else library.rewritten()
    tree = LIBRARIES[name].tree
    for top in {_top_level(path, "/") for path in library.files}:
        for file in (tree / top).rglob("*"):
            if not file.is_file() or file.suffix in NOT_COPIED:
                continue
            path = file.relative_to(tree).as_posix()
            if not public:
                path = library.path(path)
            data = file.read_bytes()
            if path in texts:
                data = texts[path].encode()
            write_bytes(output / path, data)
    return library
