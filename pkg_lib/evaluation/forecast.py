"""What a run would cost: completions that are stored or missing; tokens, hours and dollars of the latter."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pkg_lib.core.endpoints import endpoints
from pkg_lib.core.models import model_spec
from pkg_lib.core.reading import NUMBER
from pkg_lib.core.store import read_json, slug
from pkg_lib.data.corpora import parse_corpus
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.generation.batch_size import (
    A100_BANDWIDTH,
    BYTES,
    GPU_SIZES,
    CacheShape,
    decoding_seconds,
    fits,
    slots_for,
)
from pkg_lib.generation.cache import read_generations, stored_files

CHARS_PER_TOKEN = 3  # of code and English; tokenizers make longer tokens, so this counts too many
SPEED = Path("benchmarks", "generation.json")


class ColumnForecast(NamedTuple):
    """One column: its tasks with and without a completion, and what is to be written for it.

    `todo` counts prompts: what tasks or columns share is completed once. Tokens are the mean of `stored`
    completions times `todo`; where none is stored the new ones are an upper bound.
    """

    name: str
    cached: int
    missing: int
    todo: int
    prompt_tokens: float
    new_tokens: float
    stored: int


class Rates(NamedTuple):
    """New tokens a second, and model -> dollars for a million prompt tokens, and new ones."""

    tokens_per_second: float | None = None
    prices: dict[str, tuple[float, float]] | None = None


class Cost(NamedTuple):
    """What is to be completed: prompts, tokens of them and for them; seconds, dollars (None: not known)."""

    todo: int
    prompt_tokens: float
    new_tokens: float
    seconds: float | None
    dollars: float | None

    def __str__(self) -> str:
        words = f"{self.todo:,} prompts; estimated {self.prompt_tokens:,.0f} prompt tokens, "
        words += f"{self.new_tokens:,.0f} new tokens"
        if self.seconds is not None:
            words += f", {time_text(self.seconds)}"
        return words if self.dollars is None else f"{words}, {self.dollars:,.2f} US dollars"


def forecast(
    preparer: Evaluator, columns: Sequence[str], counted: set[str]
) -> list[ColumnForecast]:
    """What each column has and lacks; `counted` are keys that are counted already, and grows."""
    return [_column(preparer, name, counted) for name in columns]


def _column(preparer: Evaluator, name: str, counted: set[str]) -> ColumnForecast:
    run, missing = preparer.run, list(preparer.missing(name))
    generator = run.generator_of(name)
    lengths: list[int | None] = []  # in characters; None where the context is not retrieved yet
    for task, context in missing:
        if context is None or context.text is None:
            lengths.append(None)
            continue
        request = run.request(task, context, name)
        if (key := generator.key(request.text, request.sample)) not in counted:
            counted.add(key)
            lengths.append(len(request.text))
    if stored := _stored_tokens(run, name):
        asked, new = (sum(n) / len(stored) for n in zip(*stored, strict=True))
        tokens = len(lengths) * asked
    else:
        how = parse_corpus(run.corpus)
        longest = sum(len(t.prompt) for t in run.tasks) / len(run.tasks) + how.top_k * how.length
        tokens, new = (
            sum(longest if n is None else n for n in lengths) / CHARS_PER_TOKEN,
            _most(run),
        )
    have = len(run.completions(name))
    return ColumnForecast(
        name, have, len(missing), len(lengths), tokens, len(lengths) * new, len(stored)
    )


def _most(run: Results) -> int:
    return int(run.generator.decoding.parameters["max_new_tokens"])


def _stored_tokens(run: Results, column: str) -> list[tuple[int, int]]:
    """(prompt tokens, new tokens) of stored completions: of this column and corpus, else column, else any."""
    file = run.file("generations", column).name
    folder = run.results / "generations" / slug(run.model) / run.benchmark
    for pattern in (f"{slug(run.corpus)}/{file}", f"*/{file}", "*/*.jsonl"):
        answers = [
            g for path in stored_files(folder, pattern) for _, g in read_generations(path) if g
        ]
        if answers:
            return [(g.prompt_tokens, len(g.tokens)) for g in answers]
    return []


def cost(run: Results, columns: Sequence[ColumnForecast], rates: Rates) -> Cost:
    """What a run's missing completions cost."""
    todo, asked, new = (sum(getattr(c, n) for c in columns) for n in Cost._fields[:3])
    endpoint = endpoints().get(model_spec(run.model).endpoint)
    price = (rates.prices or {}).get(run.model) or (endpoint.usd_per_million if endpoint else None)
    speed = _speed(run, rates)[0]
    dollars = (asked * price[0] + new * price[1]) / 1e6 if price else None
    return Cost(todo, asked, new, new / speed if speed else None, dollars)


def total(costs: Sequence[Cost]) -> Cost:
    """All together; time and price are known where each is that has something to complete."""
    each = zip(*([c for c in costs if c.todo] or costs[:1]), strict=True)
    return Cost(*(None if None in values else sum(values) for values in each))


def lines(run: Results, columns: Sequence[ColumnForecast], rates: Rates) -> list[str]:
    """A run's part of a dry run."""
    width = max(12, *(len(c.name) for c in columns))
    table = [heading(run), f"  {'column':<{width}}{'cached':>8}{'missing':>9}"]
    table += [f"  {c.name:<{width}}{c.cached:>8}{c.missing:>9}" for c in columns]
    due, price = [c for c in columns if c.todo], cost(run, columns, rates)
    if not due:
        return [*table, "  to complete: nothing"]
    table.append(f"  to complete: {price}")
    if not all(c.stored for c in due):
        table.append(f"  tokens: at most, {_most(run)} new ones where no completion is stored")
    table.append(f"  time: {_speed(run, rates)[1]}")
    table += _batch_lines(run, price.new_tokens)
    if price.dollars is None and (rates.prices or model_spec(run.model).endpoint):
        table.append(
            "  price: unknown; usd_per_million in the endpoint's table gives it, or --prices"
        )
    return table


def _batch_lines(run: Results, new_tokens: float) -> list[str]:
    """How many prompts a GPU decodes together, and for how long; nothing for a model that needs no GPU."""
    spec = model_spec(run.model)
    if run.slots:
        return [f"  batch size: {run.slots} prompts, as --slots says"]
    if not spec.cache:
        unknown = f"  batch size: by the GPU's memory, once {spec.name} is loaded"
        return [unknown] if spec.needs_gpu else []
    shape, weights = CacheShape(**spec.cache), round(spec.params_b * 1e9 * BYTES)
    tokens = longest_row(run)
    sizes = {f"{size} GB": size * 10**9 for size in GPU_SIZES}
    if free := _free_memory(spec.needs_gpu):
        sizes["this GPU"] = free
    counts = []
    for memory in sizes.values():
        rows = slots_for(shape, memory, weights, tokens)
        counts.append(f"{rows}" if fits(memory, weights) else "too small")
    cache = f"cache {shape.bytes_per_token:,} bytes per token"
    lines = [
        f"  batch size on a GPU of {', '.join(sizes)}: {', '.join(counts)}",
        f"    weights {weights / 1e9:.1f} GB, {cache}, at most {tokens:,} tokens per prompt and answer",
    ]
    lengths = []
    for size, bandwidth in A100_BANDWIDTH.items():
        rows = slots_for(shape, size * 10**9, weights, tokens)
        seconds = decoding_seconds(shape, weights, rows, tokens, round(new_tokens), bandwidth)
        lengths.append(time_text(seconds))
    sizes_of_a100 = ", ".join(f"{size} GB" for size in A100_BANDWIDTH)
    return [
        *lines,
        f"  time on one A100 of {sizes_of_a100}: {', '.join(lengths)} (computed, not measured)",
    ]


def time_text(seconds: float) -> str:
    """Write a time in the unit that suits it.

    Args:
        seconds: The time.

    Returns:
        Such as "2.8 h", "31 min" or "12 s".
    """
    units = (3600, ".1f", "h"), (60, ".0f", "min"), (1, ".0f", "s")
    length, digits, unit = next(u for u in units if seconds >= u[0] or u[0] == 1)
    return f"{seconds / length:{digits}} {unit}"


def longest_row(run: Results) -> int:
    """Estimate the tokens of the longest prompt together with the most new ones.

    Args:
        run: A run; its corpus limits the length of a context.

    Returns:
        Tokens that the cache of one row must hold.
    """
    how = parse_corpus(run.corpus)
    longest = max((len(task.prompt) for task in run.tasks), default=0) + how.top_k * how.length
    return math.ceil(longest / CHARS_PER_TOKEN) + _most(run)


def _free_memory(needs_gpu: bool) -> int:
    """Free bytes of all visible GPUs together; 0 without any."""
    if not needs_gpu:
        return 0
    from torch import cuda  # slow to import

    return sum(cuda.mem_get_info(gpu)[0] for gpu in range(cuda.device_count()))


def heading(run: Results, more: str = "") -> str:
    """A run in progress lines."""
    absent = f"; verdicts as stored, since the tasks cannot be had ({run.tasks_absent})"
    return f"{run.label}: {len(run.tasks)} tasks{more}{absent if run.tasks_absent else ''}"


def _speed(run: Results, rates: Rates) -> tuple[float | None, str]:
    """New tokens a second, and where that is from: given, or measured and scaled to the model's size."""
    path, spec = run.results / SPEED, model_spec(run.model)
    if rates.tokens_per_second:
        return rates.tokens_per_second, f"at the given {rates.tokens_per_second:g} new tokens/s"
    if spec.needs_gpu or not spec.params_b or not path.exists():
        return None, "unknown, no speed was measured for this model; give --tokens-per-second"
    measured = read_json(path, {"model": str, "batch_tokens_per_s": NUMBER})
    base = model_spec(measured["model"])
    speed = float(measured["batch_tokens_per_s"]) * base.params_b / spec.params_b
    scaled = "" if base.name == spec.name else f", scaled from {base.name} by its size"
    return (
        speed,
        f"at {speed:.1f} new tokens/s (results/{SPEED.as_posix()}{scaled}; other machines differ)",
    )
