"""What is available on this machine, and where the rest comes from."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from pkg_lib.core import hub, models
from pkg_lib.core.data_folders import SUBFOLDERS, state_of
from pkg_lib.core.endpoints import Endpoint, endpoints
from pkg_lib.core.store import results_dir, results_path
from pkg_lib.core.types import UserError
from pkg_lib.data import corpora
from pkg_lib.data.benchmark import Benchmark
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.execution.sandbox import layers

T = TypeVar("T")
INDENT = 32  # columns before the state of a name


def lines() -> Iterator[str]:
    """Describe the machine in sections, one line for each name.

    Nothing is downloaded, and no model is loaded.

    Yields:
        The title of a section, or a name with its state, which starts at column INDENT.
    """
    described = {f"endpoint:{name}": endpoint for name, endpoint in endpoints().items()}
    variables = {subfolder: variable for variable, subfolder in SUBFOLDERS.items()}
    machine: dict[str, Callable[[], object]] = {
        "GPU": _gpu,
        "cores": os.cpu_count,
        "weights and vectors": _cache,
        "results": _results,
    }
    yield from _section("models", models.MODELS, _model)
    yield from _section("endpoints", described, _endpoint)
    yield from _section("data sets", variables, state_of)
    yield from _section("benchmarks", BENCHMARKS, _benchmark)
    yield from _section("corpora", corpora.CORPORA, _corpus)
    yield from _section("machine", machine, lambda state: state())
    yield from _section("sandbox layers", layers(), _layer)


def _section(
    title: str, entries: Mapping[str, T], describe: Callable[[T], object]
) -> Iterator[str]:
    """A title, and a line for each entry. An error becomes the entry's state."""
    yield title
    for name, entry in entries.items():
        try:
            state = describe(entry)
        except UserError as e:
            state = str(e).removeprefix(f"corpus {name}: ")
            if "not available" not in state:
                state = f"not available: {state}"
        yield f"  {name:<{INDENT - 3}} {state}"


def _model(spec: models.ModelSpec) -> str:
    gpu = "; needs a GPU" if spec.needs_gpu else ""
    if spec.gguf:
        there = models.is_available(spec)
        state = f"available in {models.converted_dir(spec)}" if there else "not downloaded"
        return f"{state}; `pkg-lib fetch {spec.name}` {models.SOURCE_OF_WEIGHTS}"
    if spec.directory:
        has_model = (spec.directory / "config.json").is_file()
        missing = "" if has_model else ", which does not contain a model"
        return f"directory {spec.directory}{missing}{gpu}"
    origin = f"{spec.repo} (Hugging Face hub){gpu}"
    folder = hub.cached(spec.repo, spec.revision)
    if folder:
        return f"available: commit {folder.name[:12]} of {origin}"
    return f"not downloaded; `pkg-lib fetch {spec.name}` downloads {origin}"


def _endpoint(endpoint: Endpoint) -> str:
    is_unset = endpoint.key and not os.environ.get(endpoint.key)
    unset = f"; {endpoint.key} is not set" if is_unset else ""
    return f"{endpoint.model} at {endpoint.base_url} (not contacted now){unset}"


def _benchmark(benchmark: Benchmark) -> str:
    if benchmark.asks_hub:
        return f"loaded when used: {benchmark.home}"
    return f"available, {len(benchmark.tasks())} tasks"


def _corpus(corpus: corpora.CorpusSource) -> str:
    if corpus.prefix or corpus.source.startswith("hub:") or corpus.kind in corpora.OF_TASKS:
        return corpus.source
    return f"available, {len(corpora.load_corpus(corpus.name))} documents ({corpus.source})"


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


def _cache() -> str:
    folder = models.cache_dir()
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    return f"{folder} ({shutil.disk_usage(existing).free // 10**9} GB free)"


def _results() -> str:
    folder = results_path()
    if not folder.exists():
        return f"{folder} (the first run creates it)"
    return str(results_dir())


def _layer(active: object) -> str:
    return "active" if active is True else f"not active: {active}"
