"""Compare a run through a server with the run of the direct backend: which answers and verdicts differ.

    mkdir -p Qwen && ln -s ~/.cache/pkg_lib/models/qwen2.5-coder-0.5b-instruct-* Qwen/Qwen2.5-Coder-0.5B-Instruct
    transformers serve Qwen/Qwen2.5-Coder-0.5B-Instruct --continuous-batching --cb-num-blocks 256    # from there, or
    python tests/benchmarks/serve_gguf.py ~/.cache/pkg_lib/gguf/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf 8001
    ./run_all.sh --model endpoint:NAME --benchmark humaneval --corpus textbook+stdlib --method NoRAG --limit 20
    python tests/benchmarks/live_endpoint.py NAME [--limit 20] [--model MODEL]

The script reads both stored runs. For each pair of answers that differ, it computes with MODEL's weights how far
apart the logits of the first two different tokens are. A small distance is a near tie. A direct answer ends as
soon as its solution is settled, so text that a server adds after that is not a difference. The figures are
stored under NAME in results/benchmarks/endpoint_live.json.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

from benchmarks.clock import rounded
from pkg_lib.core.models import fetch
from pkg_lib.core.store import read_json, results_dir, versions, write_json
from pkg_lib.core.types import UserError
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.study import MODEL
from pkg_lib.generation.backends import TransformersBackend

METHOD = "NoRAG"
NEAR_TIE = 4  # spacings of bfloat16 at the size of the logits, as in `verify-cache`


def first_difference(direct: list[int], served: list[int]) -> int:
    """Find the first token that differs.

    Args:
        direct: Tokens of one answer.
        served: Tokens of the other answer.

    Returns:
        Its position; the length of the shorter answer if that is a prefix of the longer one.
    """
    shared = min(len(direct), len(served))
    for position in range(shared):
        if direct[position] != served[position]:
            return position
    return shared


def token_at(
    tokens: list[int],
    position: int,
    backend: TransformersBackend,
) -> int:
    """Return the token at a position; an end token after the last one."""
    if position < len(tokens):
        return tokens[position]
    return min(backend.ends)


def compare(
    served: Results,
    direct: Results,
    load: Any,
) -> dict[str, Any]:
    """Compare two runs on the tasks that both answered.

    Args:
        served: The run through a server.
        direct: The run of the direct backend.
        load: Function that returns a backend with the weights. It is called only if answers differ.

    Returns:
        Counts of equal answers and passed tasks, and each difference by task.
    """
    served_answers = served.completions(METHOD)
    direct_answers = direct.completions(METHOD)
    served_outcomes = served.outcomes(METHOD)
    direct_outcomes = direct.outcomes(METHOD)
    contexts = {context.task_id: context for context in direct.contexts(METHOD)}
    tasks = [
        task for task in served.tasks if task.id in served_answers and task.id in direct_answers
    ]

    backend = None
    differences = {}
    for task in tasks:
        answer = served_answers[task.id]
        stored = direct_answers[task.id]
        if answer.raw.startswith(stored.raw):
            continue
        if backend is None:
            backend = load()
        tokens = backend.tokenizer(answer.raw, add_special_tokens=False)["input_ids"]
        position = first_difference(stored.tokens, tokens)
        direct_token = token_at(stored.tokens, position, backend)
        served_token = token_at(tokens, position, backend)
        request = direct.request(task, contexts[task.id], METHOD)
        gap, spacing = backend.gap(request, stored.tokens[:position], [direct_token, served_token])
        differences[task.id] = {
            "token": position,
            "direct": backend.tokenizer.decode([direct_token]),
            "served": backend.tokenizer.decode([served_token]),
            "logits_apart": gap,
            "near_tie": gap <= NEAR_TIE * spacing,
            "verdicts": [
                direct_outcomes[task.id].status,
                served_outcomes[task.id].status,
            ],
        }

    passed_served = 0
    passed_direct = 0
    verdicts_differ = []
    for task in tasks:
        served_status = served_outcomes[task.id].status
        direct_status = direct_outcomes[task.id].status
        passed_served += served_status == "passed"
        passed_direct += direct_status == "passed"
        if served_status != direct_status:
            verdicts_differ.append(task.id)
    meta = next(iter(served_answers.values())).meta
    server = {name: meta[name] for name in ("server_model", "fingerprint") if name in meta}
    seconds = sum(answer.meta["seconds"] for answer in served_answers.values())
    return {
        "tasks": len(tasks),
        "passed_served": passed_served,
        "passed_direct": passed_direct,
        "same_text": len(tasks) - len(differences),
        "verdicts_differ": verdicts_differ,
        "differences": differences,
        "server": server,
        "seconds_an_answer": seconds / len(served_answers),
    }


def unexplained(figures: dict[str, Any]) -> list[str]:
    """List the tasks whose verdicts differ for another reason than a near tie.

    Args:
        figures: What `compare` returns.

    Returns:
        Ids of tasks. If the answers are equal, no near tie explains different verdicts.
    """
    differences = figures["differences"]
    tasks = figures["verdicts_differ"]
    return [task for task in tasks if task not in differences or not differences[task]["near_tie"]]


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison from the command line.

    Args:
        arguments: Command-line arguments; by default those of the process.

    Returns:
        The exit status: 0 if near ties explain all different verdicts, 1 if not, 2 for a user's mistake.
    """
    parser = argparse.ArgumentParser(
        description="a server's stored run beside the direct backend's"
    )
    parser.add_argument("name")
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--model", default=MODEL)
    options = parser.parse_args(arguments)
    try:
        served = Results(f"endpoint:{options.name}", limit=options.limit)
        direct = Results(options.model, limit=options.limit)
        if not served.completions(METHOD):
            raise UserError(f"endpoint:{options.name} has no stored answers; run it first")
        figures = compare(served, direct, lambda: TransformersBackend(fetch(options.model)))
    except UserError as e:
        print(e, file=sys.stderr)
        return 2
    print(json.dumps(rounded(figures), indent=1))
    path = results_dir() / "benchmarks" / "endpoint_live.json"
    stored = read_json(path) if path.exists() else {}
    stored["versions"] = versions()
    stored[options.name] = rounded(figures)
    write_json(path, stored)
    return 1 if unexplained(figures) else 0


if __name__ == "__main__":
    sys.exit(main())
