"""How the inputs of newlisp_problems.jsonl were made (Appendix A.3), from its hand-written fields:

    python tests/papers/evor/newlisp_recipe.py     # rewrites `calls` and `expected`

Hand-written seeds are mutated by type until there are 200 valid inputs: the validation expression holds, the
Python solution raises nothing and ends within its steps. Faulty copies of the solution (an operator, a
constant, a comparison changed, a statement or a condition dropped) say which inputs are kept: the fewest, found
greedily, that tell apart what all 200 do, and cover the solution's lines; then others up to FILLED. What the paper
has and this lacks: wrong solutions of a model. The first seed is the statement's example and no hidden input.
"""

from __future__ import annotations

import ast
import copy
import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PROBLEMS = Path(__file__).parents[3] / "pkg_lib/papers/evor/newlisp_problems.jsonl"
WANTED, FILLED, MOST, STEPS = 200, 12, 20, 20_000
SWAPS = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
SWAPS |= {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
SWAPS |= {
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.BitXor: ast.BitOr,
}
PLAIN = {"int": 0, "str": "", "[int]": [], "[str]": [], "[[int]]": [], "[pair]": []}
Solve = Callable[..., Any]


def run(
    code: Any, name: str, values: list[Any], most: int = STEPS
) -> tuple[Any, frozenset[int], int]:
    """(result as JSON, or what failed; the lines that ran; steps, which are counted to be repeatable)."""
    lines, steps = set(), 0

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
    except Exception as e:  # noqa: BLE001  whatever a faulty copy raises
        result = type(e)
    finally:
        sys.settrace(before)
    return result, frozenset(lines), steps


def is_valid(row: dict[str, Any], values: list[Any]) -> bool:
    try:
        return bool(eval(row["valid"], dict(zip(row["parameters"], values, strict=True))))
    except (LookupError, TypeError, ValueError, AttributeError):
        return False


def mutate(value: Any, kind: str, chance: random.Random, alphabet: str) -> Any:
    """One random change that fits the type."""
    if kind == "int":
        return chance.choice(
            [value + 1, value - 1, value * 2, -value, value // 2, chance.randint(-9, 99)]
        )
    inner = {"[int]": "int", "[str]": "str", "[[int]]": "[int]", "[pair]": "pair"}.get(kind, "")
    if kind == "pair":
        key, number = (value or ["a", 0])[:2]
        return [mutate(key, "str", chance, alphabet), mutate(number, "int", chance, alphabet)]
    items = list(value)
    place = chance.randrange(len(items) + 1)
    old = items[place] if place < len(items) else (PLAIN.get(inner) if inner else "")
    new = mutate(copy.deepcopy(old), inner, chance, alphabet) if inner else chance.choice(alphabet)
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
        items[place % len(items)], items[other] = items[other], items[place % len(items)]
    if kind == "[[int]]" and items and how != "change" and chance.random() < 0.5:
        width = chance.choice([len(r) for r in items])
        items = [(r + [chance.randint(-9, 9)] * width)[:width] for r in items]
    return "".join(items) if kind == "str" else items


def pool(row: dict[str, Any]) -> list[list[Any]]:
    """The seeds, the example first, and their valid mutants, up to WANTED."""
    chance = random.Random(f"newlisp/{row['name']}")
    seeds = row["seeds"]
    alphabet = "".join(sorted(set(json.dumps(seeds)) - set('[],"\\ '))) + " "
    code, name = compile(row["python"], row["name"], "exec"), row["name"]
    found, known = [], set()
    for attempt in range(60 * WANTED):
        values = copy.deepcopy(seeds[attempt] if attempt < len(seeds) else chance.choice(found))
        for _ in range(chance.randint(1, 3) if attempt >= len(seeds) else 0):
            place = chance.randrange(len(values))
            values[place] = mutate(values[place], row["types"][place], chance, alphabet)
        mark = json.dumps(values)
        if (
            mark in known
            or not is_valid(row, values)
            or isinstance(run(code, name, values)[0], type)
        ):
            continue
        known.add(mark)
        found.append(values)
        if len(found) == WANTED:
            break
    return found


def faulty(source: str) -> Iterator[Any]:
    """Code of copies of a solution with one fault each."""
    count = len(list(ast.walk(ast.parse(source))))
    for number in range(count):
        for variant in range(3):
            tree = ast.parse(source)
            if _break(list(ast.walk(tree))[number], variant):
                yield compile(ast.fix_missing_locations(tree), "faulty", "exec")


def _break(node: ast.AST, variant: int) -> bool:
    if (
        isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp)
        and type(node.op) in SWAPS
        and variant == 0
    ):
        node.op = SWAPS[type(node.op)]()
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS and variant == 0:
        node.ops[0] = SWAPS[type(node.ops[0])]()
    elif isinstance(node, ast.Constant) and type(node.value) is int and variant < 2:
        node.value += (1, -1)[variant]
    elif isinstance(node, ast.If | ast.While | ast.IfExp) and variant < 2:
        node.test = ast.Constant(bool(variant))
    elif isinstance(node, ast.Return) and variant == 0:
        node.value = ast.Constant(None)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not) and variant == 0:
        node.op = ast.UAdd() if isinstance(node.op, ast.USub) else ast.Not()
        node.operand = (
            ast.UnaryOp(ast.Not(), node.operand) if isinstance(node.op, ast.Not) else node.operand
        )
    elif (
        hasattr(node, "body")
        and isinstance(node.body, list)
        and variant == 2
        and len(node.body) > 1
    ):
        node.body.pop(len(node.body) // 2)
    else:
        return False
    return True


def reduced(row: dict[str, Any], inputs: list[list[Any]]) -> list[list[Any]]:
    """At most MOST of the inputs that still tell each faulty copy from the solution and run every line."""
    code, name = compile(row["python"], row["name"], "exec"), row["name"]
    right = [run(code, name, values) for values in inputs]
    does: list[set[Any]] = [
        {("line", n) for n in lines} | {("result", result)} for result, lines, _ in right
    ]
    most = 100 + 10 * max(steps for _, _, steps in right)
    results = {result for result, _, _ in right}
    if len(results) > 4:  # else each different result is kept too
        does = [{d for d in some if d[0] == "line"} for some in does]
    for number, fault in enumerate(faulty(row["python"])):
        endless = 0
        for some, values, (expected, _, _) in zip(does, inputs, right, strict=True):
            result = run(fault, "faulty", values, most)[0] if endless < 5 else expected
            endless += result is TimeoutError
            if result != expected:
                some.add(("fault", number))
    kept: list[int] = []
    left = set().union(*does)
    while left and len(kept) < MOST:
        best = max(range(len(inputs)), key=lambda i: (len(does[i] & left), -i))
        kept.append(best)
        left -= does[best]
    rest, lack = [i for i in range(len(inputs)) if i not in kept], max(FILLED - len(kept), 0)
    kept += rest[:: max(len(rest) // lack, 1)][:lack] if lack else []
    return [inputs[i] for i in sorted(kept)]


def literal(value: Any) -> str:
    """Plain data as newLISP writes it; false is nil."""
    if isinstance(value, list):
        return f"({' '.join(map(literal, value))})"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return {"None": "nil", "False": "nil", "True": "true"}.get(repr(value), repr(value))


def made(row: dict[str, Any]) -> dict[str, Any]:
    """The problem with `calls` and `expected`, in newLISP, made anew."""
    inputs = reduced(row, pool(row)[1:])
    code = compile(row["python"], row["name"], "exec")
    expected = [literal(json.loads(run(code, row["name"], values)[0])) for values in inputs]
    texts = [
        [("'" if isinstance(v, list) else "") + literal(v) for v in values] for values in inputs
    ]
    return row | {
        "calls": [f"({' '.join([row['name'], *t])})" for t in texts],
        "expected": expected,
    }


def main() -> None:
    rows = [json.loads(line) for line in PROBLEMS.read_text("utf8").splitlines()]
    PROBLEMS.write_text(
        "".join(json.dumps(made(r), ensure_ascii=False) + "\n" for r in rows), "utf8"
    )


if __name__ == "__main__":
    main()
