"""What is stored of one experiment: a model on a benchmark, with contexts from one corpus.

`storage` defines where the records are. Reading computes and writes nothing. `pipeline.evaluate` makes
what is missing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.core.reading import NUMBER
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import results_path
from pkg_lib.core.types import NOTHING, Context, Generation, Outcome, Task, UserError, digest
from pkg_lib.evaluation.conditions import Condition, Sample, parse_condition
from pkg_lib.evaluation.context_validity import ContextValidity
from pkg_lib.evaluation.remembered import Remembered, file_signature
from pkg_lib.evaluation.storage import read_candidates
from pkg_lib.evaluation.stored_answers import StoredAnswers
from pkg_lib.evaluation.stored_rows import (
    LEAK,
    OPTIONAL,
    SELECTION,
    VERDICT,
    Rows,
    by_task,
    current_rows,
    read_provenance,
)
from pkg_lib.generation.authors_extraction import AUTHORS_RULES
from pkg_lib.generation.completion import Completion
from pkg_lib.generation.extraction import answer_of
from pkg_lib.generation.prompts import turns
from pkg_lib.retrieval.methods import (
    AS_PRINTED,
    IDEAL,
    NO_RAG,
    RERANKED,
    SELECTING,
    context_method,
    parse_method,
)

# Share of the tasks that must have a verdict; a method with fewer counts as not measured.
LEAST = 0.5
MARK_CHARS = 16  # of a digest in hex: 64 bits
STAGES = ("context found", "in the prompt", "completion", "extracted", "parsed", "ran", "passed")
# Part of the digest of a stored selection: the rule by which it was made.
SELECTION_RULE = "authors' code, query without hints, answers run as written"


class Results(StoredAnswers):
    """The stored records of one model on one benchmark with one corpus.

    `StoredExperiment` describes the arguments and the attributes, and finds files and methods.
    `StoredAnswers` reads contexts and completions. This class reads what was made of them: solutions,
    verdicts and selections.
    """

    # Solutions

    def solutions(self, method: str) -> dict[str, str]:
        """Extract the solutions from a method's completions.

        Args:
            method: A method that the corpus offers.

        Returns:
            Solution by task id; as stored if the tasks are not available.
        """
        version = self._version(method)
        solutions = self._solutions.get(method, version, lambda: self._read_solutions(method))
        return dict(solutions)

    @cached_property
    def _solutions(self) -> Remembered[str, dict[str, str]]:
        """The solutions that were extracted already, by method."""
        return Remembered()

    def _version(self, method: str) -> tuple[object, ...]:
        """Return what changes whenever a method's contexts, completions or verdicts change.

        A cache of completions only grows, so that its size tells whether it has changed.
        """
        generator = self.generator
        cache = generator.cache
        files = self.files(method)
        cache.require(files.completions)
        model = (generator.spec, self.settings(method))
        completions = (cache, len(cache.rows))
        return (model, completions, self.contexts(method), file_signature(files.samples))

    def _read_solutions(self, method: str) -> dict[str, str]:
        if self.tasks_absent:
            return self.stored_solutions(method)
        tasks = self.tasks_by_id
        solutions = {}
        for task_id, generation in self.completions(method).items():
            completion = Completion(generation.raw, self.generator.spec)
            answer = answer_of(completion)
            solutions[task_id] = self.benchmark_spec.solution(tasks[task_id], answer)
        return solutions

    def authors_solutions(self, method: str, rule: str) -> dict[str, str]:
        """Extract the solutions of a method by one of the authors' rules.

        Args:
            method: A method whose answers are kept whole (`Method.style`).
            rule: One of AUTHORS_RULES.

        Returns:
            Solution by task id; empty if the tasks are not available.
        """
        if self.tasks_absent:
            return {}
        extract = AUTHORS_RULES[rule]
        solutions = {}
        for task_id, completion in self.completions(method).items():
            solutions[task_id] = extract(completion.raw)
        return solutions

    def control_solutions(self, name: str) -> dict[str, str]:
        """Return the solutions of a control row by task id.

        Args:
            name: A control of the benchmark.
        """
        control = self.benchmark_spec.control
        return {task.id: control(task, name) for task in self.tasks}

    # Verdicts

    def outcomes(self, method: str, authors_rule: str | None = None) -> dict[str, Outcome]:
        """Read the verdicts on a method's solutions.

        Args:
            method: A method.
            authors_rule: One of AUTHORS_RULES, if it extracted the solutions. By default, this
                project's rule did.

        Returns:
            Outcome by task id; a task without a stored verdict is not measured.
        """
        if authors_rule is None:
            version = self._version(method)
            outcomes = self._outcomes.get(
                method, version, lambda: self._outcomes_of(self._verdict_rows(method))
            )
            return dict(outcomes)
        file = self.files(method).authors_verdicts(authors_rule)
        solutions = self.authors_solutions(method, authors_rule)
        return self._outcomes_of(self.current_verdicts(file, solutions))

    @cached_property
    def _outcomes(self) -> Remembered[str, dict[str, Outcome]]:
        """The outcomes by this project's extraction that were read already, by method."""
        return Remembered()

    def _outcomes_of(self, rows: Rows) -> dict[str, Outcome]:
        """Return the outcome of every task; a task without a row is not measured."""
        absent = Outcome("not_measured", detail="no stored verdict")
        outcomes = {}
        for task in self.tasks:
            outcomes[task.id] = Outcome.of(rows[task.id]) if task.id in rows else absent
        return outcomes

    def measures(self, method: str) -> pd.DataFrame:
        """Read how similar the judged solutions are to the references.

        Args:
            method: A method.

        Returns:
            Values [task, measure]; no rows if the benchmark has no such measures.
        """
        rows = self._verdict_rows(method)
        other_fields = {*VERDICT, *OPTIONAL, *Outcome.__slots__}
        values = {}
        for task in self.tasks:
            if task.id in rows:
                task_values = {}
                for name, value in rows[task.id].items():
                    if name not in other_fields and isinstance(value, NUMBER):
                        task_values[name] = float(value)
                values[task.id] = task_values
        return pd.DataFrame.from_dict(values, orient="index", dtype=float)

    def _verdict_rows(self, method: str) -> Rows:
        """Return the rows of the current verdicts on a method's solutions, by task id."""
        return self.current_verdicts(self.files(method).samples, self.solutions(method))

    def current_verdicts(self, path: Path, solutions: dict[str, str]) -> Rows:
        """Read the verdicts of a file that are on these very solutions, tests, protocol and packages.

        Args:
            path: A file of verdicts.
            solutions: Solution by task id.

        Returns:
            Row by task id; all rows of the file if the tasks are not available.
        """
        rows = by_task(path, VERDICT)
        if self.tasks_absent:
            return rows
        judged = [task.id for task in self.tasks if task.id in solutions]
        return self._rows_on(solutions, judged, rows)

    def _rows_on(self, texts: Mapping[str, str], task_ids: Iterable[str], rows: Rows) -> Rows:
        """Select the verdicts that are on these very texts (solutions, or digests of contexts) of tasks."""
        tasks = {task.id: task for task in self.tasks}
        return current_rows(
            rows, task_ids, lambda task_id: self.verdict_mark(tasks[task_id], texts[task_id])
        )

    def verdict_mark(self, task: Task, solution: str) -> str:
        """Return the beginning of a digest of the program, its tests, the protocol and the allowed packages.

        The first 64 bits tell a changed program from the one that was executed, and take less space.

        Args:
            task: The task.
            solution: A solution of it.
        """
        packages = self.benchmark_spec.limits(task).packages
        fingerprint = self.benchmark_spec.fingerprint(task, solution)
        return digest(fingerprint, self.protocol, packages)[:MARK_CHARS]

    def verdicts(self, methods: list[str] | None = None) -> pd.DataFrame:
        """Return whether each method solves each task.

        Args:
            methods: Methods; None for the corpus' default methods, the selecting ones last.

        Returns:
            Boolean [task, method]: True passed, False failed, <NA> not measured. A method with verdicts on
            fewer than LEAST of the tasks is not measured at all.
        """
        offered = list(self.retrievers)
        selecting: list[str] = []
        if self.benchmark_spec.selects:
            offered += SELECTING
            selecting = [*SELECTING, AS_PRINTED]
        wanted = methods or offered
        candidates: list[str] = []
        if any(method in selecting for method in wanted):
            candidates = self.candidates
        others = [m for m in wanted if m not in offered and m != AS_PRINTED]
        judged = [m for m in self.retrievers if m in wanted or m in candidates]
        series = {}
        for method in judged + others:
            series[method] = verdict_series(self.outcomes(method))
        frame = _without_sparse(pd.DataFrame(series))
        if candidates:
            candidate_verdicts = frame[candidates]
            frame[RERANKED] = self._verdicts_of_chosen(candidate_verdicts, "chosen")
            frame[AS_PRINTED] = self._verdicts_of_chosen(candidate_verdicts, "chosen_as_printed")
            frame[IDEAL] = ideal(candidate_verdicts)
        ordered = [m for m in (*offered, AS_PRINTED) if m in wanted and m in frame]
        return _without_sparse(frame[ordered + others])

    def controls(self) -> dict[str, pd.Series]:
        """Read the verdicts on the control rows, which go through the same execution as a model's text.

        Returns:
            Boolean verdicts by name of the control.
        """
        series = {}
        for name in self.benchmark_spec.controls:
            solutions = {}
            if not self.tasks_absent:
                solutions = self.control_solutions(name)
            file = self.control_samples(name)
            rows = self.current_verdicts(file, solutions)
            outcomes = {}
            for task in self.tasks:
                if task.id in rows:
                    outcomes[task.id] = Outcome.of(rows[task.id])
            series[name] = verdict_series(outcomes)
        return series

    def leakage(self, method: str) -> dict[str, ContextValidity]:
        """Read whether a method's contexts solve their tasks.

        Args:
            method: A method. For NoRAG this is the control: the reference solution under another name.

        Returns:
            Result by task id, for the contexts as they are now.
        """
        rows = by_task(self.files(method).validity, LEAK)
        if not self.tasks_absent:
            digests = {context.task_id: context.sha256 for context in self.contexts(method)}
            rows = self._rows_on(digests, digests, rows)
        validity = {}
        for task_id, row in rows.items():
            fields = {name: row[name] for name in ContextValidity.__slots__}
            validity[task_id] = ContextValidity(**fields)
        return validity

    # Selection among the solutions of several methods

    @property
    def candidates(self) -> list[str]:
        """The methods among whose solutions Reranked and Ideal Reranker select.

        These are the methods that were offered at the first selection, so that a method that is added later
        changes no stored result.
        """
        names = read_candidates(self.files(RERANKED))
        if names is None:
            return list(self.retrievers)
        return [name for name in names if name in self.retrievers]

    def selections(self) -> Rows:
        """Read the scores and the choices of the reranker (Section 3.3), for the solutions as they are now.

        Returns:
            Row by task id: `chosen` and `chosen_as_printed` name methods, `candidates` has the scores.
        """
        rows = by_task(self.files(RERANKED).selections, SELECTION)
        if self.tasks_absent:
            return rows
        fingerprints = self.selection_marks(self.candidates)
        return current_rows(rows, fingerprints, fingerprints.__getitem__)

    @cached_property
    def _queries(self) -> dict[str, str]:
        """What the solutions of a task are compared with, by task id."""
        query_of = self.benchmark_spec.reranking_query
        return {task.id: query_of(task) for task in self.tasks}

    def selection_marks(self, candidates: list[str]) -> dict[str, str]:
        """Return digests of what each selection is made from: query, candidates and solutions.

        Args:
            candidates: The methods that may be chosen.

        Returns:
            Digest by task id, for tasks with a solution by any method.
        """
        solutions = {method: self.solutions(method) for method in self.retrievers}
        fingerprints = {}
        for task in self.tasks:
            digest_parts: list[str] = []
            scored_only = []
            for method, by_task_id in solutions.items():
                if task.id not in by_task_id:
                    continue
                digest_parts += [method, by_task_id[task.id]]
                if method not in candidates:
                    scored_only.append(method)
            if digest_parts:
                fingerprints[task.id] = digest(
                    SELECTION_RULE,
                    self._queries[task.id],
                    *digest_parts,
                    "only scored",
                    *scored_only,
                )
        return fingerprints

    def _verdicts_of_chosen(self, candidates: pd.DataFrame, rule: str) -> pd.Series:
        """Return the verdicts on the chosen solutions.

        Args:
            candidates: Verdicts [task, method] of the candidates.
            rule: The field of a selection that names the chosen method.

        Returns:
            One verdict per task; not measured while a candidate is missing, as for the ideal reranker.
        """
        known = candidates.dropna()
        values = {}
        for task_id, row in self.selections().items():
            method = row.get(rule, "")
            if task_id in known.index and method in known:
                values[task_id] = known.at[task_id, method]
        verdicts = pd.Series(values, dtype="boolean")
        return verdicts.reindex(candidates.index)

    # Samples

    def sample(self, method: str, task_id: str) -> Sample:
        """Return everything that is stored of one task under one method.

        Args:
            method: A method that the corpus offers.
            task_id: A task, such as "HumanEval/20".

        Returns:
            The sample, with the prompt exactly as it is sent.

        Raises:
            UserError: The method or the task is unknown.
        """
        ids = [task.id for task in self.tasks]
        if task_id not in ids:
            raise unknown("task", task_id, ids, f"of {self.benchmark}")
        return self.samples(method)[ids.index(task_id)]

    def samples(self, method: str) -> list[Sample]:
        """Return everything that is stored of a method.

        Args:
            method: A method that the corpus offers.

        Returns:
            One sample per task, in order.
        """
        name = parse_method(method).name
        contexts = self.contexts_by_task(name)
        completions = self.completions(name)
        solutions = self.solutions(name)
        outcomes = self.outcomes(name)
        samples = []
        for task in self.tasks:
            sample = self._sample(
                task,
                name,
                contexts.get(task.id),
                completions.get(task.id),
                solutions.get(task.id, ""),
                outcomes[task.id],
            )
            samples.append(sample)
        return samples

    def _sample(
        self,
        task: Task,
        method: str,
        context: Context | None,
        completion: Generation | None,
        solution: str,
        outcome: Outcome,
    ) -> Sample:
        """Put together what is stored of one task."""
        condition = Condition(self.model, self.benchmark, self.corpus, method, self.limit)
        stored: dict[str, Any] = {"prompt": None, "prompt_sha256": "", "completion": None}
        if completion is not None:
            stored |= {
                "prompt_sha256": completion.meta.get("prompt_sha256") or "",
                "completion": completion.raw,
                "prompt_tokens": completion.prompt_tokens,
                "new_tokens": len(completion.tokens),
                "seconds": completion.meta.get("seconds"),
            }
        if context is not None:
            context = self.with_text(context)
        if self._can_build_prompt(method, context):
            request = self.request(task, context or Context(task.id, NO_RAG, ""), method)
            stored["prompt"] = turns(request.text)
            stored["prompt_sha256"] = digest(request.text)
        return Sample(condition, task.id, context, solution=solution, outcome=outcome, **stored)

    def _can_build_prompt(self, method: str, context: Context | None) -> bool:
        """Tell whether the prompt of a task can be built without the model's tokenizer."""
        if self.tasks_absent or self.benchmark_spec.in_tokens:
            return False
        if context_method(method) == NO_RAG:
            return True
        return context is not None and context.text is not None

    # Summaries

    def records(self, method: str) -> pd.DataFrame:
        """Return which stages each task reaches.

        Args:
            method: A method.

        Returns:
            Boolean [task, STAGES]; <NA> where the method has no such stage or it was not measured. "ran":
            the program without its tests runs through. A task that passes has reached every stage from the
            completion on.
        """
        selections = self.selections()
        completions = self.completions(method)
        solutions = self.solutions(method)
        contexts = self.contexts_by_task(method)
        without_context = context_method(method) == NO_RAG
        records = {}
        for task_id, outcome in self.outcomes(method).items():
            completion = completions.get(task_id)
            if without_context:
                context_stages: list[Any] = [pd.NA, pd.NA]
            else:
                context_stages = _context_stages(contexts.get(task_id), completion)
            passed = passes(outcome)
            if passed is True:
                solution_stages = [True] * 4
            else:
                selection = selections.get(task_id, {})
                scores = selection.get("candidates", {})
                score = scores.get(method, {})
                solution_stages = [
                    completion is not None,
                    bool(solutions.get(task_id, "").strip()),
                    score.get("parses", False),
                    score.get("runs", False),
                ]
            records[task_id] = [*context_stages, *solution_stages, passed]
        frame = pd.DataFrame.from_dict(records, orient="index", columns=list(STAGES))
        return frame.astype("boolean")

    def own_assertions(self, method: str) -> frozenset[str]:
        """Return the tasks whose solution fails an assertion of its own before any test.

        Args:
            method: A method.

        Returns:
            Task ids. Such a task counts as failed.
        """
        records = self.records(method)
        outcomes = self.outcomes(method)
        failed = ~records["passed"].fillna(True)
        stopped = records["parsed"] & ~records["ran"] & failed
        ids = records.index[stopped]
        failing = [task_id for task_id in ids if outcomes[task_id].error == "AssertionError"]
        return frozenset(failing)

    def provenance(self) -> dict[str, Any]:
        """Return what the results were made from.

        Returns:
            Fields for the last section of a page. Versions and commit are those of the retrieval. The
            packages that programs may import are empty if they depend on tasks that are not available.
        """
        retrieved = {}
        digests = set()
        versions: list[Any] = []  # of the last method that has a provenance
        for method in self.retrievers:
            about = read_provenance(self.files(method).provenance)
            if about:
                retrieved[method] = about
                versions = [about.get("versions")]
            if "corpus_digest" in about:
                digests.add(about["corpus_digest"])
        decoding = dict(self.generator.decoding.parameters)
        decoding.pop("style", None)
        packages = set()
        if not (self.tasks_absent and self.benchmark_spec.has_limits_by_task):
            for task in self.tasks:
                limits = self.benchmark_spec.limits(task)
                packages.add(limits.packages)
        no_rag_sources = retrieved.get(NO_RAG, {})
        return {
            "model": self.model,
            "revision": self.generator.revision,
            "decoding": decoding,
            "benchmark": self.benchmark,
            "benchmark_digest": no_rag_sources.get("benchmark", ""),
            "tasks": len(self.tasks),
            "protocol": self.protocol,
            "packages": ", ".join(sorted(packages)),
            "corpus": self.corpus,
            "corpus_digest": sorted(digests),
            "retrieved_with": versions,
        }


def load_results(
    conditions: Condition | str | Sequence[Condition | str],
    results: Path | None = None,
) -> Results:
    """Read what is stored under conditions. Nothing is computed.

    Args:
        conditions: One condition, or several that differ only in their methods; also as text, such as
            "qwen2.5-coder-0.5b-instruct | humaneval | textbook+stdlib | Func-PKG".
        results: The results directory; None for the configured one.

    Returns:
        The stored results of these methods.

    Raises:
        UserError: The conditions differ in more than their methods, or a name is unknown.
    """
    parsed = _parsed_conditions(conditions)
    first = parsed[0]
    for condition in parsed:
        if replace(condition, method=first.method) != first:
            raise UserError(
                f"{condition} and {first} differ in more than the method; load each by itself"
            )
    # A directory that does not exist yet is not created by reading.
    folder = results or results_path()
    found = Results(first.model, first.benchmark, first.corpus, first.limit, folder)
    names = [str(condition.method) for condition in parsed]
    found.methods = list(dict.fromkeys(names))
    for method in found.methods:
        is_selecting = method in (*SELECTING, AS_PRINTED)
        if not is_selecting and not found.offers(method):
            raise unknown("method", method, found.retrievers, f"for corpus {found.corpus}")
    return found


def _parsed_conditions(conditions: Condition | str | Sequence[Condition | str]) -> list[Condition]:
    """Return conditions as a list of values. At least one must be given."""
    if isinstance(conditions, (Condition, str)):
        conditions = [conditions]
    parsed = []
    for condition in conditions:
        if isinstance(condition, str):
            condition = parse_condition(condition)
        parsed.append(condition)
    if not parsed:
        raise UserError("no condition is given; give at least one")
    return parsed


def _context_stages(context: Context | None, completion: Generation | None) -> list[bool]:
    """Tell whether a context was retrieved, and whether it is in the prompt."""
    if context is None or context.sha256 == NOTHING:
        return [False, False]
    if completion is None:
        return [True, True]
    # The completion may have been made with another context than the one stored now.
    prompted_sha256 = completion.meta.get("context_sha256")
    return [True, prompted_sha256 == context.sha256]


def passes(outcome: Outcome) -> Any:
    """Return True or False, or <NA> for an outcome that was not measured.

    Args:
        outcome: A verdict.
    """
    if outcome.status == "not_measured":
        return pd.NA
    return outcome.status == "passed"


def verdict_series(outcomes: Mapping[str, Outcome]) -> pd.Series:
    """Return verdicts as a series.

    Args:
        outcomes: Outcome by task id.

    Returns:
        Boolean per task: True passed, False failed, <NA> not measured.
    """
    values = [passes(outcome) for outcome in outcomes.values()]
    return pd.Series(values, list(outcomes), dtype="boolean")


def ideal(verdicts: pd.DataFrame) -> pd.Series:
    """Return the verdicts of an oracle that selects a passing solution where there is one.

    Args:
        verdicts: Boolean [task, method] of the candidates.

    Returns:
        True where a candidate passed; <NA> while one has no verdict. Such a task could only be known as
        solved, never as unsolved: counting it would favour the oracle.
    """
    solved = verdicts.fillna(False).any(axis=1)
    is_incomplete = verdicts.isna().any(axis=1)
    return solved.astype("boolean").mask(is_incomplete)


def _without_sparse(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Remove the verdicts of methods that are measured on too few tasks."""
    kept = verdicts.copy()
    for method in verdicts:
        known = verdicts[method].notna()
        if known.mean() < LEAST:
            kept[method] = verdicts[method].mask(known)
    return kept
