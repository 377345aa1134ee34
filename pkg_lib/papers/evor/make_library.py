"""Makes a library that no model knows: a pinned pure-Python library under other names, by rule.

Every identifier that is a public name gets a synonym for each of its words (libraries.toml), in every file
and file name at once, so that the program stays the same program. Left as they are: a name whose synonym the
library uses already, one that is an attribute of Python's or numpy's own objects, and one function in KEPT,
chosen by hash. Some functions are joined into one with a further first argument, and some into a class.
Docstrings and other texts change in code alone: examples, what stands in backticks, names of parameters.
Not made anew: comments, type stubs (.pyi, left out) and data files.
"""

import ast
import builtins
import importlib
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import indent
from typing import Any

from pkg_lib.core.registry import Registry
from pkg_lib.core.store import write_bytes
from pkg_lib.core.types import UserError, digest
from pkg_lib.data.packages import PACKAGES, PINNED, Package
from pkg_lib.papers.evor.renaming import PROGRAMS, renamed

HERE = Path(__file__).parent
SPECS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "libraries.toml").read_text("utf8"))
_NETWORKX = {k: tuple(v) if isinstance(v, list) else v for k, v in PINNED["library"][0].items()}
LIBRARIES: Registry[Package] = Registry(
    "library", (Package(**_NETWORKX), PACKAGES["more-itertools"])
)
KEPT = 5  # one of so many functions keeps its name
WORD = re.compile(r"NetworkX|[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+")
TEST = re.compile(r"(^|/)(tests/|conftest\.py$)")  # of a path
STEM = re.compile(r"[^/.]+(?=[/.])")
# What matters in Python: comments, strings, and names with what stands before and after them.
TOKEN = re.compile(r"""(?sx) [#][^\n]*
    | (?P<prefix>\b[A-Za-z]{1,2})? (?P<quote>"{3}|'{3}|"|') (?P<text>(?:\\.|[^\\])*?) (?P=quote)
    | (?P<before>\bdef\ |\.)? \b(?P<name>[A-Za-z_]\w*) (?P<call>\()?""")
# Strings that are names.
LISTED = re.compile(
    r"(?m)^ *(?:__all__|__slots__)[^\[(]*[\[(][^\])]*|\bparametrize\(\s*\"[\w, ]+\""
)
FIELD = re.compile(r"(\{\{|\}\}|\{(?:[^{}]|\{[^{}]*\})+\})")  # of an f-string: code
IMPORTED = re.compile(r"(?m)^ *(?:import|from(?= +\S+ import)) +([\w.]+)")


@dataclass(frozen=True)
class Library:
    """The files of a library (path -> text of its Python) and what libraries.toml says of it."""

    name: str
    spec: Mapping[str, Any]
    files: Mapping[str, str]
    module: str

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """Path -> syntax tree of the library's own files."""
        return {p: ast.parse(t) for p, t in self.files.items() if not TEST.search(p)}

    @cached_property
    def public(self) -> dict[str, str]:
        """Public name -> its kind: module, class, or function (methods and properties too)."""
        kinds = {stem: "module" for path in self.trees for stem in STEM.findall(path)}
        for tree in self.trees.values():
            classes = [n for n in tree.body if isinstance(n, ast.ClassDef)]
            inner = [n for c in classes if c.name[0] != "_" for n in c.body]
            kinds |= {
                n.name: "function" for n in (*tree.body, *inner) if isinstance(n, ast.FunctionDef)
            }
            kinds |= {n.name: "class" for n in (*classes, *inner) if isinstance(n, ast.ClassDef)}
        return {name: kinds[name] for name in sorted(kinds) if name[0] != "_"}

    @cached_property
    def foreign(self) -> set[str]:
        """Attributes of Python's own objects, of the modules that the files import, and of numpy."""
        imported = {name for text in self.files.values() for name in IMPORTED.findall(text)}
        known = {
            name for name in imported if name.split(".")[0] in {*sys.stdlib_module_names, "numpy"}
        }
        known |= {"numpy", "numpy.linalg", "numpy.random"}
        modules = [builtins, *map(importlib.import_module, sorted(known))]
        types = [value for m in modules for value in vars(m).values() if isinstance(value, type)]
        return {name for thing in (*modules, *types) for name in dir(thing)}

    @cached_property
    def moved(self) -> dict[str, tuple[str, str]]:
        """Function that is private now -> (what is called in its place, the first argument of the call)."""
        merged, gathered = self.spec.get("merged", ()), self.spec.get("gathered", ())
        cases = {
            old: (row["name"], f'"{case}", ') for row in merged for case, old in row["apis"].items()
        }
        return cases | {
            o: (f"{row['name']}.{m}", "") for row in gathered for m, o in row["apis"].items()
        }

    @cached_property
    def given(self) -> dict[str, str]:
        """The new names that libraries.toml gives, of the module and of parameters."""
        return {self.module: self.spec["module"]} | self.spec["alias"] | self.spec["parameters"]

    @cached_property
    def names(self) -> dict[str, str]:
        """Old identifier -> new one. UserError where names that are given, not found by words, collide."""
        names = self.given | {old: f"{old}_" for old in self.moved}
        new = [*names.values(), *{name.partition(".")[0] for name, _ in self.moved.values()}]
        used = {
            m["name"] for text in (*self.files.values(), *self.files) for m in TOKEN.finditer(text)
        }
        if twice := sorted({n for n in new if n in used or new.count(n) > 1}):
            raise UserError(
                f"{self.name}: names that collide: {', '.join(twice)}; mend libraries.toml"
            )
        if lost := sorted(self.moved.keys() - self.public.keys()):
            raise UserError(f"{self.name} has no {', '.join(lost)}; mend libraries.toml")
        kept = {*self.spec["keep"], *self.spec["skip"], *names, *self.foreign}
        kept |= {
            n
            for n, k in self.public.items()
            if k == "function" and int(digest(n)[:8], 16) % KEPT == 0
        }
        words = {k.capitalize(): v.capitalize() for k, v in self.spec["words"].items()} | self.spec[
            "words"
        ]
        for old in self.public:
            word = WORD.sub(lambda m: words.get(m[0], m[0]), old)
            if (
                old not in kept
                and word not in used
                and word not in names.values()
                and word not in new
            ):
                names[old] = word
        return names

    def path(self, path: str) -> str:
        """A file's path under the new names."""
        return STEM.sub(lambda m: self.names.get(m[0], m[0]), path)

    def code(self, text: str, bare: bool = False) -> str:
        """Python under the new names; `bare`: a public function may be called without its module."""

        def new(match: re.Match[str]) -> str:
            prefix, quote, text, before, name, call = (m or "" for m in match.groups())
            if quote:
                return f"{prefix}{quote}{self._string(prefix.lower(), text)}{quote}"
            if name in self.moved and (before != "def " if bare else call and before == "."):
                other, first = self.moved[name]
                return before + other + call + (first if call else "")
            return before + self.names.get(name, name) + call if name else match[0]

        return TOKEN.sub(new, LISTED.sub(lambda m: renamed(m[0], self.names), text))

    def _string(self, prefix: str, text: str) -> str:
        """What stands between the quotes of a string."""
        if "f" in prefix:
            parts = FIELD.split(text)
            parts[::2], parts[1::2] = map(self.text, parts[::2]), map(self.code, parts[1::2])
            return "".join(parts)
        if text.isidentifier():  # without "_" it may be a key of data
            return self.names.get(text, text) if "_" in text or text in self.given else text
        return self.path(text) if re.fullmatch(r"[\w/]+\.py", text) else self.text(text)

    @cached_property
    def spans(self) -> re.Pattern[str]:
        """Code in a text: examples, in ticks, parameters in stars, the library's name and what it leads to,
        calls and what is no word of English, words that stand in a line alone or before a colon."""
        return re.compile(rf"""(?mx) ^[ \t]*>>>.*(?:\n[ \t]*\.\.\..*)*
            | (?P<ticks>`+)[^`\n]+?(?P=ticks)
            | (?<!\*)\*(?:{"|".join(self.given)})\*
            | \b(?:{"|".join({self.module, *self.spec["alias"]})})(?:\.\w+)*\b
            | \b(?=\w*(?:_|[a-z][A-Z]|\())[A-Za-z]\w*
            | (?<=\n)[ ]*\w+(?:,[ ]\w+)*(?=[ ]*:|\n)""")

    def text(self, text: str) -> str:
        """A text, such as a docstring, whose code alone is under the new names."""
        return self.spans.sub(lambda m: self.code(m[0], bare=True), text)

    def rewritten(self) -> dict[str, str]:
        """New path -> new text. UserError for a library without doctests."""
        if not any(">>> " in self.files[path] for path in self.trees):
            raise UserError(
                f"{self.name} has no doctests: nothing would show that its new names work"
            )
        return {self.path(path): self.code(t + self._added(path)) for path, t in self.files.items()}

    def _added(self, path: str) -> str:
        """What is added at a file's end, under the old names: what its functions are joined into."""
        body = self.trees[path].body if path in self.trees else []
        functions = {n.name: n for n in body if isinstance(n, ast.FunctionDef)}
        added = ""
        for row in self.spec.get("merged", ()):
            if cases := {
                case: functions[old] for case, old in row["apis"].items() if old in functions
            }:
                added += _merged(row, cases)
        for row in self.spec.get("gathered", ()):
            methods = [
                f"{method} = staticmethod({o})"
                for method, o in row["apis"].items()
                if o in functions
            ]
            added += (
                PROGRAMS["gathered"].format(**row, methods="\n    ".join(methods))
                if methods
                else ""
            )
        return added


def _merged(row: Mapping[str, Any], cases: Mapping[str, ast.FunctionDef]) -> str:
    """A function with the parameters of its first case, the summary of each, and the first's description."""
    docs = [(ast.get_docstring(node) or "").partition("\n\n") for node in cases.values()]
    about = [
        f'With ``{row["argument"]}="{case}"``: {doc[0]}'
        for case, doc in zip(cases, docs, strict=True)
    ]
    args = next(iter(cases.values())).args
    call = [a.arg for a in (*args.posonlyargs, *args.args)] + (
        [f"*{args.vararg.arg}"] if args.vararg else []
    )
    call += [f"{a.arg}={a.arg}" for a in args.kwonlyargs]
    return PROGRAMS["merged"].format(
        **row,
        signature=ast.unparse(args),
        about=indent("\n\n".join([*about, docs[0][2]]), "    ").strip(),
        values=" or ".join(f'"{case}"' for case in cases),
        choices=", ".join(f'"{case}": {node.name}' for case, node in cases.items()),
        call=", ".join(call),
    )


def library_of(name: str) -> Library:
    """A library of libraries.toml, with its tests. UserError where it is unknown or cannot be had."""
    package = LIBRARIES.get_or_fail(name)
    files = {
        p: t for p, t in package.files().items() if p.split("/")[0] in (package.sources[0], "tests")
    }
    return Library(name, SPECS[name], files, package.sources[0])


def make(name: str, output: Path, public: bool = False) -> Library:
    """Writes a library under its new names, or as it is. UserError where `output` exists."""
    if output.exists():
        raise UserError(f"{output} exists; name a directory that does not")
    library = library_of(name)
    texts, path = ({}, str) if public else (library.rewritten(), library.path)
    tree = LIBRARIES[name].tree
    tops = {p.split("/")[0] for p in library.files}
    for file in (f for top in tops for f in (tree / top).rglob("*") if f.is_file()):
        if file.suffix not in (".pyi", ".pyc"):
            new = path(file.relative_to(tree).as_posix())
            write_bytes(output / new, texts[new].encode() if new in texts else file.read_bytes())
    return library
