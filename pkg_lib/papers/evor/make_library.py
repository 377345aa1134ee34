"""Makes a library that no model knows: a pinned pure-Python library under other names, by rule.

Every identifier that is a public name gets a synonym for each of its words (libraries.toml), in every file
and file name at once, so that the program stays the same program. Left as they are: a name whose synonym the
library uses already, one that is an attribute of Python's or numpy's own objects, and one function in KEPT,
chosen by hash. Some functions are joined into one with a further first argument, and some into a class.
Docstrings change in code alone: examples, what stands in backticks, names of parameters, See Also. Not made
anew: comments, type stubs (.pyi, left out) and data files.
"""

import ast
import builtins
import importlib
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from textwrap import indent
from typing import Any

from pkg_lib.core.registry import Registry
from pkg_lib.core.store import write_bytes
from pkg_lib.core.types import UserError, digest
from pkg_lib.data.packages import PACKAGES, PINNED, Package

HERE = Path(__file__).parent
SPECS: dict[str, dict[str, Any]] = tomllib.loads((HERE / "libraries.toml").read_text("utf8"))
PROGRAMS: dict[str, str] = tomllib.loads((HERE / "programs.toml").read_text("utf8"))
_NETWORKX = {k: tuple(v) if isinstance(v, list) else v for k, v in PINNED["library"][0].items()}
LIBRARIES: Registry[Package] = Registry("library", (Package(**_NETWORKX), PACKAGES["more-itertools"]))
KEPT = 5  # one of so many functions keeps its name
WORD = re.compile(r"NetworkX|[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+|.")
NAME = re.compile(r"[A-Za-z_]\w*")
PLAIN = (tokenize.NL, tokenize.COMMENT)
BREAKS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
STRING_OR_COMMENT = re.compile(
    r'("""|\'\'\').*?(?<!\\)\1|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*', re.DOTALL
)
IMPORTED = re.compile(r"^\s*(?:from|import)\s+([\w.]+)", re.MULTILINE)
FIELD = re.compile(r"\{\{|\}\}|\{((?:[^{}]|\{[^{}]*\})*)\}")  # of an f-string
LISTED = ("@", "__all__", "__slots__")  # what begins a statement whose strings are names
NUMPY = ("numpy", "numpy.linalg", "numpy.random")


@dataclass(frozen=True)
class Library:
    """The files of a library (path -> text of its Python) and what libraries.toml says of it."""

    name: str
    spec: Mapping[str, Any]
    files: Mapping[str, str]
    module: str = ""

    @cached_property
    def trees(self) -> dict[str, ast.Module]:
        """Path -> syntax tree of the library's own files."""
        return {p: ast.parse(t) for p, t in self.files.items() if not is_test(p)}

    @cached_property
    def public(self) -> dict[str, str]:
        """Public name -> its kind: module, class, or function (methods and properties too)."""
        found: dict[str, str] = {}
        for path, tree in self.trees.items():
            parts = [p.removesuffix(".py") for p in PurePosixPath(path).parts]
            found |= {p: "module" for p in parts if p[0] != "_" and p not in found}
            for node in tree.body:
                inner = node.body if isinstance(node, ast.ClassDef) and node.name[0] != "_" else []
                for n in (node, *inner):
                    if isinstance(n, ast.ClassDef | ast.FunctionDef) and n.name[0] != "_":
                        found[n.name] = "class" if isinstance(n, ast.ClassDef) else "function"
        return dict(sorted(found.items()))

    @cached_property
    def bare(self) -> list[str]:
        """The files, tests included, without strings and comments."""
        return [STRING_OR_COMMENT.sub("", text) for text in self.files.values()]

    @cached_property
    def used(self) -> set[str]:
        """Every identifier in the files and their paths."""
        return {name for text in (*self.bare, *self.files) for name in NAME.findall(text)}

    @cached_property
    def foreign(self) -> set[str]:
        """Attributes of Python's own objects, of the modules that the files import, and of numpy."""
        imported = {name for text in self.bare for name in IMPORTED.findall(text)} | set(NUMPY)
        known = {*sys.stdlib_module_names, "numpy"}
        found: set[str] = set()
        for module in [builtins, *_modules(sorted(m for m in imported if m.split(".")[0] in known))]:
            found |= set(dir(module))
            found |= {a for value in vars(module).values() if isinstance(value, type) for a in dir(value)}
        return found

    @cached_property
    def joined(self) -> dict[str, tuple[str, str]]:
        """Function -> (the function that it becomes a case of, the case)."""
        rows = self.spec.get("merged", ())
        return {old: (row["name"], case) for row in rows for case, old in row["apis"].items()}

    @cached_property
    def gathered(self) -> dict[str, str]:
        """Function -> "Class.method" that it becomes."""
        row = self.spec.get("gathered", {"apis": {}})
        return {old: f"{row['name']}.{method}" for method, old in row["apis"].items()}

    @cached_property
    def names(self) -> dict[str, str]:
        """Old identifier -> new one. UserError where names that are given, not found by words, collide."""
        top, spec = self.spec["module"], self.spec
        own = [row["name"] for row in (*spec.get("merged", ()), spec.get("gathered", {})) if row]
        given = {self.module: top} | spec["alias"] | spec["parameters"]
        private = {old: f"{old}_" for old in (*self.joined, *self.gathered)}
        wanted = [*given.values(), *own, *private.values()]
        if taken := sorted({n for n in wanted if n in self.used or wanted.count(n) > 1}):
            raise UserError(f"{self.name}: names that collide: {', '.join(taken)}; mend libraries.toml")
        if lost := sorted(private.keys() - self.public.keys()):
            raise UserError(f"{self.name} has no {', '.join(lost)}; mend libraries.toml")
        names, new = given | private, set(wanted)
        for old, kind in self.public.items():
            kept = old in spec["keep"] or old in spec["skip"] or old in names or old in self.foreign
            if kept or (kind == "function" and int(digest(old)[:8], 16) % KEPT == 0):
                continue
            word = "".join(self._word(w) for w in WORD.findall(old))
            if word != old and word not in self.used and word not in new:
                names[old] = word
                new.add(word)
        return names

    def _word(self, word: str) -> str:
        if word in self.spec["camel"]:
            return self.spec["camel"][word]
        other = self.spec["words"].get(word.lower(), word)
        return other if word.islower() or other is word else other.capitalize()

    def rewritten(self) -> dict[str, str]:
        """New path -> new text. UserError for a library without doctests."""
        strings = (n.value for t in self.trees.values() for n in ast.walk(t) if isinstance(n, ast.Constant))
        if not any(isinstance(text, str) and ">>> " in text for text in strings):
            raise UserError(f"{self.name} has no doctests: nothing would show that its new names work")
        rewriter = Rewriter(self)
        added = self._added()
        return {rewriter.path(p): rewriter.code(t + added.get(p, "")) for p, t in self.files.items()}

    def _added(self) -> dict[str, str]:
        """Path -> what is added at its end, under the old names."""
        nodes = ((p, n) for p, t in self.trees.items() for n in t.body)
        place = {n.name: (p, n) for p, n in nodes if isinstance(n, ast.FunctionDef)}
        added: dict[str, str] = {}
        for row in self.spec.get("merged", ()):
            cases = {case: place[old][1] for case, old in row["apis"].items()}
            path, first = place[next(iter(row["apis"].values()))]
            heads = {case: (ast.get_docstring(n) or "").partition("\n\n") for case, n in cases.items()}
            about = [f'With ``{row["argument"]}="{case}"``: {head}' for case, (head, _, _) in heads.items()]
            before, _, rest = next(iter(heads.values()))[2].partition("Parameters\n----------\n")
            about += [before.strip("\n")]
            a = first.args
            call = [x.arg for x in (*a.posonlyargs, *a.args)] + ([f"*{a.vararg.arg}"] if a.vararg else [])
            call += [f"{x.arg}={x.arg}" for x in a.kwonlyargs]
            added[path] = added.get(path, "") + PROGRAMS["merged"].format(
                name=row["name"],
                argument=row["argument"],
                signature=ast.unparse(a),
                mark="r" if "\\" in str(heads) else "",
                about=indent("\n\n".join(about), "    ").strip(),
                rest=indent(rest, "    ").strip(),
                values=" or ".join(f'"{case}"' for case in cases),
                choices="{" + ", ".join(f'"{case}": {n.name}' for case, n in cases.items()) + "}",
                call=", ".join(call),
            )
        if row := self.spec.get("gathered"):
            path, _ = place[next(iter(row["apis"].values()))]
            methods = "\n".join(f"    {method} = staticmethod({old})" for method, old in row["apis"].items())
            added[path] = added.get(path, "") + PROGRAMS["gathered"].format(**row | {"methods": methods})
        return added


class Rewriter:
    """Rewrites texts of one library: Python by token, docstrings by line."""

    def __init__(self, library: Library) -> None:
        self.names, self.joined, self.gathered = library.names, library.joined, library.gathered
        self.tops = {library.module, *library.spec["alias"]}
        self.given = self.tops | library.spec["parameters"].keys()
        shown = {old: new for old, (new, _) in self.joined.items()} | self.gathered
        self.shown = self.names | shown  # in prose: what stands for a function that is private now
        self.classes = {o for o, kind in library.public.items() if kind == "class"} | {library.module}
        dotted = rf"(?P<dotted>\b(?:{'|'.join(sorted(self.tops))})(?:\.\w+)+)"
        ticked = r"(?<!:math:)(?P<tick>`+|(?<!\*)\*(?=\w+\*))(?P<ticked>[^`\n]+?)(?P=tick)"
        self.places = re.compile(rf"{ticked}|{dotted}|(?P<name>\b[A-Za-z]\w*\b)(?P<call>\()?")

    def path(self, path: str) -> str:
        stem, dot, suffix = path.partition(".")
        return "/".join(self.names.get(part, part) for part in stem.split("/")) + dot + suffix

    def code(self, text: str, bare: bool = False) -> str:
        """Python under the new names; `bare`: the public functions are called without their module."""
        starts = [0]
        for line in io.StringIO(text):
            starts.append(starts[-1] + len(line))
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        tokens = [t for t in tokens if t.type not in PLAIN]
        pieces, last, head, opened = [], 0, "", ""
        for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], tokens[-1]], strict=False):
            fresh = before is None or before.type in BREAKS
            head = token.string if fresh and token.type not in BREAKS else head
            new = token.string
            if token.type == tokenize.NAME:
                reached = after.string == "(" and ((before is not None and before.string == ".") or bare)
                new, opened = self._name(token.string, before.string if before else "", reached, bare)
            elif opened:
                new, opened = token.string + opened, ""
            elif token.type == tokenize.STRING:
                alone = fresh and after.type == tokenize.NEWLINE
                new = self._string(token.string, alone, head in LISTED)
            if new != token.string:
                start, end = (starts[row - 1] + column for row, column in (token.start, token.end))
                pieces += [text[last:start], new]
                last = end
        return "".join(pieces) + text[last:]

    def _name(self, name: str, before: str, called: bool, bare: bool) -> tuple[str, str]:
        """(the new name, what follows the parenthesis that it opens)."""
        if name in self.joined and called and before != "def":
            new, case = self.joined[name]
            return new, f'"{case}", '
        if name in self.gathered and (before == "." or bare) and before not in ("def", "import"):
            return self.gathered[name], ""
        return self.names.get(name, name), ""

    def _string(self, token: str, docstring: bool, listed: bool) -> str:
        match = re.fullmatch(r"(\w*)(\"{3}|'{3}|\"|')(.*)\2", token, re.DOTALL)
        prefix, quote, text = match.groups() if match else ("b", "", "")
        if "b" in prefix.lower():
            return token
        if "f" in prefix.lower():
            text = self._formatted(text)
        elif docstring:
            text = self._docstring(text)
        elif listed and re.fullmatch(r"[\w, ]+", text):
            text = NAME.sub(lambda m: self.names.get(m[0], m[0]), text)
        elif text.isidentifier():
            sure = "_" in text or text in self.given  # else it may be a key of data
            text = self.names.get(text, text) if sure else text
        elif re.fullmatch(r"[\w/]+\.py", text):
            text = self.path(text)
        else:
            text = self._prose(text)
        return f"{prefix}{quote}{text}{quote}"

    def _formatted(self, text: str) -> str:
        """The text of an f-string: what stands in braces is code."""
        pieces, last = [], 0
        for field in FIELD.finditer(text):
            code = field[0] if field[1] is None else "{" + self.code(f"({field[1]})")[1:-1] + "}"
            pieces += [self._prose(text[last : field.start()]), code]
            last = field.end()
        return "".join(pieces) + self._prose(text[last:])

    def _docstring(self, text: str) -> str:
        lines, out, i, section, depth = text.split("\n"), [], 0, "", 0
        while i < len(lines):
            line = lines[i]
            indent = len(line) - len(line.lstrip())
            if line.lstrip().startswith(">>>"):
                block = [line]
                while len(block) + i < len(lines) and lines[i + len(block)][indent:].startswith("..."):
                    block.append(lines[i + len(block)])
                out += self._example(block, indent)
                i += len(block)
                while i < len(lines) and lines[i].strip() and not lines[i].lstrip().startswith(">>>"):
                    out.append(self._printed(lines[i]))
                    i += 1
                continue
            if i + 1 < len(lines) and re.fullmatch(r"\s*-{3,}\s*", lines[i + 1]):
                section, depth = line.strip(), indent
            parameter = re.fullmatch(r"\s*\*{0,2}\w+(?:, *\*{0,2}\w+)*(\s*:.*)?", line)
            if indent == depth and section in ("Parameters", "Other Parameters", "See Also") and parameter:
                head, colon, rest = line.partition(":")
                line = NAME.sub(lambda m: self.shown.get(m[0], m[0]), head) + colon + self._prose(rest)
            else:
                line = self._prose(line)
            out.append(line)
            i += 1
        return "\n".join(out)

    def _example(self, block: list[str], indent: int) -> list[str]:
        """The lines of one doctest example."""
        marks, texts = [b[: indent + 4] for b in block], [b[indent + 4 :] for b in block]
        with suppress(tokenize.TokenError, IndentationError):
            new = self.code("\n".join(texts) + "\n", bare=True).split("\n")
            return [mark + text for mark, text in zip(marks, new, strict=False)]
        return block

    def _printed(self, line: str) -> str:
        """A line that an example prints: names of classes and modules alone, the rest may be data."""
        return NAME.sub(lambda m: self.names.get(m[0], m[0]) if m[0] in self.classes else m[0], line)

    def _prose(self, text: str) -> str:
        """Text with code in it: in backticks, after the library's name, called, or no word of English."""

        def replaced(match: re.Match[str]) -> str:
            if match["name"]:
                name = match["name"]
                code = "_" in name or match["call"] or name in self.tops or re.search(r"[a-z][A-Z]", name)
                return (self.shown.get(name, name) if code else name) + (match["call"] or "")
            code = match["ticked"] or match["dotted"]
            emphasis = match["tick"] == "*" and code not in self.given  # but a parameter's name may stand so
            new = code if emphasis else NAME.sub(lambda m: self.shown.get(m[0], m[0]), code)
            return f"{match['tick'] or ''}{new}{match['tick'] or ''}"

        return self.places.sub(replaced, text)


def _modules(names: Iterable[str]) -> Iterator[Any]:
    for name in names:
        with suppress(ImportError):
            yield importlib.import_module(name)


def is_test(path: str) -> bool:
    return "tests" in PurePosixPath(path).parts or path.endswith("conftest.py")


def library_of(name: str) -> Library:
    """A library of libraries.toml, with its tests. UserError where it is unknown or cannot be had."""
    package = LIBRARIES.get_or_fail(name)
    places = (package.sources[0], *(["tests"] if (package.tree / "tests").is_dir() else []))
    files = {p: t for p, t in package.files().items() if p.split("/")[0] in places}
    return Library(name, SPECS[name], files, package.sources[0])


def make(name: str, output: Path) -> Library:
    """Writes a library under its new names. UserError where `output` exists."""
    package = LIBRARIES.get_or_fail(name)
    if output.exists():
        raise UserError(f"{output} exists; name a directory that does not")
    library = library_of(name)
    texts, path = library.rewritten(), Rewriter(library).path
    for top in sorted({p.split("/")[0] for p in library.files}):
        for file in sorted((package.tree / top).rglob("*")):
            if file.is_file() and file.suffix not in (".pyi", ".pyc"):
                new = path(file.relative_to(package.tree).as_posix())
                write_bytes(output / new, texts[new].encode() if new in texts else file.read_bytes())
    return library
