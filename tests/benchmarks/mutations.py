"""Measures how many small faults in the library the tests find.

Changes one line at a time in a copy of the checkout (`<` becomes `<=`, `and` becomes `or`, a number grows by
one, ...), spread over all folders of pkg_lib. Three sets of tests run until one test fails: the fast tests of
the files that import the changed module, all fast tests, and the slow tests of the same files with those of the
committed tables. A change that no test finds points at behaviour without a test, or leaves the behaviour as it was.

A change that makes a loop endless is found by the time limit. It counts only if the same tests end within the
limit on the unchanged code.

    python tests/benchmarks/mutations.py --count 40 --seed 0 --output results/benchmarks/mutations.json
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAST, SLOW = ["-m", "not slow"], ["-m", "slow"]
UNDECIDED = "undecided: the tests do not end in time on the unchanged code either"
COMPARISONS: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
}


@dataclass(frozen=True)
class Mutation:
    """One changed line.

    Attributes:
        module: Path of the module below the checkout.
        line: Number of the line.
        before: The line as it is.
        after: The line with the change.
    """

    module: str
    line: int
    before: str
    after: str


def changed(node: ast.expr) -> ast.expr | None:
    """Return an expression that differs in one place; None for a kind that is left as it is."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        operator = COMPARISONS[type(node.ops[0])]
        return ast.Compare(node.left, [operator], node.comparators)
    if isinstance(node, ast.BoolOp):
        operator = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        return ast.BoolOp(operator, node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        operator = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
        return ast.BinOp(node.left, operator, node.right)
    if isinstance(node, ast.Constant) and type(node.value) is bool:
        return ast.Constant(not node.value)
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Constant(node.value + 1)
    return None


def is_at_its_columns(node: ast.expr, line: str) -> bool:
    """Whether the line holds the expression where the syntax tree says; before Python 3.12 f-strings do not."""
    try:
        there = ast.parse(line[node.col_offset : node.end_col_offset].strip(), mode="eval").body
    except SyntaxError:
        return False
    return ast.dump(there) == ast.dump(node)


def mutations(path: Path) -> Iterator[Mutation]:
    """Yield the changes of a module that stay within one line."""
    source = path.read_text("utf8")
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.expr) or node.lineno != node.end_lineno:
            continue
        new = changed(node)
        if new is None:
            continue
        line = lines[node.lineno - 1]
        if not line.isascii():  # the columns of the syntax tree count bytes
            continue
        if not is_at_its_columns(node, line):
            continue
        after = f"{line[: node.col_offset]}({ast.unparse(new)}){line[node.end_col_offset :]}"
        yield Mutation(path.relative_to(ROOT).as_posix(), node.lineno, line.strip(), after.strip())


def chosen(count: int, seed: int) -> list[Mutation]:
    """Choose changes at random, equally many in each folder as far as possible."""
    by_folder: dict[str, list[Mutation]] = defaultdict(list)
    for path in sorted((ROOT / "pkg_lib").rglob("*.py")):
        folder = path.parent.relative_to(ROOT).as_posix()
        by_folder[folder] += mutations(path)
    numbers = random.Random(seed)
    for found in by_folder.values():
        numbers.shuffle(found)
    selected: list[Mutation] = []
    while len(selected) < count:
        for found in by_folder.values():
            if found and len(selected) < count:
                selected.append(found.pop())
    return selected


def tests_of(module: str, checkout: Path) -> list[str]:
    """Return the test files that import a module, by its mirrored name first."""
    dotted = module.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    folder, _, name = dotted.rpartition(".")
    imported = re.compile(
        rf"{re.escape(dotted)}\b|from {re.escape(folder)} import [^\n]*\b{re.escape(name)}\b"
    )
    tests = sorted((checkout / "tests").rglob("test_*.py"))
    files = [path for path in tests if imported.search(path.read_text("utf8"))]
    files.sort(key=lambda path: name not in path.stem)
    return [path.relative_to(checkout).as_posix() for path in files]


def fails(checkout: Path, words: list[str], limit: float) -> str:
    """Run tests of a checkout until one fails.

    Args:
        checkout: The checkout.
        words: Arguments of pytest: a marker expression, and files or folders.
        limit: Seconds that they may take.

    Returns:
        The name of the test that failed; "timeout" past the limit; "" if all pass.
    """
    options = ["-x", "-q", "-n", "2", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, *words]
    environment = os.environ | {"PYTHONPATH": str(checkout)}
    # A group of its own, so that the workers end with it.
    process = subprocess.Popen(
        command,
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "timeout"
    if process.returncode in (0, 5):  # 5: no test was collected
        return ""
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.M)
    return failed[0] if failed else "the tests cannot be collected"


def find(mutation: Mutation, checkout: Path, limit: float) -> str:
    """Apply a change to a checkout, and return the test that fails; "" if none does."""
    path = checkout / mutation.module
    source = path.read_text("utf8")
    lines = source.split("\n")
    old = lines[mutation.line - 1]
    indent = old[: len(old) - len(old.lstrip())]
    lines[mutation.line - 1] = indent + mutation.after
    mutated = "\n".join(lines)
    related = tests_of(mutation.module, checkout)
    sets = [[*FAST, *related]] if related else []
    sets += [[*FAST, "tests"], [*SLOW, *related, "tests/test_golden.py"]]
    try:
        for words in sets:
            path.write_text(mutated, "utf8")
            test = fails(checkout, words, limit)
            path.write_text(source, "utf8")
            if test == "timeout" and fails(checkout, words, limit) == "timeout":
                return UNDECIDED
            if test:
                return test
        return ""
    finally:
        path.write_text(source, "utf8")


def main() -> None:
    """Measure, print each result, and write all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=40, help="number of changed lines")
    parser.add_argument("--seed", type=int, default=0, help="of the random choice")
    parser.add_argument("--limit", type=float, default=600, help="seconds for one set of tests")
    parser.add_argument("--output", type=Path, help="JSON file with every change and its test")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        checkout = Path(folder, "checkout")
        subprocess.run(["git", "clone", "-q", str(ROOT), str(checkout)], check=True)
        for mutation in chosen(options.count, options.seed):
            test = find(mutation, checkout, options.limit)
            rows.append(asdict(mutation) | {"test": test})
            print(
                f"{mutation.module}:{mutation.line}: {mutation.after}: {test or 'NOT FOUND'}",
                flush=True,
            )
            if options.output:
                found = sum(row["test"] not in ("", UNDECIDED) for row in rows)
                about = {"seed": options.seed, "changes": len(rows), "found": found, "rows": rows}
                options.output.write_text(json.dumps(about, indent=1) + "\n", "utf8")


if __name__ == "__main__":
    main()
