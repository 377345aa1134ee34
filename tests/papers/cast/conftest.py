"""A small package with tests, as an archive in a cache of its own."""

from __future__ import annotations

import hashlib
import io
import tarfile

import pytest

from pkg_lib.data.functions import as_task, candidates
from pkg_lib.data.packages import Package
from pkg_lib.papers.cast.cast_steps import trace

SHAPES = '''"""Shapes."""

import math

from .constants import SQUARED


def area(radius):
    """The area of a circle.

    ```
    area(1)
    ```
    """
    if radius < 0:
        raise ValueError(radius)
    return math.pi * radius**SQUARED


def unused(x):
    x = x + 1
    y = x * 2
    return y


class Square:
    def __init__(self, side):
        self.side = side

    @property
    def size(
        self,
        scale=1,
    ):
        # squared
        side = self.side * scale
        result = side
        return result * side

    def quiet(self):
        value = self.side
        value += 1
        self.value = value


def short(x):
    return x


def broken(x):
    if x is None:
        raise TypeError(x)
    side = x.side_of_another_version
    return side


def miscounted(x):
    x = x + 1
    x = x + 1
    return x
'''
TESTS = """import unittest

from shapes import Square, area, broken, miscounted


class AreaTests(unittest.TestCase):
    def test_one(self):
        self.assertAlmostEqual(area(1), 3.14159, places=4)

    def test_negative(self):
        self.assertRaises(ValueError, area, -1)

    def test_wrong(self):
        self.assertEqual(broken(Square(area(1))), 3)

    def test_broken_bad(self):
        self.assertRaises(TypeError, broken, None)

    def test_count(self):
        self.assertEqual(miscounted(1), 2)

    def test_count_bad(self):
        self.assertRaises(TypeError, miscounted, "1")

    def test_of_another_library(self):
        Square(1).quiet()
        import no_such_library

    def test_skipped(self):
        Square(1).quiet()
        self.skipTest("not here")


class TestSquare:
    def test_size(self):
        assert Square(3).size == 9


def test_quiet():
    Square(1).quiet()


def test_with_a_fixture(tmp_path):
    area(1)
"""
FILES = {
    "shapes/__init__.py": SHAPES,
    "tests/__init__.py": "",
    "tests/test_shapes.py": TESTS,
    "tests/test_needs.py": "import pytest\n",
}
FILES["shapes/constants.py"] = "SQUARED = 2\n"
FILES["setup.py"] = "raise SystemExit('nobody runs this')\n"


def archive_of(files, top):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in files.items():
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(text.encode())
            tar.addfile(info, io.BytesIO(text.encode()))
    return data.getvalue()


@pytest.fixture
def archived():
    """(files, top folder) -> the bytes of a .tar.gz."""
    return archive_of


@pytest.fixture
def package(own_cache):
    """`shapes` 1.0, whose archive lies in the cache already."""
    data = archive_of(FILES, "shapes-1.0")
    (own_cache / "packages").mkdir(parents=True)
    (own_cache / "packages" / "shapes-1.0.tar.gz").write_bytes(data)
    return Package(
        "shapes",
        "1.0",
        "shapes-1.0.tar.gz",
        hashlib.sha256(data).hexdigest(),
        ("shapes",),
        ("tests",),
        "MIT",
    )


@pytest.fixture
def shapes(tmp_path):
    """The same files as a directory."""
    for name, text in FILES.items():
        (tmp_path / "mine" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "mine" / name).write_text(text)
    return tmp_path / "mine"


@pytest.fixture
def functions(package):
    """Name -> the task of every function of `shapes` that can be masked, with the tests that call it."""
    files = package.files()
    coverage = trace(package, files)
    return {
        f.name: as_task(package, f, files[f.path], coverage.tests(f))
        for f in candidates(package, files)
    }
