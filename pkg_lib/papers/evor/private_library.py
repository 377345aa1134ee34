"""A library that answers to new names alone. The text of this file runs in the sandbox before a program.

Each import, each attribute and each called function of a program goes through `Private`. So an object of
the library has the new names, and its errors report in new names that an old one does not exist.
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

# Methods that take functions by their names.
BY_TEXT = ("agg", "aggregate", "apply", "transform", "pivot_table", "map")
MOST = 1000  # characters of a message that are kept: a program may raise a megabyte
WORD = r"[^\W\d]\w*"
# Code in a message: what is quoted, called, reached by a dot, or a class.
SAID = re.compile(rf"'[\w.]+'|\"[\w.]+\"|{WORD}(?:\.\w+)*\(|(?<!\w){WORD}(?:\.\w+)+|\b[A-Z]\w+")
# Errors that name what the program itself wrote.
UNCHANGED_ERRORS = (SyntaxError, NameError, KeyError, OSError)


class Private:
    """Translates between the new names of a library and its own.

    Args:
        names: Public name -> new name.
        public: The library's own name.
        private: The library's new name.
    """

    def __init__(
        self,
        names: Mapping[str, str],
        public: str,
        private: str,
    ) -> None:
        self.new = names
        self.old = {new: old for old, new in names.items()}
        self.gone = names.keys() - names.values()
        self.public = public
        self.private = private

    def owns(self, thing: Any) -> bool:
        """Tell whether a value is the library's.

        Args:
            thing: Any value.

        Returns:
            Whether it is a module, class, function or method of the library, or of such a class.
        """
        owner = getattr(thing, "__self__", None)
        if owner is not None:
            thing = owner
        return self._has(thing) or self._has(type(thing))

    def _has(self, value: Any) -> bool:
        """Whether a module, class or function is defined in the library."""
        module = getattr(value, "__module__", None)
        if not module:
            module = getattr(value, "__name__", "")
        return str(module).partition(".")[0] == self.public

    def attribute(self, thing: Any, name: str) -> Any:
        """Return an attribute by its new name.

        Args:
            thing: Any value.
            name: The name in the program.

        Returns:
            Its value.

        Raises:
            AttributeError: The library has no such new name.
        """
        public = self.old.get(name, name)
        if not self.owns(thing):
            known = name if hasattr(thing, name) else public
            if hasattr(thing, known):
                return getattr(thing, known)
            return getattr(thing, name)  # raises as Python has it
        columns: Any = ()
        if not inspect.isclass(thing):
            columns = getattr(thing, "columns", ())
        if name not in self.gone or name in columns:
            # The authors' plain replacing also changed names that contain a renamed one.
            for known in (public, as_public(name, self.new)):
                if hasattr(thing, known):
                    return getattr(thing, known)
        message = f"{self.named(thing)} has no attribute '{name}'"
        raise own(AttributeError(message))

    def named(self, thing: Any) -> str:
        """Return how an error calls a module, a class or an object of the library.

        Args:
            thing: The module, class or object.
        """
        if inspect.ismodule(thing):
            name = self.renamed(thing.__name__)
            return f"module '{name}'"
        if inspect.isclass(thing):
            name = self.renamed(thing.__name__)
            return f"type object '{name}'"
        name = self.renamed(type(thing).__name__)
        return f"'{name}' object"

    def renamed(self, code: str) -> str:
        """Replace every public name in a piece of code by the new one.

        Args:
            code: The code.

        Returns:
            The code under new names.
        """
        return re.sub(WORD, lambda match: self.new.get(match[0], match[0]), code)

    def message(self, text: str) -> str:
        """Translate the code in a message.

        Args:
            text: An error's message.

        Returns:
            The message in new names.
        """
        return SAID.sub(lambda code: self.renamed(code[0]), text)

    def function(self, function: Any) -> Any:
        """Return a function of the library so that it takes its arguments by new names.

        Args:
            function: Any called value; one of another library is returned unchanged.
        """
        if self.owns(function):
            return partial(self.call, function)
        return function

    def call(
        self,
        function: Callable[..., Any],
        /,
        *args: Any,
        **named: Any,
    ) -> Any:
        """Call a function of the library.

        Args:
            function: The function.
            *args: Its arguments.
            **named: Its arguments by new names.

        Returns:
            What the function returns.

        Raises:
            TypeError: An argument has a name that was renamed.
        """
        called = getattr(function, "__name__", "")
        wrong = sorted(named.keys() & self.gone)
        if wrong:
            new_name = self.new.get(called, called)
            message = f"{new_name}() got an unexpected keyword argument '{wrong[0]}'"
            raise own(TypeError(message))
        positional = list(args)
        if called in BY_TEXT:
            for place, argument in enumerate(args):
                if isinstance(argument, str):
                    positional[place] = self.old.get(argument, argument)
        public = {}
        for name, value in named.items():
            public[self.old.get(name, name)] = value
        return function(*positional, **public)

    def imported(
        self,
        name: str,
        _of: Any = None,
        _in: Any = None,
        wanted: Any = (),
        _level: int = 0,
    ) -> Any:
        """Import a module by its new name, in place of ``__import__``.

        Args:
            name: Dotted name of the module.
            _of: Not used, as in ``__import__``.
            _in: Not used, as in ``__import__``.
            wanted: The names that the statement imports; empty for the module itself.
            _level: Not used, as in ``__import__``.

        Returns:
            The module, or what holds the wanted names.

        Raises:
            ModuleNotFoundError: The program imports the library by its old name.
        """
        if wanted == []:  # a C function of the library imports, which the program called to print
            return __import__(name, fromlist=wanted)
        first = name.partition(".")[0]
        is_renamed = self.public != self.private
        if is_renamed and first == self.public:
            message = f"No module named '{name}'"
            raise own(ModuleNotFoundError(message))
        if first == self.private:
            name = self.public + name.removeprefix(first)
        if not wanted:
            return __import__(name)
        module = importlib.import_module(name)
        if "*" in wanted:
            wanted = self._public_names(module)
        imported = SimpleNamespace()
        for new_name in wanted:
            value = self.attribute(module, new_name)
            setattr(imported, new_name, value)
        return imported

    def _public_names(self, module: Any) -> list[str]:
        """The names that a star import of a module gives."""
        names = [name for name in dir(module) if name[0] != "_"]
        if not self.owns(module):
            return names
        return [self.new.get(name, name) for name in names]


class Rewriting(ast.NodeTransformer):
    """Makes a program ask `_private` for each attribute and each called function."""

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Replace an attribute that is read.

        Args:
            node: The attribute.

        Returns:
            A call that returns the attribute; the node itself if it is assigned to or deleted.
        """
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load):
            return node
        name = ast.Constant(node.attr)
        return asked(node, "attribute", [node.value, name])

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Replace the function of a call.

        Args:
            node: The call.

        Returns:
            The node, whose function is asked for.
        """
        self.generic_visit(node)
        node.func = asked(node.func, "function", [node.func])
        return node


def asked(
    node: ast.expr,
    method: str,
    arguments: list[ast.expr],
) -> ast.expr:
    """Return a call of a method of `_private` in place of a node.

    Args:
        node: The node.
        method: The method.
        arguments: The arguments of the call.
    """
    private = ast.Name("_private", ast.Load())
    function = ast.Attribute(private, method, ast.Load())
    call = ast.Call(function, arguments, [])
    return ast.copy_location(call, node)


def own(error: Exception) -> Exception:
    """Mark an error that is not translated, since it names something that has no new name.

    Args:
        error: The error.

    Returns:
        The same error.
    """
    error.own = True  # type: ignore[attr-defined]
    return error


def load(
    program: str,
    calls: Sequence[str],
    names: Mapping[str, str],
    public: str,
    private: str,
) -> dict[str, Any]:
    """Run a program against the library under new names, and calls after it.

    Args:
        program: The program.
        calls: The calls.
        names: Public name -> new name.
        public: The library's own name.
        private: The library's new name.

    Returns:
        What the program defined, by public names.

    Raises:
        Exception: What the program raises, reported in new names.
    """
    library = Private(names, public, private)
    builtin = dict(vars(builtins))
    for old, new in names.items():  # the new names of Python's own functions work as well
        if hasattr(builtins, old):
            builtin[new] = getattr(builtins, old)
    builtin["__import__"] = library.imported
    space = {
        "__name__": "__main__",
        "__builtins__": builtin,
        "_private": library,
    }
    texts = [("<draft>", program)]
    texts += [("<call>", call) for call in calls]
    try:
        for file, text in texts:
            tree = Rewriting().visit(ast.parse(text, file))
            tree = ast.fix_missing_locations(tree)
            exec(compile(tree, file, "exec"), space)
    except Exception as error:
        is_translated = not isinstance(error, UNCHANGED_ERRORS) and not hasattr(error, "own")
        if is_translated:
            message = str(error)[:MOST]
            error.args = (library.message(message),)
        raise
    defined = {}
    for name, value in space.items():
        if name[0] != "_":
            defined[as_public(name, names)] = value
    return defined


def as_public(text: str, names: Mapping[str, str]) -> str:
    """Replace every new name by the public one, longest first, wherever it is in the text.

    Args:
        text: A program.
        names: Public name -> new name.

    Returns:
        The program under public names.
    """
    longest_first = sorted(names.items(), key=lambda pair: -len(pair[1]))
    for old, new in longest_first:
        text = text.replace(new, old)
    return text
