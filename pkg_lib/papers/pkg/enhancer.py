"""The docstring enhancer as a run: a corpus and a model in, docstrings and what they change in retrieval out.

results/enhanced/MODEL/CORPUS.jsonl                   one line a function: docstring, or why it is rejected
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
from pkg_lib.generation.cache import GenerationCache, append_line, keep_aside, read_answers
from pkg_lib.generation.extraction import defines
from pkg_lib.generation.generator import Backend, Decoding, Generator, StoredRequest
from pkg_lib.graph import enhance as docstrings
from pkg_lib.graph.schema import IMPL, Graph, build_code_graph
from pkg_lib.papers.pkg.cost import duration, enhancement_seconds, stored_enhancement
from pkg_lib.retrieval.budget import cut_at_line_end
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.index import FlatIndex
from pkg_lib.retrieval.prune import prune

PARAMETERS = {"max_new_tokens": 96, "do_sample": False, "dtype": "bfloat16", "stop": "closed"}
FIELDS: Kinds = {
    **dict.fromkeys(("key", "payload_sha256", "form", "raw", "finish"), str),
    **dict.fromkeys(("tokens", "prompt_tokens"), int),
    "seconds": NUMBER,
}
SUMS = ("tokens", "prompt_tokens", "seconds")


class DocstringFile(GenerationCache):
    """A model's answers for a corpus, one line a function and form, without torn or damaged lines."""

    rows: dict[str, Any]

    def __init__(self, model: str, corpus: str, results: Path) -> None:
        self.path = results / "enhanced" / slug(model) / f"{slug(corpus)}.jsonl"
        self.root, self.unreadable = self.path.parent, {}
        self.refresh()

    def refresh(self) -> None:
        """Read the file again, which another process may have written since."""
        found = list(read_answers(self.path, FIELDS)) if is_there(self.path) else []
        self.rows = {row.value["key"]: row.value for row in found if row.value is not None}
        self._damaged = [row for row in found if row.value is None and row.line.ended]

    def append(self, name: str, generation: Generation) -> None:
        counts = {"tokens": len(generation.tokens), "prompt_tokens": generation.prompt_tokens}
        answer = {
            "raw": generation.raw,
            "finish": generation.finish,
            "payload_sha256": generation.task_id,
        }
        row = {"key": generation.key} | answer | counts | generation.meta
        append_line(self.path, row)
        self.rows[generation.key] = row

    def update(self, rows: dict[str, dict[str, Any]]) -> None:
        self.rows |= rows
        keep_aside(self.path, self._damaged)
        self._damaged = []
        write_jsonl(self.path, self.rows.values())


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
    generator.decoding = replace(generator.decoding, stop=partial(docstrings.closed, fim=fim))
    documents = load_corpus(corpus).documents
    graph = build_code_graph(documents)
    holes, skipped = docstrings.candidates(graph)
    chosen = list(holes.items())[:count]
    if announce:
        answered = {row["payload_sha256"] for row in file.rows.values()}
        due = sum(sha not in answered for sha, _ in chosen)
        functions = f"{len(chosen):,} of {len(holes):,} functions without one in {corpus}"
        announce(f"docstrings by {model} for {functions}: {_workload(due, model, results)}")
    rows: dict[str, dict[str, Any]] = {}
    by_form = {}
    for form in docstrings.FORMS:
        prompts = []
        for sha, (node, hole) in chosen:
            if sha not in rows or rows[sha]["reason"]:
                name = graph.payload(int(graph.parent[node]))
                about = {"form": form, "where": graph.where(node), "name": name}
                prompts.append(StoredRequest(Request(sha, hole.prompt(fim, form), ""), "", about))
        generator.complete(prompts, f"docstrings ({form})")
        stored = {p.request.task_id: file.rows[generator.key(p.request.text)] for p in prompts}
        judged = {sha: row | verdict(holes[sha][1], row, fim) for sha, row in stored.items()}
        file.update({row["key"]: row for row in judged.values()})
        by_form[form] = _counts(judged.values())
        rows |= judged
    log = _counts(rows.values()) | {"by_form": by_form}
    log |= {total: round(sum(counts[total] for counts in by_form.values()), 1) for total in SUMS}
    log |= {"model": model, "revision": generator.revision, "corpus": corpus}
    log |= {"corpus_digest": corpus_digest(documents), "functions": len(graph.of_type(IMPL))}
    log |= {"without_docstring": len(holes), "not_asked": skipped}
    log |= {"decoding": PARAMETERS, "versions": versions()}
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
    """{"docstring", "reason"}: the docstring as it goes in, or why it is rejected."""
    try:
        return {
            "docstring": docstrings.extract_docstring(hole, row["raw"], fim, row["finish"]),
            "reason": "",
        }
    except docstrings.Unfit as e:
        return {"docstring": "", "reason": str(e)}


def _counts(rows: Collection[dict[str, Any]]) -> dict[str, Any]:
    rejected = Counter(r["reason"] for r in rows if r["reason"])
    counts = {
        "asked": len(rows),
        "accepted": len(rows) - rejected.total(),
        "rejected": dict(rejected),
    }
    return counts | {total: round(sum(r[total] for r in rows), 1) for total in SUMS}


def retrieval_change(
    graph: Graph, rows: Collection[dict[str, Any]], tasks: list[Task], embedder: Any
) -> pd.DataFrame:
    """What the docstrings change in Func-PKG's retrieval (Equation 5), one line a task.

    `before` and `after` are the IMPL nodes found first, `score_*` their cosines, `defines_*` whether the
    pruned context without its new docstring defines the task's function, `enhanced` that `after` has one.
    """
    nodes, enhanced = graph.of_type(IMPL), docstrings.enhanced_payloads(graph, rows)
    old = graph.payloads(nodes)
    new = [enhanced.get(v, text) for v, text in zip(nodes.tolist(), old, strict=True)]
    queries = embedder.encode([t.prompt for t in tasks])
    frame = pd.DataFrame({"task_id": [t.id for t in tasks]})
    for when, texts in (("before", old), ("after", new)):
        positions, scores = FlatIndex(embedder.encode(texts)).search(queries)
        frame[when], frame[f"score_{when}"] = nodes[positions[:, 0]], scores[:, 0]
        pruned = (
            prune(graph, int(v), q, embedder).text
            for v, q in zip(frame[when], queries, strict=True)
        )
        contexts = (cut_at_line_end(text)[0] for text in pruned)
        frame[f"defines_{when}"] = [
            defines(c, t.entry_point) for c, t in zip(contexts, tasks, strict=True)
        ]
    frame["enhanced"] = frame["after"].isin(enhanced)
    return frame


def measure_change(
    corpus: str, model: str, benchmark: str, results: Path, embedder: Any = None
) -> dict[str, Any]:
    """`retrieval_change` over a benchmark: counts and the mean rise of the best cosine, also written."""
    file, tasks = DocstringFile(model, corpus, results), load_benchmark(benchmark)
    if not file.rows:
        raise UserError(
            f"no docstrings of {model} for {corpus} in {file.path.parent}; run `enhance` first"
        )
    documents, embedder = load_corpus(corpus).documents, embedder or Embedder()
    frame = retrieval_change(build_code_graph(documents), file.rows.values(), tasks, embedder)
    names = {"changed": "top1_changed", "enhanced": "top1_enhanced"}
    counted = frame.assign(changed=frame["before"] != frame["after"])
    log = (
        counted[[*names, "defines_before", "defines_after"]]
        .sum()
        .rename(names)
        .astype(int)
        .to_dict()
    )
    log["mean_cosine_rise"] = round(float((frame["score_after"] - frame["score_before"]).mean()), 6)
    log |= {"model": model, "corpus": corpus, "benchmark": benchmark, "tasks": len(tasks)}
    accepted = {r["payload_sha256"] for r in file.rows.values() if r.get("docstring")}
    log |= {"docstrings": len(accepted), "corpus_digest": corpus_digest(documents)}
    log |= {"embedder": embedder.name, "versions": versions()}
    write_json(file.path.with_name(f"{file.path.stem}.{slug(benchmark)}.change.json"), log)
    return log
