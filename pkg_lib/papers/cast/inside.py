"""Run single tests of a package that is imported from memory.

The sandbox and the tracer execute this file beside the package under test. Its text is sent with
every job (function_bodies.py), so it uses the standard library alone.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import sys
import types
import unittest
from collections.abc import Iterator

ROOT = "/package/"  # precedes a file's path in tracebacks; no such directory exists


class Modules(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports Python files from memory.

    Attributes:
        texts: Module name -> path and source.
    """

    def __init__(self, files: dict[str, str]) -> None:
        self.texts: dict[str, tuple[str, str]] = {}
        for path, text in files.items():
            module = path.removesuffix(".py").removesuffix("/__init__")
            self.texts[module.replace("/", ".")] = (path, text)
        for name in list(self.texts):
            parent, _, _ = name.rpartition(".")
            while parent:
                folder = parent.replace(".", "/")
                empty = (f"{folder}/__init__.py", "")
                self.texts.setdefault(parent, empty)
                parent, _, _ = parent.rpartition(".")

    def find_spec(self, fullname: str, *place: object) -> importlib.machinery.ModuleSpec | None:
        """Find a module.

        Args:
            fullname: Dotted name of the module.
            *place: Where Python would search, which is ignored.

        Returns:
            Its specification; None for a module that was not given.
        """
        if fullname not in self.texts:
            return None
        path, _ = self.texts[fullname]
        spec = importlib.machinery.ModuleSpec(
            name=fullname,
            loader=self,
            origin=ROOT + path,
            is_package=self.is_package(fullname),
        )
        spec.has_location = True
        return spec

    def is_package(self, fullname: str) -> bool:
        """Tell packages from other modules.

        Args:
            fullname: Dotted name of the module.

        Returns:
            Whether the module is a package.
        """
        path, _ = self.texts[fullname]
        return path.endswith("/__init__.py")

    def get_source(self, fullname: str) -> str:
        """Look up a module.

        Args:
            fullname: Dotted name of the module.

        Returns:
            Its source.
        """
        _, text = self.texts[fullname]
        return text

    def get_code(self, fullname: str) -> types.CodeType:
        """Compile a module.

        Args:
            fullname: Dotted name of the module.

        Returns:
            Its code, whose file name starts with ROOT.
        """
        path, text = self.texts[fullname]
        return compile(text, ROOT + path, "exec", dont_inherit=True)


def install(files: dict[str, str]) -> Modules:
    """Make files importable, before modules that are installed under the same names.

    Args:
        files: Source of each file by path.

    Returns:
        The finder that imports them.
    """
    modules = Modules(files)
    sys.meta_path.insert(0, modules)
    return modules


def names(module: types.ModuleType) -> Iterator[str]:
    """Find the tests of a module, in its order.

    Args:
        module: An imported module of tests.

    Yields:
        "module:Class.method" and "module:function", without functions that take parameters.
    """
    module_name = module.__name__
    loader = unittest.TestLoader()
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and value.__module__ == module_name:
            if issubclass(value, unittest.TestCase) or name.startswith("Test"):
                for method in loader.getTestCaseNames(value):
                    yield f"{module_name}:{name}.{method}"
        elif name.startswith("test") and inspect.isfunction(value):
            parameters = inspect.signature(value).parameters
            yield from [] if parameters else [f"{module_name}:{name}"]


def run(test: str) -> None:
    """Run one test.

    Args:
        test: A name as `names` returns it.

    Raises:
        Exception: Whatever makes the test fail; unittest.SkipTest if it is skipped.
    """
    module, _, name = test.partition(":")
    owner, _, method = name.partition(".")
    value = vars(importlib.import_module(module))[owner]
    if not method:
        value()
    elif issubclass(value, unittest.TestCase):
        value.setUpClass()
        value(method).debug()
        value.tearDownClass()
    else:
        getattr(value(), method)()


def run_all(tests: list[str]) -> bool:
    """Run tests until one fails.

    Args:
        tests: Names as `names` returns them.

    Returns:
        True if every test passed; a failing one raises.
    """
    for test in tests:
        run(test)
    return True
