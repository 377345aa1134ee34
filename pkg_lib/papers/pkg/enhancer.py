"""The docstring enhancer as a run: a corpus and a model in, docstrings and what they change in retrieval out.

    results/enhanced/MODEL/CORPUS.jsonl                   one line a function: docstring, or why it is rejected
    results/enhanced/MODEL/CORPUS.log.json                asked, accepted, rejected by reason; tokens; seconds
    results/enhanced/MODEL/CORPUS.BENCHMARK.change.json   what the docstrings change in Func-PKG's retrieval

A line is keyed by model, revision, prompt (which holds the function) and decoding; what is there is not asked again.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pandas as pd
from tqdm.auto import tqdm

from pkg_lib.core.models import fetch, model_spec, revision_of
from pkg_lib.core.store import slug, versions, write_json, write_jsonl
from pkg_lib.core.types import Request, Task, UserError
from pkg_lib.data.benchmarks import load_benchmark
from pkg_lib.data.corpora import corpus_digest, load_corpus
from pkg_lib.generation.cache import cut_torn_tail, generation_key, read_jsonl
from pkg_lib.generation.extraction import defines
from pkg_lib.generation.generator import Backend
from pkg_lib.graph.enhance import (
    FIM,
    FORMS,
    Hole,
    Unfit,
    candidates,
    closed,
    enhanced_payloads,
    fim_of,
    judge,
)
from pkg_lib.graph.schema import IMPL, PKG, build
from pkg_lib.retrieval.embed import Embedder
from pkg_lib.retrieval.index import FlatIndex
from pkg_lib.retrieval.prune import prune
from pkg_lib.retrieval.retrievers import cut

MAX_NEW_TOKENS = 96
DECODING = {"max_new_tokens": MAX_NEW_TOKENS, "do_sample": False, "dtype": "bfloat16", "stop": "closed"}
FIELDS = ("key", "payload_sha256", "form", "docstring", "reason", "tokens", "prompt_tokens", "seconds")


def rows_file(model: str, corpus: str, results: Path) -> Path:
    """Where a corpus' docstrings of a model lie."""
    return results / "enhanced" / model / f"{slug(corpus)}.jsonl"


def read_enhanced(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a docstring file, none where there is no file; a torn or damaged line is as if never written."""
    rows = (row for _, row in read_jsonl(path)) if path.exists() else ()
    return [row for row in rows if row is not None and set(FIELDS) <= row.keys()]


def enhance(
    corpus: str,
    model: str,
    count: int,
    results: Path,
    backend: Backend | None = None,
    forms: tuple[str, ...] = FORMS,
) -> dict[str, Any]:
    """Asks `model` for docstrings of the first `count` functions without one (a fixed sample) and returns the log.

    A function whose docstring is rejected is asked again in the next of `forms`. Resumes after any stop. Raises UserError for
    unknown names, a model without fill-in-the-middle, or a count below 1.
    """
    spec, fim = model_spec(model), fim_of(model)
    if count < 1 or not forms or not set(forms) <= set(FORMS):
        raise UserError(
            f"count is {count} and forms {', '.join(forms)}; ask for a function or more, forms: {', '.join(FORMS)}"
        )
    documents = load_corpus(corpus)
    graph = build(documents)
    found, skipped = candidates(graph)
    revision = revision_of(spec, results, resolve=backend is None)
    run = _Run(model, revision, fim, graph, rows_file(model, corpus, results), backend)
    last: dict[str, dict[str, Any]] = {}
    by_form = {}
    for form in forms:
        left = [(sha, *found[sha]) for sha in list(found)[:count] if sha not in last or last[sha]["reason"]]
        rows = run.rows(form, left)
        by_form[form] = _counts(rows.values())
        last |= rows
    log = _counts(last.values()) | {
        "by_form": by_form,
        "seconds": round(sum(f["seconds"] for f in by_form.values()), 1),
    }
    log |= {"model": model, "revision": revision, "corpus": corpus, "corpus_digest": corpus_digest(documents)}
    log |= {"functions": len(graph.of_type(IMPL)), "without_docstring": len(found), "not_asked": skipped}
    for total in ("tokens", "prompt_tokens"):
        log[total] = sum(f[total] for f in by_form.values())
    write_json(run.path.with_suffix(".log.json"), log | {"decoding": DECODING, "versions": versions()})
    return log


@dataclass
class _Run:
    """One model over one graph; what it writes goes to `path`."""

    model: str
    revision: str
    fim: FIM
    graph: PKG
    path: Path
    given: Backend | None = None

    @cached_property
    def backend(self) -> Backend:
        if self.given is not None:
            return self.given
        from pkg_lib.generation.backends import TransformersBackend  # torch is slow to import

        stop = partial(closed, fim=self.fim)
        return TransformersBackend(
            fetch(self.model, self.revision), chat=False, stop=stop, max_new_tokens=MAX_NEW_TOKENS
        )

    def rows(self, form: str, functions: list[tuple[str, int, Hole]]) -> dict[str, dict[str, Any]]:
        """Payload digest -> line of the (payload digest, node, hole) given; what is not in the file yet is asked.

        What is stored is judged again from the model's text, so that the file never holds what today's judge would reject.
        """
        prompts = {sha: hole.prompt(self.fim, form) for sha, _, hole in functions}
        keys = {
            sha: generation_key(self.model, self.revision, prompt, DECODING)
            for sha, prompt in prompts.items()
        }
        stored = {r["key"]: r for r in read_enhanced(self.path)}
        todo = {sha: (keys[sha], node, hole) for sha, node, hole in functions if keys[sha] not in stored}
        if todo:
            self._ask([Request(sha, prompts[sha], "") for sha in todo], form, todo)
            stored = {r["key"]: r for r in read_enhanced(self.path)}
        holes = {keys[sha]: hole for sha, _, hole in functions}
        judged = {
            k: stored[k] | verdict(hole, stored[k]["raw"], self.fim, stored[k]["finish"])
            for k, hole in holes.items()
        }
        if any(stored[k] != row for k, row in judged.items()):
            write_jsonl(self.path, (stored | judged).values())
        return {sha: judged[key] for sha, key in keys.items()}

    def _ask(self, requests: list[Request], form: str, todo: dict[str, tuple[str, int, Hole]]) -> None:
        """Appends one line a function as soon as its docstring is there."""
        backend, last = self.backend, time.monotonic()
        with tqdm(total=len(requests), desc=f"docstrings ({form})", unit="function") as bar:

            def done(row: Any, raw: str, finish: str) -> None:
                nonlocal last
                now, sha = time.monotonic(), row.request.task_id
                key, node, hole = todo[sha]
                line = {"key": key, "payload_sha256": sha, "form": form, "raw": raw, "finish": finish}
                line |= {
                    "where": self.graph.where(node),
                    "name": self.graph.payload(int(self.graph.parent[node])),
                }
                # The time since the line before, so that the sum is the run's time however often it was stopped.
                line |= {
                    "tokens": len(row.tokens),
                    "prompt_tokens": row.prompt_tokens,
                    "seconds": round(now - last, 3),
                }
                append(self.path, line | verdict(hole, raw, self.fim, finish))
                last = now
                bar.update()

            backend.generate(requests, done)


def verdict(hole: Hole, raw: str, fim: FIM, finish: str) -> dict[str, str]:
    """{"docstring", "reason"}: the docstring as it goes into the function, or "" and why it is rejected."""
    try:
        return {"docstring": judge(hole, raw, fim, finish), "reason": ""}
    except Unfit as e:
        return {"docstring": "", "reason": str(e)}


def append(path: Path, row: dict[str, Any]) -> None:
    """Writes one line; a torn line before it is cut off."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        cut_torn_tail(path)
        with path.open("a", encoding="utf8") as f:
            f.write(json.dumps(row, sort_keys=True) + "\n")
    except OSError as e:
        raise UserError(
            f"cannot write {path}: {e.strerror}; free space or set PKG_RESULTS to a writable directory"
        ) from e


def _counts(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    rows = list(rows)
    rejected = Counter(r["reason"] for r in rows if r["reason"])
    sums = {k: sum(r[k] for r in rows) for k in ("tokens", "prompt_tokens")}
    return sums | {
        "asked": len(rows),
        "accepted": len(rows) - rejected.total(),
        "rejected": dict(rejected),
        "seconds": round(sum(r["seconds"] for r in rows), 1),
    }


def retrieval_change(
    graph: PKG, rows: list[dict[str, Any]], tasks: list[Task], embedder: Any
) -> pd.DataFrame:
    """What the docstrings change in Func-PKG's retrieval (Equation 5), one line a task, two columns a quantity.

    `before` and `after` are the IMPL nodes found first, `score_*` their cosines, `defines_*` whether the context (the pruned
    function without its new docstring, cut as in every column) defines the task's function; `enhanced` says that the function
    found after has a new docstring. Only the texts that are compared with the task differ.
    """
    if not tasks:
        raise UserError("no tasks to retrieve for; give at least one")
    nodes, other = graph.of_type(IMPL), enhanced_payloads(graph, rows)
    old = graph.payloads(nodes)
    new = [other.get(v, text) for v, text in zip(nodes.tolist(), old, strict=True)]
    queries = embedder.encode([t.prompt for t in tasks])
    frame = pd.DataFrame({"task_id": [t.id for t in tasks]})
    for when, texts in (("before", old), ("after", new)):
        positions, scores = FlatIndex(embedder.encode(texts)).search(queries)
        frame[when], frame[f"score_{when}"] = nodes[positions[:, 0]], scores[:, 0]
        contexts = (
            cut(prune(graph, int(v), q, embedder).text)[0] for v, q in zip(frame[when], queries, strict=True)
        )
        frame[f"defines_{when}"] = [defines(c, t.entry_point) for c, t in zip(contexts, tasks, strict=True)]
    frame["enhanced"] = frame["after"].isin(other)
    return frame


def change_summary(frame: pd.DataFrame) -> dict[str, float]:
    """The figures of `retrieval_change` in one line: counts of tasks, and how far the best cosine rose on average."""
    changed = frame["before"] != frame["after"]
    rise = (frame["score_after"] - frame["score_before"]).mean()
    counts = {"top1_changed": changed, "top1_enhanced": frame["enhanced"]}
    counts |= {c: frame[c] for c in ("defines_before", "defines_after")}
    return {"tasks": len(frame), "mean_cosine_rise": float(rise)} | {
        k: int(v.sum()) for k, v in counts.items()
    }


def measure_change(
    corpus: str, model: str, benchmark: str, results: Path, embedder: Any = None
) -> dict[str, Any]:
    """`change_summary` over a benchmark's tasks with the docstrings that are in results/, written beside them and returned.

    UserError for unknown names or where nothing is enhanced yet.
    """
    path = rows_file(model, corpus, results)
    rows, tasks = read_enhanced(path), load_benchmark(benchmark)
    if not rows:
        raise UserError(
            f"no docstrings of {model} for {corpus} in {path.parent}; run `enhance` with them first"
        )
    documents, embedder = load_corpus(corpus), embedder or Embedder()
    found = change_summary(retrieval_change(build(documents), rows, tasks, embedder))
    found["mean_cosine_rise"] = round(found["mean_cosine_rise"], 6)
    about = {"model": model, "corpus": corpus, "benchmark": benchmark}
    about |= {"corpus_digest": corpus_digest(documents)}
    docstrings = len({r["payload_sha256"] for r in rows if r["docstring"]})
    log = about | found | {"docstrings": docstrings, "embedder": embedder.name, "versions": versions()}
    write_json(path.with_name(f"{path.stem}.{slug(benchmark)}.change.json"), log)
    return log
