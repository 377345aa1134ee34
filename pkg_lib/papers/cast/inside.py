"""Runs beside the package under test, in sandbox and tracer: modules from memory, single tests by name.

Its text travels with every job (function_bodies.py), as the package's does: standard library alone.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import sys
import types
import unittest
from collections.abc import Iterator

ROOT = "/package/"  # what stands before a file's path in tracebacks; no such directory exists


class Modules(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Imports Python files that are given as path -> text."""

    def __init__(self, files: dict[str, str]) -> None:
        self.texts: dict[str, tuple[str, str]] = {}
        for path, text in files.items():
            parts = path.removesuffix(".py").split("/")
            self.texts[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = (path, text)
        for name in list(self.texts):
            while name := name.rpartition(".")[0]:
                self.texts.setdefault(name, (name.replace(".", "/") + "/__init__.py", ""))

    def find_spec(self, fullname: str, *place: object) -> importlib.machinery.ModuleSpec | None:
        if fullname not in self.texts:
            return None
        spec = importlib.util.spec_from_loader(
            fullname, self, origin=ROOT + self.texts[fullname][0]
        )
        spec.has_location = True
        return spec

    def is_package(self, fullname: str) -> bool:
        return self.texts[fullname][0].endswith("/__init__.py")

    def get_source(self, fullname: str) -> str:
        return self.texts[fullname][1]

    def get_code(self, fullname: str) -> types.CodeType:
        path, text = self.texts[fullname]
        return compile(text, ROOT + path, "exec", dont_inherit=True)


def install(files: dict[str, str]) -> Modules:
    """Makes the files importable, before whatever is installed under the same names."""
    modules = Modules(files)
    sys.meta_path.insert(0, modules)
    return modules


def names(module: types.ModuleType) -> Iterator[str]:
    """The tests of a module in its order: "module:Class.method" and "module:function" without parameters."""
    top, loader = module.__name__, unittest.TestLoader()
    for name, value in list(vars(module).items()):
        if isinstance(value, type) and value.__module__ == top:
            if issubclass(value, unittest.TestCase) or name.startswith("Test"):
                yield from (f"{top}:{name}.{method}" for method in loader.getTestCaseNames(value))
        elif (
            name.startswith("test")
            and inspect.isfunction(value)
            and not inspect.signature(value).parameters
        ):
            yield f"{top}:{name}"


def run(test: str) -> None:
    """Runs one test; it raises whatever makes it fail (unittest.SkipTest when it is skipped)."""
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
    """True when every test has run."""
    for test in tests:
        run(test)
    return True
