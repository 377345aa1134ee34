"""Equation 11 of the PKG paper: choose, for each task, the solution that is nearest to the query.

The paper prints one rule and the authors' published code follows another. Both are here:

authors (default)
    Each solution is reduced to its first function, without docstring and comments, and embedded. A solution
    that does not parse or run is embedded as the words "Wrong code!". The nearest to the query is chosen.
as printed (Section 3.3 of the paper)
    Each solution is embedded as it is. Those that do not parse, and then those that do not run, are left
    out. A filter that no solution passes is skipped, which the paper leaves open.

Both break ties in favour of the earlier candidate. Cosines that differ by at most TIE are a tie: an encoder
gives a text slightly different vectors in batches of other sizes.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pkg_lib.core.python_syntax import parsed_or_none
from pkg_lib.graph.code import is_python

WRONG_CODE = "Wrong code!"
TIE = 1e-5


@dataclass(frozen=True, slots=True)
class CandidateScore:
    """The properties of one solution that are stored with a selection; the rules use all but `runs`.

    Attributes:
        parses: Whether the program is Python.
        runs: Whether the program runs to its end without any test.
        runs_as_written: Whether the answer as the model wrote it runs to its end, with any assertions that it
            copied from the prompt.
        cosine: Similarity of the query and the first function, without docstring and comments; of the words
            "Wrong code!" for a program that does not run.
        cosine_as_printed: Similarity of the query and the solution as it is.
    """

    parses: bool
    runs: bool
    runs_as_written: bool
    cosine: float
    cosine_as_printed: float


class _WithoutInnerFunctions(ast.NodeTransformer):
    """Removes the functions inside a function, as the authors' code does."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        return None


def _is_text(statement: ast.stmt) -> bool:
    """Tell whether a statement is a text, such as a docstring."""
    if not isinstance(statement, ast.Expr):
        return False
    value = statement.value
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def first_function(code: str, entry_point: str = "") -> str:
    """Reduce code to its first function, without docstring, comments and inner functions.

    Args:
        code: Python source.
        entry_point: A function that is preferred to the first one, where the code defines it.

    Returns:
        The function's source; WRONG_CODE if the code is not valid Python, and "" if it has no function at
        its top level, as in the authors' code.
    """
    tree = parsed_or_none(code)
    if tree is None:
        return WRONG_CODE
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if not functions:
        return ""
    chosen = functions[0]
    for function in functions:
        # The last definition counts: the function's head in the prompt may precede the solution.
        if function.name == entry_point:
            chosen = function
    transformer = _WithoutInnerFunctions()
    body: list[ast.stmt] = []
    for statement in chosen.body:
        if _is_text(statement):
            continue
        kept = transformer.visit(statement)
        if kept is not None:
            body.append(kept)
    chosen.body = body
    ast.fix_missing_locations(chosen)
    return ast.unparse(chosen)


def embedded_text(solution: str, program: str, entry_point: str, runs: bool) -> str:
    """Return the text by which the authors' rule embeds a solution.

    Args:
        solution: The solution as it was extracted.
        program: The solution as it is executed, after the prompt where it only continues that.
        entry_point: The function that the task asks for.
        runs: Whether the program runs without any test.

    Returns:
        The first function of the solution, or the task's function where the solution is only its body; "" for
        a solution without a function, as in the authors' code; WRONG_CODE for a program that does not run.
    """
    if not runs:
        return WRONG_CODE
    if is_python(solution):
        return first_function(solution)
    return first_function(program, entry_point)


def cosines(
    encode: Callable[[list[str]], np.ndarray],
    triples: Sequence[tuple[str, str, str]],
) -> list[tuple[float, float]]:
    """Compare solutions with the queries of their tasks.

    Args:
        encode: Turns n texts into unit vectors [n, d].
        triples: For each solution its query, the solution as it is, and its `embedded_text`.

    Returns:
        For each solution the cosine of its `embedded_text`, and that of the solution as it is.
    """
    if not triples:
        return []
    texts: list[str] = []
    for triple in triples:
        texts += triple
    vectors = encode(texts).reshape(len(triples), 3, -1).astype(float)
    pairs = []
    for query, solution, reduced in vectors:
        cosine = float(reduced @ query)
        cosine_as_printed = float(solution @ query)
        pairs.append((round(cosine, 6), round(cosine_as_printed, 6)))
    return pairs


def choose(scores: Mapping[str, CandidateScore]) -> str:
    """Choose by the authors' rule.

    Args:
        scores: Score by method, in the order that breaks ties.

    Returns:
        The method whose solution is chosen; "" without any.
    """
    return nearest({method: score.cosine for method, score in scores.items()})


def choose_as_printed(scores: Mapping[str, CandidateScore]) -> str:
    """Choose by the rule that the paper prints.

    Args:
        scores: Score by method, in the order that breaks ties.

    Returns:
        The method whose solution is chosen; "" without any.
    """
    candidates = list(scores)
    parsing = [method for method in candidates if scores[method].parses]
    if parsing:
        candidates = parsing
    running = [method for method in candidates if scores[method].runs_as_written]
    if running:
        candidates = running
    return nearest({method: scores[method].cosine_as_printed for method in candidates})


def nearest(cosines_of: Mapping[str, float]) -> str:
    """Return the first method whose cosine is the highest, or ties with it.

    Args:
        cosines_of: Cosine by method, in the order that breaks ties.

    Returns:
        The method; "" without any.
    """
    if not cosines_of:
        return ""
    least = max(cosines_of.values()) - TIE
    return next(method for method, cosine in cosines_of.items() if cosine >= least)
