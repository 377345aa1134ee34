"""A small package with tests, stored as an archive in a temporary cache."""

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
    "shapes/constants.py": "SQUARED = 2\n",
    "tests/__init__.py": "",
    "tests/test_shapes.py": TESTS,
    "tests/test_needs.py": "import pytest\n",
    "setup.py": "raise SystemExit('nobody runs this')\n",
}


def archive_of(files, top):
    """Pack files into a gzipped tar archive.

    Args:
        files: Contents by path.
        top: Folder in the archive that holds all files.

    Returns:
        The bytes of the archive.
    """
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for name, text in files.items():
            content = text.encode()
            info = tarfile.TarInfo(f"{top}/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return data.getvalue()


@pytest.fixture
def archived():
    """The function `archive_of`."""
    return archive_of


@pytest.fixture
def package(own_cache):
    """Version 1.0 of the package `shapes`, whose archive is already in the cache."""
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
    """A directory with the files of the package `shapes`."""
    directory = tmp_path / "mine"
    for name, text in FILES.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    return directory


@pytest.fixture
def functions(package):
    """Tasks by the name of their function: every function of `shapes` that can be masked.

    Each task lists the tests that call its function.
    """
    files = package.files()
    coverage = trace(package, files)
    tasks = {}
    for function in candidates(package, files):
        text = files[function.path]
        tasks[function.name] = as_task(
            package, function, text, coverage.tests((function.path, function.first))
        )
    return tasks
