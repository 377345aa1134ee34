"""The stored results of one model on EVOR's benchmarks, as the tables and figures read them."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.analysis import stats
from pkg_lib.core.types import Unavailable, UserError, digest
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import is_measured
from pkg_lib.papers.evor.evor_benchmark import EvorBenchmark
from pkg_lib.papers.evor.evor_methods import EVOR_METHODS, MPSC_SAMPLES

NO_RAG = "NoRAG"
EVOR = "EVOR"
# The same tasks with the library's own names: what knowing the library is worth.
PUBLIC_NAMES = {
    "beatnum": "beatnum-public",
    "monkey": "monkey-public",
    "networkx-m": "networkx-public",
    "more-itertools-m": "more-itertools-public",
}


@dataclass
class EvorResults:
    """The results of one model on several of EVOR's benchmarks.

    Attributes:
        model: The model's name.
        by_benchmark: Benchmark -> its results.
        folder: The results directory.
        limit: Number of tasks of each benchmark; None for all.
        missing: The benchmarks that were requested and are not measured.
    """

    model: str
    by_benchmark: dict[str, Results]
    folder: Path = Path()
    limit: int | None = None
    missing: list[str] = field(default_factory=list)

    @property
    def benchmarks(self) -> list[str]:
        """The names of the measured benchmarks."""
        return list(self.by_benchmark)

    def title(self, benchmark: str) -> str:
        """Return what tables call a benchmark.

        Args:
            benchmark: A measured benchmark.
        """
        return self.by_benchmark[benchmark].benchmark_spec.title

    def short_title(self, benchmark: str) -> str:
        """Return the title without what it has in brackets.

        Args:
            benchmark: A measured benchmark.
        """
        return self.title(benchmark).partition(" (")[0]

    @cached_property
    def tasks(self) -> dict[str, pd.Index]:
        """Benchmark -> ids of its tasks."""
        tasks = {}
        for name, results in self.by_benchmark.items():
            tasks[name] = pd.Index([task.id for task in results.tasks])
        return tasks

    def held_out(self, benchmark: str) -> list[str]:
        """Return the half of the tasks that was not looked at while prompts and queries were made.

        Args:
            benchmark: A measured benchmark.

        Returns:
            The ids of the tasks, chosen by a digest of the id.
        """
        held_out = []
        for task_id in self.tasks[benchmark]:
            number = int(digest(task_id)[:8], 16)
            if number % 2:
                held_out.append(task_id)
        return held_out

    def related(self, benchmark: str) -> Results | None:
        """Return the same model's results on another benchmark.

        Args:
            benchmark: A benchmark by name, such as "beatnum-module".

        Returns:
            The results; None if the model is not measured there.
        """
        if not is_measured(self.folder, self.model, benchmark):
            return None
        return Results(self.model, benchmark, limit=self.limit)

    def with_public_names(self, benchmark: str) -> pd.Series | None:
        """Return the verdicts without retrieval where the library has its own names.

        Args:
            benchmark: A measured benchmark.

        Returns:
            Verdict by task id; None if that is not measured.
        """
        public = PUBLIC_NAMES.get(benchmark)
        results = self.related(public) if public else None
        if results is None:
            return None
        return results.verdicts([NO_RAG])[NO_RAG]

    # Rounds

    def rounds(self, benchmark: str, method: str) -> list[str]:
        """Return the stored rounds of a method in which every task has a verdict.

        The tasks that an incomplete round lacks are those that failed before. Without them it would
        look better than it is.

        Args:
            benchmark: A measured benchmark.
            method: A method, such as "EVOR".

        Returns:
            The names of the rounds in order, such as "EVOR@0"; the method's own name if it has only
            one round, which may be incomplete.
        """
        evor_method = EVOR_METHODS.get(method)
        names = evor_method.round_names if evor_method else [method]
        results = self.by_benchmark[benchmark]
        stored = [name for name in names if results.files(name).samples.exists()]
        if len(names) == 1:
            return stored
        return [name for name in stored if self.verdicts(benchmark, name).notna().all()]

    def verdicts(self, benchmark: str, round_name: str) -> pd.Series:
        """Return the verdicts of one round.

        Args:
            benchmark: A measured benchmark.
            round_name: A round, such as "EVOR@0".

        Returns:
            Verdict by task id; missing where a task is not measured.
        """
        frame = self.by_benchmark[benchmark].verdicts([round_name])
        return frame[round_name].reindex(self.tasks[benchmark])

    def last_verdicts(self, benchmark: str, method: str) -> pd.Series:
        """Return the verdicts of a method's last complete round.

        Args:
            benchmark: A measured benchmark.
            method: A method, such as "EVOR".

        Returns:
            Verdict by task id; all missing if no round is complete.
        """
        rounds = self.rounds(benchmark, method)
        if rounds:
            return self.verdicts(benchmark, rounds[-1])
        return pd.Series(pd.NA, self.tasks[benchmark], dtype="boolean")

    def with_any_of(self, methods: Iterable[str]) -> list[str]:
        """Return the benchmarks on which one of the methods is stored.

        Args:
            methods: The methods.
        """
        wanted = list(methods)
        return [name for name in self.benchmarks if any(self.rounds(name, m) for m in wanted)]

    @property
    def evolved(self) -> list[str]:
        """The benchmarks with more than one complete round of EVOR."""
        return [name for name in self.benchmarks if len(self.rounds(name, EVOR)) > 1]

    # Retrieval and tokens

    def recall(self, benchmark: str, round_name: str) -> pd.Series:
        """Return the share of the needed documents that a prompt held.

        Args:
            benchmark: A measured benchmark.
            round_name: A round, such as "EVOR@0".

        Returns:
            Share by task id, of the tasks with known needed documents.
        """
        contexts = self.by_benchmark[benchmark].contexts(round_name)
        shares = {c.task_id: c.recall for c in contexts if c.recall is not None}
        return pd.Series(shares, dtype=float)

    def used(self, benchmark: str, round_name: str) -> pd.Series:
        """Return the share of the needed functions that a program names.

        Args:
            benchmark: A measured benchmark.
            round_name: A round, such as "EVOR@0".

        Returns:
            Share by task id, of the tasks with known needed documents.
        """
        measures = self.by_benchmark[benchmark].measures(round_name)
        return measures["used"].dropna() if "used" in measures else pd.Series(dtype=float)

    def feedback(self, benchmark: str, round_name: str) -> dict[str, dict[str, Any]]:
        """Return the stored execution feedback on a round's drafts.

        Args:
            benchmark: A measured benchmark.
            round_name: A round, such as "EVOR@0".

        Returns:
            Task id -> row with ``ok`` and ``error``.
        """
        run: Any = self.by_benchmark[benchmark].knowledge
        rows: dict[str, dict[str, Any]] = run.feedback_rows(round_name)
        return rows

    def tokens(self, benchmark: str, round_name: str) -> pd.Series:
        """Return the tokens that one round read and wrote.

        Args:
            benchmark: A measured benchmark.
            round_name: A round, such as "EVOR@0".

        Returns:
            Tokens by task id. A task that had ended before has those of its test inputs.
        """
        results = self.by_benchmark[benchmark]
        contexts = {context.task_id: context for context in results.contexts(round_name)}
        tokens = {}
        for task_id, answer in results.completions(round_name).items():
            context = contexts[task_id]
            had_ended = "@" in round_name and context.method != round_name
            tokens[task_id] = context.spent or 0
            if not had_ended:
                tokens[task_id] += answer.prompt_tokens
                tokens[task_id] += len(answer.tokens)
        return pd.Series(tokens, dtype=float)

    def all_tokens(self, benchmark: str, method: str) -> pd.Series:
        """Return the tokens that all rounds of a method read and wrote (Table 7).

        Args:
            benchmark: A measured benchmark.
            method: A method. MPSC has its samples, its tests and checks, and the rounds of EVOR that
                it follows.

        Returns:
            Tokens by task id.
        """
        samples = MPSC_SAMPLES.get(method, ())
        spent: dict[str, int] = {}
        if samples:
            for context in self.by_benchmark[benchmark].contexts(method):
                spent[context.task_id] = context.spent or 0
        rounds: list[str] = []
        if method == "EVOR + MPSC":
            rounds = self.rounds(benchmark, EVOR)
        elif method != "MPSC":
            rounds = self.rounds(benchmark, method)
        total = pd.Series(spent, self.tasks[benchmark], dtype=float).fillna(0)
        for name in (*rounds, *samples):
            total = total + self.tokens(benchmark, name)
        return total

    def check_controls(self) -> None:
        """Check that reference solutions pass every task and empty ones pass none.

        Raises:
            ControlError: A control row has another rate.
        """
        for name, results in self.by_benchmark.items():
            rates = {}
            for row, passes in results.benchmark_spec.controls.items():
                rates[row] = 100 if passes else 0
            stats.check_controls(results.controls(), self.tasks[name], rates)

    def provenance(self) -> dict[str, Any]:
        """Return what the results were made from, by title of the benchmark."""
        by_title = {}
        for name, results in self.by_benchmark.items():
            by_title[self.title(name)] = results.provenance()
        return by_title


def load_evor_results(folder: Path, model: str, benchmarks: str, limit: int | None) -> EvorResults:
    """Return a model's results on the benchmarks where it is measured.

    Args:
        folder: The results directory.
        model: The model's name.
        benchmarks: EVOR's benchmarks by name, separated by commas.
        limit: Number of tasks of each benchmark; None for all.

    Raises:
        UserError: A name is that of no benchmark of EVOR.
        Unavailable: The model is not measured on any of them.
    """
    known = [name for name, rules in BENCHMARKS.items() if isinstance(rules, EvorBenchmark)]
    requested = re.split(r"[,\s]+", benchmarks.strip(", "))
    wrong = [name for name in requested if name not in known]
    if wrong:
        choices = ", ".join(known)
        raise UserError(f"no benchmark of EVOR: {', '.join(wrong)}; choose from: {choices}")
    evor = EvorResults(model, {}, folder, limit)
    for name in requested:
        results = evor.related(name)
        if results is None:
            evor.missing.append(name)
        else:
            evor.by_benchmark[name] = results
    if not evor.by_benchmark:
        names = ", ".join(evor.missing)
        advice = "make them with run --benchmark"
        raise Unavailable(f"no verdicts of {model} on {names} are stored: {advice}")
    return evor
