"""Verifies the cache: completes cached prompts again with the model, and compares the answers."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pkg_lib.core.models import model_spec
from pkg_lib.core.store import results_dir
from pkg_lib.core.types import Generation, Request, UserError
from pkg_lib.evaluation.results import Results
from pkg_lib.evaluation.storage import stored_conditions
from pkg_lib.generation.generator import Generator

if TYPE_CHECKING:
    from pkg_lib.generation.backends import TransformersBackend

TIE = "a tie within bfloat16 rounding, which the other rows of a batch can tip"
UNEXPLAINED = "more than rounding: other weights, other library versions or a damaged line"


@dataclass(frozen=True, slots=True)
class CachedPrompt:
    """A prompt whose completion is stored.

    Attributes:
        generator: The model, with the decoding that the prompt was completed with.
        request: The prompt.
        generation: The stored completion.
    """

    generator: Generator
    request: Request
    generation: Generation


def cached_prompts(model: str, results: Path) -> list[CachedPrompt]:
    """Find every stored completion whose prompt can be rebuilt from the stored contexts.

    Args:
        model: Name of the model.
        results: The results directory.

    Returns:
        Each once, sorted by key.
    """
    experiments = set()
    for condition in stored_conditions(results, model):
        experiments.add((condition.benchmark, condition.corpus))
    by_key = {}
    for benchmark, corpus in sorted(experiments):
        try:
            stored = Results(model, benchmark, corpus, results=results)
        except UserError:
            continue  # the tasks are unavailable
        if stored.tasks_absent:
            continue
        for method in stored.stored_methods():
            for prompt in _prompts_of(stored, method):
                by_key[prompt.generation.key] = prompt
    return [by_key[key] for key in sorted(by_key)]


def _prompts_of(stored: Results, method: str) -> Iterator[CachedPrompt]:
    completions = stored.completions(method)
    contexts = stored.contexts_by_task(method)
    generator = stored.generator_of(method)
    for task in stored.tasks:
        if task.id not in completions:
            continue
        context = contexts[task.id]
        if context.text is not None:
            request = stored.request(task, context, method)
            yield CachedPrompt(generator, request, completions[task.id])


def verify(
    model: str,
    sample: int,
    seed: int = 0,
) -> tuple[int, list[str]]:
    """Complete a random sample of the cached prompts again.

    Endpoints return no tokens. Their texts are compared, and how the server describes itself.

    Args:
        model: Name of the model.
        sample: The number of prompts.
        seed: Seed of the random choice.

    Returns:
        How many completions are identical; and a line for each other one, with the first
        difference and its likely reason.

    Raises:
        UserError: The model is unknown, or fewer completions are stored.
    """
    model_spec(model)
    stored = cached_prompts(model, results_dir())
    if not 0 < sample <= len(stored):
        known = f"{len(stored)} completions of {model} can be verified"
        raise UserError(f"{known}, {sample} were requested; choose --sample within that")
    by_decoding: dict[str, list[CachedPrompt]] = {}
    for prompt in random.Random(seed).sample(stored, sample):
        decoding = prompt.generator.key("")
        by_decoding.setdefault(decoding, []).append(prompt)
    different: list[str] = []
    for prompts in by_decoding.values():
        different += _differences(prompts)
    return sample - len(different), different


def _differences(prompts: list[CachedPrompt]) -> Iterator[str]:
    """Complete prompts of one decoding together, and describe each change."""
    generator = prompts[0].generator
    backend = generator.loaded()
    sampling = generator.decoding.sampling
    live: dict[Request, tuple[Any, str]] = {}

    def keep(
        row: Any,
        raw: str,
        _: str,
    ) -> None:
        live[row.request] = (row, raw)

    backend.generate([prompt.request for prompt in prompts], keep, **sampling)
    for prompt in prompts:
        row, raw = live[prompt.request]
        if generator.spec.endpoint:
            if raw != prompt.generation.raw:
                yield _changed_text(prompt.generation, row, raw)
        elif row.tokens != prompt.generation.tokens:
            local = cast("TransformersBackend", backend)
            yield _changed_tokens(local, prompt, row.tokens, sampling)


def _first_difference(old: Sequence[object], new: Sequence[object]) -> int:
    """Return the first position at which two sequences differ, or the length of the shorter one."""
    for position, (a, b) in enumerate(zip(old, new, strict=False)):
        if a != b:
            return position
    return min(len(old), len(new))


def _changed_text(
    cached: Generation,
    reply: Any,
    raw: str,
) -> str:
    """Describe the first line that differs, and what the server now reports otherwise."""
    old_lines = [*cached.raw.split("\n"), ""]
    new_lines = [*raw.split("\n"), ""]
    position = _first_difference(old_lines, new_lines)
    old, new = old_lines[position], new_lines[position]
    text = f"{cached.task_id}: line {position + 1} is {old!r} in the cache, {new!r} live"
    for name in ("server_model", "fingerprint"):
        before = cached.meta.get(name)
        now = reply.about.get(name)
        if before != now:
            text += f"; {name} {before} is now {now}"
    return text


def _changed_tokens(
    backend: "TransformersBackend",
    prompt: CachedPrompt,
    live: list[int],
    sampling: dict[str, float],
) -> str:
    """Describe the first token that differs, and whether rounding can explain it.

    An answer ends with any of the model's end tokens, which is not stored. Of these, the one that is
    nearest to the other token is described.

    In greedy decoding it can if the logits of the two tokens are close. In sampling it can if one
    random number leads to both tokens with logits that are off by rounding.
    """
    request, cached = prompt.request, prompt.generation.tokens
    position = _first_difference(cached, live)
    prefix = cached[:position]
    ends = sorted(backend.ends)
    old_tokens = cached[position : position + 1] or ends
    new_tokens = live[position : position + 1] or ends
    pairs = [list(pair) for pair in product(old_tokens, new_tokens)]
    if sampling.get("temperature"):
        likely = backend.near_samples(request, prefix, sampling["temperature"], sampling["top_p"])
        pair = max(pairs, key=lambda pair: len(likely.intersection(pair)))
        is_near = set(pair) <= likely
        distance = "by one random number"
    else:
        gaps = [backend.gap(request, prefix, pair) for pair in pairs]
        gap, spacing = min(gaps)
        pair = pairs[gaps.index((gap, spacing))]
        is_near = gap <= 4 * spacing
        distance = f"logits {gap:.3f} apart"
    reason = TIE if is_near else UNEXPLAINED
    old, new = (backend.tokenizer.decode([token]) for token in pair)
    return (
        f"{request.task_id}: token {position} is {old!r} in the cache, {new!r} live; "
        f"{distance}: {reason}"
    )
