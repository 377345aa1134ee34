"""Let a model write docstrings for a corpus, and measure what they change in retrieval.

results/enhanced/MODEL/CORPUS.jsonl.gz                one line per function: docstring, or why it is rejected
results/enhanced/MODEL/CORPUS.jsonl                   answers since then; a stopped run continues with them
results/enhanced/MODEL/CORPUS.log.json                asked, accepted, rejected by reason; tokens; seconds
results/enhanced/MODEL/CORPUS.BENCHMARK.change.json   what the docstrings change in Func-PKG's retrieval
"""

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from pkg_lib.core.reading import NUMBER, Kinds, is_there
from pkg_lib.core.store import slug, versions, write_json, write_jsonl
from pkg_lib.core.types import Generation, Request, Task, UserError
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.data.corpora import corpus_digest, load_corpus
from pkg_lib.generation.cache import GenerationCache, append_line, keep_aside, packed, read_answers
from pkg_lib.generation.extraction import defines
from pkg_lib.generation.generator import Backend, Decoding, Generator, StoredRequest
from pkg_lib.graph import enhance as docstrings
from pkg_lib.graph.schema import IMPL, Graph, build_code_graph
from pkg_lib.papers.pkg.cost import duration, enhancement_seconds, stored_enhancement
from pkg_lib.retrieval.budget import cut_at_line_end
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.index import FlatIndex
from pkg_lib.retrieval.prune import prune

PARAMETERS = {
    "max_new_tokens": 96,
    "do_sample": False,
    "dtype": "bfloat16",
    "stop": "closed",
}
FIELDS: Kinds = {
    "key": str,
    "payload_sha256": str,
    "form": str,
    "raw": str,
    "finish": str,
    "tokens": int,
    "prompt_tokens": int,
    "seconds": NUMBER,
}
SUMS = ("tokens", "prompt_tokens", "seconds")
Row = dict[str, Any]


class DocstringFile(GenerationCache):
    """A model's answers for a corpus: one line per function and form.

    Attributes:
        path: The file to which answers are appended. A complete run packs it.
        rows: The undamaged lines, packed or not, by generation key.
    """

    rows: dict[str, Row]  # type: ignore[assignment]  # JSON objects, not completions

    def __init__(self, model: str, corpus: str, results: Path) -> None:
        """Read the file of a model and a corpus.

        Args:
            model: Name of the model.
            corpus: Name of the corpus.
            results: The results directory.
        """
        self.path = results / "enhanced" / slug(model) / f"{slug(corpus)}.jsonl"
        self.root = self.path.parent
        self.unreadable = {}
        self.refresh()

    def refresh(self) -> None:
        """Read the answers again, which another process may have written since."""
        self.rows = {}
        self._damaged = []
        for path in filter(is_there, (packed(self.path), self.path)):
            for line in read_answers(path, FIELDS):
                row = line.value
                if row is not None:
                    self.rows[row["key"]] = row
                elif line.line.ended:
                    self._damaged.append(line)

    def append(self, name: str, generation: Generation) -> None:
        """Store an answer at the end of the file.

        Args:
            name: Not used: the cache has one file.
            generation: The answer, whose task id is the digest of the function.
        """
        row = {
            "key": generation.key,
            "raw": generation.raw,
            "finish": generation.finish,
            "payload_sha256": generation.task_id,
            "tokens": len(generation.tokens),
            "prompt_tokens": generation.prompt_tokens,
        }
        row |= generation.meta
        append_line(self.path, row)
        self.rows[generation.key] = row

    def update(self, rows: dict[str, Row]) -> None:
        """Replace rows and pack the file; damaged lines are moved to another file.

        Args:
            rows: Rows by generation key.
        """
        self.rows |= rows
        keep_aside(self.path, self._damaged)
        self._damaged = []
        write_jsonl(packed(self.path), self.rows.values())
        self.path.unlink(missing_ok=True)


def enhance(
    corpus: str,
    model: str,
    count: int | None,
    results: Path,
    backend: Backend | None = None,
    slots: int | None = None,
    announce: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Prompt a model for docstrings of the functions of a corpus that have none.

    A function whose docstring is rejected is prompted for again in the next of FORMS. Each answer is stored
    as it arrives, so an interrupted run can be continued. Stored answers are checked again.

    Args:
        corpus: The name of a corpus of code.
        model: The name of a model that fills in the middle. The family of hf: and path: models is
            recognised by their tokens.
        count: Only so many functions, a fixed sample; None for all.
        results: The results directory.
        backend: What writes, in place of the model's weights.
        slots: How many prompts are decoded together; None for as many as fit into memory.
        announce: Receives one line that says what the run will do, before it starts.

    Returns:
        The log.

    Raises:
        UserError: The corpus or the model is unknown or not available, or cannot fill in the middle.
    """
    file = DocstringFile(model, corpus, results)
    decoding = Decoding(PARAMETERS, slots=slots, chat=False)
    generator = Generator(model, decoding, file, results, backend)
    fim = docstrings.fim_of(generator.spec.name, generator.known_tokens)
    is_closed = partial(docstrings.closed, fim=fim)
    generator.decoding = replace(generator.decoding, stop=is_closed)
    documents = load_corpus(corpus).documents
    graph = build_code_graph(documents)
    holes, skipped = docstrings.candidates(graph)
    chosen = list(holes)[:count]
    if announce:
        answered = {row["payload_sha256"] for row in file.rows.values()}
        due = sum(sha256 not in answered for sha256 in chosen)
        functions = f"{len(chosen):,} of {len(holes):,} functions without one in {corpus}"
        workload = _workload(due, model, results)
        announce(f"docstrings by {model} for {functions}: {workload}")
    rows: dict[str, Row] = {}
    by_form: dict[str, Row] = {}
    for form in docstrings.FORMS:
        prompts = []
        for sha256 in chosen:
            earlier = rows.get(sha256)
            if earlier and not earlier["reason"]:
                continue
            node, hole = holes[sha256]
            function = int(graph.parent[node])
            about = {
                "form": form,
                "where": graph.where(node),
                "name": graph.payload(function),
            }
            text = hole.prompt(fim, form)
            request = Request(sha256, text, "")
            prompt = StoredRequest(request, "", about)
            prompts.append(prompt)
        generator.complete(prompts, f"docstrings ({form})")
        judged = {}
        for prompt in prompts:
            request = prompt.request
            key = generator.key(request.text)
            row = file.rows[key]
            _, hole = holes[request.task_id]
            judged[request.task_id] = row | verdict(hole, row, fim)
        by_key = {row["key"]: row for row in judged.values()}
        file.update(by_key)
        by_form[form] = _counts(judged.values())
        rows |= judged
    log = _counts(rows.values())
    log["by_form"] = by_form
    log |= _sums(by_form.values())
    log |= {
        "model": model,
        "revision": generator.revision,
        "corpus": corpus,
        "corpus_digest": corpus_digest(documents),
        "functions": len(graph.of_type(IMPL)),
        "without_docstring": len(holes),
        "not_asked": skipped,
        "decoding": PARAMETERS,
        "versions": versions(),
    }
    write_json(file.path.with_suffix(".log.json"), log)
    return log


def _workload(due: int, model: str, results: Path) -> str:
    """Say how many functions have no answer yet, and how long a model takes for them."""
    if not due:
        return "all have an answer already"
    earlier = stored_enhancement(results, model)
    text = f"{due:,} without an answer"
    if not earlier:
        return f"{text}, time unknown, since no run of this model is stored"
    each = enhancement_seconds(earlier, 1)
    estimate = duration(enhancement_seconds(earlier, due))
    return f"{text}, about {estimate} at {each:.1f} s per function as in the largest stored run"


def verdict(hole: docstrings.Hole, row: dict[str, Any], fim: docstrings.FIM) -> dict[str, str]:
    """Judge an answer.

    Args:
        hole: Where the docstring goes.
        row: The stored answer.
        fim: The tokens by which the model fills in the middle.

    Returns:
        ``docstring`` as it is inserted, or "", and ``reason``: why the answer is rejected, or "".
    """
    try:
        text = docstrings.extract_docstring(hole, row["raw"], fim, row["finish"])
        reason = ""
    except docstrings.UnfitDocstringError as error:
        text = ""
        reason = str(error)
    return {"docstring": text, "reason": reason}


def _counts(rows: Collection[Row]) -> Row:
    """Count the accepted and the rejected answers, and sum what they cost."""
    rejected = Counter(row["reason"] for row in rows if row["reason"])
    counts: Row = {
        "asked": len(rows),
        "accepted": len(rows) - rejected.total(),
        "rejected": dict(rejected),
    }
    return counts | _sums(rows)


def _sums(rows: Collection[Row]) -> Row:
    """Sum what some answers cost."""
    sums: Row = {}
    for name in SUMS:
        total = sum(row[name] for row in rows)
        sums[name] = round(total, 1)
    return sums


def retrieval_change(
    graph: Graph,
    rows: Collection[Row],
    tasks: list[Task],
    embedder: Any,
) -> pd.DataFrame:
    """Measure what the docstrings change in Func-PKG's retrieval (Equation 5).

    Args:
        graph: The graph of a corpus of code.
        rows: The rows of a `DocstringFile` of the corpus.
        tasks: The tasks, whose prompts are the queries.
        embedder: The encoder.

    Returns:
        One row per task. ``before`` and ``after`` are the IMPL nodes that are found first, ``score_before``
        and ``score_after`` their cosines. ``defines_before`` and ``defines_after`` say whether the pruned
        context, without its new docstring, defines the task's function. ``enhanced`` says whether the node
        in ``after`` has a new docstring.
    """
    nodes = graph.of_type(IMPL)
    enhanced = docstrings.enhanced_payloads(graph, rows)
    old_texts = graph.payloads(nodes)
    new_texts = list(old_texts)
    for place, node in enumerate(nodes.tolist()):
        if node in enhanced:
            new_texts[place] = enhanced[node]
    prompts = [task.prompt for task in tasks]
    queries = embedder.encode(prompts)
    frame = pd.DataFrame({"task_id": [task.id for task in tasks]})
    texts_of = {
        "before": old_texts,
        "after": new_texts,
    }
    for when, texts in texts_of.items():
        vectors = embedder.encode(texts)
        index = FlatIndex(vectors)
        positions, scores = index.search(queries)
        found = nodes[positions[:, 0]]
        frame[when] = found
        frame[f"score_{when}"] = scores[:, 0]
        defining = []
        for task, query, node in zip(tasks, queries, found, strict=True):
            pruned = prune(graph, int(node), query, embedder)
            context, _ = cut_at_line_end(pruned.text)
            is_defined = defines(context, task.entry_point)
            defining.append(is_defined)
        frame[f"defines_{when}"] = defining
    frame["enhanced"] = frame["after"].isin(enhanced)
    return frame


def measure_change(
    corpus: str,
    model: str,
    benchmark: str,
    results: Path,
    embedder: Any = None,
) -> dict[str, Any]:
    """Measure and store what the docstrings change in retrieval over a benchmark.

    Args:
        corpus: Name of the corpus.
        model: Name of the model that wrote the docstrings.
        benchmark: Name of the benchmark.
        results: The results directory.
        embedder: The encoder; None for the study's.

    Returns:
        The log: counts of `retrieval_change`, and the mean rise of the best cosine.

    Raises:
        UserError: There are no docstrings of the model for the corpus.
    """
    file = DocstringFile(model, corpus, results)
    tasks = load_benchmark(benchmark)
    if not file.rows:
        missing = f"no docstrings of {model} for {corpus} in {file.path.parent}"
        raise UserError(f"{missing}; run `enhance` first")
    documents = load_corpus(corpus).documents
    embedder = embedder or Embedder()
    rows = file.rows.values()
    graph = build_code_graph(documents)
    frame = retrieval_change(graph, rows, tasks, embedder)
    has_changed = frame["before"] != frame["after"]
    rise = frame["score_after"] - frame["score_before"]
    accepted = {row["payload_sha256"] for row in rows if row.get("docstring")}
    log = {
        "top1_changed": int(has_changed.sum()),
        "top1_enhanced": int(frame["enhanced"].sum()),
        "defines_before": int(frame["defines_before"].sum()),
        "defines_after": int(frame["defines_after"].sum()),
        "mean_cosine_rise": round(float(rise.mean()), 6),
        "model": model,
        "corpus": corpus,
        "benchmark": benchmark,
        "tasks": len(tasks),
        "docstrings": len(accepted),
        "corpus_digest": corpus_digest(documents),
        "embedder": embedder.name,
        "versions": versions(),
    }
    name = f"{file.path.stem}.{slug(benchmark)}.change.json"
    write_json(file.path.with_name(name), log)
    return log
