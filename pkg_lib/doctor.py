"""What is available on this machine, and where the rest comes from."""

import os
import shutil
from collections.abc import Iterator
from functools import partial

from pkg_lib.core import hub, models
from pkg_lib.core.endpoints import Endpoint, endpoints
from pkg_lib.core.store import results_dir
from pkg_lib.core.types import UserError
from pkg_lib.data import corpora
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.execution.sandbox import layers

INDENT = 32  # columns before what is said of a name


def lines() -> Iterator[str]:
    """Describe the machine in sections, one line for each name. Nothing is downloaded, no model is loaded.

    Yields:
        The title of a section, or a name with its state, which starts at column INDENT.
    """
    machine = {
        "GPU": _gpu,
        "cores": os.cpu_count,
        "weights and vectors": _cache,
        "results": results_dir,
    }
    sections = {
        "models": {name: partial(_model, spec) for name, spec in models.MODELS.items()},
        "endpoints": {f"endpoint:{name}": partial(_endpoint, e) for name, e in endpoints().items()},
        "benchmarks": {name: partial(_benchmark, name) for name in BENCHMARKS},
        "corpora": {name: partial(_corpus, name) for name in corpora.CORPORA},
        "machine": machine,
        "sandbox layers": {layer: partial(_layer, on) for layer, on in layers().items()},
    }
    for section, facts in sections.items():
        yield section
        for name, fact in facts.items():
            try:
                state = fact()
            except UserError as e:
                state = _unavailable(name, str(e))
            yield f"  {name:<{INDENT - 3}} {state}"


def _unavailable(name: str, reason: str) -> str:
    """What an error says of a name, without saying the name or that it is unavailable twice."""
    reason = reason.removeprefix(f"corpus {name}: ")
    return reason if "not available" in reason else f"not available: {reason}"


def _model(spec: models.ModelSpec) -> str:
    gpu = "; needs a GPU" if spec.needs_gpu else ""
    if spec.gguf:
        there = models.is_available(spec)
        state = f"available in {models.converted_dir(spec)}" if there else "not downloaded"
        return f"{state}; `pkg-lib fetch {spec.name}` {models.SOURCE_OF_WEIGHTS}"
    if spec.directory:
        there = (
            "" if (spec.directory / "config.json").is_file() else ", which does not contain a model"
        )
        return f"directory {spec.directory}{there}{gpu}"
    folder = hub.cached(spec.repo, spec.revision)
    if folder:
        return f"available: commit {folder.name[:12]} of {spec.repo} (Hugging Face hub){gpu}"
    return (
        f"not downloaded; `pkg-lib fetch {spec.name}` downloads {spec.repo} (Hugging Face hub){gpu}"
    )


def _endpoint(endpoint: Endpoint) -> str:
    unset = (
        "" if not endpoint.key or os.environ.get(endpoint.key) else f"; {endpoint.key} is not set"
    )
    return f"{endpoint.model} at {endpoint.base_url} (not contacted now){unset}"


def _benchmark(name: str) -> str:
    benchmark = BENCHMARKS[name]
    if benchmark.asks_hub:
        return f"loaded when used: {benchmark.home}"
    return f"available, {len(benchmark.tasks())} tasks"


def _corpus(name: str) -> str:
    corpus = corpora.CORPORA[name]
    if corpus.prefix or corpus.source.startswith("hub:") or corpus.kind in corpora.OF_TASKS:
        return corpus.source
    return f"available, {len(corpora.load_corpus(name))} documents ({corpus.source})"


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


def _cache() -> str:
    folder = models.cache_dir()
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    return f"{folder} ({shutil.disk_usage(existing).free // 10**9} GB free)"


def _layer(on: object) -> str:
    return "active" if on is True else f"not active: {on}"
