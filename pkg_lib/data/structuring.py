"""Structures a text corpus (Section 3.1.2); for the `llm` structurer says what it lost against `headings`.

    results/structured/CORPUS/NAME.jsonl            a line a document: its JSON, or why there is none
    results/structured/CORPUS/NAME.log.json         how many, how many valid, retries, rejected, what was lost
    results/structured/answers/MODEL/CORPUS.jsonl   a model's answers; a stopped run goes on

JSON and answers of a corpus that may not be copied go to the cache directory (PKG_CACHE). `llm` is the
paper's structurer: a model is asked for JSON of a fixed shape ("constrained prompting"), and again with the
reason where its answer is none, at most RETRIES times. The paper prints no prompt for it; this is ours.

A document of more than MAX_CHARS characters is too long for one prompt. It is split into sections, the model
is asked for each, and the document's JSON has those of all sections. The JSON that is committed for Python's
documentation comes from the documents that fit one prompt, so the default for that corpus is to skip others.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import chain, count
from pathlib import Path
from typing import Any

from pkg_lib.core.markdown import fences
from pkg_lib.core.models import cache_dir, model_spec
from pkg_lib.core.reading import Kinds
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import read_rows, slug, versions, write_json, write_jsonl
from pkg_lib.core.types import Document, Generation, Request, UserError, digest
from pkg_lib.data import corpora
from pkg_lib.generation.answer_text import answer
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Backend, Decoding, Generator, StoredRequest
from pkg_lib.graph.text.documents import Rejected, Structured, parse_json, reasons
from pkg_lib.graph.text.structure import STRUCTURERS, split_long, structured, title_of

FIELDS: Kinds = {
    **dict.fromkeys(("document", "reason", "text_sha256"), str),
    "value": (dict, type(None)),
    "attempts": int,
}
MAX_TOKENS = 1200  # a section that a model is asked to structure
MIN_WORDS = 40  # less is a heading with nothing below it
CHARS_A_TOKEN = (
    3.2  # of reStructuredText, for Qwen2.5's tokenizer: low, so that the estimate is high
)
MAX_CHARS = 3841  # the longest text that is estimated at MAX_TOKENS
MAX_TITLE = 200  # characters of a document's title before the text of a later section
LONG = SPLIT, SKIP = ("split", "skip")  # what to do with longer documents
MAX_NEW_TOKENS = 1600  # JSON repeats the section and escapes it
RETRIES = 2
PROMPT = """\
Turn this section of a programming tutorial into JSON.

Answer with one JSON object and nothing else, in this shape:
{{"<title of the section>": {{"explanation": "<the text>", "examples": \
[{{"explanation": "<what the code shows>", "code": "<the code>"}}]}}}}

Rules:
- Keep every code example, complete and unchanged. Inside a string write a line break as \\n and a quotation \
mark as \\".
- Keep the wording of the text; leave out only markup.
- A subsection is an object of the same shape under its own title, inside its section. No key may occur \
twice in an object.
- Leave "explanation" or "examples" out where there is nothing to say. No comments, no trailing commas.

The section:

{text}
"""
AGAIN = (
    "\nYour last answer to this could not be used ({reason})."
    " Answer again with one complete, valid JSON object only.\n"
)


def structure(
    corpus: str,
    structurer: str,
    results: Path,
    model: str = "",
    limit: int | None = None,
    backend: Backend | None = None,
    long_documents: str = "",
) -> dict[str, Any]:
    """Structure a text corpus, and write its JSON and a log.

    Args:
        corpus: The name of a corpus of text.
        structurer: One of STRUCTURERS, or "llm".
        results: The results directory.
        model: The model that writes the JSON, for "llm".
        limit: Only so many documents; for "llm" of those that qualify.
        backend: What writes, in place of the model's weights.
        long_documents: One of LONG; "" for what the corpus' committed JSON was made with, else "split".

    Returns:
        The log.

    Raises:
        UserError: The corpus, the structurer or the model is unknown or does not fit the others.
    """
    if not corpora.is_text(corpus):
        texts = ", ".join(c.name for c in corpora.CORPORA.values() if c.kind == "text")
        raise UserError(f"corpus {corpus} is code; structurers take text: {texts}")
    if structurer not in (*STRUCTURERS, "llm"):
        raise unknown("structurer", structurer, (*STRUCTURERS, "llm"))
    if (structurer == "llm") != bool(model):
        raise UserError(
            f"structurer {structurer} takes {'a' if structurer == 'llm' else 'no'} --model"
        )
    if long_documents not in ("", *LONG):
        raise unknown("choice of --long-documents", long_documents, LONG)
    if long_documents and not model:
        raise UserError(
            f"structurer {structurer} takes documents of any length; leave --long-documents out"
        )
    documents = corpora.load_corpus(corpus)
    log: dict[str, Any] = {"corpus": corpus, "structurer": structurer, "in_corpus": len(documents)}
    folder = (results if corpora.redistributable(corpus) else cache_dir()) / "structured"
    if model:
        long_documents = long_documents or (SKIP if corpora.redistributable(corpus) else SPLIT)
        documents = [d for d in documents if len(d.text.split()) >= MIN_WORDS]
        if long_documents == SKIP:
            documents = [d for d in documents if len(d.text) <= MAX_CHARS]
        log |= {"qualifying": len(documents), "max_tokens": MAX_TOKENS, "min_words": MIN_WORDS}
        log["long_documents"] = long_documents
    documents = documents[:limit]
    if model:
        asked = Structurer(model, folder / "answers" / slug(model), results, backend)
        parts = [sections(document) for document in documents]
        of_parts, about = asked.structure([p for of in parts for p in of], f"{slug(corpus)}.jsonl")
        log |= about | {
            "sections": len(of_parts),
            "split_documents": sum(len(of) > 1 for of in parts),
        }
        log["rejected_sections"] = {s.document: s.reason for s in of_parts if s.value is None}
        by_part = {s.document: s for s in of_parts}
        values = [
            joined(document, [by_part[p.id] for p in of])
            for document, of in zip(documents, parts, strict=True)
        ]
    else:
        values = structured(documents, structurer)
    rejected = [(s.document, s.reason) for s in values if s.value is None]
    log |= {"documents": len(documents), "corpus_digest": corpora.corpus_digest(documents)}
    log |= {"structured": len(documents) - len(rejected), "rejected": dict(rejected)}
    log |= {"rejected_by_reason": reasons(rejected), "versions": versions()}
    name = f"{slug(corpus)}/{slug(f'{structurer}-{model}' if model else structurer)}"
    pairs = zip(documents, values, strict=True)
    write_jsonl(
        folder / f"{name}.jsonl", (asdict(s) | {"text_sha256": digest(d.text)} for d, s in pairs)
    )
    write_json(results / "structured" / f"{name}.log.json", log)
    return log


def sections(document: Document) -> list[Document]:
    """Split a document that is too long for one prompt.

    Args:
        document: A document of any length.

    Returns:
        The document itself where it fits; else its sections of at most MAX_CHARS characters. Each but the
        first begins with the document's title, so that the model knows what it is about.
    """
    if len(document.text) <= MAX_CHARS:
        return [document]
    title = title_of(document.text, document.kind)[:MAX_TITLE]
    heading = f"{title} (continued)\n\n" if title else ""
    pieces = split_long(document.text, document.kind, MAX_CHARS - len(heading))
    pieces = [piece for piece in pieces if piece.strip()]
    texts = [pieces[0], *(heading + piece for piece in pieces[1:])]
    return [
        replace(document, id=f"{document.id}, part {n}", text=text)
        for n, text in enumerate(texts, 1)
    ]


def joined(document: Document, parts: list[Structured]) -> Structured:
    """Put the JSON of a document's sections together.

    Args:
        document: The document.
        parts: What became of each of its sections, in order.

    Returns:
        One JSON object with the members of all; a key that is taken gets a number behind it. A section
        without JSON is left out. Where no section has any, the reason of the first.
    """
    attempts = sum(part.attempts for part in parts)
    value: dict[str, Any] = {}
    for part in parts:
        for title, content in (part.value or {}).items():
            names = chain([title], (f"{title} ({n})" for n in count(2)))
            value[next(name for name in names if name not in value)] = content
    return Structured(document.id, value or None, "" if value else parts[0].reason, attempts)


class Structurer(Generator):
    """The model of the `llm` structurer. A request's `sample` is the attempt, counted from 1."""

    def __init__(
        self, model: str, answers: Path, results: Path, backend: Backend | None = None
    ) -> None:
        parameters = {"do_sample": False, "dtype": "bfloat16", "max_new_tokens": MAX_NEW_TOKENS}
        parameters |= {"stage": "structure", "style": model_spec(model).style}
        decoding = Decoding(parameters, stop=lambda text: False, slots=16)
        super().__init__(model, decoding, GenerationCache(answers), results, backend)

    def key(self, text: str, sample: int = 1) -> str:
        parameters = self.decoding.parameters | {"attempt": sample, "sample": 0}
        return digest(self.model, self.revision, text, json.dumps(parameters, sort_keys=True))[:32]

    def structure(
        self, documents: list[Document], file: str
    ) -> tuple[list[Structured], dict[str, Any]]:
        """One entry a document, in order, and the log; a round of attempts is one batch for the model."""
        prompts = {d.id: PROMPT.format(text=d.text.strip("\n")) for d in documents}
        waiting, asked, last = dict(prompts), 0, {}
        answers: list[Generation] = []
        invalid: list[tuple[str, str]] = []
        for attempt in range(1, RETRIES + 2):
            requests = [Request(document, text, "", attempt) for document, text in waiting.items()]
            asked += self.complete(
                (StoredRequest(r, file, {"attempt": attempt}) for r in requests), "structuring"
            )
            for r in requests:
                answers.append(self.cache.rows[self.key(r.text, attempt)])
                last[r.task_id] = read_answer(
                    r.task_id, answers[-1].raw, answers[-1].finish, attempt
                )
            rejected = {i: last[i].reason for i in waiting if last[i].value is None}
            invalid += rejected.items()
            waiting = {
                i: prompts[i] + AGAIN.format(reason=reason) for i, reason in rejected.items()
            }
        values = [last[d.id] for d in documents]
        first = sum(s.value is not None and s.attempts == 1 for s in values)
        log = {"model": self.model, "revision": self.revision, "retries_allowed": RETRIES}
        log |= {
            "max_new_tokens": MAX_NEW_TOKENS,
            "answers": len(answers),
            "asked_in_this_run": asked,
        }
        log |= {"retries": len(answers) - len(documents), "valid_at_first_answer": first}
        log |= {
            "validity_rate": _share(first, len(values)),
            "invalid_answers_by_reason": reasons(invalid),
        }
        log["validity_rate_with_retries"] = _share(len(values) - len(waiting), len(values))
        log["prompt_tokens"] = sum(a.prompt_tokens for a in answers)
        log["new_tokens"] = sum(len(a.tokens) for a in answers)
        return values, log | {"kept_of_headings": kept(documents, values)}


def read_answer(document: str, raw: str, finish: str, attempt: int) -> Structured:
    """A model's answer as JSON, or the reason why it is none."""
    value, reason = None, "nothing in it"
    try:
        value = parse_json(json_part(raw))
        if not isinstance(value, dict):
            value, reason = None, f"no object: {type(value).__name__}"
    except Rejected as e:
        reason = f"cut off: after {len(raw)} characters" if finish == "length" else str(e)
    return Structured(document, value or None, "" if value else reason, attempt)


def json_part(raw: str) -> str:
    """Return the JSON part of an answer.

    Returns:
        The first block fenced as JSON or without a language, unless the answer begins with a brace. Without
        such a block, the text from the first brace to the last, else the whole answer.
    """
    text = answer(raw).strip()
    if not text.startswith("{"):
        for fence in fences(text):
            if fence.language.lower() in ("", "json", "jsonc", "json5") and fence.code.strip():
                return fence.code.strip()
    return text[max(text.find("{"), 0) : text.rfind("}") + 1] or text


def kept(documents: list[Document], values: list[Structured]) -> dict[str, Any]:
    """What a structurer kept of what `headings` has, as shares, over the documents that it gave JSON for.

    A code example is kept where one string has all its lines; `words_added` are what headings does not have.
    """
    by_document = {s.document: s.value for s in values if s.value is not None}
    words = common = other = examples = same = 0
    for reference in structured([d for d in documents if d.id in by_document], "headings"):
        strings = list(_strings(by_document[reference.document]))
        references = list(_strings(reference.value))
        expected, present = _words(references), _words(strings)
        words, other = words + expected.total(), other + present.total()
        common += (expected & present).total()
        texts = ["".join(text.split()) for _, text in strings]
        codes = ["".join(text.split()) for key, text in references if key == "code"]
        examples, same = (
            examples + len(codes),
            same + sum(any(c in text for text in texts) for c in codes),
        )
    shares = {
        "documents": len(by_document),
        "headings_words": words,
        "words": _share(common, words),
    }
    shares |= {"words_added": _share(other - common, other), "headings_code_examples": examples}
    return shares | {"code_examples": _share(same, examples)}


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(key, text) of each string of a JSON value, and ("", title) of each key that is a title."""
    if isinstance(value, str):
        yield key, value
    for child in value if isinstance(value, list) else ():
        yield from _strings(child)
    for name, child in value.items() if isinstance(value, dict) else ():
        if name not in ("", "explanation", "examples", "code"):
            yield "", name
        yield from _strings(child, name)


def _words(strings: list[tuple[str, str]]) -> Counter[str]:
    return Counter(w for _, text in strings for w in re.findall(r"\w+", text.lower()))


def json_of(corpus: str, documents: list[Document]) -> list[Structured]:
    """A text corpus' JSON: what is stored for structured:FILE, else by the structurer of the kind."""
    names = (
        name
        for part, values in corpora.parts(corpus)
        if part.prefix == "structured"
        for name in values
    )
    files = map(corpora.structured_file, names)
    stored = {s.document: s for file in files for s in load_structured(file, documents)}
    return [*stored.values(), *structured([d for d in documents if d.id not in stored])]


def load_structured(path: Path, documents: list[Document]) -> list[Structured]:
    """What `structure` wrote, for these documents; UserError where a text has changed since."""
    current = {d.id: digest(d.text) for d in documents}
    values = []
    for row in read_rows(path, FIELDS):
        name, text = row["document"], row.pop("text_sha256")
        if current.get(name, text) != text:
            raise UserError(
                f"{path}: {name} has changed since it was structured; structure the corpus again"
            )
        values.append(Structured(**{name: row[name] for name in Structured.__slots__}))
    return values
