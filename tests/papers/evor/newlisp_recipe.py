"""Generate the hidden inputs of newlisp_problems.jsonl from its hand-written fields (EVOR, Appendix A.3).

    python tests/papers/evor/newlisp_recipe.py     # rewrites `calls` and `expected`

The hand-written seeds of a problem are mutated by type until there are 200 valid inputs. An input is valid if
the validation expression holds and the Python solution returns within its limit of steps. Faulty copies of the
solution decide which inputs are kept. A copy has one fault: a changed operator, constant or comparison, or a
dropped statement or condition. A greedy search finds the fewest inputs that tell apart what all 200 do and that
cover the solution's lines. Further inputs are added until there are FILLED.

The paper also uses wrong solutions written by a model; this recipe does not. The first seed is the example of
the problem statement, so it is never a hidden input.
"""

from __future__ import annotations

import ast
import copy
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PROBLEMS = Path(__file__).parents[3] / "pkg_lib/papers/evor/newlisp_problems.jsonl"
WANTED = 200  # valid inputs that are generated for a problem
FILLED = 12  # inputs that are kept at least, if there are as many
MOST = 20  # inputs that are kept at most
STEPS = 20_000  # traced events after which the solution counts as endless
SWAPS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitXor: ast.BitOr,
}
# The empty value of each type.
PLAIN = {
    "int": 0,
    "str": "",
    "[int]": [],
    "[str]": [],
    "[[int]]": [],
    "[pair]": [],
}
ITEM_TYPES = {
    "[int]": "int",
    "[str]": "str",
    "[[int]]": "[int]",
    "[pair]": "pair",
}
Problem = dict[str, Any]  # a row of the file
Input = list[Any]  # the arguments of one call


def run(
    code: Any,
    name: str,
    values: Input,
    most: int = STEPS,
) -> tuple[Any, frozenset[int], int]:
    """Run a solution on one input.

    Steps are counted instead of seconds, so that a limit is repeatable.

    Args:
        code: Compiled code that defines `solve`.
        name: File name that the code was compiled with.
        values: Arguments of `solve`.
        most: Steps after which the run is stopped.

    Returns:
        The result as JSON or the class of the exception, the lines that ran, and the steps.
    """
    lines: set[int] = set()
    steps = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal steps
        if frame.f_code.co_filename != name:
            return None
        steps += 1
        if steps > most:
            raise TimeoutError
        lines.add(frame.f_lineno)
        return trace

    space: dict[str, Any] = {}
    exec(code, space)
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = json.dumps(space["solve"](*copy.deepcopy(values)))
    except Exception as e:  # noqa: BLE001  a faulty copy can raise anything
        result = type(e)
    finally:
        sys.settrace(before)
    return result, frozenset(lines), steps


def is_valid(row: Problem, values: Input) -> bool:
    """Return whether the validation expression of a problem holds for an input."""
    named = dict(zip(row["parameters"], values, strict=True))
    try:
        return bool(eval(row["valid"], named))
    except (LookupError, TypeError, ValueError, AttributeError):
        return False


def mutate(value: Any, kind: str, chance: random.Random, alphabet: str) -> Any:
    """Change a value at random, keeping its type.

    Args:
        value: The value to change.
        kind: Its type, as in the column `types`.
        chance: Source of random numbers.
        alphabet: Characters that may be put into a string.

    Returns:
        The changed value.
    """
    if kind == "int":
        choices = [
            value + 1,
            value - 1,
            value * 2,
            -value,
            value // 2,
            chance.randint(-9, 99),
        ]
        return chance.choice(choices)
    if kind == "pair":
        key, number = (value or ["a", 0])[:2]
        new_key = mutate(key, "str", chance, alphabet)
        new_number = mutate(number, "int", chance, alphabet)
        return [new_key, new_number]
    items = mutate_items(list(value), kind, chance, alphabet)
    return "".join(items) if kind == "str" else items


def mutate_items(
    items: list[Any],
    kind: str,
    chance: random.Random,
    alphabet: str,
) -> list[Any]:
    """Change a list, or the characters of a string, at one random place.

    Args:
        items: The items, which are changed in place.
        kind: Type of the list or string.
        chance: Source of random numbers.
        alphabet: Characters that may be put into a string.

    Returns:
        The changed items.
    """
    item_type = ITEM_TYPES.get(kind, "")
    place = chance.randrange(len(items) + 1)
    if item_type:
        old = items[place] if place < len(items) else PLAIN.get(item_type)
        new = mutate(copy.deepcopy(old), item_type, chance, alphabet)
    else:
        new = chance.choice(alphabet)
    how = chance.choice(("insert", "repeat", "change", "change", "drop", "swap"))
    if how == "insert" or not items:
        items.insert(place, new)
    elif how == "repeat":
        items.insert(place, copy.deepcopy(chance.choice(items)))
    elif how == "change":
        items[place % len(items)] = new
    elif how == "drop":
        items.pop(place % len(items))
    else:
        other = chance.randrange(len(items))
        place %= len(items)
        items[place], items[other] = items[other], items[place]
    if kind != "[[int]]" or not items or how == "change":
        return items
    if chance.random() < 0.5:
        return with_equal_rows(items, chance)
    return items


def with_equal_rows(rows: list[list[int]], chance: random.Random) -> list[list[int]]:
    """Cut or fill the rows of a matrix so that all have the length of one of them."""
    width = chance.choice([len(row) for row in rows])
    equal = []
    for row in rows:
        filled = row + [chance.randint(-9, 9)] * width
        equal.append(filled[:width])
    return equal


def pool(row: Problem) -> list[Input]:
    """Generate the valid inputs of a problem.

    Args:
        row: The problem.

    Returns:
        The seeds, which begin with the example, and then valid mutants, WANTED in all.
    """
    name = row["name"]
    chance = random.Random(f"newlisp/{name}")
    seeds = row["seeds"]
    characters = set(json.dumps(seeds)) - set('[],"\\ ')
    alphabet = "".join(sorted(characters)) + " "
    code = compile(row["python"], name, "exec")
    found: list[Input] = []
    known = set()
    for attempt in range(60 * WANTED):
        if attempt < len(seeds):
            values = copy.deepcopy(seeds[attempt])
        else:
            values = copy.deepcopy(chance.choice(found))
            for _ in range(chance.randint(1, 3)):
                place = chance.randrange(len(values))
                kind = row["types"][place]
                values[place] = mutate(values[place], kind, chance, alphabet)
        key = json.dumps(values)
        if key in known or not is_valid(row, values):
            continue
        result, _, _ = run(code, name, values)
        if isinstance(result, type):
            continue
        known.add(key)
        found.append(values)
        if len(found) == WANTED:
            break
    return found


def faulty(source: str) -> Iterator[Any]:
    """Yield the compiled copies of a solution that have one fault each."""
    count = len(list(ast.walk(ast.parse(source))))
    for number in range(count):
        for variant in range(3):
            tree = ast.parse(source)
            node = list(ast.walk(tree))[number]
            if break_node(node, variant):
                yield compile(ast.fix_missing_locations(tree), "faulty", "exec")


def break_node(node: ast.AST, variant: int) -> bool:
    """Put a fault into a node of a syntax tree.

    Args:
        node: The node, which is changed in place.
        variant: Which fault of 0, 1 and 2. Most nodes have fewer.

    Returns:
        Whether the node has this fault.
    """
    if variant == 0 and swap_operator(node):
        return True
    if isinstance(node, ast.Constant) and type(node.value) is int and variant < 2:
        node.value += 1 if variant == 0 else -1
    elif isinstance(node, ast.If | ast.While | ast.IfExp) and variant < 2:
        node.test = ast.Constant(bool(variant))
    elif isinstance(node, ast.Return) and variant == 0:
        node.value = ast.Constant(None)
    elif variant == 2 and isinstance(getattr(node, "body", None), list) and len(node.body) > 1:
        node.body.pop(len(node.body) // 2)
    else:
        return False
    return True


def swap_operator(node: ast.AST) -> bool:
    """Replace the operator of a node by a similar one.

    Args:
        node: The node, which is changed in place.

    Returns:
        Whether the node has an operator that can be replaced.
    """
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp):
        kind = type(node.op)
        if kind not in SWAPS:
            return False
        node.op = SWAPS[kind]()
    elif isinstance(node, ast.Compare):
        kind = type(node.ops[0])
        if kind not in SWAPS:
            return False
        node.ops[0] = SWAPS[kind]()
    elif not isinstance(node, ast.UnaryOp):
        return False
    elif isinstance(node.op, ast.USub):
        node.op = ast.UAdd()
    elif isinstance(node.op, ast.Not):
        node.operand = ast.UnaryOp(ast.Not(), node.operand)
    else:
        return False
    return True


def observations(row: Problem, inputs: list[Input]) -> list[set[Any]]:
    """Determine what each input shows of the solution and of its faulty copies.

    Args:
        row: The problem.
        inputs: Valid inputs of it.

    Returns:
        For each input, the lines that it runs and the faulty copies that it tells from the solution. Results
        are included where the inputs have at most four different ones.
    """
    name = row["name"]
    code = compile(row["python"], name, "exec")
    correct = [run(code, name, values) for values in inputs]
    results = {result for result, _, _ in correct}
    shown: list[set[Any]] = []
    for result, lines, _ in correct:
        observed = {("line", number) for number in lines}
        if len(results) <= 4:
            observed.add(("result", result))
        shown.append(observed)
    most = 100 + 10 * max(steps for _, _, steps in correct)
    for number, fault in enumerate(faulty(row["python"])):
        endless = 0
        for observed, values, (expected, _, _) in zip(shown, inputs, correct, strict=True):
            if endless == 5:  # running further inputs would take too long
                break
            result, _, _ = run(fault, "faulty", values, most)
            endless += result is TimeoutError
            if result != expected:
                observed.add(("fault", number))
    return shown


def reduced(row: Problem, inputs: list[Input]) -> list[Input]:
    """Select inputs that together show as much as all inputs do.

    Args:
        row: The problem.
        inputs: Valid inputs of it.

    Returns:
        At most MOST of the inputs in their order. A greedy search selects them; inputs spread over the rest
        fill the list up to FILLED.
    """
    shown = observations(row, inputs)
    kept: list[int] = []
    missing: set[Any] = set().union(*shown)

    def gain(index: int) -> tuple[int, int]:
        return len(shown[index] & missing), -index

    while missing and len(kept) < MOST:
        best = max(range(len(inputs)), key=gain)
        kept.append(best)
        missing -= shown[best]
    lack = FILLED - len(kept)
    if lack > 0:
        rest = [index for index in range(len(inputs)) if index not in kept]
        step = max(len(rest) // lack, 1)
        kept += rest[::step][:lack]
    return [inputs[index] for index in sorted(kept)]


def literal(value: Any) -> str:
    """Return plain data in the syntax of newLISP, where false is nil."""
    if isinstance(value, list):
        return f"({' '.join(map(literal, value))})"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None or value is False:
        return "nil"
    return "true" if value is True else repr(value)


def argument(value: Any) -> str:
    """Return plain data as the argument of a call, where a list is quoted."""
    quote = "'" if isinstance(value, list) else ""
    return quote + literal(value)


def regenerated(row: Problem) -> Problem:
    """Generate the inputs of a problem again.

    Args:
        row: The problem.

    Returns:
        The problem with new `calls` and `expected`, in newLISP.
    """
    name = row["name"]
    code = compile(row["python"], name, "exec")
    calls = []
    expected = []
    for values in reduced(row, pool(row)[1:]):
        arguments = map(argument, values)
        calls.append(f"({' '.join([name, *arguments])})")
        result, _, _ = run(code, name, values)
        expected.append(literal(json.loads(result)))
    return row | {"calls": calls, "expected": expected}


def main() -> None:
    """Rewrite the file of problems."""
    lines = []
    for line in PROBLEMS.read_text("utf8").splitlines():
        problem = regenerated(json.loads(line))
        lines.append(json.dumps(problem, ensure_ascii=False) + "\n")
    PROBLEMS.write_text("".join(lines), "utf8")


if __name__ == "__main__":
    main()
