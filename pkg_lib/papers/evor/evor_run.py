"""The parts of Algorithm 1 that execute and prompt: E, M_q and M_t, with what they have stored.

Drafts are executed once: their feedback is stored in results/feedback. The answers of M_q and M_t
are stored as completions.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
from pkg_lib.core.types import Generation, Request, Task, UnavailableError, digest
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import folder_name
from pkg_lib.evaluation.stored_rows import by_task
from pkg_lib.execution.sandbox import Job, run_jobs
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.extraction import blocks
from pkg_lib.generation.generator import Generator, StoredRequest
from pkg_lib.papers.evor.evor_benchmark import EvorBenchmark
from pkg_lib.papers.evor.execution_feedback import Draft, Feedback, read_feedback
from pkg_lib.papers.evor.templates import PROMPTS
from pkg_lib.retrieval.budget import fitting_texts

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
# The feedback on a draft that repeats the prompt and adds nothing. Executed, it may raise no error. The model
# sees this text as an error, and stored feedback has it.
NOTHING_WRITTEN = "the program ends where the task's does"
INPUT_TOKENS = 200  # of an answer of M_t
ANSWER_TOKENS = 100  # of a query, a reflection or a list of subgoals
# Of a script of sample usage. Snippets have as many tokens of a prompt (Appendix F).
SCRIPT_TOKENS = 300
SCRIPTS = "scripts"  # what their answers and their feedback are stored under
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
            # The limit is stated, since weights that are loaded already have that of programs.
            request = Request(task_id, text, entry_point="", max_new_tokens=max_tokens)
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
        jobs = {}
        for task_id, solution in solutions.items():
            calls = inputs.get(task_id, ())
            jobs[task_id] = self.benchmark.draft_job(self.tasks[task_id], solution, calls)

        def checked(task_id: str, feedback: Feedback) -> Feedback:
            if feedback.ok and self._adds_nothing(task_id, solutions[task_id]):
                return Feedback(False, NOTHING_WRITTEN)
            return feedback

        feedbacks = self.feedback_on(round_name, jobs, f"the drafts of {round_name}", checked)
        drafts = {}
        for task_id, feedback in feedbacks.items():
            drafts[task_id] = Draft(self.tasks[task_id], solutions[task_id], feedback)
        return drafts

    def feedback_on(
        self,
        name: str,
        jobs: Mapping[str, Job],
        what: str,
        checked: Callable[[str, Feedback], Feedback] | None = None,
    ) -> dict[str, Feedback]:
        """Return the feedback on jobs; those whose feedback is not stored are executed.

        Args:
            name: What the feedback is stored under, such as the name of a round.
            jobs: Id, such as a task's -> job of `EvorBenchmark.draft_job`.
            what: What is executed, for the progress bar.
            checked: Takes an id with its new feedback, and returns what is stored; None stores it as it is.

        Returns:
            Id -> feedback, in the order of the jobs. A job that had a fault of the sandbox is absent.
        """
        rows = self.feedback_rows(name)
        fingerprints = {key: digest(job.solution, *job.tests) for key, job in jobs.items()}

        def is_current(key: str) -> bool:
            row = rows.get(key, {})
            return row.get("sha256") == fingerprints[key]

        outdated = [key for key in jobs if not is_current(key)]
        executed = self.execute([jobs[key] for key in outdated], what)
        for key, feedback in zip(outdated, executed, strict=True):
            if feedback is None:
                continue
            if checked is not None:
                feedback = checked(key, feedback)
            rows[key] = {"task_id": key, "sha256": fingerprints[key], **asdict(feedback)}
        if outdated:
            order = dict.fromkeys([*self.tasks, *jobs])
            in_order = [rows[key] for key in order if key in rows]
            write_jsonl(self._feedback_file(name), in_order)
        feedbacks = {}
        for key in jobs:
            if is_current(key):
                fields = {field: rows[key][field] for field in Feedback.__slots__}
                feedbacks[key] = Feedback(**fields)
        return feedbacks

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

    # Scripts of sample usage

    def sample_scripts(self, window: int) -> list[tuple[str, Feedback]]:
        """Return a script of sample usage for each documented function, executed (Appendix D).

        Args:
            window: Tokens of a prompt and its answer together. A longer document is cut.

        Returns:
            Pairs of a script and its feedback, in the order of the documents. A script that had a fault
            of the sandbox is left out.

        Raises:
            UnavailableError: The benchmark has no documentation.
        """
        documents = self.benchmark.documents()
        if not documents:
            raise UnavailableError(
                f"{self.benchmark.title} has no documentation, about which a model could write scripts; "
                "choose another benchmark, or a method without `as published`"
            )
        template: str = PROMPTS["scripts"]
        subject = self.benchmark.subject
        limit = window - SCRIPT_TOKENS - self.generator.measure(template + subject)
        prompts = {}
        for name, document in documents.items():
            shown = fitting_texts([document], limit, self.generator.measure)
            prompts[name] = template.format(document="".join(shown), name=name, subject=subject)
        answers = self.ask(SCRIPTS, prompts, max_tokens=SCRIPT_TOKENS)
        scripts = {}
        jobs = {}
        task = self.results.tasks[0]  # any task; see `script_job`
        for name, answer in answers.items():
            scripts[name] = code_in(answer.raw)
            jobs[name] = self.benchmark.script_job(task, scripts[name])
        feedbacks = self.feedback_on(SCRIPTS, jobs, "scripts of sample usage")
        return [(scripts[name], feedback) for name, feedback in feedbacks.items()]

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


def code_in(raw: str) -> str:
    """Return the code of an answer that was to hold one code block.

    Args:
        raw: The answer.

    Returns:
        Its first block that is not empty; without one the whole answer.
    """
    for block in blocks(raw):
        if block.code.strip():
            return block.code.strip()
    return raw.strip()
