"""MPSC (Huang et al., 2023), reduced: the best connected of 5 solutions, with 3 checks and 5 tests.

Solutions are draws of the bare prompt, or of EVOR's last one; checks say whether a result fits its
arguments, tests are assertions; both are asked for once, not drawn. Edges are what agrees when it is
executed, and a vertex's confidence is its eigenvector centrality. Left out: the measures of agreement within
one perspective. A task without a function keeps its first solution.
"""

import ast
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pkg_lib.core.types import Context, Task, Unavailable
from pkg_lib.generation.extraction import blocks
from pkg_lib.papers.evor.evor_methods import DRAWS, EVOR_METHODS
from pkg_lib.papers.evor.renaming import PROGRAMS
from pkg_lib.papers.evor.rounds import RoundRetriever
from pkg_lib.papers.evor.unfamiliar import PROMPTS, parsed
from pkg_lib.retrieval.methods import context_method

if TYPE_CHECKING:
    from pkg_lib.papers.evor.rounds import Evolution

CHECKS, TESTS, STEPS = 3, 5, 50
ASKED = PROMPTS["mpsc"]  # for tests, for checks


def assertions(raw: str, name: str) -> list[tuple[str, str]]:
    """(call of the function, expected value) of each assertion of an answer that compares the two."""
    lines, found = re.findall(r"^\s*assert (.+?)(?:  #.*)?$", raw, re.M), []
    for tree in (parsed(line) for line in lines):
        value = tree.body[0].value if tree else None  # type: ignore[attr-defined]
        if isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.Eq):
            call = value.left
            if isinstance(call, ast.Call) and ast.unparse(call.func) == name:
                found.append((ast.unparse(call), ast.unparse(value.comparators[0])))
    return [*dict.fromkeys(found)][:TESTS]


def checks(raw: str) -> list[str]:
    """The functions of an answer that are called check_1, check_2, check_3; "" for one that is not there."""
    trees = filter(None, (parsed(block.code) for block in blocks(raw)))
    found = {
        n.name: ast.unparse(n)
        for tree in trees
        for n in tree.body
        if isinstance(n, ast.FunctionDef)
    }
    return [found.get(f"check_{i + 1}", "") for i in range(CHECKS)]


def pairs(tests: list[tuple[str, str]], name: str) -> list[str]:
    """What holds if a solution agrees with each test and each check, then each check with each test."""
    rows = [f"{call} == ({value})" for call, value in tests]
    given = [call.removeprefix(name)[1:-1] for call, _ in tests]
    for i in range(1, CHECKS + 1):
        results = [
            f"check_{i}({call}, {args})" for (call, _), args in zip(tests, given, strict=True)
        ]
        rows.append(" and ".join(results) or "False")
    known = [(value, args) for (_, value), args in zip(tests, given, strict=True)]
    return rows + [f"check_{i}({v}, {args})" for i in range(1, CHECKS + 1) for v, args in known]


def confidence(bits: list[str], tests: int) -> np.ndarray:
    """Centrality [solutions]; `bits`: for each solution what `pairs` holds, "" where it did not run."""
    size = len(bits), tests, CHECKS
    rows = np.array(
        [[*map(int, b)] or [0] * (tests + CHECKS + tests * CHECKS) for b in bits], float
    )
    edges, (s, t, _) = np.zeros((sum(size),) * 2), size
    edges[:s, s:] = rows[:, : t + CHECKS]
    edges[s + t :, s : s + t] = rows[:, t + CHECKS :].max(0).reshape(CHECKS, t)
    edges, score = edges + edges.T + np.eye(sum(size)), np.ones(sum(size))
    for _ in range(STEPS):
        score = edges @ score
        score /= np.linalg.norm(score)
    return score[:s].round(9)


@dataclass
class LastPrompts:
    """The context of each task in the last round of EVOR that asked for it."""

    evolution: "Evolution"
    column = "EVOR, last prompt"

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order."""
        evor, last = EVOR_METHODS["EVOR"], dict[str, Context]()
        for n in range(evor.rounds + 1):
            if n and len(self.evolution.run.completions(evor.column(n - 1))) < len(tasks):
                raise Unavailable(
                    f"{self.column} needs all of EVOR: complete {evor.column(n - 1)} first"
                )
            found = RoundRetriever(self.evolution, evor, n).retrieve(tasks)
            last |= {c.task_id: c for c in found if c.method == evor.column(n)}
        return [replace(last[t.id], method=self.column, spent=None) for t in tasks]


@dataclass
class MpscRetriever:
    """Contexts that were drawn from, under the column of the chosen draw, so that its answer counts."""

    evolution: "Evolution"
    column: str

    @property
    def drawn(self) -> tuple[str, ...]:
        return DRAWS[self.column]

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order."""
        e = self.evolution
        functions = [t for t in tasks if t.entry_point and e.rules.language == "python"]
        about = {t.id: {"task": t.prompt, "name": t.entry_point} for t in functions}
        asked = [
            e.ask(f"MPSC.{k}", {i: text.format(**a) for i, a in about.items()})
            for k, text in ASKED.items()
        ]
        chosen = self._chosen(functions, {i: [of[i].raw for of in asked] for i in about})
        spent = {i: sum(len(of[i].tokens) + of[i].prompt_tokens for of in asked) for i in about}
        of = {c.task_id: c for c in e.run.contexts(context_method(self.drawn[0]))}
        columns = {t.id: chosen.get(t.id, self.drawn[0]) for t in tasks}
        return [replace(of[i], method=c, spent=spent.get(i, 0)) for i, c in columns.items()]

    def _chosen(self, tasks: list[Task], answers: dict[str, list[str]]) -> dict[str, str]:
        """task id -> the column of its best connected solution; of equals the first."""
        e, drawn = self.evolution, [self.evolution.run.solutions(c) for c in self.drawn]
        tests = {t.id: assertions(answers[t.id][0], t.entry_point) for t in tasks}
        jobs = []
        for task in tasks:
            wanted = pairs(tests[task.id], task.entry_point)
            holding = ", ".join(f"lambda: {pair}" for pair in wanted)
            probe = PROGRAMS["probe"].format(
                checks="\n".join(checks(answers[task.id][1])), pairs=holding
            )
            jobs += [e.rules.look(task, of[task.id], (probe,)) for of in drawn]
        said = [f.error if f else "" for f in e.executed(jobs, "MPSC's solutions")]
        bits = [(re.findall(r"^RuntimeError: ([01]*)$", text) or [""])[0] for text in said]
        return {
            t.id: self.drawn[int(confidence(bits[n * 5 : n * 5 + 5], len(tests[t.id])).argmax())]
            for n, t in enumerate(tasks)
        }
