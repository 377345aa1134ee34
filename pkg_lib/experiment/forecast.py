"""What a run would cost: completions that are there and that are missing; tokens, hours and dollars of the rest.

Only what is stored is read: no weights, no retrieval, nothing written. All but the counts are estimates, and say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pkg_lib.analysis import prices
from pkg_lib.core.models import model_spec
from pkg_lib.core.store import read_json, slug
from pkg_lib.core.types import Context
from pkg_lib.experiment.completions import DECODING
from pkg_lib.experiment.experiment import Experiment, StoredExperiment
from pkg_lib.generation.cache import read_jsonl
from pkg_lib.retrieval.retrievers import CONTEXT_CHARS

CHARS_PER_TOKEN = (
    3  # of code and English; tokenizers make longer tokens, so this counts too many rather than too few
)
MOST = int(DECODING["max_new_tokens"])
SPEED = Path("benchmarks", "generation.json")


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its tasks with and without a completion, and what is to be written for it.

    `todo` counts prompts: one that another task or column shares is completed once. Tokens are estimates; `stored` is how
    many completions they are the mean of, 0 where the new tokens are an upper bound.
    """

    name: str
    cached: int
    missing: int
    todo: int
    prompt_tokens: float
    new_tokens: float
    stored: int


@dataclass(frozen=True, slots=True)
class Rates:
    """What time and money are computed from. `prices`: model -> dollars for a million prompt tokens, and new ones."""

    tokens_per_second: float | None = None
    prices: dict[str, tuple[float, float]] | None = None


def missing(experiment: Experiment, columns: Sequence[str]) -> bool:
    """Whether a completion of these columns is missing that could be made here."""
    return any(True for c in columns for _ in _prompts(experiment, c, set()))


def forecast(experiment: Experiment, columns: Sequence[str], seen: set[str]) -> list[Column]:
    """What is there and what is missing in each column; `seen` are the keys that are counted already, and grows."""
    return [_column(experiment, name, seen) for name in columns]


def _column(experiment: Experiment, name: str, seen: set[str]) -> Column:
    have, prompts = len(experiment.completions(name)), list(_prompts(experiment, name, seen))
    stored = _stored(experiment, name)
    if stored:
        asked, new = (sum(n) / len(stored) for n in zip(*stored, strict=True))
        tokens = len(prompts) * asked
    else:
        most = sum(len(t.prompt) for t in experiment.tasks) / len(experiment.tasks) + CONTEXT_CHARS
        tokens, new = sum(most if p is None else len(p) for p in prompts) / CHARS_PER_TOKEN, MOST
    left = (
        len(experiment.tasks)
        - have
        - sum(experiment.unpublished(name, c) for c in experiment.known_contexts(name))
    )
    return Column(name, have, left, len(prompts), tokens, len(prompts) * new, len(stored))


def _prompts(experiment: Experiment, column: str, seen: set[str]) -> Iterator[str | None]:
    """The prompts to complete, each once; None for one whose context is not known before it is retrieved."""
    if isinstance(experiment, StoredExperiment):
        return  # its tasks cannot be had, so nothing can be generated
    contexts, have = {c.task_id: c for c in experiment.known_contexts(column)}, experiment.completions(column)
    for task in experiment.tasks:
        context = Context(task.id, column, "") if column == "None" else contexts.get(task.id)
        if task.id in have or (context is not None and experiment.unpublished(column, context)):
            continue
        if context is None or context.text is None:
            yield None
            continue
        text = experiment.prompt(task, context)
        key = experiment.key(text)
        if key not in seen:
            seen.add(key)
            yield text


def _stored(experiment: Experiment, column: str) -> list[tuple[int, int]]:
    """(prompt tokens, new tokens) of the model's stored completions of this column: with this corpus, any, or any column."""
    folder = experiment.results / "generations" / experiment.model / experiment.benchmark
    for pattern in (
        f"{slug(experiment.corpus)}/{slug(column)}.jsonl",
        f"*/{slug(column)}.jsonl",
        "*/*.jsonl",
    ):
        rows = [row for path in sorted(folder.glob(pattern)) for _, row in read_jsonl(path) if row]
        if rows:
            return [(int(r["prompt_tokens"]), len(r["tokens"])) for r in rows]
    return []


def read_prices(path: Path) -> dict[str, tuple[float, float]]:
    """model -> its prices in a table (`prices.read_prices`), of those that have both; UserError where it is none."""
    return {
        str(m): (float(asked), float(new)) for m, asked, new in prices.read_prices(path).dropna().itertuples()
    }


@dataclass(frozen=True, slots=True)
class Cost:
    """What is to be completed: prompts, tokens of them and for them, seconds and dollars (None: not known)."""

    todo: int
    asked: float
    new: float
    seconds: float | None
    dollars: float | None

    def __str__(self) -> str:
        price = "" if self.dollars is None else f", {self.dollars:,.2f} US dollars"
        time = "" if self.seconds is None else f", {_hours(self.seconds)}"
        return f"{self.todo:,} prompts; estimated {self.asked:,.0f} prompt tokens, {self.new:,.0f} new tokens{time}{price}"


def cost(experiment: Experiment, columns: Sequence[Column], rates: Rates) -> Cost:
    """What an experiment's missing completions cost."""
    todo, asked, new = (
        sum(n) for n in zip(*((c.todo, c.prompt_tokens, c.new_tokens) for c in columns), strict=True)
    )
    speed, price = _speed(experiment, rates)[0], (rates.prices or {}).get(experiment.model)
    dollars = (asked * price[0] + new * price[1]) / 1e6 if price else None
    return Cost(todo, asked, new, new / speed if speed else None, dollars)


def total(costs: Sequence[Cost]) -> Cost:
    """All together; time and price are known where each is that has something to complete."""
    due = [c for c in costs if c.todo]
    seconds, dollars = ([getattr(c, n) for c in due] for n in ("seconds", "dollars"))
    numbers = (sum(getattr(c, n) for c in due) for n in ("todo", "asked", "new"))
    return Cost(*numbers, *(None if None in values else sum(values) for values in (seconds, dollars)))


def lines(experiment: Experiment, columns: Sequence[Column], rates: Rates) -> list[str]:
    """An experiment's part of a dry run."""
    about = (
        f"{experiment.model} | {experiment.benchmark} | {experiment.corpus}: {len(experiment.tasks)} tasks"
    )
    found = [about + experiment.remark, f"  {'column':<12}{'cached':>8}{'missing':>9}"]
    found += [f"  {c.name:<12}{c.cached:>8}{c.missing:>9}" for c in columns]
    due, spent = [c for c in columns if c.todo], cost(experiment, columns, rates)
    if not due:
        return [*found, "  to complete: nothing"]
    at_most = (
        ""
        if all(c.stored for c in due)
        else f"  tokens: at most, {MOST} new ones where no completion is stored"
    )
    unpriced = (
        "  price: unknown, the table does not have this model"
        if rates.prices and spent.dollars is None
        else ""
    )
    about = [at_most, f"  time: {_speed(experiment, rates)[1]}", unpriced]
    return [*found, f"  to complete: {spent}", *filter(None, about)]


def _speed(experiment: Experiment, rates: Rates) -> tuple[float | None, str]:
    """New tokens a second, and where that is from: given, or measured and scaled to the model's size."""
    path, spec = experiment.results / SPEED, model_spec(experiment.model)
    if rates.tokens_per_second:
        return rates.tokens_per_second, f"at the given {rates.tokens_per_second:g} new tokens/s"
    if spec.needs_gpu or not path.exists():
        return None, "unknown, no speed was measured for this model; give --tokens-per-second"
    measured = read_json(path)
    base, rate = model_spec(measured["model"]), float(measured["batch_tokens_per_s"])
    scaled = "" if base.name == spec.name else f", scaled from {base.name} by its size"
    speed = rate * base.params_b / spec.params_b
    return speed, f"at {speed:.1f} new tokens/s (results/{SPEED.as_posix()}{scaled}; other machines differ)"


def _hours(seconds: float) -> str:
    return (
        f"{seconds / 3600:.1f} h"
        if seconds >= 3600
        else f"{seconds / 60:.0f} min"
        if seconds >= 60
        else f"{seconds:.0f} s"
    )
