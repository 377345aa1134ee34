"""Algorithm 1 of seed 002 as columns: a round is a column that needs the one before it, METHOD@ROUND.

What the algorithm leaves open is settled so:
- Test inputs are written after the first draft and before it is executed; as printed it would run on none.
- Rounds are synchronous: all tasks finish a round before the soup grows, so that their order decides nothing.
- A task is finished when a draft runs without an error on its inputs, or after three equal feedbacks; then
  later rounds keep its context, whose completion is known.
- A draft that runs gives its calling lines to the soup, one that fails its error and the line of it.
- No round sees a hidden test: drafts run by `Unfamiliar.look`, which is given none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from tqdm.auto import tqdm

from pkg_lib.core.models import cache_dir
from pkg_lib.core.store import read_json, read_rows, slug, write_json, write_jsonl
from pkg_lib.core.types import Context, Request, Task, digest
from pkg_lib.execution.sandbox import run_jobs
from pkg_lib.generation.generator import Prompt
from pkg_lib.papers.evor.methods import Method
from pkg_lib.papers.evor.soup import Fault, Soup, calling_lines
from pkg_lib.papers.evor.unfamiliar import Asked, Feedback

if TYPE_CHECKING:
    from pkg_lib.experiment.run import Run

EQUAL = 3  # feedbacks in a row that end a task (Section 2.3)
ASK_INPUTS = """\
{task}

A program for it:
{program}

Write five calls of `{name}` with different valid arguments, one a line, without results, in a code block."""
ASK_KNOWLEDGE = """\
{task}

A program for it:
{program}

When it ran: {said}

Which functions or methods of {subject} does a right program need? Say in one or two short sentences what each
of them does, as its documentation would."""
ASK_REFLECTION = """\
{task}

A program for it:
{program}

When it ran: {said}

Say in one or two short sentences what is wrong with the program and how to mend it."""
ASK_SUBGOALS = """\
{task}

Name at most three steps that a program for this task takes, a short line each, without code."""
ASK_MEANING = """\
{program}

Say in one or two short sentences what this program does, step by step, as documentation would."""
GONE = re.compile(
    r"no attribute '(\w+)'|name '(\w+)' is not defined|argument '(\w+)'|No module named '([\w.]+)'"
)


@dataclass(frozen=True)
class Draft:
    """p of a task with what is known of it."""

    task: Task
    program: str
    feedback: Feedback

    @property
    def said(self) -> str:
        f = self.feedback
        return "no error" if f.ok else f"{f.error}" + (f" in the line `{f.line}`" if f.line else "")


def names_of(draft: Draft) -> str:
    """The names in the failing line, or in all calls, and in the error."""
    lines = [draft.feedback.line] if draft.feedback.line else calling_lines(draft.program, draft.task.prompt)
    return " ".join(re.findall(r"[^\W\d]\w+", " ".join([*lines, draft.feedback.error])))


def absent_names(draft: Draft) -> str:
    """The names that do not exist, by the error, with the line that asked for them; else the question."""
    gone = " ".join(filter(None, next(iter(GONE.findall(draft.feedback.error)), ())))
    return f"{gone} {gone.replace('_', ' ')}\n{draft.feedback.line}" if gone else draft.task.prompt


# How a draft is turned into a query; a template is asked of the model (M_q).
_QUERIES: dict[str, Callable[[Draft], str] | str] = {
    "question": lambda draft: draft.task.prompt,
    "code": lambda draft: draft.program,
    "feedback": lambda draft: f"{draft.feedback.error}\n{draft.feedback.line}",
    "names": names_of,
    "absent names": absent_names,
    "explained code": ASK_MEANING,
    "model": ASK_KNOWLEDGE,
}


# What the model is asked before it writes, and how its answer stands in the prompt.
THOUGHTS = {
    "reflection": (ASK_REFLECTION, "A draft:\n{program}\nWhen it ran: {said}\nWhat to mend: {answer}"),
    "subgoals": (ASK_SUBGOALS, "Steps of the program:\n{answer}"),
}


class Evolution:
    """A benchmark's knowledge with all that its rounds made, from which the columns retrieve."""

    def __init__(self, asked: Asked) -> None:
        self.rules, self.generator = asked.rules, asked.generator

    @cached_property
    def run(self) -> Run:
        from pkg_lib.experiment.run import Run

        run = Run(self.generator.model, self.rules.name, results=self.generator.results)
        run.generator = self.generator  # with its cache: what was answered just now is known
        return run

    @cached_property
    def verified(self) -> list[str]:
        """Calling lines of the documentation's own examples, of those that run without an error."""
        programs = [*self.rules.examples()]
        path = cache_dir() / "examples" / f"{digest(*programs)[:16]}.json"
        if not path.exists() and programs:
            task = self.run.tasks[0]
            jobs = [self.rules.look(task, program, ()) for program in programs]
            with tqdm(total=len(jobs), desc="running the documentation's examples") as bar:
                ran = [
                    o.status == "passed"
                    for o in run_jobs(jobs, self.rules.limits(task), progress=lambda _: bar.update())
                ]
            write_json(path, [i for i, fine in enumerate(ran) if fine])
        fine = read_json(path) if programs else []
        return [*dict.fromkeys(x for i in fine for x in calling_lines(programs[i]))]

    def ask(self, file: str, prompts: dict[str, str]) -> dict[str, str]:
        """task id -> the model's answer, as written; what is not stored is asked."""
        requests = {i: Request(i, text, "") for i, text in prompts.items()}
        name = f"{slug(self.rules.name)}/{file}.jsonl"
        generator = self.generator.decoding_with({"stop": "end", "max_new_tokens": 200})
        generator.complete((Prompt(r, name) for r in requests.values()), f"{file} on {self.rules.name}")
        return {i: generator.stored(r.text).raw for i, r in requests.items()}

    def drafts(self, column: str, inputs_of: str) -> dict[str, Draft]:
        """task id -> the column's draft with its feedback, executed where that is not stored.

        The inputs are written for the drafts of `inputs_of`.
        """
        path = self.generator.results / "evolution" / slug(self.generator.model) / self.rules.name
        path /= f"{self.run.file('evaluations', column).stem}.jsonl"
        rows = (
            {row["task_id"]: row for row in read_rows(path, ("task_id", "sha256"))} if path.exists() else {}
        )
        tasks, solutions = {t.id: t for t in self.run.tasks}, self.run.solutions(column)
        calls = self._calls(inputs_of)
        marks = {i: digest(s, *calls.get(i, ())) for i, s in solutions.items()}
        todo = [i for i in solutions if rows.get(i, {}).get("sha256") != marks[i]]
        jobs = [self.rules.look(tasks[i], solutions[i], calls.get(i, ())) for i in todo]
        limits = self.rules.limits(self.run.tasks[0])
        for i, outcome in zip(todo, run_jobs(jobs, limits), strict=True):
            if feedback := self.rules.feedback(outcome):
                said = {"ok": feedback.ok, "error": feedback.error, "line": feedback.line}
                rows[i] = {"task_id": i, "sha256": marks[i], **said}
        if todo:
            write_jsonl(path, (rows[i] for i in tasks if i in rows))
        known = {i: rows[i] for i in solutions if rows.get(i, {}).get("sha256") == marks[i]}
        fields = ("ok", "error", "line")
        return {i: Draft(tasks[i], solutions[i], Feedback(*map(row.get, fields))) for i, row in known.items()}

    def _calls(self, column: str) -> dict[str, tuple[str, ...]]:
        """task id -> the test inputs I; a task without a function has none: its program is run as it is."""
        tasks = {t.id: t for t in self.run.tasks if t.entry_point}
        programs = {i: s for i, s in self.run.solutions(column).items() if i in tasks}
        ask = {
            i: ASK_INPUTS.format(
                task=tasks[i].prompt, program=self.rules.fenced(p), name=tasks[i].entry_point
            )
            for i, p in programs.items()
        }
        return {i: self.rules.calls(raw, tasks[i]) for i, raw in self.ask("inputs", ask).items()}


@dataclass
class RoundRetriever:
    """C of a round's tasks."""

    asked: Asked
    method: Method
    number: int

    @cached_property
    def evolution(self) -> Evolution:
        return Evolution(self.asked)

    @property
    def column(self) -> str:
        return self.method.column(self.number)

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order."""
        e, rounds = self.evolution, [self._drafts(n) for n in range(self.number)]
        last = rounds[-1] if rounds else {}
        going = [t for t in tasks if not rounds or (t.id in last and not self._finished(t.id, rounds))]
        queries, first = self._queries(going, last), self._thoughts(going, last)
        own = [Fault(last[t.id].feedback.error, last[t.id].feedback.line) if last else None for t in going]
        soup = self._soup(rounds if self.method.grows else [])
        found = soup.gather(queries, own, first, self.method, e.rules.budgets, e.generator.measure)
        made = {
            t.id: Context(t.id, self.column, text, "; ".join(names), defines_task=False)
            for t, (text, names) in zip(going, found, strict=True)
        }
        before = {c.task_id: c for c in e.run.contexts(self.method.column(self.number - 1))} if rounds else {}
        return [made.get(t.id) or replace(before[t.id], column=self.column) for t in tasks]

    def _drafts(self, number: int) -> dict[str, Draft]:
        return self.evolution.drafts(self.method.column(number), self.method.column(0))

    def _finished(self, task: str, rounds: Sequence[dict[str, Draft]]) -> bool:
        said = [r[task].feedback for r in rounds[-EQUAL:] if task in r]
        return said[-1].ok or (len(said) == EQUAL and len(set(said)) == 1)

    def _queries(self, tasks: list[Task], last: dict[str, Draft]) -> list[str]:
        if not last:
            return [t.prompt for t in tasks]
        how = _QUERIES[self.method.query]
        if callable(how):
            return [how(last[t.id]) for t in tasks]
        return self._answers("query", how, tasks, last)

    def _thoughts(self, tasks: list[Task], last: dict[str, Draft]) -> list[str]:
        """What stands first in each prompt: what the model answered when it was asked to think."""
        ask, shown = THOUGHTS.get(self.method.thinks, ("", ""))
        if not ask or ("{said}" in ask and not last):
            return [""] * len(tasks)
        answers = zip(tasks, self._answers(self.method.thinks, ask, tasks, last), strict=True)
        return [shown.format(answer=a.strip(), **self._about(t, last)) for t, a in answers]

    def _answers(self, what: str, ask: str, tasks: list[Task], last: dict[str, Draft]) -> list[str]:
        prompts = {t.id: ask.format(**self._about(t, last)) for t in tasks}
        answers = self.evolution.ask(f"{self.column}.{what}", prompts)
        return [answers[t.id] for t in tasks]

    def _about(self, task: Task, last: dict[str, Draft]) -> dict[str, str]:
        """What templates name."""
        rules, draft = self.evolution.rules, last.get(task.id)
        program, said = (rules.fenced(draft.program), draft.said) if draft else ("", "")
        return {"task": task.prompt, "program": program, "said": said, "subject": rules.subject}

    def _soup(self, rounds: Sequence[dict[str, Draft]]) -> Soup:
        e, drafts = self.evolution, [d for of in rounds for d in of.values()]
        lines = [x for d in drafts if d.feedback.ok for x in calling_lines(d.program, d.task.prompt)]
        faults = [Fault(d.feedback.error, d.feedback.line) for d in drafts if not d.feedback.ok]
        return Soup(e.rules.documents(), [*dict.fromkeys([*e.verified, *lines])], [*dict.fromkeys(faults)])


@dataclass
class OracleRetriever:
    """The documentation that the reference solution needs."""

    asked: Asked
    column = "Oracle"

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        rules = self.asked.rules
        found = {t.id: "; ".join(sorted(rules.needed(t))) for t in tasks}
        return [Context(t.id, self.column, rules.oracle(t), found[t.id], defines_task=False) for t in tasks]
