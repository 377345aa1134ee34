"""Algorithm 1 of seed 002 as columns: a round is a column that needs the one before it, METHOD@ROUND.

What the algorithm leaves open is settled so:
- Test inputs are written after the first draft and before it is executed; as printed it would run on none.
- Rounds are synchronous: all tasks finish a round before the soup grows, so that their order decides nothing.
- A task is finished when a draft runs without an error on its inputs, or after three equal feedbacks; then
  later rounds keep its context, whose completion is known.
- A draft that runs gives its calling lines to the soup, one that fails its error and the line of it.
- No round sees a hidden test: drafts run by `Unfamiliar.look`, which is given none.
- A prompt after the first ends with the task's own error, and with what to do where a name does not exist
  (Appendix F puts errors into the prompt; line 10 has the question and what was found alone). So it is in all
  methods whose soup has feedback, the query and the knowledge alone among them.
- M_q is told the task, the draft and how it ran, not the inputs, which line 7 names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm.auto import tqdm

from pkg_lib.core.reading import Kinds, is_there
from pkg_lib.core.store import (
    ROWS,
    cache_folder,
    read_json,
    read_rows,
    slug,
    write_json,
    write_jsonl,
)
from pkg_lib.core.types import Context, Generation, Request, Task, digest
from pkg_lib.evaluation.storage import folder_name
from pkg_lib.execution.sandbox import Job, run_jobs
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Generator, StoredRequest
from pkg_lib.papers.evor.evor_methods import EvorMethod
from pkg_lib.papers.evor.soup import Need, Soup, called, calling_lines
from pkg_lib.papers.evor.unfamiliar import PROMPTS, Feedback, Unfamiliar

if TYPE_CHECKING:
    from pkg_lib.evaluation.results import Results

INPUTS = f"inputs{ROWS}"  # beside the feedback: how many generated inputs are valid
FEEDBACK: Kinds = {"sha256": str, "ok": bool, "error": str, "line": str}
NOTHING_WRITTEN = "the program ends where the task's does"  # and so it may well run
EQUAL = 3  # feedbacks in a row that end a task (Section 2.3)
ABSENT = re.compile(r"has no attribute '(\w+)'")
GONE = re.compile(  # a name that is not there, in an error of Python or of newLISP
    r"no attribute '(\w+)'|name '(\w+)' is not defined|unexpected keyword argument '(\w+)'"
    r"|No module named '([\w.]+)'|invalid function : \(([^\s()]+)"
)


@dataclass(frozen=True)
class Draft:
    """p of a task with what is known of it."""

    task: Task
    program: str
    feedback: Feedback


def names_of(draft: Draft) -> str:
    """The names in the failing line, or in all calls, and in the error."""
    lines = (
        [draft.feedback.line]
        if draft.feedback.line
        else calling_lines(draft.program, draft.task.prompt)
    )
    return " ".join(re.findall(r"[^\W\d]\w+", " ".join([*lines, draft.feedback.error])))


def absent_names(draft: Draft) -> str:
    """The names that do not exist, by the error, with the line that asked for them; else the question."""
    gone = "".join(next(iter(GONE.findall(draft.feedback.error)), ()))
    return f"{gone} {gone.replace('_', ' ')}\n{draft.feedback.line}" if gone else draft.task.prompt


# How a rule turns a draft into a query; the other ways ask a model.
_QUERIES: dict[str, Callable[[Draft], str]] = {
    "question": lambda draft: draft.task.prompt,
    "code": lambda draft: draft.program,
    "feedback": lambda draft: f"{draft.feedback.error}\n{draft.feedback.line}",
    "names": names_of,
    "absent names": absent_names,
}


class Evolution:
    """A benchmark's knowledge with all that its rounds made, from which the columns retrieve."""

    def __init__(self, rules: Unfamiliar, generator: Generator) -> None:
        self.rules, self.generators = rules, {"": generator, generator.model: generator}

    @property
    def generator(self) -> Generator:
        return self.generators[""]

    @cached_property
    def run(self) -> Results:
        from pkg_lib.evaluation.results import Results

        run = Results(self.generator.model, self.rules.name, results=self.generator.results)
        run.generator = self.generator  # with its cache: what was answered just now is known
        return run

    @cached_property
    def tasks(self) -> dict[str, Task]:
        return {t.id: t for t in self.run.tasks}

    @cached_property
    def verified(self) -> list[str]:
        """The documentation's own examples that run without an error, stored with the results."""
        programs = [*self.rules.examples()]
        path = self.generator.results / "feedback" / "examples" / f"{slug(self.rules.name)}.json"
        stored = read_json(path, {"sha256": str, "run": list}) if is_there(path) else {}
        if programs and stored.get("sha256") != digest(*programs):
            looks = [self.rules.look(self.run.tasks[0], p, ()) for p in programs]
            good = [
                i
                for i, f in enumerate(self.executed(looks, "the documentation's examples"))
                if f and f.ok
            ]
            stored = {"sha256": digest(*programs), "run": good}
            write_json(path, stored)
        good = {i for i in stored.get("run", ()) if isinstance(i, int)}
        return [program for i, program in enumerate(programs) if i in good]

    def executed(self, jobs: list[Job], what: str) -> list[Feedback | None]:
        """The feedback of each job, in order; None where the sandbox had a fault."""
        with tqdm(total=len(jobs), desc=f"running {what}", disable=len(jobs) < 20) as bar:
            limits = self.rules.limits(self.run.tasks[0])
            outcomes = run_jobs(jobs, limits, progress=lambda _: bar.update())
            return [self.rules.feedback(outcome) for outcome in outcomes]

    def ask(
        self, file: str, prompts: dict[str, str], model: str = "", most: int = 200
    ) -> dict[str, Generation]:
        """task id -> a model's answer of at most so many tokens; stored or asked. "": the generator's own."""
        if model not in self.generators:
            results = self.generator.results
            cache = GenerationCache(cache_folder(results, model), self.rules.name)
            self.generators[model] = Generator(model, self.generator.decoding, cache, results)
        generator = self.generators[model].decoding_with({"stop": "end", "max_new_tokens": most})
        requests = {i: Request(i, text, "") for i, text in prompts.items()}
        name = f"{slug(self.rules.name)}/{slug(file)}.jsonl"
        generator.complete(
            (StoredRequest(r, name) for r in requests.values()), f"{file} on {self.rules.name}"
        )
        return {i: generator.stored(r.text) for i, r in requests.items()}

    def feedback_rows(self, column: str) -> dict[str, dict[str, Any]]:
        """task id -> the stored feedback on the column's draft."""
        from pkg_lib.evaluation.stored_rows import by_task

        return by_task(self._feedback_file(column), FEEDBACK)

    def _feedback_file(self, column: str) -> Path:
        folder = (
            self.generator.results / "feedback" / slug(self.generator.model) / slug(self.rules.name)
        )
        return folder / f"{folder_name(column)}{ROWS}"

    def drafts(self, column: str, calls: dict[str, tuple[str, ...]]) -> dict[str, Draft]:
        """task id -> the column's draft with its feedback on the calls; what is not stored is executed."""
        rows, solutions = self.feedback_rows(column), self.run.solutions(column)
        jobs = {
            i: self.rules.look(self.tasks[i], s, calls.get(i, ())) for i, s in solutions.items()
        }
        marks = {i: digest(job.solution, *job.tests) for i, job in jobs.items()}
        todo = [i for i in solutions if rows.get(i, {}).get("sha256") != marks[i]]
        ran = self.executed([jobs[i] for i in todo], f"the drafts of {column}")
        for i, feedback in zip(todo, ran, strict=True):
            same = (
                self.rules.program(self.tasks[i], solutions[i]).split()
                == self.tasks[i].prompt.split()
            )
            if feedback:
                feedback = Feedback(False, NOTHING_WRITTEN) if feedback.ok and same else feedback
                rows[i] = {"task_id": i, "sha256": marks[i]} | asdict(feedback)
        if todo:
            write_jsonl(self._feedback_file(column), (rows[i] for i in self.tasks if i in rows))
        known = {i: rows[i] for i in solutions if rows.get(i, {}).get("sha256") == marks[i]}
        made = {i: Feedback(row["ok"], row["error"], row["line"]) for i, row in known.items()}
        return {i: Draft(self.tasks[i], solutions[i], feedback) for i, feedback in made.items()}

    def check_inputs(self, calls: dict[str, tuple[str, ...]]) -> None:
        """Stores how many of the generated inputs the reference solution runs on (Table 6)."""
        asked = [(i, call) for i, of in calls.items() for call in of]
        jobs = [self.rules.look(self.tasks[i], self.tasks[i].solution, (c,)) for i, c in asked]
        mark = digest(*(text for job in jobs for text in (job.solution, *job.tests)))
        if not calls or any(row["sha256"] == mark for row in self.input_rows()):
            return
        ran = self.executed(jobs, "the inputs")
        good = Counter(
            i for (i, _), feedback in zip(asked, ran, strict=True) if feedback and feedback.ok
        )
        about = {
            i: {"sha256": mark, "inputs": len(of), "valid": good[i]} for i, of in calls.items()
        }
        rows = ({"task_id": i} | row for i, row in about.items())
        write_jsonl(self._feedback_file("NoRAG").with_name(INPUTS), rows)

    def input_rows(self) -> list[dict[str, Any]]:
        """The stored counts of generated inputs and of valid ones, a row a task."""
        path = self._feedback_file("NoRAG").with_name(INPUTS)
        fields: Kinds = {"task_id": str, "sha256": str, "inputs": int, "valid": int}
        return [*read_rows(path, fields)] if is_there(path) else []

    def inputs(self, column: str, model: str) -> dict[str, Generation]:
        """The model's answers when it is asked for test inputs I; a task without a function has none."""
        programs = {
            i: p for i, p in self.run.solutions(column).items() if self.tasks[i].entry_point
        }
        prompts = {}
        for i, program in programs.items():
            task, fenced = self.tasks[i], self.rules.fenced(program)
            prompts[i] = PROMPTS["inputs"].format(
                task=task.prompt, program=fenced, name=task.entry_point
            )
        return self.ask("inputs", prompts, model)


@dataclass
class RoundRetriever:
    """C of a round's tasks."""

    evolution: Evolution
    method: EvorMethod
    number: int

    @property
    def column(self) -> str:
        return self.method.column(self.number)

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        """One context a task, in order."""
        e, rules, asked = self.evolution, self.evolution.rules, []
        rounds: list[dict[str, Draft]] = []
        if self.number:
            written = e.inputs(self.method.column(0), self.method.input_model)
            asked += [written] if self.number == 1 else []
            calls = {i: rules.calls(g.raw, e.tasks[i]) for i, g in written.items()}
            if (
                self.method.name == "EVOR"
            ):  # Table 6 is of its inputs: other methods' first drafts are others
                e.check_inputs(calls)
            rounds = [e.drafts(self.method.column(n), calls) for n in range(self.number)]
        last = rounds[-1] if rounds else {}
        going = [
            t for t in tasks if not rounds or (t.id in last and not self._finished(t.id, rounds))
        ]
        queries, first = self._queries(going, last, asked), self._thoughts(going, last, asked)
        soup = self._soup(rounds if self.method.grows else [])
        failed = self._failed(going, last, soup)
        needs = [Need(*texts) for texts in zip(queries, first, failed, strict=True)]
        found = soup.gather(needs, self.method, rules.budgets, e.generator.measure)
        made, spent = {}, Counter[str]()
        for i, answer in (pair for of in asked for pair in of.items()):
            spent[i] += len(answer.tokens) + answer.prompt_tokens
        for task, (query, *_), (text, names) in zip(going, queries, found, strict=True):
            about = {"query": query, "spent": spent[task.id], "recall": rules.recall(task, names)}
            made[task.id] = Context(
                task.id, self.column, text, "; ".join(names), defines_task=False, **about
            )
        before = (
            {c.task_id: c for c in e.run.contexts(self.method.column(self.number - 1))}
            if rounds
            else {}
        )
        # The others keep their context under the column of its round, and so the answer of that round; of
        # what is spent now they have the inputs that their first draft ran on.
        return [made.get(t.id) or replace(before[t.id], spent=spent.get(t.id)) for t in tasks]

    def _finished(self, task: str, rounds: Sequence[dict[str, Draft]]) -> bool:
        said = [r[task].feedback for r in rounds[-EQUAL:] if task in r]
        return said[-1].ok or (len(said) == EQUAL and len(set(said)) == 1)

    def _queries(
        self, tasks: list[Task], last: dict[str, Draft], asked: list[Any]
    ) -> list[tuple[str, ...]]:
        """What each task asks for: after the first round with the question beside it, which finds others."""
        how = self.method.query if last else "question"
        if how in _QUERIES:
            texts = [_QUERIES[how](last.get(t.id) or Draft(t, "", Feedback(True))) for t in tasks]
        else:
            asked.append(self._answers("query", PROMPTS["queries"][how], tasks, last))
            texts = [asked[-1][t.id].raw for t in tasks]
        return [
            (q,) if how == "question" else (q, t.prompt) for q, t in zip(texts, tasks, strict=True)
        ]

    def _failed(self, tasks: list[Task], last: dict[str, Draft], soup: Soup) -> list[str]:
        """What is said last in each prompt, near the task: how its own draft failed."""
        method = self.method
        if "feedback" not in method.sources or not last:
            return [""] * len(tasks)
        said = [last[t.id].feedback.error if "documents" in method.sources else "" for t in tasks]
        names = ["".join(ABSENT.findall(error)[:1]) for error in said]
        texts = []
        for task, name, near in zip(tasks, names, soup.named(names, method), strict=True):
            absent = "" if not name else PROMPTS["failed"]["nearest" if near else "absent"]
            about = self._about(task, last) | {"name": name, "nearest": near}
            texts.append((PROMPTS["failed"]["draft"] + absent).format(**about).strip())
        return texts

    def _thoughts(self, tasks: list[Task], last: dict[str, Draft], asked: list[Any]) -> list[str]:
        """What stands first in each prompt: what the model answered when it was asked to think."""
        how = PROMPTS["thoughts"].get(self.method.thinks)
        if not how or ("{said}" in how["ask"] and not last):
            return [""] * len(tasks)
        asked.append(self._answers(self.method.thinks, how["ask"], tasks, last))
        texts = [{"answer": asked[-1][t.id].raw.strip()} | self._about(t, last) for t in tasks]
        return [how["shown"].format(**text).strip() for text in texts]

    def _answers(
        self, what: str, ask: str, tasks: list[Task], last: dict[str, Draft]
    ) -> dict[str, Generation]:
        prompts = {t.id: ask.format(**self._about(t, last)).strip() for t in tasks}
        return self.evolution.ask(f"{self.column}.{what}", prompts, self.method.query_model, 100)

    def _about(self, task: Task, last: dict[str, Draft]) -> dict[str, str]:
        """What templates name."""
        rules, draft = self.evolution.rules, last.get(task.id)
        program, said = (rules.fenced(draft.program), draft.feedback.said) if draft else ("", "")
        return {"task": task.prompt, "program": program, "said": said, "subject": rules.subject}

    def _soup(self, rounds: Sequence[dict[str, Draft]]) -> Soup:
        e, drafts = self.evolution, [d for of in rounds for d in of.values()]
        programs = [(d.program, d.task.prompt) for d in drafts if d.feedback.ok]
        programs = [*((p, "") for p in e.verified), *programs]
        cut = (lambda program, _: [program]) if self.method.whole_programs else calling_lines
        # One of those that call the same: the rest would say it again.
        snippets = {
            called(x): x
            for program, given in reversed(programs)
            for x in reversed(cut(program, given))
        }
        faults = [*dict.fromkeys(d.feedback.said for d in drafts if not d.feedback.ok)]
        pages = e.rules.pages() if "web" in self.method.sources else []
        others = {"snippets": [*snippets.values()][::-1], "feedback": faults, "web": pages}
        return Soup(e.rules.documents(), others, e.rules.tokenizer)


@dataclass
class OracleRetriever:
    """The documentation that the reference solution needs."""

    evolution: Evolution
    column = "Oracle"

    def retrieve(self, tasks: list[Task]) -> list[Context]:
        rules = self.evolution.rules
        found = {t.id: "; ".join(sorted(rules.needed(t))) for t in tasks}
        return [
            Context(t.id, self.column, rules.oracle(t), found[t.id], defines_task=False)
            for t in tasks
        ]
