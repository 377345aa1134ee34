"""A library that is reached by new names alone; the text of this file runs in the sandbox, before a program.

Each attribute, call and import of the program is rewritten, so that an object of the library answers to new
names and says in their words that an old one does not exist. Everything else is as Python has it.
"""

import ast
import builtins
import importlib
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

BY_TEXT = {"agg", "aggregate", "apply", "transform", "pivot_table", "map"}  # take functions by their names
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
        for about in (thing, type(thing)):
            name = getattr(about, "__module__", None) or getattr(about, "__name__", "")
            if isinstance(name, str) and name.partition(".")[0] == self.public:
                return True
        return False

    def attribute(self, thing: Any, name: str) -> Any:
        if not self.owns(thing):
            return getattr(thing, name if hasattr(thing, name) else self.old.get(name, name))
        if name in self.gone and name not in getattr(thing, "columns", ()):
            kind = type(thing).__name__
            module, kind = f"module '{self.private}'", f"'{self.new.get(kind, kind)}' object"
            whose = module if hasattr(thing, "__path__") else kind
            raise own(AttributeError(f"{whose} has no attribute '{name}'"))
        public = self.old.get(name, name)
        # Names that only hold a renamed one were changed, too, by the authors' plain replacing.
        return getattr(thing, public if hasattr(thing, public) else as_public(public, self.new))

    def set_attribute(self, thing: Any, name: str, value: Any) -> None:
        setattr(thing, self.old.get(name, name) if self.owns(thing) else name, value)

    def function(self, function: Any) -> Any:
        """A function of the library that takes its arguments by new names."""
        return partial(self.call, function) if self.owns(function) else function

    def call(self, function: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        called = getattr(function, "__name__", "")
        if wrong := sorted(named.keys() & self.gone):
            about = f"{self.new.get(called, called)}() got an unexpected keyword argument '{wrong[0]}'"
            raise own(TypeError(about))
        if called in BY_TEXT:
            args = tuple(self.old.get(a, a) if isinstance(a, str) else a for a in args)
        return function(*args, **{self.old.get(name, name): value for name, value in named.items()})

    def module(self, name: str, last: bool = False) -> Any:
        """The module that an import statement names, or, unless `last`, the package that it begins with."""
        first = name.partition(".")[0]
        if first == self.public:
            raise own(ModuleNotFoundError(f"No module named '{name}'"))
        if first == self.private:
            name = ".".join(self.old.get(part, part) for part in name.split("."))
        whole = importlib.import_module(name)
        return whole if last else importlib.import_module(name.partition(".")[0])

    def translated(self, error: Exception) -> Exception:
        """The same error in new names, where it speaks of code; its lines stay."""
        if isinstance(error, SyntaxError | KeyError | OSError) or hasattr(error, "own"):
            return error
        swap = lambda m: re.sub(WORD, lambda word: self.new.get(word[0], word[0]), m[0])  # noqa: E731
        error.args = (SAID.sub(swap, str(error)),)
        return error


class Rewriting(ast.NodeTransformer):
    """A program that asks `_private` for each attribute, function and module."""

    def visit(self, node: ast.AST) -> Any:
        made = super().visit(node)
        for new in made if isinstance(made, list) else [made]:
            if new is not node:
                ast.copy_location(new, node)
        return made

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        loads = isinstance(node.ctx, ast.Load)
        return asked("attribute", node.value, ast.Constant(node.attr)) if loads else node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        target = node.targets[0]
        if len(node.targets) > 1 or not isinstance(target, ast.Attribute):
            return node
        return ast.Expr(asked("set_attribute", target.value, ast.Constant(target.attr), node.value))

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        node.func = asked("function", node.func)
        return node

    def visit_Import(self, node: ast.Import) -> list[ast.stmt]:
        return [
            bound(a.asname or a.name.partition(".")[0], asked("module", *constants(a.name, bool(a.asname))))
            for a in node.names
        ]

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        if not node.module or node.level or any(a.name == "*" for a in node.names):
            return node
        module = asked("module", *constants(node.module, True))
        return [bound(a.asname or a.name, asked("attribute", module, *constants(a.name))) for a in node.names]


def own(error: Exception) -> Exception:
    """Marks an error that speaks of new names as it is: what it names may be an old one."""
    error.own = True  # type: ignore[attr-defined]
    return error


def asked(method: str, *args: ast.expr) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name("_private", ast.Load()), method, ast.Load()), [*args], [])


def constants(*values: Any) -> list[ast.expr]:
    return [ast.Constant(v) for v in values]


def bound(name: str, value: ast.expr) -> ast.stmt:
    return ast.Assign([ast.Name(name, ast.Store())], value)


def load(
    program: str, calls: tuple[str, ...], names: Mapping[str, str], public: str, private: str
) -> dict[str, Any]:
    """The namespace of a program that ran, with calls after it; errors speak of the new names."""
    library = Private(names, public, private)
    # The new names of what Python has built in hold as well.
    known = {new: getattr(builtins, old) for old, new in names.items() if hasattr(builtins, old)}
    space = {"__name__": "__main__", "_private": library, **known}
    try:
        for name, text in (("<draft>", program), *(("<call>", call) for call in calls)):
            tree = ast.fix_missing_locations(Rewriting().visit(ast.parse(text, name)))
            exec(compile(tree, name, "exec"), space)
    except Exception as error:  # noqa: BLE001
        raise library.translated(error) from None
    return space


def as_public(text: str, names: Mapping[str, str]) -> str:
    """Every new name as the public one, longest first, wherever it stands in the text."""
    for old, new in sorted(names.items(), key=lambda pair: -len(pair[1])):
        text = text.replace(new, old)
    return text
