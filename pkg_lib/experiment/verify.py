"""Does the cache hold what the model writes? Cached prompts are completed again, live, and compared token by
token."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from pkg_lib.core.models import fetch, model_spec, revision_of
from pkg_lib.core.store import results_dir
from pkg_lib.core.types import Generation, Request, UserError
from pkg_lib.data.corpora import CORPORA
from pkg_lib.experiment.run import Run

UNEXPLAINED = "more than rounding: other weights, other library versions or a damaged line"


def cached_prompts(model: str, results: Path) -> list[tuple[Request, Generation]]:
    """Every stored completion whose prompt can be rebuilt from the stored contexts, each once."""
    by_key: dict[str, tuple[Request, Generation]] = {}
    for folder in sorted((results / "contexts").glob("*/*")):
        corpus = folder.name if folder.name != "none" else "textbook"
        if not set(corpus.split("+")) <= CORPORA.keys():
            continue  # source:DIR is stored under a slug of its path and cannot be read by that name
        try:
            run = Run(model, folder.parent.name, corpus, results=results)
        except UserError:
            continue  # a benchmark whose tasks are not at hand, or a folder that is none
        for column in [] if run.tasks_absent else run.retrievers:
            completions, tasks = run.completions(column), {t.id: t for t in run.tasks}
            for context in run.contexts(column):
                if context.text is not None and (answer := completions.get(context.task_id)):
                    task = tasks[context.task_id]
                    by_key[answer.key] = (
                        Request(task.id, run.prompt(task, context), task.entry_point),
                        answer,
                    )
    return list(by_key.values())


def verify(model: str, sample: int, seed: int = 0) -> tuple[int, list[str]]:
    """(how many are identical, one line for each that is not: the first differing token and why).

    Raises UserError when fewer than `sample` completions are stored with their prompts.
    """
    spec, results = model_spec(model), results_dir()
    stored = cached_prompts(model, results)
    if len(stored) < sample or sample < 1:
        raise UserError(
            f"{len(stored)} completions of {model} can be verified, asked for {sample}; "
            "choose --sample within that"
        )
    chosen = random.Random(seed).sample(sorted(stored, key=lambda pair: pair[1].key), sample)
    from pkg_lib.generation.backends import TransformersBackend

    backend = TransformersBackend(fetch(model, revision_of(spec, results)), chat=spec.style == "chat")
    live: dict[str, list[int]] = {}
    backend.generate(
        [r for r, _ in chosen], lambda row, raw, finish: live.update({_name(row.request): row.tokens})
    )
    different = [(r, g) for r, g in chosen if live[_name(r)] != g.tokens]
    return sample - len(different), [_explain(backend, r, g.tokens, live[_name(r)]) for r, g in different]


def _name(request: Request) -> str:
    return f"{request.task_id}\0{request.text}"


def _explain(backend: Any, request: Request, cached: list[int], live: list[int]) -> str:
    """The first token that differs, and how far apart the model's logits for the two are at that place."""
    at = next(
        (i for i, (a, b) in enumerate(zip(cached, live, strict=False)) if a != b), min(len(cached), len(live))
    )
    pair = [tokens[at] if at < len(tokens) else min(backend.ends) for tokens in (cached, live)]
    gap, spacing = backend.gap(request, cached[:at], pair)
    words = [backend.tokenizer.decode([t]) for t in pair]
    why = (
        "a tie within bfloat16 rounding, which the other rows of a batch can tip"
        if gap <= 4 * spacing
        else UNEXPLAINED
    )
    tokens = f"token {at} is {words[0]!r} in the cache, {words[1]!r} live"
    return f"{request.task_id}: {tokens}; logits {gap:.3f} apart: {why}"
