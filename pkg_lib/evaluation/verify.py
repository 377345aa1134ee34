"""Does the cache hold what the model writes? Cached prompts are completed again, live, and compared."""

import random
from itertools import zip_longest
from pathlib import Path
from typing import Any

from pkg_lib.core.models import model_spec
from pkg_lib.core.store import results_dir
from pkg_lib.core.types import Generation, Request, UserError
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.stored_rows import read_provenance
from pkg_lib.generation.generator import Generator

TIE = "a tie within bfloat16 rounding, which the other rows of a batch can tip"
UNEXPLAINED = "more than rounding: other weights, other library versions or a damaged line"


Cached = tuple[
    Generator, Request, Generation
]  # how it was asked, its prompt, the stored completion


def cached_prompts(model: str, results: Path) -> list[Cached]:
    """Every stored completion whose prompt can be rebuilt from the stored contexts, each once."""
    by_key: dict[str, Cached] = {}
    for folder in sorted((results / "contexts").glob("*/*")):
        named = (read_provenance(path).get("corpus") for path in sorted(folder.glob("*.meta.json")))
        corpus = next(filter(None, named), "")  # the folder may bear a slug of it
        try:
            run = Results(model, folder.parent.name, corpus, results=results)
        except UserError:
            continue  # a benchmark whose tasks are not at hand, or a folder that is none
        for column in [] if run.tasks_absent else run.stored_columns():
            completions, contexts = (
                run.completions(column),
                {c.task_id: c for c in run.contexts(column)},
            )
            for task in (
                t for t in run.tasks if t.id in completions and contexts[t.id].text is not None
            ):
                request, answer = run.request(task, contexts[task.id], column), completions[task.id]
                by_key[answer.key] = run.generator_of(column), request, answer
    return [by_key[key] for key in sorted(by_key)]


def verify(model: str, sample: int, seed: int = 0) -> tuple[int, list[str]]:
    """(how many are identical, one line for each that is not: the first differing token and why).

    An endpoint tells no tokens: there the texts are compared, and who wrote them.
    """
    model_spec(model)
    stored = cached_prompts(model, results_dir())
    if not 0 < sample <= len(stored):
        known = f"{len(stored)} completions of {model} can be verified"
        raise UserError(f"{known}, asked for {sample}; choose --sample within that")
    by_decoding: dict[str, list[Cached]] = {}
    for cached in random.Random(seed).sample(stored, sample):
        by_decoding.setdefault(cached[0].key(""), []).append(cached)
    live: dict[Request, tuple[Any, str]] = {}
    different = []
    for group in by_decoding.values():
        generator, asked = group[0][0], {request: answer for _, request, answer in group}
        backend, sampling = generator.loaded(), generator.decoding.sampling
        backend.generate(
            [*asked], lambda row, raw, _: live.update({row.request: (row, raw)}), **sampling
        )
        for request, answer in asked.items():
            row, raw = live[request]
            if generator.spec.endpoint:
                different += [_changed(answer, row, raw)] if raw != answer.raw else []
            elif row.tokens != answer.tokens:
                different.append(_explain(backend, request, answer.tokens, row.tokens, sampling))
    return sample - len(different), different


def _changed(answer: Generation, reply: Any, raw: str) -> str:
    """The first line in which an endpoint's texts differ, and what else the server says about itself now."""
    lines = zip_longest(answer.raw.split("\n"), raw.split("\n"), fillvalue="")
    at, (old, new) = next((n, pair) for n, pair in enumerate(lines, 1) if pair[0] != pair[1])
    pairs = ((n, answer.meta.get(n), reply.about.get(n)) for n in ("server_model", "fingerprint"))
    told = [f"{name} {before} is now {now}" for name, before, now in pairs if before != now]
    return "; ".join([f"{answer.task_id}: line {at} is {old!r} in the cache, {new!r} live", *told])


def _explain(
    backend: Any, request: Request, cached: list[int], live: list[int], sampling: dict[str, float]
) -> str:
    """The first token that differs, and whether rounding can tip it: how far apart the logits of the two are.

    Of a draw, whether the same random number gives both, with logits that are off by rounding.
    """
    shared = min(len(cached), len(live))
    at = next((i for i in range(shared) if cached[i] != live[i]), shared)
    pair = [tokens[at] if at < len(tokens) else min(backend.ends) for tokens in (cached, live)]
    words = [backend.tokenizer.decode([t]) for t in pair]
    if sampling.get("temperature"):
        near, apart = (
            {*pair} <= backend.near_samples(request, cached[:at], **sampling),
            "by one random number",
        )
    else:
        gap, spacing = backend.gap(request, cached[:at], pair)
        near, apart = gap <= 4 * spacing, f"logits {gap:.3f} apart"
    why = TIE if near else UNEXPLAINED
    tokens = f"token {at} is {words[0]!r} in the cache, {words[1]!r} live"
    return f"{request.task_id}: {tokens}; {apart}: {why}"
