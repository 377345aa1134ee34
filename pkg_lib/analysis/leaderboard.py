"""results/leaderboard.csv and .json: pass@k of every stored method of every experiment.

Both are made only from stored records. A method that was not measured has no row. Unknown values are
left out: a selection among methods has no token counts, and the oldest completions have no seconds.
Rates are fractions with 95 % intervals. Tokens and seconds are means per answer. The seconds come from
different machines, some with a GPU, so they compare no models. `n` of the `tasks`
are measured. Replayed completions have the revision "replay".
"""

import logging
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from pkg_lib.analysis.comparison import pass_at_k
from pkg_lib.analysis.stats import KS
from pkg_lib.analysis.tables import DASH, csv_text, number, percent
from pkg_lib.core.reading import contents, is_there, parse
from pkg_lib.core.store import (
    CACHE,
    ROWS,
    cache_folder,
    read_json,
    read_rows,
    rows_sha256,
    sha256_of,
    slug,
    write_json,
    write_text,
)
from pkg_lib.core.types import (
    Outcome,
    UnavailableError,
    UserError,
    digest,
)
from pkg_lib.data.benchmarks import BENCHMARKS, load_benchmark, title_of
from pkg_lib.data.corpora import corpus_label
from pkg_lib.data.published import SAMPLES
from pkg_lib.evaluation.freshness import Records, program_digest
from pkg_lib.evaluation.results import (
    Results,
    passes,
    verdict_series,
)
from pkg_lib.evaluation.storage import (
    CONTEXTS,
    NO_CORPUS,
    RUNS,
    benchmark_folders,
    condition_paths,
    read_condition,
    sharing_completions,
)
from pkg_lib.evaluation.stored_rows import OPTIONAL, OUTCOME, read_provenance
from pkg_lib.generation.generator import Generator
from pkg_lib.retrieval.methods import (
    AS_PRINTED,
    IDEAL,
    NO_RAG,
    RERANKED,
    SELECTING,
    context_method,
    name_of_samples,
)

ENDPOINT = "endpoint:"  # the beginning of the name of a model behind a server
REPLAY = "replay"  # revision of a model whose completions were generated elsewhere
FOLDERS = (CONTEXTS, RUNS, CACHE, "replay")
REPLAYED = OUTCOME | {"benchmark": str, "method": str}
FIELDS = """
model revision benchmark protocol corpus column n tasks samples k pass_at_k low high
prompt_tokens new_tokens seconds benchmark_digest corpus_digest verdicts_sha256 commit
""".split()

logger = logging.getLogger(__name__)


class Entry(NamedTuple):
    """A row of the leaderboard's page, as text.

    Attributes:
        method: The method; an oracle is marked.
        model: The model. An endpoint has the model that its server was asked for; answers that were
            generated elsewhere are marked.
        benchmark: Title of the benchmark.
        corpus: Label of the corpus; a dash without retrieval.
        k: Number of samples that the rate allows for each task.
        rate: pass@k in percent.
        interval: Its 95 % interval in percent, or a dash.
        n: Number of measured tasks.
        tasks: Number of tasks of the benchmark.
        prompt_tokens: Mean number of tokens of a prompt, or a dash.
        new_tokens: Mean number of tokens of an answer, or a dash.
    """

    method: str
    model: str
    benchmark: str
    corpus: str
    k: str
    rate: str
    interval: str
    n: str
    tasks: str
    prompt_tokens: str
    new_tokens: str


def entries(results: Path) -> list[Entry]:
    """Read what `write` wrote.

    Args:
        results: The results directory.

    Returns:
        An entry for each row, in the order of the benchmarks. Rates of all tasks come before rates of
        some tasks, methods before oracles, and high rates before low ones. There is none without a
        leaderboard.
    """
    path = results / "leaderboard.json"
    if not is_there(path):
        return []
    rows = parse(contents(path))
    models = {row["model"] for row in rows}
    served = {model: _served_model(results, model) for model in models}
    return [_entry(row, served) for row in sorted(rows, key=_place)]


def _served_model(results: Path, model: str) -> str:
    """The model that an endpoint serves, by the record beside its answers; "" if that is not known."""
    if not model.startswith(ENDPOINT):
        return ""
    with suppress(OSError, UserError):  # no record, or a damaged one
        record = read_json(results / CACHE / slug(model) / "revision.json", {"model": str})
        served: str = record["model"]
        return served
    return ""


def _place(row: dict[str, Any]) -> tuple[int, str, int, bool, bool, float]:
    """The place of a row on the page.

    A benchmark that is not registered comes last. Among the rows of a benchmark and a k, those of
    all tasks come first, then those of some tasks, and oracles come after methods.
    """
    benchmark = row["benchmark"]
    known = list(BENCHMARKS)
    place = known.index(benchmark) if benchmark in known else len(known)
    is_partial = row["n"] < row["tasks"]
    return place, benchmark, row["k"], is_partial, row["column"] == IDEAL, -row["pass_at_k"]


def _entry(row: dict[str, Any], served: dict[str, str]) -> Entry:
    method = row["column"]
    if method == IDEAL:
        method += " (oracle)"
    if method == AS_PRINTED:
        method = f"{RERANKED}, the paper's formula"
    model = row["model"]
    if served[model]:
        model = f"{served[model]} at {model}"
    if row["revision"] == REPLAY:
        model += " (replayed answers)"
    bounds = DASH
    if "low" in row:
        bounds = f"{percent(row['low'])}{DASH}{percent(row['high'])}"
    return Entry(
        method,
        model,
        title_of(row["benchmark"]),
        corpus_label(row.get("corpus", DASH)),
        str(row["k"]),
        percent(row["pass_at_k"]),
        bounds,
        str(row["n"]),
        str(row["tasks"]),
        number(row.get("prompt_tokens")),
        number(row.get("new_tokens")),
    )


def write(results: Path) -> None:
    """Write both files, unless they were made from the same records.

    Nothing is written if nothing is measured.

    Args:
        results: The results directory.

    Raises:
        UserError: A file cannot be written.
    """
    outputs = [results / "leaderboard.json", results / "leaderboard.csv"]
    record = results / "leaderboard.made.json"
    records = Records(results)
    now = digest(program_digest(), *records.contents(map(Path, FOLDERS)))
    if _is_current(record, now, outputs):
        return
    board = _Leaderboard(results, records, _unchanged_rows(record, outputs))
    board.add_experiments()
    board.add_replays()
    if not board.rows:
        return
    write_json(outputs[0], board.rows)
    frame = pd.DataFrame(board.rows, columns=FIELDS)
    write_text(outputs[1], csv_text(frame, index=False))
    made = {
        # What was left out may be repaired without a change of these records.
        "from": "" if board.left_out else now,
        "outputs": _digests(outputs),
        "absent": sorted(board.absent),
        "experiments": board.experiments,
    }
    write_json(record, made)


def _is_current(
    record: Path,
    now: str,
    outputs: list[Path],
) -> bool:
    with suppress(OSError, UserError):  # Never written, or damaged.
        made = read_json(record, {"absent": list})
        is_same = made["from"] == now and made["outputs"] == _digests(outputs)
        return is_same and all(map(_is_absent, made["absent"]))
    return False


def _unchanged_rows(
    record: Path,
    outputs: list[Path],
) -> dict[str, list[dict[str, Any]]]:
    """Read the rows of each experiment that the last leaderboard was made from.

    Args:
        record: What the last leaderboard was made from.
        outputs: Its files.

    Returns:
        Digest of an experiment's records -> its rows. Nothing if the files were changed since, or if
        an earlier version wrote them.
    """
    with suppress(OSError, UserError, KeyError):  # Never written, or damaged.
        made = read_json(record, {"experiments": dict})
        if made["outputs"] == _digests(outputs):
            rows = parse(contents(outputs[0]))
            return {key: rows[first:end] for key, (first, end) in made["experiments"].items()}
    return {}


def _digests(outputs: list[Path]) -> dict[str, str]:
    return {path.name: sha256_of(path) for path in outputs}


def _is_absent(benchmark: str) -> bool:
    try:
        return not load_benchmark(benchmark, 1)
    except UnavailableError:
        return True


class _Leaderboard:
    """The rows, the benchmarks without available tasks, and the records that could not be read.

    Attributes:
        experiments: Digest of an experiment's records -> place of its first row, and of the row after
            its last. An experiment whose tasks are not available is left out.
    """

    def __init__(
        self,
        results: Path,
        records: Records,
        unchanged: dict[str, list[dict[str, Any]]],
    ) -> None:
        self.results = results
        self.records = records
        self.unchanged = unchanged
        self.experiments: dict[str, list[int]] = {}
        self.rows: list[dict[str, Any]] = []
        self.absent: set[str] = set()
        self.left_out: list[str] = []

    def _leave_out(
        self,
        name: str,
        error: UserError,
    ) -> None:
        logger.warning("leaderboard without %s: %s", name, error)
        self.left_out.append(name)

    def add_replays(self) -> None:
        """Add the stored verdicts of completions that were generated elsewhere."""
        folder = self.results / "replay"
        for path in sorted(folder.glob(f"*/*/*{ROWS}")):
            done = path.with_name(f"{path.name.removesuffix(ROWS)}.done.json")
            if not is_there(done):
                continue
            try:
                rows = read_rows(path, REPLAYED, OPTIONAL | {"sample": int})
                protocol = read_json(done, {"protocol": str})["protocol"]
            except UserError as e:
                self._leave_out(str(path.relative_to(folder)), e)
                continue
            if not rows:
                continue
            method = rows[0]["method"]
            verdicts = []
            words = []
            for row in rows:
                passed = passes(Outcome.of(row))
                verdicts.append((row["task_id"], row.get("sample", 0), passed))
                words += [method, row["task_id"], row["status"]]
            about = {
                "model": path.parents[1].name,
                "revision": REPLAY,
                "benchmark": rows[0]["benchmark"],
                "column": SAMPLES.get(method, method),
                "protocol": protocol,
                "verdicts_sha256": digest(*words),
            }
            frame = pd.DataFrame(verdicts).pivot(index=0, columns=1, values=2)
            self._add_rates(about, frame.astype("boolean"))

    def add_experiments(self) -> None:
        """Add the stored verdicts of every model, benchmark and corpus."""
        experiments = set()
        for path in condition_paths(self.results):
            try:
                condition = read_condition(path)
            except UserError as e:
                self._leave_out(str(path.relative_to(self.results)), e)
                continue
            experiments.add((condition.model, condition.benchmark, condition.corpus))
        # The cache of a model's completions is read once for all corpora.
        generators: dict[tuple[str, str], Generator] = {}
        for model, benchmark, corpus in sorted(experiments, key=_order):
            first = len(self.rows)
            try:
                made_from = self._digest_of_records(model, benchmark, corpus)
                if made_from in self.unchanged:
                    self.rows += self.unchanged[made_from]
                    self.experiments[made_from] = [first, len(self.rows)]
                    continue
                run = Results(model, benchmark, corpus, results=self.results)
                if (model, benchmark) not in generators:
                    generators = {(model, benchmark): run.generator}
                run.generator = generators[model, benchmark]
                self._add_experiment(run, corpus)
            except UserError as e:
                self._leave_out(" | ".join(filter(None, (model, benchmark, corpus))), e)
                continue
            if run.tasks_absent:
                self.absent.add(benchmark)
            else:
                self.experiments[made_from] = [first, len(self.rows)]

    def _digest_of_records(self, model: str, benchmark: str, corpus: str) -> str:
        """Return a digest of the program and of all records that the rows of an experiment come from."""
        cache = cache_folder(Path(), model)
        corpus_folder = slug(corpus) or NO_CORPUS
        folders = []
        for sharing in sharing_completions(benchmark):
            folders += benchmark_folders(model, sharing, corpus or NO_CORPUS)
            folders += [cache / slug(sharing) / name for name in {NO_CORPUS, corpus_folder}]
        revision = self.results / cache / "revision.json"
        return digest(
            program_digest(),
            model,
            benchmark,
            corpus,
            sha256_of(revision) if is_there(revision) else "",
            *self.records.contents(folders),
        )

    def _add_experiment(
        self,
        run: Results,
        corpus: str,
    ) -> None:
        """Add the methods of a corpus, or those without context if it is ""."""
        samples_by_method: dict[str, list[str]] = {}
        for sample in run.stored_methods():
            is_without_context = context_method(sample) == NO_RAG
            if is_without_context == (corpus == ""):
                samples_by_method.setdefault(name_of_samples(sample), []).append(sample)
        for method, samples in samples_by_method.items():
            about = _provenance(run, method, samples) | _mean_effort(run, samples)
            verdicts = {sample: verdict_series(run.outcomes(sample)) for sample in samples}
            self._add_rates(about, pd.DataFrame(verdicts))
        if corpus == "" or not is_there(run.files(RERANKED).condition):
            return
        for selection, selected in run.verdicts([*SELECTING, AS_PRINTED]).items():
            about = _provenance(run, str(selection), [*run.candidates, RERANKED])
            self._add_rates(about, selected.to_frame())

    def _add_rates(
        self,
        about: dict[str, Any],
        verdicts: pd.DataFrame,
    ) -> None:
        """Add a row for each k, of verdicts [task, sample]; none where no task is measured."""
        results = pd.concat({about["column"]: verdicts}, axis="columns")
        for k in KS:
            if k > verdicts.shape[1]:
                break
            (rate,) = pass_at_k(results, k).to_dict("records")
            rounded = {str(name): round(value, 6) for name, value in rate.items()}
            row = about | {"k": k} | rounded
            if rate["n"]:
                self.rows.append(_known(row))


def _known(row: dict[str, Any]) -> dict[str, Any]:
    """The fields of a row in their order, without those whose value is unknown."""
    known = {}
    for field in FIELDS:
        value = row.get(field)
        if value not in (None, "") and value == value:  # NaN is not equal to itself
            known[field] = value
    return known


def _order(experiment: tuple[str, str, str]) -> tuple[str, str, str]:
    """Return the sort key of an experiment, which follows the names of its folders."""
    model, benchmark, corpus = experiment
    return slug(model), benchmark, slug(corpus) or NO_CORPUS


def _mean_effort(
    run: Results,
    samples: list[str],
) -> dict[str, float]:
    """Return the mean tokens and seconds per answer; a field is absent if any answer lacks it."""
    effort = []
    for sample in samples:
        for answer in run.completions(sample).values():
            seconds = answer.meta.get("seconds")
            effort.append((answer.prompt_tokens, len(answer.tokens), seconds))
    names = ["prompt_tokens", "new_tokens", "seconds"]
    means = pd.DataFrame(effort, columns=names, dtype=float).mean(skipna=False)
    return {str(name): mean for name, mean in means.dropna().round(3).items()}


def _provenance(
    run: Results,
    method: str,
    methods: list[str],
) -> dict[str, Any]:
    """Return the inputs of a method's verdicts.

    A selection has the contexts of its last candidate. Its digest covers the candidates' verdicts
    and the stored selection.
    """
    candidates = [name for name in methods if name != RERANKED]
    # Only statuses: another run or engine changes the times.
    words = []
    for candidate in candidates:
        for task, outcome in run.outcomes(candidate).items():
            words += [candidate, task, outcome.status]
    if candidates != methods:
        words.append(rows_sha256(run.files(RERANKED).selections))
    contexts = read_provenance(run.files(candidates[-1]).provenance)
    about = run.provenance() | {
        "column": method,
        "verdicts_sha256": digest(*words),
        "corpus_digest": contexts.get("corpus_digest"),
        "commit": contexts.get("versions", {}).get("commit"),
    }
    if context_method(candidates[-1]) == NO_RAG:
        about["corpus"] = ""
    return about
