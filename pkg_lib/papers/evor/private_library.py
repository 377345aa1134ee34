"""A library that is reached by new names alone; the text of this file runs in the sandbox, before a program.

What a program imports, each attribute that it takes and each function that it calls is asked of `Private`, so
that an object of the library answers to new names and says in their words that an old one does not exist.
Everything else is as Python has it.
"""

import ast
import builtins
import importlib
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

BY_TEXT = {
    "agg",
    "aggregate",
    "apply",
    "transform",
    "pivot_table",
    "map",
}  # take functions by their names
MOST = 1000  # characters of a message that are kept: a program may raise a megabyte
WORD = r"[^\W\d]\w*"
# Code in a message: what is quoted, called, reached by a dot, or a class.
SAID = re.compile(rf"'[\w.]+'|\"[\w.]+\"|{WORD}(?:\.\w+)*\(|(?<!\w){WORD}(?:\.\w+)+|\b[A-Z]\w+")


class Private:
    """`names` maps public names to new ones; `public` and `private` are the library's own."""

    def __init__(self, names: Mapping[str, str], public: str, private: str) -> None:
        self.new, self.old = names, {new: old for old, new in names.items()}
        self.gone = names.keys() - names.values()
        self.public, self.private = public, private

    def owns(self, thing: Any) -> bool:
        """Whether it is the library's: a module, class, function or method, or an object of such a class."""
        owner = getattr(thing, "__self__", None)
        thing = thing if owner is None else owner
        names = (
            getattr(t, "__module__", None) or getattr(t, "__name__", "")
            for t in (thing, type(thing))
        )
        return any(str(name).partition(".")[0] == self.public for name in names)

    def attribute(self, thing: Any, name: str) -> Any:
        owned, public = self.owns(thing), self.old.get(name, name)
        # Names that only hold a renamed one were changed, too, by the authors' plain replacing.
        known_as = (public, as_public(name, self.new)) if owned else (name, public)
        columns = () if inspect.isclass(thing) else getattr(thing, "columns", ())
        gone = owned and name in self.gone and name not in columns
        found = None if gone else next((n for n in known_as if hasattr(thing, n)), None)
        if found is None and owned:
            raise own(AttributeError(f"{self.named(thing)} has no attribute '{name}'"))
        return getattr(thing, found or name)

    def named(self, thing: Any) -> str:
        """How an error calls a module, a class or an object of the library."""
        kind = (
            "module "
            if inspect.ismodule(thing)
            else "type object "
            if inspect.isclass(thing)
            else ""
        )
        name = thing.__name__ if kind else type(thing).__name__
        return f"{kind}'{re.sub(WORD, lambda m: self.new.get(m[0], m[0]), name)}'{'' if kind else ' object'}"

    def function(self, function: Any) -> Any:
        """A function of the library that takes its arguments by new names; another one as it is."""
        return partial(self.call, function) if self.owns(function) else function

    def call(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        called = getattr(function, "__name__", "")
        if wrong := sorted(named.keys() & self.gone):
            about = (
                f"{self.new.get(called, called)}() got an unexpected keyword argument '{wrong[0]}'"
            )
            raise own(TypeError(about))
        if called in BY_TEXT:
            args = tuple(self.old.get(a, a) if isinstance(a, str) else a for a in args)
        return function(*args, **{self.old.get(name, name): value for name, value in named.items()})

    def imported(
        self, name: str, _of: Any = None, _in: Any = None, wanted: Any = (), _level: int = 0
    ) -> Any:
        """What an import statement gets in place of `__import__`'s: `wanted` of a module, or all of it."""
        first = name.partition(".")[0]
        if (
            wanted == []
        ):  # no statement but a C function of the library, called by the program: to print
            return __import__(name, fromlist=wanted)
        if first == self.public != self.private:
            raise own(ModuleNotFoundError(f"No module named '{name}'"))
        if first == self.private:
            name = self.public + name.removeprefix(first)
        if not wanted:
            return __import__(name)
        module = importlib.import_module(name)
        if "*" in wanted:
            new = self.new if self.owns(module) else {}
            wanted = [new.get(n, n) for n in dir(module) if n[0] != "_"]
        return SimpleNamespace(**{n: self.attribute(module, n) for n in wanted})


class Rewriting(ast.NodeTransformer):
    """A program that asks `_private` for each attribute and each function."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        loaded = isinstance(node.ctx, ast.Load)
        return asked(node, "attribute", node.value, ast.Constant(node.attr)) if loaded else node

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        node.func = asked(node.func, "function", node.func)
        return node


def asked(node: ast.expr, method: str, *args: ast.expr) -> ast.expr:
    """A call of a method of `_private` in a node's place."""
    function = ast.Attribute(ast.Name("_private", ast.Load()), method, ast.Load())
    return ast.copy_location(ast.Call(function, [*args], []), node)


def own(error: Exception) -> Exception:
    """Marks an error that is not to be translated: it names what is no name here."""
    error.own = True  # type: ignore[attr-defined]
    return error


def load(
    program: str, calls: Sequence[str], names: Mapping[str, str], public: str, private: str
) -> dict[str, Any]:
    """What a program that ran, and calls after it, defined, by public names; errors speak of the new ones."""
    library = Private(names, public, private)
    # The new names of what Python has built in hold as well.
    known = {new: getattr(builtins, old) for old, new in names.items() if hasattr(builtins, old)}
    builtin = vars(builtins) | known | {"__import__": library.imported}
    space = {"__name__": "__main__", "__builtins__": builtin, "_private": library}
    try:
        for name, text in (("<draft>", program), *(("<call>", call) for call in calls)):
            tree = Rewriting().visit(ast.parse(text, name))
            exec(compile(ast.fix_missing_locations(tree), name, "exec"), space)
    except Exception as error:
        if not isinstance(error, SyntaxError | NameError | KeyError | OSError) and not hasattr(
            error, "own"
        ):
            swap = lambda m: re.sub(WORD, lambda word: names.get(word[0], word[0]), m[0])  # noqa: E731
            error.args = (SAID.sub(swap, str(error)[:MOST]),)
        raise
    return {as_public(name, names): value for name, value in space.items() if name[0] != "_"}


def as_public(text: str, names: Mapping[str, str]) -> str:
    """Every new name as the public one, longest first, wherever it stands in the text."""
    for old, new in sorted(names.items(), key=lambda pair: -len(pair[1])):
        text = text.replace(new, old)
    return text
