"""The parts of Algorithm 1 that execute and prompt: E, M_q and M_t, with what they have stored.

Drafts are executed once: their feedback is stored in results/feedback. The answers of M_q and M_t
are stored as completions.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

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
from pkg_lib.core.types import Generation, Request, Task, digest
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import folder_name
from pkg_lib.evaluation.stored_rows import by_task
from pkg_lib.execution.sandbox import Job, run_jobs
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Generator, StoredRequest
from pkg_lib.papers.evor.evor_benchmark import EvorBenchmark
from pkg_lib.papers.evor.execution_feedback import Draft, Feedback, read_feedback
from pkg_lib.papers.evor.templates import PROMPTS

FEEDBACK_FIELDS: Kinds = {
    "sha256": str,
    "ok": bool,
    "error": str,
    "line": str,
}
INPUT_FIELDS: Kinds = {
    "task_id": str,
    "sha256": str,
    "inputs": int,
    "valid": int,
}
INPUT_FILE = f"inputs{ROWS}"  # beside the feedback
# A draft that adds nothing to the task's program may well run.
NOTHING_WRITTEN = "the program ends where the task's does"
INPUT_TOKENS = 200  # of an answer of M_t
SHOWS_PROGRESS = 20  # jobs from which a progress bar is worth a line
Calls = Mapping[str, tuple[str, ...]]  # task id -> its test inputs I
Drafts = dict[str, Draft]  # task id -> its draft


class EvorRun:
    """A model on one of EVOR's benchmarks, from which the methods retrieve.

    Args:
        benchmark: The benchmark.
        generator: M, the model that writes the programs.
    """

    def __init__(self, benchmark: EvorBenchmark, generator: Generator) -> None:
        self.benchmark = benchmark
        self.generator = generator
        # M_q and M_t by name; "" stands for M.
        self.generators = {"": generator, generator.model: generator}

    @cached_property
    def results(self) -> Results:
        """The stored results of M. They share its cache, so that new answers are known at once."""
        results = Results(
            self.generator.model,
            self.benchmark.name,
            results=self.generator.results,
        )
        results.generator = self.generator
        return results

    @cached_property
    def tasks(self) -> dict[str, Task]:
        """The tasks by id."""
        return {task.id: task for task in self.results.tasks}

    # M_q and M_t

    def ask(
        self,
        file: str,
        prompts: Mapping[str, str],
        model: str = "",
        max_tokens: int = 200,
    ) -> dict[str, Generation]:
        """Return a model's answers to prompts; stored answers are reused.

        Args:
            file: Name of the file of the answers, without its suffix.
            prompts: Task id -> prompt.
            model: The model's name; "" for M.
            max_tokens: The most tokens of an answer.

        Returns:
            Task id -> answer.
        """
        changed_decoding = {
            "stop": "end",
            "max_new_tokens": max_tokens,
        }
        generator = self._generator_of(model)
        generator = generator.decoding_with(changed_decoding)
        benchmark = self.benchmark.name
        path = f"{slug(benchmark)}/{slug(file)}.jsonl"
        requests = []
        for task_id, text in prompts.items():
            request = Request(task_id, text, entry_point="")
            requests.append(StoredRequest(request, path))
        generator.complete(requests, f"{file} on {benchmark}")
        answers = {}
        for task_id, text in prompts.items():
            answer = generator.stored(text)
            assert answer is not None, f"{file} of {task_id} is not stored after its completion"
            answers[task_id] = answer
        return answers

    def _generator_of(self, model: str) -> Generator:
        if model not in self.generators:
            results = self.generator.results
            folder = cache_folder(results, model)
            self.generators[model] = Generator(
                model,
                self.generator.decoding,
                GenerationCache(folder, self.benchmark.name),
                results,
            )
        return self.generators[model]

    def input_answers(self, first_round: str, model: str) -> dict[str, Generation]:
        """Prompt M_t for test inputs, I <- M_t(n, p^0): line 19 of Algorithm 1.

        Args:
            first_round: Name of the round whose drafts are shown.
            model: M_t by name; "" for M.

        Returns:
            Task id -> answer. A task without a function has none.
        """
        template: str = PROMPTS["inputs"]
        prompts = {}
        for task_id, program in self.results.solutions(first_round).items():
            task = self.tasks[task_id]
            if not task.entry_point:
                continue
            prompts[task_id] = template.format(
                task=task.prompt,
                program=self.benchmark.fenced(program),
                name=task.entry_point,
            )
        return self.ask("inputs", prompts, model, INPUT_TOKENS)

    def inputs_in(self, answers: Mapping[str, Generation]) -> Calls:
        """Read the test inputs I from the answers of M_t.

        Args:
            answers: Task id -> answer.

        Returns:
            Task id -> calls of the task's function.
        """
        inputs = {}
        for task_id, answer in answers.items():
            task = self.tasks[task_id]
            inputs[task_id] = self.benchmark.input_calls(answer.raw, task)
        return inputs

    # E

    def execute(self, jobs: Sequence[Job], what: str) -> list[Feedback | None]:
        """Execute jobs of `EvorBenchmark.draft_job`, E of Algorithm 1.

        Args:
            jobs: The jobs.
            what: What is executed, for the progress bar.

        Returns:
            The feedback of each job, in order; None where the sandbox had a fault.
        """
        limits = self.benchmark.limits(self.results.tasks[0])
        is_short = len(jobs) < SHOWS_PROGRESS
        with tqdm(total=len(jobs), desc=f"running {what}", disable=is_short) as bar:

            def advance(_: int) -> None:
                bar.update()

            outcomes = run_jobs(jobs, limits, progress=advance)
            return [read_feedback(outcome) for outcome in outcomes]

    def drafts(self, round_name: str, inputs: Calls) -> Drafts:
        """Execute a round's programs on the test inputs, F^i = E(p^i, I): line 12 of Algorithm 1.

        Args:
            round_name: The round, such as "EVOR@0".
            inputs: The test inputs I.

        Returns:
            Task id -> draft with its feedback. A task whose job had a fault of the sandbox is absent.
        """
        solutions = self.results.solutions(round_name)
        rows = self.feedback_rows(round_name)
        jobs = {}
        fingerprints = {}
        for task_id, solution in solutions.items():
            calls = inputs.get(task_id, ())
            job = self.benchmark.draft_job(self.tasks[task_id], solution, calls)
            jobs[task_id] = job
            fingerprints[task_id] = digest(job.solution, *job.tests)

        def is_current(task_id: str) -> bool:
            row = rows.get(task_id, {})
            return row.get("sha256") == fingerprints[task_id]

        outdated = [task_id for task_id in solutions if not is_current(task_id)]
        outdated_jobs = [jobs[task_id] for task_id in outdated]
        executed = self.execute(outdated_jobs, f"the drafts of {round_name}")
        for task_id, feedback in zip(outdated, executed, strict=True):
            if feedback is None:
                continue
            if feedback.ok and self._adds_nothing(task_id, solutions[task_id]):
                feedback = Feedback(False, NOTHING_WRITTEN)
            rows[task_id] = {
                "task_id": task_id,
                "sha256": fingerprints[task_id],
                **asdict(feedback),
            }
        if outdated:
            in_order = [rows[task_id] for task_id in self.tasks if task_id in rows]
            write_jsonl(self._feedback_file(round_name), in_order)
        drafts = {}
        for task_id, solution in solutions.items():
            if not is_current(task_id):
                continue
            fields = {name: rows[task_id][name] for name in Feedback.__slots__}
            feedback = Feedback(**fields)
            drafts[task_id] = Draft(self.tasks[task_id], solution, feedback)
        return drafts

    def _adds_nothing(self, task_id: str, solution: str) -> bool:
        task = self.tasks[task_id]
        program = self.benchmark.program(task, solution)
        return program.split() == task.prompt.split()

    def feedback_rows(self, round_name: str) -> dict[str, dict[str, Any]]:
        """Read the stored feedback on a round's drafts.

        Args:
            round_name: The round, such as "EVOR@0".

        Returns:
            Task id -> row with ``ok``, ``error`` and ``line``.
        """
        return by_task(self._feedback_file(round_name), FEEDBACK_FIELDS)

    def _feedback_file(self, round_name: str) -> Path:
        folder = self.generator.results / "feedback" / slug(self.generator.model)
        return folder / slug(self.benchmark.name) / f"{folder_name(round_name)}{ROWS}"

    # The documentation's examples

    @cached_property
    def verified_examples(self) -> list[str]:
        """The documentation's examples that run, the first snippets of K (Appendix D).

        Which ones run is stored with the results.
        """
        programs = list(self.benchmark.examples())
        running = self._running_examples(programs)
        return [program for number, program in enumerate(programs) if number in running]

    def _running_examples(self, programs: list[str]) -> list[Any]:
        """The numbers of the programs that run."""
        folder = self.generator.results / "feedback" / "examples"
        path = folder / f"{slug(self.benchmark.name)}.json"
        stored: dict[str, Any] = {"sha256": "", "run": []}
        if is_there(path):
            stored = read_json(path, {"sha256": str, "run": list})
        fingerprint = digest(*programs)
        if programs and stored["sha256"] != fingerprint:
            task = self.results.tasks[0]
            jobs = [self.benchmark.draft_job(task, program, ()) for program in programs]
            running = []
            for number, feedback in enumerate(self.execute(jobs, "the documentation's examples")):
                if feedback and feedback.ok:
                    running.append(number)
            stored = {"sha256": fingerprint, "run": running}
            write_json(path, stored)
        numbers: list[Any] = stored["run"]
        return numbers

    # Table 6

    def count_valid_inputs(self, inputs: Calls) -> None:
        """Store on how many generated inputs the reference solution runs (Table 6, Appendix C).

        Args:
            inputs: The test inputs I.
        """
        callers = []
        jobs = []
        texts: list[str] = []
        for task_id, calls in inputs.items():
            task = self.tasks[task_id]
            for call in calls:
                job = self.benchmark.draft_job(task, task.solution, (call,))
                callers.append(task_id)
                jobs.append(job)
                texts += [job.solution, *job.tests]
        fingerprint = digest(*texts)
        is_stored = any(row["sha256"] == fingerprint for row in self.input_rows())
        if is_stored or not inputs:
            return
        valid: Counter[str] = Counter()
        feedbacks = self.execute(jobs, "the inputs")
        for task_id, feedback in zip(callers, feedbacks, strict=True):
            if feedback and feedback.ok:
                valid[task_id] += 1
        rows = []
        for task_id, calls in inputs.items():
            row = {
                "task_id": task_id,
                "sha256": fingerprint,
                "inputs": len(calls),
                "valid": valid[task_id],
            }
            rows.append(row)
        write_jsonl(self._input_file, rows)

    def input_rows(self) -> list[dict[str, Any]]:
        """Read the stored numbers of generated and of valid inputs (Table 6).

        Returns:
            One row per task with ``task_id``, ``inputs`` and ``valid``.
        """
        path = self._input_file
        return list(read_rows(path, INPUT_FIELDS)) if is_there(path) else []

    @property
    def _input_file(self) -> Path:
        return self._feedback_file("NoRAG").with_name(INPUT_FILE)
