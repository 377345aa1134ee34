"""What is measured on a repository, and where it is kept.

results/repo_qa/NAME/answers/MODEL/extraction.jsonl   a model's answers to LLM-KB's extraction prompts (the cache)
results/repo_qa/NAME/answers/MODEL/questions.jsonl    a model's answers to the questions, of all pipelines
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pkg_lib.generation.cache import GenerationCache
from pkg_lib.repo_qa import extraction
from pkg_lib.repo_qa.asking import Asker, Backend
from pkg_lib.results import slug

EXTRACTOR = "qwen2.5-coder-1.5b-instruct"


def folder_of(results: Path, name: str) -> Path:
    return results / "repo_qa" / slug(name)


def asker_of(results: Path, name: str, model: str, stage: str, most: int, backend: Backend | None = None) -> Asker:
    """The model with what it has answered so far for this repository and stage."""
    cache = GenerationCache(folder_of(results, name) / "answers" / slug(model))
    return Asker(model, cache, f"{stage}.jsonl", stage, most, backend)


def extract(
    results: Path, name: str, texts: Mapping[str, str], model: str = EXTRACTOR, retries: int = 0, batch: int = extraction.BATCH
) -> extraction.Extraction:
    """LLM-KB's records of a repository; the model is loaded where an answer is missing."""
    asker = asker_of(results, name, model, "extraction", extraction.MAX_NEW_TOKENS)
    return extraction.extract(texts, asker, batch, retries)
