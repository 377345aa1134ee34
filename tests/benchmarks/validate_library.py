"""Runs a made library's own doctests and tests: python tests/benchmarks/validate_library.py LIBRARY

Writes the counts with their configuration to results/evor/LIBRARY-m.json. It takes minutes (networkx), so it is run by
hand and not in CI, which runs a sample (tests/papers/evor/test_make_library.py).
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

# Tests that read pickled graphs: the pickles hold objects of the original's classes.
PICKLED = "it unpickles graphs of the original library's classes"
LEFT_OUT = {
    "TestMaxflowLargeGraph and test_gl1": PICKLED,
    "TestMaxflowLargeGraph and test_wlm3": PICKLED,
    "TestMaxflowLargeGraph and test_preflow_push_global_relabel": PICKLED,
    "TestMinCostFlow and test_large": PICKLED,
    "test_networksimplex and test_large": PICKLED,
}
# For networkx its algorithm tests; drawing needs programs that are not here.
TESTS = {"networkx": "algorithms", "more-itertools": ""}


def digest_of(folder: Path) -> str:
    """SHA-256 over the paths and bytes of all files, in order."""
    whole = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix != ".pyc"):
        whole.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes())
    return whole.hexdigest()


def counted(folder: Path, words: list[str]) -> dict[str, Any]:
    """How many items of a run of pytest passed, failed and were skipped, and which failed."""
    report = folder / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
        *words,
    ]
    subprocess.run(command, cwd=folder, check=False, stdout=subprocess.DEVNULL)
    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    report.unlink()
    kinds = {
        id(c): next((n.tag for n in c if n.tag in ("failure", "error", "skipped")), "passed")
        for c in cases
    }
    failed = [
        f"{c.get('classname')}.{c.get('name')}"
        for c in cases
        if kinds[id(c)] in ("failure", "error")
    ]
    return dict(Counter(kinds.values())) | {"items": len(cases), "failed": failed}


def main(name: str) -> None:
    with tempfile.TemporaryDirectory() as twice, tempfile.TemporaryDirectory() as place:
        folder = Path(place) / name
        library = make_library.make(name, folder)
        made = digest_of(folder)
        make_library.make(name, Path(twice) / name)
        same = digest_of(Path(twice) / name) == made
        module = folder / library.spec["module"]
        sources = [
            p
            for p in sorted(module.rglob("*.py"))
            if not make_library.TEST.search(p.relative_to(folder).as_posix())
        ]
        sources = [str(p.relative_to(folder)) for p in sources if "drawing" not in p.parts]
        tests = module / TESTS[name] if TESTS[name] else folder / "tests"
        chosen = (
            ["-k", f"not ({' or '.join(f'({k})' for k in LEFT_OUT)})"] if name == "networkx" else []
        )
        functions = [n for n, kind in library.public.items() if kind == "function"]
        package = make_library.LIBRARIES[name]
        write_json(
            results_dir() / "evor" / f"{name}-m.json",
            {
                "library": package.label,
                "archive_sha256": package.sha256,
                "module": module.name,
                "made_sha256": made,
                "made twice, same bytes": same,
                "functions and methods": len(functions),
                "functions and methods renamed": len([n for n in functions if n in library.names]),
                "names changed": len(library.names),
                "doctests": counted(folder, ["--doctest-modules", *sources]),
                "tests": counted(folder, [str(tests.relative_to(folder)), *chosen]),
                "tests left out": LEFT_OUT if name == "networkx" else {},
                "made with": {k: v for k, v in versions().items() if k in ("python", "numpy")}
                | {p: version(p) for p in ("pytest", "scipy")},
            },
        )


if __name__ == "__main__":
    main(sys.argv[1])
