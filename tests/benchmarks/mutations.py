"""Measure how many small faults in the library the tests find.

    python tests/benchmarks/mutations.py --count 40 --seed 0 --output results/benchmarks/mutations.json

The script changes one line at a time in a copy of the checkout, spread over all folders of pkg_lib. For example,
`<` becomes `<=`, `and` becomes `or`, or a number grows by one. Three sets of tests run until one test fails:

- the fast tests of the files that import the changed module;
- all fast tests;
- the slow tests of the same files, of the module's folder below tests/, and of the committed tables.

If no test finds a change, either the behaviour has no test or the change does not affect the behaviour.

The time limit finds a change that makes a loop endless. The change counts only if the same tests end within the
limit on the unchanged code.
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
FAST = ["-m", "not slow"]
SLOW = ["-m", "slow"]
NO_TEST_COLLECTED = 5  # exit status of pytest
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
        before: The original line, without indentation.
        after: The changed line, without indentation.
    """

    module: str
    line: int
    before: str
    after: str


def changed(node: ast.expr) -> ast.expr | None:
    """Change an expression in one place.

    Args:
        node: The expression.

    Returns:
        The changed expression; None for a kind of expression that is not changed.
    """
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        operator = COMPARISONS[type(node.ops[0])]
        return ast.Compare(node.left, [operator], node.comparators)
    if isinstance(node, ast.BoolOp):
        is_and = isinstance(node.op, ast.And)
        operator = ast.Or() if is_and else ast.And()
        return ast.BoolOp(operator, node.values)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.Add):
            return ast.BinOp(node.left, ast.Sub(), node.right)
        if isinstance(node.op, ast.Sub):
            return ast.BinOp(node.left, ast.Add(), node.right)
    if isinstance(node, ast.Constant):
        if type(node.value) is bool:
            return ast.Constant(not node.value)
        if type(node.value) is int:
            return ast.Constant(node.value + 1)
    return None


def is_at_its_columns(node: ast.expr, line: str) -> bool:
    """Check that a line holds an expression at the columns that the syntax tree states.

    Before Python 3.12, the columns of expressions in f-strings are wrong.

    Args:
        node: The expression.
        line: The line.

    Returns:
        Whether it does.
    """
    source = line[node.col_offset : node.end_col_offset].strip()
    try:
        expression = ast.parse(source, mode="eval").body
    except SyntaxError:
        return False
    return ast.dump(expression) == ast.dump(node)


def mutations(path: Path) -> Iterator[Mutation]:
    """Find the possible changes of a module that stay within one line.

    Args:
        path: The module.

    Yields:
        The changes.
    """
    module = path.relative_to(ROOT).as_posix()
    source = path.read_text("utf8")
    lines = source.split("\n")
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.expr) or node.lineno != node.end_lineno:
            continue
        new = changed(node)
        if new is None:
            continue
        line = lines[node.lineno - 1]
        # The columns of the syntax tree count bytes, so they are wrong in lines that are not ASCII.
        if not line.isascii():
            continue
        if not is_at_its_columns(node, line):
            continue
        head = line[: node.col_offset]
        tail = line[node.end_col_offset :]
        after = f"{head}({ast.unparse(new)}){tail}"
        yield Mutation(module, node.lineno, line.strip(), after.strip())


def chosen(count: int, seed: int) -> list[Mutation]:
    """Choose changes at random, as evenly over the folders as possible.

    Args:
        count: Number of changes.
        seed: Seed of the random choice.

    Returns:
        The changes.
    """
    by_folder: dict[str, list[Mutation]] = defaultdict(list)
    for path in sorted((ROOT / "pkg_lib").rglob("*.py")):
        folder = path.parent.relative_to(ROOT).as_posix()
        by_folder[folder] += mutations(path)
    generator = random.Random(seed)
    for found in by_folder.values():
        generator.shuffle(found)
    selected: list[Mutation] = []
    while len(selected) < count:
        for found in by_folder.values():
            if found and len(selected) < count:
                selected.append(found.pop())
    return selected


def tests_of(module: str, checkout: Path) -> list[str]:
    """Find the test files that import a module.

    Args:
        module: Path of the module below the checkout.
        checkout: The checkout.

    Returns:
        Paths of the test files below the checkout. Files named after the module come first.
    """
    dotted = module.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
    folder, _, name = dotted.rpartition(".")
    imported = re.compile(
        rf"{re.escape(dotted)}\b|from {re.escape(folder)} import [^\n]*\b{re.escape(name)}\b"
    )
    tests = sorted((checkout / "tests").rglob("test_*.py"))
    files = [path for path in tests if imported.search(path.read_text("utf8"))]
    files.sort(key=lambda path: name not in path.stem)
    return [path.relative_to(checkout).as_posix() for path in files]


def folder_of(module: str, checkout: Path) -> list[str]:
    """Find the folder of tests that mirrors the folder of a module.

    Tests there may run the module in another process, and so import nothing of it.

    Args:
        module: Path of the module below the checkout.
        checkout: The checkout.

    Returns:
        Path of the folder below the checkout; none if there is no such folder.
    """
    folder = Path("tests", *Path(module).parts[1:-1])
    exists = folder != Path("tests") and (checkout / folder).is_dir()
    return [folder.as_posix()] if exists else []


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
    # Its own process group, so that the workers can be ended with it.
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
    if process.returncode in (0, NO_TEST_COLLECTED):
        return ""
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", output, re.M)
    return failed[0] if failed else "the tests cannot be collected"


def find(mutation: Mutation, checkout: Path, limit: float) -> str:
    """Apply a change to a checkout, run the tests, and undo the change.

    Args:
        mutation: The change.
        checkout: The checkout.
        limit: Seconds that one set of tests may take.

    Returns:
        The name of the test that fails; "timeout"; `UNDECIDED`; "" if all tests pass.
    """
    path = checkout / mutation.module
    source = path.read_text("utf8")
    lines = source.split("\n")
    old = lines[mutation.line - 1]
    indent = old[: len(old) - len(old.lstrip())]
    lines[mutation.line - 1] = indent + mutation.after
    mutated = "\n".join(lines)
    related = tests_of(mutation.module, checkout)
    test_sets = []
    if related:
        test_sets.append([*FAST, *related])
    test_sets.append([*FAST, "tests"])
    folder = folder_of(mutation.module, checkout)
    test_sets.append([*SLOW, *related, *folder, "tests/test_golden.py"])
    try:
        for words in test_sets:
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
    """Run the measurement from the command line; print each result and write all of them."""
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
            rows.append({**asdict(mutation), "test": test})
            place = f"{mutation.module}:{mutation.line}"
            print(f"{place}: {mutation.after}: {test or 'NOT FOUND'}", flush=True)
            if options.output:
                found = sum(row["test"] not in ("", UNDECIDED) for row in rows)
                report = {
                    "seed": options.seed,
                    "changes": len(rows),
                    "found": found,
                    "rows": rows,
                }
                options.output.write_text(json.dumps(report, indent=1) + "\n", "utf8")


if __name__ == "__main__":
    main()
