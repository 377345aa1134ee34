"""Run the doctests and tests of a library whose names were changed.

    python tests/benchmarks/validate_library.py LIBRARY

Writes the counts with their configuration to results/evor/LIBRARY-m.json. The script takes minutes (networkx), so
it is run by hand. CI runs a sample (tests/papers/evor/test_make_library.py).
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.papers.evor import make_library

# Tests that read pickled graphs. The pickles hold objects of the original library's classes.
PICKLED = "it unpickles graphs of the original library's classes"
LEFT_OUT = {
    "TestMaxflowLargeGraph and test_gl1": PICKLED,
    "TestMaxflowLargeGraph and test_wlm3": PICKLED,
    "TestMaxflowLargeGraph and test_preflow_push_global_relabel": PICKLED,
    "TestMinCostFlow and test_large": PICKLED,
    "test_networksimplex and test_large": PICKLED,
}
# Folder of the tests below the module. networkx: only its algorithm tests, because drawing needs programs that are
# not installed. more-itertools: its tests are beside the module.
TESTS = {"networkx": "algorithms", "more-itertools": ""}


def digest_of(folder: Path) -> str:
    """Compute the SHA-256 of the paths and bytes of all files of a folder, in sorted order.

    Args:
        folder: The folder. Compiled files (.pyc) are left out.

    Returns:
        The hexadecimal digest.
    """
    whole = hashlib.sha256()
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    for path in sorted(files):
        name = path.relative_to(folder).as_posix()
        whole.update(f"{name}\0".encode())
        whole.update(path.read_bytes())
    return whole.hexdigest()


def kind_of(case: ElementTree.Element) -> str:
    """Return "passed", "failure", "error" or "skipped" for a test case of a JUnit report."""
    for child in case:
        if child.tag in ("failure", "error", "skipped"):
            return child.tag
    return "passed"


def counted(folder: Path, words: list[str]) -> dict[str, Any]:
    """Run pytest and count its results.

    Args:
        folder: Working directory.
        words: Arguments of pytest.

    Returns:
        The number of items by result, the number of all items, and the names of failed items.
    """
    report = folder / "report.xml"
    options = ["-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    command = [sys.executable, "-m", "pytest", *options, *words]
    subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL)
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    report.unlink()
    counts = Counter(kind_of(case) for case in cases)
    failed = [
        f"{case.get('classname')}.{case.get('name')}"
        for case in cases
        if kind_of(case) in ("failure", "error")
    ]
    return {**counts, "items": len(cases), "failed": failed}


def doctest_files(module: Path, folder: Path) -> list[str]:
    """List the source files of a module without tests and drawing.

    Args:
        module: Folder of the module.
        folder: Folder of the library.

    Returns:
        Sorted paths below `folder`.
    """
    files = []
    for path in sorted(module.rglob("*.py")):
        relative = path.relative_to(folder)
        is_test = make_library.TEST.search(relative.as_posix())
        if not is_test and "drawing" not in relative.parts:
            files.append(str(relative))
    return files


def made_with() -> dict[str, str]:
    """Return the versions of Python and of the packages that the tests use."""
    installed = versions()
    chosen = {name: text for name, text in installed.items() if name in ("python", "numpy")}
    for package in ("pytest", "scipy"):
        chosen[package] = version(package)
    return chosen


def main(name: str) -> None:
    """Make a library, run its doctests and tests, and write the counts.

    Args:
        name: Name of the original library.
    """
    left_out = LEFT_OUT if name == "networkx" else {}
    package = make_library.LIBRARIES[name]
    with (
        tempfile.TemporaryDirectory() as twice,
        tempfile.TemporaryDirectory() as place,
    ):
        folder = Path(place) / name
        library = make_library.make(name, folder)
        digest = digest_of(folder)
        make_library.make(name, Path(twice) / name)
        same = digest_of(Path(twice) / name) == digest

        module = folder / library.spec["module"]
        tests = module / TESTS[name] if TESTS[name] else folder / "tests"
        test_words = [str(tests.relative_to(folder))]
        if left_out:
            alternatives = " or ".join(f"({pattern})" for pattern in left_out)
            test_words += ["-k", f"not ({alternatives})"]
        functions = [public for public, kind in library.public.items() if kind == "function"]
        renamed = [function for function in functions if function in library.names]
        report = {
            "library": package.label,
            "archive_sha256": package.sha256,
            "module": module.name,
            "made_sha256": digest,
            "made twice, same bytes": same,
            "functions and methods": len(functions),
            "functions and methods renamed": len(renamed),
            "names changed": len(library.names),
            "doctests": counted(folder, ["--doctest-modules", *doctest_files(module, folder)]),
            "tests": counted(folder, test_words),
            "tests left out": left_out,
            "made with": made_with(),
        }
        write_json(results_dir() / "evor" / f"{name}-m.json", report)


if __name__ == "__main__":
    main(sys.argv[1])
