"""A run through a server beside the direct backend's: which answers and verdicts differ, and how near the call was.

    mkdir -p Qwen && ln -s ~/.cache/pkg_lib/models/qwen2.5-coder-0.5b-instruct-* Qwen/Qwen2.5-Coder-0.5B-Instruct
    transformers serve Qwen/Qwen2.5-Coder-0.5B-Instruct --continuous-batching --cb-num-blocks 256    # from there, or
    python tests/benchmarks/serve_gguf.py ~/.cache/pkg_lib/gguf/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf 8001
    ./run_all.sh --model endpoint:NAME --benchmark humaneval --corpus textbook+stdlib --method None --limit 20
    python tests/benchmarks/live_endpoint.py NAME [--limit 20] [--model MODEL]

Both runs are read as they are stored; MODEL's weights say how far apart the logits of the first two tokens that
differ are. A direct answer ends as soon as its solution is settled, so what a server adds after that is no
difference. Writes results/benchmarks/endpoint_live.json, NAME's part of it.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

from benchmarks.clock import rounded
from pkg_lib.core.models import fetch
from pkg_lib.core.store import read_json, results_dir, versions, write_json
from pkg_lib.core.types import UserError
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.study import MODEL
from pkg_lib.generation.backends import TransformersBackend

COLUMN = "NoRAG"
NEAR = 4  # spacings of bfloat16 at the logits' size, as `verify-cache` has it


def first_difference(direct: list[int], served: list[int]) -> int:
    """The place of the first token that differs; the shorter one's length where none does."""
    shared = min(len(direct), len(served))
    return next((i for i in range(shared) if direct[i] != served[i]), shared)


def compare(served: Results, direct: Results, load: Any) -> dict[str, Any]:
    """What is equal and, by task, what is not; `load` gives a backend with the weights, if it is needed."""
    theirs, ours = served.completions(COLUMN), direct.completions(COLUMN)
    verdicts = [run.outcomes(COLUMN) for run in (served, direct)]
    contexts = {c.task_id: c for c in direct.contexts(COLUMN)}
    tasks = [t for t in served.tasks if t.id in theirs and t.id in ours]
    backend, different = None, {}
    for task in tasks:
        answer, stored = theirs[task.id], ours[task.id]
        if answer.raw.startswith(stored.raw):
            continue
        backend = backend or load()
        tokens = backend.tokenizer(answer.raw, add_special_tokens=False)["input_ids"]
        at = first_difference(stored.tokens, tokens)
        pair = [of[at] if at < len(of) else min(backend.ends) for of in (stored.tokens, tokens)]
        gap, spacing = backend.gap(
            direct.request(task, contexts[task.id], COLUMN), stored.tokens[:at], pair
        )
        words = [backend.tokenizer.decode([token]) for token in pair]
        different[task.id] = {
            "token": at,
            "direct": words[0],
            "served": words[1],
            "logits_apart": gap,
            "near_tie": gap <= NEAR * spacing,
            "verdicts": [v[task.id].status for v in (verdicts[1], verdicts[0])],
        }
    passed = [sum(v[t.id].status == "passed" for t in tasks) for v in verdicts]
    differ = [t.id for t in tasks if verdicts[0][t.id].status != verdicts[1][t.id].status]
    about = next(iter(theirs.values())).meta
    return {
        "tasks": len(tasks),
        "passed_served": passed[0],
        "passed_direct": passed[1],
        "same_text": len(tasks) - len(different),
        "verdicts_differ": differ,
        "differences": different,
        "server": {n: about[n] for n in ("server_model", "fingerprint") if n in about},
        "seconds_an_answer": sum(g.meta["seconds"] for g in theirs.values()) / len(theirs),
    }


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description="a server's stored run beside the direct backend's"
    )
    parser.add_argument("name")
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--model", default=MODEL)
    options = parser.parse_args(words)
    try:
        served, direct = (
            Results(m, limit=options.limit) for m in (f"endpoint:{options.name}", options.model)
        )
        if not served.completions(COLUMN):
            raise UserError(f"endpoint:{options.name} has no stored answers; run it first")
        figures = compare(served, direct, lambda: TransformersBackend(fetch(options.model)))
    except UserError as e:
        print(e, file=sys.stderr)
        return 2
    print(json.dumps(rounded(figures), indent=1))
    path = results_dir() / "benchmarks" / "endpoint_live.json"
    known = read_json(path) if path.exists() else {}
    write_json(path, known | {"versions": versions(), options.name: rounded(figures)})
    return (
        0
        if all(
            d["near_tie"]
            for i, d in figures["differences"].items()
            if i in figures["verdicts_differ"]
        )
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
