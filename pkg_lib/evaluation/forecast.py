"""Forecasts what a run would cost: missing completions, and their tokens, hours and dollars."""

import math
import operator
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from pkg_lib.core.embedders import embedder_spec
from pkg_lib.core.endpoints import endpoints
from pkg_lib.core.models import MODELS, ModelSpec, model_spec
from pkg_lib.core.speeds import notebook_speed, speeds
from pkg_lib.core.store import cache_folder, slug
from pkg_lib.core.types import FurtherPrompts, Generation, UserError
from pkg_lib.data import corpora
from pkg_lib.data.corpora import parse_corpus
from pkg_lib.evaluation.pipeline import FEW_TEXTS, Evaluator, encoding_passes
from pkg_lib.evaluation.results import Results
from pkg_lib.generation.batch_size import (
    A100_BANDWIDTH,
    BYTES,
    CPU_SLOTS,
    GPU_SIZES,
    MOST,
    CacheShape,
    decoding_seconds,
    fits,
    slots_for,
)
from pkg_lib.generation.cache import read_generations, stored_files
from pkg_lib.generation.calibration import generation_seconds
from pkg_lib.generation.prompts import TEMPLATES
from pkg_lib.retrieval.enhanced import ENHANCED, stored_docstrings
from pkg_lib.retrieval.methods import context_method, parse_method

CHARS_PER_TOKEN = 3  # of code and English; tokens are longer, so this counts too many
LONGEST_IN_SECONDS = 600  # longer times are printed in minutes or hours
TYPICAL_NOTEBOOK_SECONDS = 6  # measured with two at once on two cores


@dataclass(frozen=True, slots=True)
class MethodForecast:
    """Stored and missing work of one method.

    Attributes:
        method: Its name.
        cached: The number of tasks with a completion.
        missing: The number of tasks without one.
        todo: The number of prompts to complete; tasks and methods with equal prompts share one.
        prompt_tokens: Tokens of these prompts, from the mean of the stored completions. Without
            stored completions it is an upper bound.
        new_tokens: Tokens to generate, estimated in the same way.
        stored: The number of stored completions that the means are taken from.
        longest: Tokens of the longest of these answers, estimated in the same way.
        texts: Texts of the corpus to encode. Texts that a method with fewer texts encodes are not
            counted again.
        encoding_seconds: The time to encode them; None if it is unknown.
        further: What its retriever prompts for beside these prompts, which are without it.
    """

    method: str
    cached: int
    missing: int
    todo: int
    prompt_tokens: float
    new_tokens: float
    stored: int
    longest: float = 0.0
    texts: int = 0
    encoding_seconds: float | None = 0.0
    further: tuple[FurtherPrompts, ...] = ()

    @property
    def all_prompts(self) -> int:
        """The number of prompts, with those of the retriever."""
        return self.todo + sum(prompts.count for prompts in self.further)

    @property
    def all_prompt_tokens(self) -> float:
        """The tokens of all prompts."""
        return self.prompt_tokens + sum(prompts.prompt_tokens for prompts in self.further)

    @property
    def all_new_tokens(self) -> float:
        """The tokens to generate for all prompts."""
        return self.new_tokens + sum(prompts.new_tokens for prompts in self.further)


@dataclass(frozen=True, slots=True)
class Rates:
    """How fast and at what price completions are generated.

    Attributes:
        tokens_per_second: New tokens per second; None if the user gave no speed.
        prices: Dollars per million prompt tokens and per million new tokens, by model.
    """

    tokens_per_second: float | None = None
    prices: dict[str, tuple[float, float]] | None = None


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of completing prompts.

    Attributes:
        todo: The number of prompts.
        prompt_tokens: Their tokens.
        new_tokens: Tokens to generate.
        seconds: The time; None if it is unknown.
        dollars: The price in US dollars; None if it is unknown.
    """

    todo: int
    prompt_tokens: float
    new_tokens: float
    seconds: float | None
    dollars: float | None

    def __add__(self, other: "Cost") -> "Cost":
        """Return the sum. A figure that is unknown in either cost is unknown in the sum."""
        return Cost(
            self.todo + other.todo,
            self.prompt_tokens + other.prompt_tokens,
            self.new_tokens + other.new_tokens,
            _sum_if_known(self.seconds, other.seconds),
            _sum_if_known(self.dollars, other.dollars),
        )

    def __str__(self) -> str:
        """Return the cost in words, without what is unknown."""
        text = (
            f"{self.todo:,} prompts; estimated {self.prompt_tokens:,.0f} prompt tokens, "
            f"{self.new_tokens:,.0f} new tokens"
        )
        if self.seconds is not None:
            text += f", {_duration(self.seconds)}"
        if self.dollars is not None:
            text += f", {self.dollars:,.2f} US dollars"
        return text


def _sum_if_known(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a + b


def _duration(seconds: float) -> str:
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    if seconds >= 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s"


def forecast(
    evaluator: Evaluator,
    methods: Sequence[str],
    counted: set[str],
) -> list[MethodForecast]:
    """Forecast the missing work of methods.

    Args:
        evaluator: An evaluator of the experiment, which knows what is stored.
        methods: Names of methods.
        counted: Keys of prompts that are counted already. New ones are added to it.

    Returns:
        A forecast for each method, in order.

    Raises:
        UnavailableError: A method needs docstrings that are not generated yet.
    """
    needed: dict[str, list[str]] = {}
    for method in methods:
        if context_method(method) == ENHANCED:
            stored_docstrings(parse_corpus(evaluator.run.corpus).documents)
        # Other corpora may be large, or on the hub; a dry run loads none of them.
        is_own = corpora.own(evaluator.run.corpus)
        needed[method] = evaluator.texts_to_encode(method) if is_own else []
    needed = encoding_passes(needed)
    forecasts = []
    for method in methods:
        found = _forecast(evaluator, method, counted)
        seconds = _encoding_seconds(evaluator.run, needed[method])
        forecasts.append(replace(found, texts=len(needed[method]), encoding_seconds=seconds))
    return forecasts


def _encoding_seconds(results: Results, texts: list[str]) -> float | None:
    """Forecast how long texts take to encode, by encoding a part of them for two seconds."""
    if not texts:
        return 0.0
    try:
        speed = results.knowledge.embedder.measure_speed(texts)
    except UserError:  # the embedder is not available; another line says so
        return None
    return len(texts) / speed if speed else None


def _forecast(
    evaluator: Evaluator,
    method: str,
    counted: set[str],
) -> MethodForecast:
    results = evaluator.run
    generator = results.generator_of(method)
    longest_prompt = _mean_prompt_bound(results, method)
    missing = todo = 0
    characters = 0.0
    for task, context in evaluator.missing(method):
        missing += 1
        if context is None or context.text is None:  # not retrieved yet
            todo += 1
            characters += longest_prompt
            continue
        request = results.request(task, context, method)
        key = generator.key(request.text, request.sample)
        if key not in counted:
            counted.add(key)
            todo += 1
            characters += len(request.text)
    stored = _similar_generations(results, method)
    window = parse_method(method).window
    prompt_tokens: float
    new_tokens: float
    longest = float(_max_new_tokens(results))
    if window and not stored:
        new_tokens = todo * _max_new_tokens(results)
        prompt_tokens = todo * window - new_tokens
    elif stored:
        prompt_tokens = todo * sum(g.prompt_tokens for g in stored) / len(stored)
        lengths = [len(g.tokens) for g in stored]
        new_tokens = todo * sum(lengths) / len(lengths)
        # Of n random answers, the longest is near this quantile.
        longest = float(np.quantile(lengths, todo / (todo + 1)))
    else:
        prompt_tokens = characters / CHARS_PER_TOKEN
        new_tokens = todo * _max_new_tokens(results)
    cached = len(results.completions(method))
    forecast = MethodForecast(
        method,
        cached,
        missing,
        todo,
        prompt_tokens,
        new_tokens,
        len(stored),
        longest,
    )
    if window and missing:
        forecast = replace(forecast, further=_further_prompts(results, method, counted))
    return forecast


def _further_prompts(
    results: Results,
    method: str,
    counted: set[str],
) -> tuple[FurtherPrompts, ...]:
    """Return what the retriever of a method prompts for; what methods share is counted once."""
    retriever = results.retriever_factory(method)(results.knowledge)
    describe = getattr(retriever, "further_prompts", None)
    further = []
    for prompts in describe(results.tasks) if describe else ():
        key = f"{results.model} {results.benchmark} {prompts.what}"
        if prompts.shared and key in counted:
            continue
        counted.add(key)
        further.append(prompts)
    return tuple(further)


def _mean_prompt_bound(results: Results, method: str) -> float:
    """Bound the mean length of a prompt in characters, with the longest context."""
    if not results.tasks:
        return 0
    mean = sum(len(t.prompt) for t in results.tasks) / len(results.tasks)
    return mean + _context_bound(results) + _style_characters(results, [method])


def _style_characters(results: Results, methods: Sequence[str]) -> int:
    """Return the most characters that a prompt has beside the problem and the context."""
    most = 0
    for method in methods:
        template = TEMPLATES.get_or_fail(results.prompt_style(parse_method(method)))
        context = "x"
        most = max(most, len(template("", "")), len(template("", context)) - len(context))
    return most


def _context_bound(results: Results) -> int:
    spec = parse_corpus(results.corpus)
    return spec.top_k * spec.length


def _max_new_tokens(results: Results) -> int:
    return int(results.generator.decoding.parameters["max_new_tokens"])


def _similar_generations(results: Results, method: str) -> list[Generation]:
    """Read stored completions: of the method and corpus, else of the method, else of any method.

    A method whose prompts have a length of their own is similar to no other one.
    """
    own = results.files(method).completions
    folder = cache_folder(results.results, results.model) / slug(results.benchmark)
    patterns = [f"{slug(results.corpus)}/{own.name}", f"*/{own.name}"]
    if not parse_method(method).window:
        patterns.append("*/*.jsonl")
    for pattern in patterns:
        found = []
        for path in stored_files(folder, pattern):
            found += [generation for _, generation in read_generations(path) if generation]
        if found:
            return found
    return []


def cost(
    results: Results,
    forecasts: Sequence[MethodForecast],
    rates: Rates,
) -> Cost:
    """Compute what the missing completions cost.

    Args:
        results: The results that lack them.
        forecasts: What each method lacks.
        rates: Speed and prices; by default those that are measured or configured.

    Returns:
        The cost of all methods together.
    """
    prompt_tokens = sum(f.all_prompt_tokens for f in forecasts)
    new_tokens = sum(f.all_new_tokens for f in forecasts)
    price = (rates.prices or {}).get(results.model)
    endpoint = endpoints().get(model_spec(results.model).endpoint)
    if not price and endpoint:
        price = endpoint.usd_per_million
    seconds, _ = _generation_time(results, forecasts, rates)
    return Cost(
        sum(f.all_prompts for f in forecasts),
        prompt_tokens,
        new_tokens,
        _sum_if_known(seconds, _total_encoding(forecasts)),
        (prompt_tokens * price[0] + new_tokens * price[1]) / 1e6 if price else None,
    )


def _generation_time(
    results: Results,
    forecasts: Sequence[MethodForecast],
    rates: Rates,
) -> tuple[float | None, str]:
    """Return the seconds of generation, None if they are unknown; and where the number is from."""
    new_tokens = sum(f.all_new_tokens for f in forecasts)
    speed, source = _speed(results, rates)
    if speed:
        return new_tokens / speed, source
    spec = model_spec(results.model)
    todo = sum(f.all_prompts for f in forecasts)
    if spec.needs_gpu or spec.endpoint or not spec.params_b or not todo:
        return None, source
    from torch import cuda  # slow to import

    if cuda.is_available():  # the model would run there, and the speed of the CPU says nothing
        return None, source
    # As in a run: methods that encode much are completed by themselves, the others together.
    together = [f for f in forecasts if f.texts < FEW_TEXTS]
    groups = [together, *([f] for f in forecasts if f.texts >= FEW_TEXTS)]
    seconds = 0.0
    for group in groups:
        rows = sum(f.all_prompts for f in group)
        if rows:
            seconds += generation_seconds(
                spec.params_b * 1e9,
                min(rows, results.slots or CPU_SLOTS),
                sum(f.all_prompt_tokens for f in group),
                sum(f.all_new_tokens for f in group),
                max(f.longest for f in group),
            )
    return (
        seconds,
        "estimated from the speed of one linear layer of the model, measured now on this CPU",
    )


def _total_encoding(forecasts: Sequence[MethodForecast]) -> float | None:
    """Add the times of encoding; None if one of them is unknown."""
    seconds = 0.0
    for f in forecasts:
        if f.encoding_seconds is None:
            return None
        seconds += f.encoding_seconds
    return seconds


def total(costs: Sequence[Cost]) -> Cost:
    """Add costs.

    Args:
        costs: At least one cost.

    Returns:
        The sum. Time and price are known if every cost that has something to complete knows them.
    """
    relevant = [cost for cost in costs if cost.todo] or costs[:1]
    return reduce(operator.add, relevant)


def lines(
    results: Results,
    forecasts: Sequence[MethodForecast],
    rates: Rates,
) -> list[str]:
    """Describe in a dry run what results lack.

    Args:
        results: The results.
        forecasts: What each method lacks.
        rates: Speed and prices.

    Returns:
        Lines to print.
    """
    width = max(12, *(len(f.method) for f in forecasts))
    table = [heading(results), f"  {'method':<{width}}{'cached':>8}{'missing':>9}"]
    table += [f"  {f.method:<{width}}{f.cached:>8}{f.missing:>9}" for f in forecasts]
    due = [f for f in forecasts if f.todo]
    if not due:
        return [*table, "  to complete: nothing"]
    table += _encoding_lines(forecasts)
    table += _further_lines(forecasts)
    price = cost(results, forecasts, rates)
    included = ", encoding included" if any(f.texts for f in forecasts) else ""
    table.append(f"  to complete: {price}{included}")
    if not all(f.stored for f in due):
        most = _max_new_tokens(results)
        table.append(
            f"  tokens: where no completion is stored, the most that an answer may have ({most})"
        )
    _, source = _generation_time(results, forecasts, rates)
    table.append(f"  time: {source}")
    table += _batch_lines(results, [f.method for f in due], price.new_tokens)
    try:
        embedder_spec(parse_corpus(results.corpus).embedder).require_key()
        if _total_encoding(forecasts) is None:
            results.knowledge.embedder.measure_speed(["text"])  # raises what prevented the forecast
    except UserError as e:
        table.append(f"  the embedder is unavailable: {e}")
    if price.dollars is None and (rates.prices or model_spec(results.model).endpoint):
        table.append("  price: unknown; give it by usd_per_million of the endpoint, or by --prices")
    return table


def _encoding_lines(forecasts: Sequence[MethodForecast]) -> list[str]:
    """Say how many texts of the corpus each method encodes, and for how long."""
    encoding = sorted((f for f in forecasts if f.texts), key=lambda f: f.texts)
    table = []
    for f in encoding:
        line = f"  to encode for {f.method}: {f.texts:,} texts"
        if f.encoding_seconds is not None:
            line += f", {_duration(f.encoding_seconds)} by the speed measured now"
        table.append(line)
    return table


def _further_lines(forecasts: Sequence[MethodForecast]) -> list[str]:
    """Say what is prompted for beside programs; the cost includes it."""
    counts: Counter[str] = Counter()
    for f in forecasts:
        for prompts in f.further:
            counts[prompts.what] += prompts.count
    if not counts:
        return []
    listed = ", ".join(f"{count:,} {what}" for what, count in counts.items())
    return [f"  beside programs: at most {listed}"]


def notebook_line(due: Sequence[str], unchanged: int) -> str:
    """Say how many notebooks a run would execute, and for how long.

    Args:
        due: Names of the notebooks to execute, each as often as it is executed.
        unchanged: The number of notebooks that are current.

    Returns:
        The line.
    """
    line = f"notebooks: {len(due)} to execute, {unchanged} unchanged"
    if not due:
        return line
    measured = _measured_notebooks(due)
    others = len(due) - len(measured)
    parts = []
    if measured:
        parts.append(f"{len(measured)} at their last speed on this machine")
    if others:
        parts.append(f"{others} at {TYPICAL_NOTEBOOK_SECONDS} s each")
    return f"{line}; about {_duration(_notebook_seconds(due))} ({', '.join(parts)})"


def _measured_notebooks(due: Sequence[str]) -> list[float]:
    """Return the seconds of those notebooks that were executed on this machine before."""
    here = speeds()
    return [1 / here[notebook_speed(name)] for name in due if here.get(notebook_speed(name))]


def _notebook_seconds(due: Sequence[str]) -> float:
    measured = _measured_notebooks(due)
    return sum(measured) + (len(due) - len(measured)) * TYPICAL_NOTEBOOK_SECONDS


def total_time(costs: Sequence[Cost], due: Sequence[str]) -> list[str]:
    """Add up how long a run would take.

    Args:
        costs: What the missing completions of each step cost.
        due: Names of the notebooks to execute.

    Returns:
        One line; none if there is nothing to complete, or its time is unknown.
    """
    seconds = _notebook_seconds(due)
    relevant = [cost for cost in costs if cost.todo]
    if not relevant:
        return []
    for cost in relevant:
        if cost.seconds is None:
            return []
        seconds += cost.seconds
    # Rounded to minutes, a short run would look up to half as long again.
    time = f"{seconds:.0f} s" if seconds < LONGEST_IN_SECONDS else _duration(seconds)
    return [f"in all: about {time}"]


def heading(results: Results, more: str = "") -> str:
    """Describe results in one line of progress.

    Args:
        results: The results.
        more: Text behind the number of tasks.

    Returns:
        The line.
    """
    line = f"{results.label}: {len(results.tasks)} tasks{more}"
    if results.tasks_absent:
        line += f"; verdicts as stored, since the tasks are unavailable ({results.tasks_absent})"
    return line


def _batch_lines(results: Results, methods: Sequence[str], new_tokens: float) -> list[str]:
    """Say how many prompts a GPU decodes together, and for how long; nothing for a small model."""
    spec = model_spec(results.model)
    chosen = ""
    if results.slots:
        chosen = f"  batch size: {results.slots:,} prompts, given by --slots"
    if not spec.cache:
        if chosen:
            return [chosen]
        if spec.needs_gpu:
            return [f"  batch size: by the GPU's memory, once {spec.name} is loaded"]
        return []
    shape = CacheShape(**spec.cache)
    weights = round(spec.params_b * 1e9 * BYTES)
    longest_prompt = max((len(t.prompt) for t in results.tasks), default=0)
    longest_prompt += _context_bound(results) + _style_characters(results, methods)
    row = math.ceil(longest_prompt / CHARS_PER_TOKEN) + _max_new_tokens(results)
    counts = {}
    too_small = []
    limit = max(MOST, results.slots or 0)
    for name, memory in _gpus(spec).items():
        most = 0
        counts[name] = "too small"
        if fits(memory, weights):
            most = slots_for(shape, memory, weights, row, limit)
            counts[name] = str(min(most, MOST))
        if results.slots and results.slots > most:
            too_small.append(f"{name} ({most})")
    if too_small:
        chosen += f"; too many for a GPU of {', '.join(too_small)}: the number is then halved"
    if chosen:
        return [chosen]
    cache = f"cache {shape.bytes_per_token:,} bytes per token"
    longest = f"at most {row:,} tokens per prompt and answer at {CHARS_PER_TOKEN} characters each"
    return [
        f"  batch size on a GPU of {', '.join(counts)}: {', '.join(counts.values())}",
        f"    weights {weights / 1e9:.1f} GB, {cache}, {longest}",
        _decoding_times(shape, weights, row, round(new_tokens)),
    ]


def _decoding_times(shape: CacheShape, weights: int, row: int, new_tokens: int) -> str:
    """Say how long an A100 decodes.

    Args:
        shape: The model's cache.
        weights: Its weights in bytes.
        row: The most tokens of a prompt with its answer.
        new_tokens: All tokens to generate.
    """
    durations = []
    for size, bandwidth in A100_BANDWIDTH.items():
        memory = size * 10**9
        slots = slots_for(shape, memory, weights, row)
        seconds = decoding_seconds(shape, weights, slots, row, new_tokens, bandwidth)
        durations.append(_duration(seconds))
    a100 = ", ".join(f"{size} GB" for size in A100_BANDWIDTH)
    return f"  time on one A100 of {a100}: {', '.join(durations)} (computed, not measured)"


def _gpus(spec: ModelSpec) -> dict[str, int]:
    """Return the memory in bytes of common GPUs, and the free memory of the GPUs here."""
    gpus = {f"{size} GB": size * 10**9 for size in GPU_SIZES}
    if spec.needs_gpu:
        from torch import cuda  # slow to import

        free = sum(cuda.mem_get_info(gpu)[0] for gpu in range(cuda.device_count()))
        if free:
            gpus["this GPU"] = free
    return gpus


def _speed(results: Results, rates: Rates) -> tuple[float | None, str]:
    """Return the new tokens per second, and where the number is from."""
    if rates.tokens_per_second:
        return rates.tokens_per_second, f"at the given {rates.tokens_per_second:g} new tokens/s"
    spec = model_spec(results.model)
    here = speeds()
    if spec.name in here:
        return here[spec.name], f"at {here[spec.name]:.1f} new tokens/s, as last on this machine"
    for name, speed in here.items() if not spec.needs_gpu else ():
        other = MODELS.get(name)
        if other is not None and other.params_b and spec.params_b:
            speed *= other.params_b / spec.params_b
            return speed, f"at {speed:.1f} new tokens/s, scaled from {name} on this machine"
    return None, "unknown, no speed was measured for this model; give --tokens-per-second"
