"""One run of the study: model x benchmark x corpus, as it is stored. Reading makes and writes nothing.

    results/contexts/BENCHMARK/CORPUS/COLUMN.jsonl.gz          what was retrieved; COLUMN.meta.json: from what
    results/contexts/BENCHMARK/CORPUS/COLUMN.leakage.jsonl.gz  what each would be as the solution
    results/generations/MODEL/BENCHMARK/CORPUS/COLUMN.jsonl    completions (the cache)
    results/evaluations/MODEL/BENCHMARK/CORPUS/COLUMN.jsonl.gz extracted solution and verdict of each task
    results/evaluations/MODEL/BENCHMARK/CORPUS/reranked.jsonl.gz  what was chosen, among which scores
    results/evaluations/MODEL/BENCHMARK/CORPUS/candidates.json the columns that Reranked and Ideal choose from

None needs no corpus; its files stand under CORPUS = "none" and serve every corpus. Contexts measured in a
model's tokens stand one folder deeper, in MODEL. `Preparer` makes what is missing.
"""

import re
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import pandas as pd

from pkg_lib.core import limits
from pkg_lib.core.models import model_spec
from pkg_lib.core.reading import NUMBER, TEXT_OR_NONE, Fields, Kinds, is_there
from pkg_lib.core.registry import load_plugins, unknown
from pkg_lib.core.store import ROWS, read_json, read_rows, results_dir, slug, stem
from pkg_lib.core.types import (
    NOTHING,
    BenchmarkMissing,
    Context,
    Generation,
    Outcome,
    Request,
    Status,
    Task,
    UserError,
    digest,
)
from pkg_lib.data import corpora
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark
from pkg_lib.generation.authors_extraction import extract_as_authors
from pkg_lib.generation.cache import GenerationCache, stored
from pkg_lib.generation.extraction import answer, continued, extract
from pkg_lib.generation.generator import Generator
from pkg_lib.retrieval.columns import (
    COLUMNS,
    DRAW,
    TOP_P,
    Make,
    column_of,
    columns_of,
    contexts_of,
    draw_name,
    knowledge_of,
    variants,
)
from pkg_lib.retrieval.enhanced import ENHANCED, stored_docstrings
from pkg_lib.retrieval.leakage import Leak

OUTCOME: Kinds = {
    "task_id": str,
    "status": frozenset(get_args(Status)),
    "error": str,
    "detail": str,
}
VERDICT = OUTCOME | {"sha256": str, "solution": str}
CONTEXT: Kinds = {"column": str, "text": TEXT_OR_NONE, "sha256": str}
# What other fields of a stored row are, where it has them.
OTHERS: Kinds = {
    **dict.fromkeys(("seconds", "score"), NUMBER),
    **dict.fromkeys(("source", "pruned", "prompt_sha256", "query", "chosen_as_printed"), str),
    **dict.fromkeys(("tokens", "spent"), (int, type(None))),
    "recall": (*NUMBER, type(None)),
    "truncated": bool,
    "defines_task": (bool, type(None)),
}
LEAK: Kinds = {
    "sha256": str,
    **dict.fromkeys(("callable", "passes"), bool),
    **dict.fromkeys(("jaccard", "edit"), NUMBER),
    "statements": list,
}
PROVENANCE: Kinds = {
    **dict.fromkeys(("benchmark", "corpus", "corpus_digest"), str),
    "versions": dict,
}
CHOICE: Kinds = {"chosen": str, "sha256": str, "candidates": dict}
LEAST = 0.5  # share of the tasks with a verdict below which a column counts as not measured
SELECTED = ("Reranked", "Ideal")  # columns that choose among the others
AS_PRINTED = (
    "Reranked, as printed"  # by the rule of the paper's Section 3.3 instead of the authors' code
)
RERANKING = "authors' code"  # part of the mark of a stored choice: the rule by which it was made
LEAKAGE = f".leakage{ROWS}"
AUTHORS_EXTRACTION = (
    f".authors-extraction{ROWS}"  # verdicts on solutions that the authors' rule extracts
)
STAGES = ("context found", "in the prompt", "completion", "extracted", "parsed", "ran", "passed")


class Run:
    """Names in, stored records out. UserError: an unknown name; BenchmarkMissing: no tasks and no verdicts.

    Where the tasks alone cannot be had, `tasks_absent` says why: verdicts then stand as stored, unchecked.
    """

    protocol = "pkg-paper"

    def __init__(
        self,
        model: str,
        benchmark: str = "humaneval",
        corpus: str = "",
        limit: int | None = None,
        results: Path | None = None,
        shard: tuple[int, int] = (1, 1),
    ) -> None:
        load_plugins()
        self.rules = BENCHMARKS.get_or_fail(benchmark)
        self.model, self.benchmark, self.limit, self.shard = model, benchmark, limit, shard
        self.corpus = corpus or self.rules.corpus or corpora.DEFAULT
        self.results = results or results_dir()
        corpora.check_name(self.corpus)
        self.retrievers = columns_of(self.corpus)
        if self.corpus != self.rules.corpus and {self.corpus, self.rules.corpus} & {
            *corpora.OF_TASKS
        }:
            goes = ", ".join(f"{b.name} with {b.corpus}" for b in BENCHMARKS.values() if b.corpus)
            raise UserError(
                f"benchmark {benchmark} has no corpus {self.corpus}; these go together: {goes}"
            )
        self.tasks_absent = ""
        self.caches: dict[tuple[Path, str], GenerationCache] = {}  # runs of one plan share them
        self.slots: int | None = None  # prompts decoded together, where the user names a number
        self._contexts: dict[str, list[Context]] = {}
        model_spec(model)  # an unknown model is told before anything is read
        self.tasks = self._load_tasks()
        if limit and len(self.tasks) < limit:
            self.limit = None  # a limit that takes all tasks is none
        # Tasks of one prompt stay together, since they share a completion.
        places = {
            prompt: n for n, prompt in enumerate(dict.fromkeys(t.prompt for t in self.tasks), 1)
        }
        self.tasks = [t for t in self.tasks if places[t.prompt] % shard[1] == shard[0] % shard[1]]

    def _load_tasks(self) -> list[Task]:
        try:
            return load_benchmark(self.benchmark, self.limit)
        except BenchmarkMissing as e:
            if not (
                self.results / "evaluations" / slug(self.model) / slug(self.benchmark)
            ).is_dir():
                raise
            self.tasks_absent = str(e)
        ids = by_task(self.file("evaluations", "None"), VERDICT)
        return [Task(i, self.benchmark, "", "") for i in ids][: self.limit]

    @cached_property
    def generator(self) -> Generator:
        """The model with its cache, by whose keys completions are found."""
        decoding = self.rules.decoding(model_spec(self.model).style)
        if self.slots:
            decoding = replace(decoding, slots=self.slots)
        place = (
            self.results / "generations" / slug(self.model),
            self.rules.stored_with or self.benchmark,
        )
        if place not in self.caches:
            self.caches[place] = GenerationCache(*place)
        return Generator(self.model, decoding, self.caches[place], self.results)

    def generator_of(self, column: str) -> Generator:
        """The same model and cache, as a column draws from it."""
        return self.generator.decoding_with(column_of(column).decoding)

    def settings(self, column: str) -> str:
        """Identifies how a column asks: model, revision, decoding, sample and wording."""
        about = column_of(column)
        return self.generator_of(column).key(about.wording, about.sample)

    def offers(self, column: str) -> bool:
        """Whether the corpus has the column, or that of which it is a variant."""
        if column in self.retrievers or not (column in COLUMNS or DRAW.fullmatch(column)):
            return column in self.retrievers
        variant = column_of(column)
        fits = not variant.retriever or corpora.kind_of(self.corpus) in variant.kinds
        # A benchmark with a corpus of its own has prompts of its own, too.
        fits = fits and not ((variant.wording or variant.style) and self.rules.corpus)
        fits = fits and not (variant.in_chat and self.generator.spec.style != "chat")
        return bool(variant.of) and fits and self.offers(variant.of)

    @property
    def stem(self) -> str:
        return stem(self.model, self.benchmark, self.corpus, self.limit)

    @property
    def label(self) -> str:
        """What progress lines call it."""
        return " | ".join([self.model, self.benchmark, self.corpus])

    @property
    def heading(self) -> str:
        return f"{self.model}, {self.rules.title} ({len(self.tasks)} tasks), corpus {self.corpus}"

    @property
    def narrow_heading(self) -> str:
        """Two lines for a figure of one text column."""
        return f"{self.model}\n{self.rules.title}, corpus {self.corpus}"

    @cached_property
    def knowledge(self) -> Any:
        """What the columns retrieve from."""
        if self.rules.corpus:
            return self.rules.knowledge(self.generator)
        return knowledge_of(self.corpus)

    def file(self, stage: str, column: str, suffix: str = "") -> Path:
        of = contexts_of(column)
        corpus = "none" if of == "None" else slug(self.corpus)
        column = of if stage == "contexts" else column
        own = ".jsonl" if stage == "generations" else ROWS  # of a cache, which is appended to
        # A benchmark that judges another's solutions by other tests shares its contexts and completions, but
        # whether a context passes the tests is a matter of its own.
        shared = self.rules.stored_with if stage != "evaluations" and suffix != LEAKAGE else ""
        place, model = (shared or self.benchmark, corpus), (slug(self.model),)
        if stage != "contexts":
            place = model + place
        elif self.rules.in_tokens:
            place += model
        return self.results.joinpath(
            stage, *place, slug(column.replace(", ", ".")) + (suffix or own)
        )

    def control_file(self, name: str) -> Path:
        return (
            self.results
            / "evaluations"
            / "controls"
            / self.benchmark
            / f"{name.replace(' ', '-')}{ROWS}"
        )

    def stored_columns(self) -> list[str]:
        """The columns with their variants and draws, those whose completions or verdicts are stored."""
        named = [c for c in variants() if self.offers(c)]
        stages = (
            "generations",
            "evaluations",
        )  # equal prompts may share the completions of another column
        have = [
            c for c in [*self.retrievers, *named] if any(stored(self.file(s, c)) for s in stages)
        ]
        return [*have, *(draw for c in self.retrievers for draw in self.draws(c))]

    def draws(self, column: str, decoding: str = "") -> list[str]:
        """The columns of a column's stored draws, in order; of one `decoding` such as T0.8, or all."""
        file = self.file("generations", column)
        rest = (p.name.removeprefix(f"{file.stem}.") for p in file.parent.glob(f"{file.stem}.t*"))
        form = re.compile(r"t([\d.]+?)(?:\.p([\d.]+))?\.(\d+)\.jsonl(?:\.gz)?")
        parts = filter(None, map(form.fullmatch, rest))
        numbers = sorted({(float(p[1]), float(p[2] or TOP_P), int(p[3])) for p in parts})
        names = [draw_name(column, *n) for n in numbers]
        return [n for n in names if decoding in ("", *n.split(", "))]

    # Contexts

    def maker(self, column: str) -> Make:
        """What makes the retriever of a column's contexts."""
        name = contexts_of(column)
        return self.retrievers.get(name) or column_of(name).retriever

    def contexts(self, column: str) -> list[Context]:
        """The column's stored contexts in the order of the tasks. UserError for an unknown column."""
        if not self.offers(column):
            raise unknown("column", column, self.retrievers, f"for corpus {self.corpus}")
        column = contexts_of(column)
        if column not in self._contexts:
            stored = self.stored_contexts(column)
            self._contexts[column] = [stored[t.id] for t in self.tasks if t.id in stored]
        return self._contexts[column]

    def stored_contexts(self, column: str) -> dict[str, Context]:
        """task id -> stored context; none of a user's corpus once that or BM25's tokenizer has changed."""
        rows = by_task(self.file("contexts", column), CONTEXT)
        if rows and contexts_of(column) != "None" and corpora.own(self.corpus):
            about = read_provenance(self.file("contexts", column, ".meta.json"))
            with suppress(UserError):  # the corpus is gone
                if corpora.corpus_digest(self.knowledge.documents) != about.get("corpus_digest"):
                    return {}
            by_words = contexts_of(column).endswith("BM25")
            if by_words and about.get("tokenizer", corpora.ASCII) != corpora.tokenizer_of(
                self.corpus
            ):
                return {}
        if rows and contexts_of(column) == ENHANCED and self._docstrings_have_changed():
            return {}
        return {
            i: Context(**{k: r[k] for k in Context.__slots__ if k in r}) for i, r in rows.items()
        }

    def _docstrings_have_changed(self) -> bool:
        """Whether the enhancer has written docstrings since it was retrieved from them."""
        about = read_provenance(self.file("contexts", ENHANCED, ".meta.json")).get("docstrings")
        with suppress(UserError):  # what was retrieved remains readable without them
            now = stored_docstrings(corpora.retrieval(self.corpus)[0]).sha256
            return not isinstance(about, dict) or about.get("sha256") != now
        return False

    def leakage(self, column: str) -> dict[str, Leak]:
        """task id -> what its context is as the solution; of None the control, the reference renamed."""
        rows = by_task(self.file("contexts", column, LEAKAGE), LEAK)
        if not self.tasks_absent:
            tasks = {t.id: t for t in self.tasks}
            marks = {
                c.task_id: self.verdict_mark(tasks[c.task_id], c.sha256)
                for c in self.contexts(column)
            }
            rows = {i: row for i, row in rows.items() if row["sha256"] == marks.get(i)}
        return {i: Leak(**{k: row[k] for k in Leak.__slots__}) for i, row in rows.items()}

    def unpublished(self, column: str, context: Context) -> bool:
        """Whether the authors published no context for the task, so that its prompt would be None's."""
        absent = self.corpus == corpora.PUBLISHED and context.sha256 == NOTHING
        return absent and contexts_of(column) != "None"

    # Completions

    def request(self, task: Task, context: Context, column: str) -> Request:
        """Format(q, C(q)), Equation 10, before the model's own chat template, in the column's wording."""
        about = column_of(column)
        style = about.style or self.generator.spec.style
        variant = f"{style}, {about.wording}" if about.wording else style
        text = self.rules.prompt(task, context.text or "", variant, self.generator.measure)
        return Request(
            task.id,
            text,
            task.entry_point,
            about.sample,
            as_it_is=bool(about.style) and not about.in_chat,
            whole_answer=bool(about.style),
        )

    def completions(self, column: str) -> dict[str, Generation]:
        """task id -> completion; a task without one is absent. Damaged if their file cannot be read."""
        self.generator.cache.require(self.file("generations", column))
        contexts = [c for c in self.contexts(column) if not self.unpublished(column, c)]
        tasks = {} if self.tasks_absent else {t.id: t for t in self.tasks}
        generator, settings = self.generator_of(column), self.settings(column)
        if (
            self.rules.in_tokens
        ):  # reading cannot make these prompts; some answers are an earlier round's
            known, own = self.generator.cache.by_prompt(), contexts_of(column)
            how = {
                c: settings if c == own else self.settings(c) for c in {c.column for c in contexts}
            }
            keys = {c.task_id: (c.prompt_sha256, how[c.column]) for c in contexts}
            found = {i: known.get(key) or known.get((key[0], None)) for i, key in keys.items()}
            return {i: answer for i, answer in found.items() if answer is not None}
        hidden = self.tasks_absent or any(c.text is None for c in contexts)
        by_context = self._by_context(settings) if hidden else {}
        solutions = self.solutions(column) if self.tasks_absent else {}
        completions = {}
        for c in contexts:
            if c.task_id in tasks and c.text is not None:
                request = self.request(tasks[c.task_id], c, column)
                answer = generator.stored(request.text, request.sample)
            else:
                answer = by_context.get((c.task_id, c.sha256))
            if answer is None and c.task_id in solutions:
                same = [g for (_, sha256), g in by_context.items() if sha256 == c.sha256]
                answer = _of_solution(solutions[c.task_id], same, self.rules.starts_program)
            completions[c.task_id] = answer
        return {i: answer for i, answer in completions.items() if answer is not None}

    def _by_context(self, settings: str) -> dict[tuple[str, str], Generation]:
        """Completions by task and digest of the context, for contexts whose text is not stored.

        Benchmarks share task ids but not prompts; tasks of one prompt share a completion.
        """
        cache = self.generator.cache
        folders = {b.name for b in BENCHMARKS.values() if b.prompts == self.rules.prompts}
        rows = [g for key, g in cache.rows.items() if cache.folders[key] in folders]
        same = [g for g in rows if g.meta.get("settings") == settings]
        of_tasks = ((i, g) for g in same for i in self._twins.get(g.task_id, (g.task_id,)))
        return {(i, g.meta.get("context_sha256", "")): g for i, g in of_tasks}

    @cached_property
    def _twins(self) -> dict[str, list[str]]:
        """task id -> the tasks of its prompt, itself among them."""
        by_prompt = dict[str, list[str]]()
        for t in [] if self.tasks_absent else load_benchmark(self.benchmark):
            by_prompt.setdefault(t.prompt, []).append(t.id)
        return {i: ids for ids in by_prompt.values() for i in ids}

    def solutions(self, column: str) -> dict[str, str]:
        """task id -> solution extracted from the completion."""
        if self.tasks_absent:
            rows = self._verdict_rows(column)
            return {t.id: rows[t.id]["solution"] for t in self.tasks if t.id in rows}
        tasks = {t.id: t for t in self.tasks}
        return {
            task_id: self.rules.solution(tasks[task_id], self._answer(completion.raw))
            for task_id, completion in self.completions(column).items()
        }

    def _answer(self, raw: str) -> str:
        """The model's text without its reasoning; for a model that only continues, up to the body's end."""
        if len(raw) > limits.MAX_ANSWER_BYTES:
            # Parsing a text takes many times its size in memory, and no solution is that long.
            return ""
        spec = self.generator.spec
        text = answer(raw, spec.reasoning_tags)
        return continued(text) if spec.style == "plain" else text

    # Verdicts

    def authors_solutions(self, column: str) -> dict[str, str]:
        """Extract the solutions of a method by the authors' rule.

        Args:
            column: A method whose answers are kept whole (`Column.style`).

        Returns:
            Solution by task id; none where the tasks are not available.
        """
        if self.tasks_absent:
            return {}
        return {i: extract_as_authors(g.raw) for i, g in self.completions(column).items()}

    def outcomes(self, column: str, authors_extraction: bool = False) -> dict[str, Outcome]:
        """Read the verdicts on a method's answers.

        Args:
            column: A method.
            authors_extraction: Whether the solutions are those of the authors' extraction.

        Returns:
            Outcome by task id; a task without a stored verdict is not measured.
        """
        if authors_extraction:
            file = self.file("evaluations", column, AUTHORS_EXTRACTION)
            rows = self.current_verdicts(file, self.authors_solutions(column))
        else:
            rows = self._verdict_rows(column)
        absent = Outcome("not_measured", detail="no stored verdict")
        return {t.id: Outcome.of(rows[t.id]) if t.id in rows else absent for t in self.tasks}

    def measures(self, column: str) -> pd.DataFrame:
        """[task, measure]: how far the judged solutions are the references'; no rows where there are none."""
        rows, about = self._verdict_rows(column), {*VERDICT, *Outcome.__slots__}
        judged = {t.id: rows[t.id] for t in self.tasks if t.id in rows}
        values = {
            i: {k: v for k, v in row.items() if k not in about and isinstance(v, NUMBER)}
            for i, row in judged.items()
        }
        return pd.DataFrame.from_dict(values, orient="index", dtype=float)

    def _verdict_rows(self, column: str) -> dict[str, dict[str, Any]]:
        solutions = {} if self.tasks_absent else self.solutions(column)
        return self.current_verdicts(self.file("evaluations", column), solutions)

    def current_verdicts(self, path: Path, solutions: dict[str, str]) -> dict[str, dict[str, Any]]:
        """The stored rows on these very solutions, tests, protocol and packages; all without tasks."""
        rows = by_task(path, VERDICT)
        if self.tasks_absent:
            return rows
        known = [(t, rows[t.id]) for t in self.tasks if t.id in solutions and t.id in rows]
        return {
            t.id: row for t, row in known if row["sha256"] == self.verdict_mark(t, solutions[t.id])
        }

    def verdict_mark(self, task: Task, solution: str) -> str:
        """Identifies what a verdict is on."""
        return digest(
            self.rules.fingerprint(task, solution), self.protocol, self.rules.limits(task).packages
        )

    def verdicts(self, columns: list[str] | None = None) -> pd.DataFrame:
        """Boolean [task, column]: True passed, False failed, <NA> not measured; Reranked and Ideal last.

        A column with verdicts on fewer than LEAST of the tasks counts as not measured.
        """
        offered = [*self.retrievers, *(SELECTED if self.rules.selects else ())]
        wanted = columns or offered
        selects = {*SELECTED, AS_PRINTED} if self.rules.selects else set()
        candidates = self.candidates if selects & set(wanted) else []
        others = [c for c in wanted if c not in (*offered, AS_PRINTED)]
        needed = [c for c in self.retrievers if c in wanted or c in candidates] + others
        frame = _without_sparse(pd.DataFrame({c: verdict_series(self.outcomes(c)) for c in needed}))
        if candidates:
            frame["Reranked"] = self._verdicts_of_chosen(frame[candidates], "chosen")
            frame[AS_PRINTED] = self._verdicts_of_chosen(frame[candidates], "chosen_as_printed")
            frame["Ideal"] = ideal(frame[candidates])
        shown = [c for c in (*offered, AS_PRINTED) if c in wanted and c in frame]
        return _without_sparse(frame[shown + others])

    def _verdicts_of_chosen(self, candidates: pd.DataFrame, rule: str) -> pd.Series:
        """The verdicts of what a rule chose; not measured while a candidate is missing, as for the ideal.

        Args:
            candidates: Verdicts [task, method] of what was chosen from.
            rule: The field of a stored selection that names the chosen method.

        Returns:
            One verdict per task.
        """
        known = candidates.dropna()
        chosen = {i: row.get(rule, "") for i, row in self.selections().items() if i in known.index}
        values = {i: known.at[i, column] for i, column in chosen.items() if column in known}
        return pd.Series(values, dtype="boolean").reindex(candidates.index)

    @property
    def candidates(self) -> list[str]:
        """What Reranked and Ideal choose from: the columns offered at the first choice, else all.

        So a column that is added later changes no stored result.
        """
        path = self.file("evaluations", "candidates", ".json")
        stored = (
            read_json(path, {"columns": list})["columns"]
            if is_there(path)
            else list(self.retrievers)
        )
        return [c for c in stored if isinstance(c, str) and c in self.retrievers]

    def selections(self) -> dict[str, dict[str, Any]]:
        """task id -> what the reranker saw and chose (Section 3.3), for the solutions as they are."""
        rows = by_task(self.file("evaluations", "reranked"), CHOICE)
        if self.tasks_absent:
            return rows
        marks = self.selection_marks(self.candidates)
        return {
            i: rows[i] for i, (*_, mark) in marks.items() if rows.get(i, {}).get("sha256") == mark
        }

    def selection_marks(self, candidates: list[str]) -> dict[str, tuple[Task, dict[str, str], str]]:
        """task id -> (task, column -> solution, mark), for tasks with a solution in any column.

        The mark identifies a choice among these candidates.
        """
        solutions = {c: self.solutions(c) for c in self.retrievers}
        marks = {}
        for task in self.tasks:
            if of_task := {c: s[task.id] for c, s in solutions.items() if task.id in s}:
                programs = [
                    (self.rules.program(task, s), self.rules.untested(task, s))
                    for s in of_task.values()
                ]
                without_tests = [untested for program, untested in programs if untested != program]
                scored_only = [c for c in of_task if c not in candidates]
                named = [part for item in of_task.items() for part in item]
                mark = digest(RERANKING, task.prompt, *named, *without_tests, *scored_only)
                marks[task.id] = (task, of_task, mark)
        return marks

    def records(self, column: str) -> pd.DataFrame:
        """Boolean [task, STAGES]: whether a task reaches each; <NA>: not the column's stage, or not measured.

        `ran`: the program without its tests runs through. What passed has reached all from completion on.
        """
        selections, completions = self.selections(), self.completions(column)
        solutions = self.solutions(column)
        contexts = {c.task_id: c for c in self.contexts(column)}
        records = {}
        for i, outcome in self.outcomes(column).items():
            context, answer = contexts.get(i), completions.get(i)
            scored = selections.get(i, {}).get("candidates", {}).get(column, {})
            ran = [scored.get(name, False) for name in ("parses", "runs")]
            way = [answer is not None, bool(solutions.get(i, "").strip()), *ran]
            retrieved = context is not None and context.sha256 != NOTHING
            # A completion may have been made with another context than the one that stands here now.
            asked = retrieved and (
                not answer or answer.meta.get("context_sha256") == context.sha256
            )
            places = (pd.NA, pd.NA) if contexts_of(column) == "None" else (retrieved, asked)
            passed = passes(outcome)
            records[i] = [*places, *([True] * 4 if passed is True else way), passed]
        return pd.DataFrame.from_dict(records, orient="index", columns=STAGES).astype("boolean")

    def own_assertions(self, column: str) -> frozenset[str]:
        """Tasks whose solution is ended by an assertion of its own before any test; it counts as failed."""
        records, outcomes = self.records(column), self.outcomes(column)
        ended = records.index[records["parsed"] & ~records["ran"] & ~records["passed"].fillna(True)]
        return frozenset(i for i in ended if outcomes[i].error == "AssertionError")

    def controls(self) -> dict[str, pd.Series]:
        """Verdicts of the control rows, through the same execution as a model's text."""
        series = {}
        for name in self.rules.controls:
            solutions = {} if self.tasks_absent else self.control_solutions(name)
            rows = self.current_verdicts(self.control_file(name), solutions)
            series[name] = verdict_series(
                {t.id: Outcome.of(rows[t.id]) for t in self.tasks if t.id in rows}
            )
        return series

    def control_solutions(self, name: str) -> dict[str, str]:
        return {t.id: self.rules.control(t, name) for t in self.tasks}

    def provenance(self) -> dict[str, Any]:
        """What the results were made from; versions and commit are those of the run that retrieved."""
        metas = {c: self.file("contexts", c, ".meta.json") for c in self.retrievers}
        retrieved = {c: about for c, path in metas.items() if (about := read_provenance(path))}
        return {
            "model": self.model,
            "revision": self.generator.revision,
            "decoding": {
                k: v for k, v in self.generator.decoding.parameters.items() if k != "style"
            },
            "benchmark": self.benchmark,
            "benchmark_digest": retrieved.get("None", {}).get("benchmark", ""),
            "tasks": len(self.tasks),
            "protocol": self.protocol,
            "packages": ", ".join(sorted({self.rules.limits(t).packages for t in self.tasks})),
            "corpus": self.corpus,
            "corpus_digest": sorted(
                {m["corpus_digest"] for m in retrieved.values() if "corpus_digest" in m}
            ),
            "retrieved_with": [m.get("versions") for m in retrieved.values()][-1:],
        }


def by_task(path: Path, fields: Fields = ()) -> dict[str, dict[str, Any]]:
    """Read the rows of a file by their tasks.

    Args:
        path: A JSONL file with a row for each task.
        fields: The fields that a row must have beside its `task_id`, with what they must be.

    Returns:
        Task id -> row; nothing if there is no file.

    Raises:
        Damaged: A row is not such an object, or the file cannot be read.
    """
    if not is_there(path):
        return {}
    typed = fields if isinstance(fields, dict) else dict.fromkeys(fields, object)
    return {row["task_id"]: row for row in read_rows(path, {"task_id": str} | typed, OTHERS)}


def read_provenance(meta: Path) -> dict[str, Any]:
    """What contexts were made from; {} if that is not recorded.

    Args:
        meta: The file beside the contexts.

    Raises:
        Damaged: The file cannot be read, or holds something else.
    """
    return read_json(meta, (), PROVENANCE) if is_there(meta) else {}


def _of_solution(
    solution: str, answers: list[Generation], starts_program: bool
) -> Generation | None:
    """The answer that gave a solution, of a task that shares its prompt; None where several fit."""
    names = re.findall(r"def\s+(\w+)", solution) or [""]
    fitting = {
        g.key: g
        for g in answers
        if any(extract(g.raw, name, starts_program) == solution for name in names)
    }
    return next(iter(fitting.values())) if len(fitting) == 1 else None


def passes(outcome: Outcome) -> Any:
    """True, False, or <NA> where it is not measured."""
    return pd.NA if outcome.status == "not_measured" else outcome.status == "passed"


def verdict_series(outcomes: dict[str, Outcome]) -> pd.Series:
    """Boolean per task: True passed, False failed, <NA> not measured."""
    return pd.Series([passes(o) for o in outcomes.values()], list(outcomes), dtype="boolean")


def ideal(verdicts: pd.DataFrame) -> pd.Series:
    """Boolean per task over the candidate columns: True when one passed; <NA> while one has no verdict.

    Such a task could only be known as solved, never as unsolved: counting it would favour the oracle.
    """
    return verdicts.fillna(False).any(axis=1).astype("boolean").mask(verdicts.isna().any(axis=1))


def _without_sparse(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Without the verdicts of columns that are measured on too few tasks."""
    return verdicts.apply(lambda v: v if v.notna().mean() >= LEAST else v.mask(v.notna()))
