"""Structures a text corpus and writes what came of it, for the `llm` structurer with what it lost against `headings`.

    results/structured/CORPUS/NAME.jsonl         one line a document: its JSON, or the reason why there is none
    results/structured/CORPUS/NAME.log.json      how many, how many valid, retries, rejected by reason, what was lost
    results/structured/answers/MODEL/CORPUS.jsonl   a model's answers (the cache; a stopped run goes on from it)

NAME is the structurer, for `llm` with the model behind it. The log is always written to results/; the JSON and the
answers of a corpus that may not be copied go to the cache directory (PKG_CACHE) instead, under the same names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pkg_lib.core.models import cache_dir, fetch, model_spec, revision_of
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import read_rows, results_dir, slug, versions, write_json, write_jsonl
from pkg_lib.core.types import Document, UserError, digest
from pkg_lib.data import corpora
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.graph.text.documents import Structured, reasons
from pkg_lib.graph.text.llm import LLM, MAX_NEW_TOKENS, RETRIES, read_answer
from pkg_lib.graph.text.structure import STRUCTURERS, structured

MAX_TOKENS = 1200  # a section that a model is asked to structure
MIN_WORDS = 40  # less is a heading with nothing below it
CHARS_A_TOKEN = (
    3.2  # of reStructuredText with code, for Qwen2.5's tokenizer: low, so that the estimate is high
)


def qualifying(documents: list[Document]) -> list[Document]:
    """The documents that a small model can structure: at most about MAX_TOKENS tokens, at least MIN_WORDS words."""
    short = (d for d in documents if round(len(d.text) / CHARS_A_TOKEN) <= MAX_TOKENS)
    return [d for d in short if len(d.text.split()) >= MIN_WORDS]


def structure(
    corpus: str,
    structurer: str,
    model: str = "",
    limit: int | None = None,
    results: Path | None = None,
    generate: Callable | None = None,
) -> dict[str, Any]:
    """Structures the first `limit` documents of a corpus, writes both files, and returns the log.

    `model` is needed for `llm` and for nothing else; that structurer takes only documents that qualify. `generate` stands
    in for the model. Raises UserError for an unknown name or a corpus of code.
    """
    _check(corpus, structurer, model, limit)
    results = results or results_dir()
    documents, log = corpora.load_corpus(corpus), {}
    folder = (results if corpora.redistributable(corpus) else cache_dir()) / "structured"
    whole = len(documents)
    if structurer == "llm":
        documents = qualifying(documents)
        log = {"qualifying": len(documents), "max_tokens": MAX_TOKENS, "min_words": MIN_WORDS}
        values, about = _by_model(documents[:limit], corpus, model, results, folder, generate)
        log |= about
    else:
        values = structured(documents[:limit], structurer)
    documents = documents[:limit]
    skipped = [(s.document, s.reason) for s in values if s.value is None]
    log |= {
        "corpus": corpus,
        "structurer": structurer,
        "in_corpus": whole,
        "documents": len(documents),
        "corpus_digest": corpora.corpus_digest(documents),
        "structured": len(documents) - len(skipped),
        "rejected": dict(skipped),
        "rejected_by_reason": reasons(skipped),
        "versions": versions(),
    }
    name = Path(slug(corpus), slug("-".join([structurer, *([model] if model else [])])))
    texts = zip(documents, values, strict=True)
    write_jsonl(folder / f"{name}.jsonl", (asdict(s) | {"text_sha256": digest(d.text)} for d, s in texts))
    write_json(results / "structured" / f"{name}.log.json", log)
    return log


def _check(corpus: str, structurer: str, model: str, limit: int | None) -> None:
    corpora.check_name(corpus)
    if not corpora.is_text(corpus):
        texts = ", ".join(c.name for c in corpora.CORPORA.values() if c.kind == "text")
        raise UserError(f"corpus {corpus} is code; structurers take text: {texts}")
    if structurer not in (*STRUCTURERS, "llm"):
        raise unknown("structurer", structurer, (*STRUCTURERS, "llm"))
    if (structurer == "llm") != bool(model):
        raise UserError(f"structurer {structurer} takes {'a' if structurer == 'llm' else 'no'} --model")
    if limit is not None and limit < 1:
        raise UserError(f"limit is {limit}; give 1 or more documents")


def _by_model(
    documents: list[Document],
    corpus: str,
    model: str,
    results: Path,
    folder: Path,
    generate: Callable | None,
) -> tuple[list[Structured], dict[str, Any]]:
    """The `llm` structurer's results, and its part of the log."""
    style, cache = model_spec(model).style, GenerationCache(folder / "answers" / slug(model))
    revision = revision_of(model_spec(model), results, resolve=generate is None)

    def ask_model(requests: list[Any], done: Any) -> None:
        from pkg_lib.generation.backends import TransformersBackend  # torch is not needed for cached answers

        weights, chat = fetch(model, revision), style == "chat"
        TransformersBackend(weights, chat=chat, slots=16, max_new_tokens=MAX_NEW_TOKENS).generate(
            requests, done
        )

    llm = LLM(generate or ask_model, cache, model, revision, style, f"{slug(corpus)}.jsonl")
    values = llm.structure(documents)
    answers = [a for row in llm.answers.values() for a in row]
    read = [
        read_answer(i, a.raw, a.finish, n) for i, row in llm.answers.items() for n, a in enumerate(row, 1)
    ]
    first = sum(s.value is not None and s.attempts == 1 for s in values)
    return values, {
        "model": model,
        "revision": revision,
        "retries_allowed": RETRIES,
        "max_new_tokens": MAX_NEW_TOKENS,
        "answers": len(answers),
        "asked_in_this_run": llm.asked,
        "retries": len(answers) - len(documents),
        "valid_at_first_answer": first,
        "validity_rate": _share(first, len(documents)),
        "validity_rate_with_retries": _share(sum(s.value is not None for s in values), len(documents)),
        "invalid_answers_by_reason": reasons((s.document, s.reason) for s in read if s.value is None),
        "prompt_tokens": sum(a.prompt_tokens for a in answers),
        "new_tokens": sum(len(a.tokens) for a in answers),
        "kept_of_headings": kept(documents, values),
    }


def kept(documents: list[Document], values: list[Structured]) -> dict[str, Any]:
    """What a structurer kept of what `headings` has, over the documents that it gave JSON for.

    `words`: share of the words of headings' texts and titles (counted with repetition) that stand in the other JSON too;
    `code_examples`: share of headings' code examples whose lines, spaces aside, all stand in the other JSON in one string.
    `words_added` is the share of the other's words that headings does not have: what a model made up.
    """
    by_document = {s.document: s.value for s in values if s.value is not None}
    texts = {d.id: d for d in documents if d.id in by_document}
    words, common, other, examples, same = 0, 0, 0, 0, 0
    for (reference,), value in ((structured([d], "headings"), by_document[i]) for i, d in texts.items()):
        expected, present = _words(reference.value or {}), _words(value)
        words, other = words + expected.total(), other + present.total()
        common += (expected & present).total()
        strings = [_squeezed(text) for _, text in _strings(value)]
        codes = [_squeezed(text) for key, text in _strings(reference.value or {}) if key == "code"]
        examples, same = examples + len(codes), same + sum(any(c in text for text in strings) for c in codes)
    return {
        "documents": len(by_document),
        "headings_words": words,
        "words": _share(common, words),
        "words_added": _share(other - common, other),
        "headings_code_examples": examples,
        "code_examples": _share(same, examples),
    }


def _share(part: int, whole: int) -> float | None:
    """None where there is nothing to have a share of."""
    return round(part / whole, 4) if whole else None


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(key, text) of each string of a JSON value, and ("", title) of each key that is none of the shape's own."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for child in value:
            yield from _strings(child)
    elif isinstance(value, dict):
        for name, child in value.items():
            if name not in ("explanation", "examples", "code"):
                yield "", name
            yield from _strings(child, name)


def _words(value: Any) -> Counter[str]:
    return Counter(w for _, text in _strings(value) for w in re.findall(r"\w+", text.lower()))


def _squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


def json_of(corpus: str, documents: list[Document]) -> list[Structured]:
    """The JSON of a text corpus' documents: of structured:FILE what is stored, of others by the structurer of their kind."""
    files = [
        value for part, values in corpora.parts(corpus) for value in values if part.prefix == "structured"
    ]
    rows = (s for name in files for s in load_structured(corpora.structured_file(name), documents))
    stored = {s.document: s for s in rows}
    return [*stored.values(), *structured([d for d in documents if d.id not in stored])]


def load_structured(path: Path, documents: list[Document]) -> list[Structured]:
    """What `structure` wrote, for these documents; UserError where a text has changed since."""
    current = {d.id: digest(d.text) for d in documents}
    values = []
    for row in read_rows(path, ("document", "value", "reason", "attempts", "text_sha256")):
        if current.get(row["document"], row["text_sha256"]) != row["text_sha256"]:
            raise UserError(
                f"{path}: {row['document']} has changed since it was structured; structure the corpus again"
            )
        values.append(Structured(row["document"], row["value"], row["reason"], row["attempts"]))
    return values
