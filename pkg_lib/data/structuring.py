"""Structure a text corpus as JSON (Section 3.1.2), and measure what the model's JSON lost.

    results/structured/CORPUS/NAME.jsonl            one document per line: its JSON, or why not
    results/structured/CORPUS/NAME.log.json         counts, validity, retries, rejections, losses
    results/structured/answers/MODEL/CORPUS.jsonl   answers (.gz: packed); a stopped run continues

JSON and answers of a corpus that may not be copied go to the cache directory (PKG_CACHE).

`llm` is the paper's structurer: a model is prompted for JSON of a fixed shape ("constrained
prompting"). If its answer is not such JSON, it is prompted again with the reason, at most RETRIES
times. The paper does not print its prompt; this one is ours. The log compares the JSON with that of
the structurer `headings`.

A document of more than MAX_CHARS characters is too long for one prompt. It is split into sections,
the model is prompted for each, and the document's JSON contains that of all sections. The committed
JSON of Python's documentation comes from the documents that fit one prompt, so the default for that
corpus is to skip others.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from pkg_lib.core.markdown import fences, with_plain_line_ends
from pkg_lib.core.models import cache_dir, model_spec
from pkg_lib.core.reading import Kinds
from pkg_lib.core.registry import unknown
from pkg_lib.core.store import read_rows, slug, versions, write_json, write_jsonl
from pkg_lib.core.types import Document, Generation, Request, UserError, corpus_digest, digest
from pkg_lib.data import corpora
from pkg_lib.generation.answer_text import answer
from pkg_lib.generation.cache import GenerationCache
from pkg_lib.generation.generator import Backend, Decoding, Generator, StoredRequest
from pkg_lib.graph.text.documents import RejectedDocumentError, Structured, parse_json, reasons
from pkg_lib.graph.text.structure import STRUCTURERS, split_long, structured, title_of

FIELDS: Kinds = {
    "document": str,
    "reason": str,
    "text_sha256": str,
    "value": (dict, type(None)),
    "attempts": int,
}
LLM = "llm"
JSON_LANGUAGES = ("", "json", "jsonc", "json5")  # of code fences
MAX_TOKENS = 1200  # a section that a model is prompted to structure
MIN_WORDS = 40  # a shorter document is a heading with nothing below it
MAX_CHARS = 3841  # the longest text that is estimated at MAX_TOKENS, with 3.2 characters a token
MAX_TITLE = 200  # characters of a document's title before the text of a later section
LONG = SPLIT, SKIP = ("split", "skip")  # what to do with longer documents
FENCED = ("text", "markdown")  # kinds of documents whose code may be between fences
ROOM_FOR_FENCES = 40  # characters of a section for a fence that is opened or closed at its ends
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
    slots: int | None = None,
) -> dict[str, Any]:
    """Structure a text corpus, and write its JSON and a log.

    Args:
        corpus: The name of a corpus of text.
        structurer: One of STRUCTURERS, or "llm".
        results: The results directory.
        model: The model that writes the JSON, for "llm".
        limit: Maximum number of documents; for "llm" of those that qualify.
        backend: What generates, in place of the model's weights.
        long_documents: One of LONG. By default "skip" for corpora whose committed JSON was made
            with it, and "split" for others.
        slots: How many prompts are decoded together; None for as many as fit into memory.

    Returns:
        The log.

    Raises:
        UserError: The corpus, the structurer or the model is unknown or does not fit the others.
    """
    _check(corpus, structurer, model, long_documents)
    documents = corpora.load_corpus(corpus).documents
    copied = corpora.redistributable(corpus)
    folder = (results if copied else cache_dir()) / "structured"
    log: dict[str, Any] = {
        "corpus": corpus,
        "structurer": structurer,
        "in_corpus": len(documents),
    }
    if model:
        long_documents = long_documents or (SKIP if copied else SPLIT)
        documents = _qualifying(documents, long_documents)
        log |= {
            "qualifying": len(documents),
            "max_tokens": MAX_TOKENS,
            "min_words": MIN_WORDS,
            "long_documents": long_documents,
        }
    documents = documents[:limit]
    if model:
        llm = Structurer(model, folder / "answers" / slug(model), results, backend, slots)
        values, about = llm.structure_in_sections(documents, f"{slug(corpus)}.jsonl")
        log |= about
    else:
        values = structured(documents, structurer)
    rejected = _rejected(values)
    log |= {
        "documents": len(documents),
        "corpus_digest": corpus_digest(documents),
        "structured": len(documents) - len(rejected),
        "rejected": rejected,
        "rejected_by_reason": reasons(rejected.items()),
        "versions": versions(),
    }
    name = f"{slug(corpus)}/{slug(f'{structurer}-{model}' if model else structurer)}"
    rows = []
    for document, value in zip(documents, values, strict=True):
        rows.append(asdict(value) | {"text_sha256": digest(document.text)})
    write_jsonl(folder / f"{name}.jsonl", rows)
    write_json(results / "structured" / f"{name}.log.json", log)
    return log


def _rejected(values: list[Structured]) -> dict[str, str]:
    """Document -> why it has no JSON."""
    return {value.document: value.reason for value in values if value.value is None}


def _check(corpus: str, structurer: str, model: str, long_documents: str) -> None:
    """Raise UserError for arguments of `structure` that are unknown or do not fit together."""
    if not corpora.is_text(corpus):
        texts = ", ".join(c.name for c in corpora.CORPORA.values() if c.kind == "text")
        raise UserError(f"corpus {corpus} is code; structurers take text: {texts}")
    if structurer not in (*STRUCTURERS, LLM):
        raise unknown("structurer", structurer, (*STRUCTURERS, LLM))
    if (structurer == LLM) != bool(model):
        raise UserError(
            f"structurer {structurer} takes {'a' if structurer == LLM else 'no'} --model"
        )
    if long_documents not in ("", *LONG):
        raise unknown("choice of --long-documents", long_documents, LONG)
    if long_documents and not model:
        raise UserError(
            f"structurer {structurer} takes documents of any length; leave --long-documents out"
        )


def _qualifying(documents: list[Document], long_documents: str) -> list[Document]:
    """The documents that a model is prompted to structure."""
    documents = [d for d in documents if len(d.text.split()) >= MIN_WORDS]
    if long_documents == SKIP:
        documents = [d for d in documents if len(d.text) <= MAX_CHARS]
    return documents


def sections(document: Document) -> list[Document]:
    """Split a document that is too long for one prompt.

    Args:
        document: A document of any length.

    Returns:
        The document itself if it fits; else its sections of at most MAX_CHARS characters. Each
        section but the first begins with the document's title, so that the model knows what it is
        about. A code fence that is split is closed in one section and opened again in the next.
    """
    if len(document.text) <= MAX_CHARS:
        return [document]
    title = title_of(document.text, document.kind)[:MAX_TITLE]
    heading = f"{title} (continued)\n\n" if title else ""
    has_fences = document.kind in FENCED
    room = len(heading) + (ROOM_FOR_FENCES if has_fences else 0)
    pieces = split_long(document.text, document.kind, MAX_CHARS - room)
    found: list[Document] = []
    for piece in _with_whole_fences(pieces) if has_fences else pieces:
        if piece.strip():
            text = heading + piece if found else piece
            name = f"{document.id}, part {len(found) + 1}"
            found.append(replace(document, id=name, text=text))
    return found


def _with_whole_fences(pieces: list[str]) -> Iterator[str]:
    """Close a code fence where a text was split inside it, and open it again in the next piece.

    Without its fence, the code of the next piece would be read as prose, and its comments as
    headings.
    """
    opening = ""
    for piece in pieces:
        text = opening + piece
        opening = ""
        blocks = fences(f"{text}\n")
        if blocks and not blocks[-1].closed:
            last = blocks[-1]
            line = with_plain_line_ends(text).split("\n")[last.line - 1]
            again = f"{last.mark}{last.language}\n"
            # A fence in a list or a quote is left as it is: its closing line would need their marks.
            is_at_top_level = re.match(rf" {{0,3}}{re.escape(last.mark)}", line)
            if is_at_top_level and 2 * len(again) <= ROOM_FOR_FENCES:
                opening = again
                text = text.removesuffix("\n") + f"\n{last.mark}\n"
        yield text


def _joined(document: Document, parts: list[Structured]) -> Structured:
    """The JSON of a document's sections as one object with the members of all.

    A key that is taken gets a number behind it. A section without JSON is skipped, and the reason
    names it. If no section has any, the reason is that of the first.
    """
    value: dict[str, Any] = {}
    for part in parts:
        for title, content in (part.value or {}).items():
            key, number = title, 2
            while key in value:
                key, number = f"{title} ({number})", number + 1
            value[key] = content
    attempts = sum(part.attempts for part in parts)
    if not value:
        return Structured(document.id, None, parts[0].reason, attempts)
    skipped = [f"{part.document} ({part.reason})" for part in parts if part.value is None]
    reason = f"skipped: {'; '.join(skipped)}" if skipped else ""
    return Structured(document.id, value, reason, attempts)


class Structurer(Generator):
    """The model of the `llm` structurer. A request's `sample` is the attempt, counted from 1."""

    def __init__(
        self,
        model: str,
        answers: Path,
        results: Path,
        backend: Backend | None = None,
        slots: int | None = None,
    ) -> None:
        parameters = {
            "do_sample": False,
            "dtype": "bfloat16",
            "max_new_tokens": MAX_NEW_TOKENS,
            "stage": "structure",
            "style": model_spec(model).style,
        }
        decoding = Decoding(parameters, stop=lambda text: False, slots=slots)
        super().__init__(model, decoding, GenerationCache(answers), results, backend)

    def key(self, text: str, sample: int = 1) -> str:
        """Return the key of an answer in the cache.

        Args:
            text: The prompt.
            sample: The attempt.
        """
        parameters = self.decoding.parameters | {"attempt": sample, "sample": 0}
        return digest(self.model, self.revision, text, json.dumps(parameters, sort_keys=True))[:32]

    def structure_in_sections(
        self, documents: list[Document], file: str
    ) -> tuple[list[Structured], dict[str, Any]]:
        """Structure documents of any length, each in as many sections as it needs.

        Args:
            documents: The documents.
            file: The cache's file for the answers.

        Returns:
            One entry per document, in order, and what the log says of the model.

        Raises:
            UserError: The model is not available.
        """
        sections_of = [sections(document) for document in documents]
        by_section, log = self.structure(list(chain.from_iterable(sections_of)), file)
        log["sections"] = len(by_section)
        log["split_documents"] = sum(len(parts) > 1 for parts in sections_of)
        log["rejected_sections"] = _rejected(by_section)
        remaining = iter(by_section)
        values = []
        for document, parts in zip(documents, sections_of, strict=True):
            document_parts = list(islice(remaining, len(parts)))
            values.append(_joined(document, document_parts))
        incomplete = [value for value in values if value.value is not None and value.reason]
        log["incomplete_documents"] = len(incomplete)
        return values, log

    def structure(
        self, documents: list[Document], file: str
    ) -> tuple[list[Structured], dict[str, Any]]:
        """Structure documents that fit a prompt. All documents of one attempt form a batch.

        Args:
            documents: Documents of at most MAX_CHARS characters.
            file: The cache's file for the answers.

        Returns:
            One entry per document, in order, and what the log says of the model.

        Raises:
            UserError: The model is not available.
        """
        prompts = {d.id: PROMPT.format(text=d.text.strip("\n")) for d in documents}
        waiting = dict(prompts)
        last: dict[str, Structured] = {}
        answers: list[Generation] = []
        invalid: list[tuple[str, str]] = []
        asked = 0
        for attempt in range(1, RETRIES + 2):
            batch = []
            for document, text in waiting.items():
                request = Request(document, text, "", attempt)
                batch.append(StoredRequest(request, file, {"attempt": attempt}))
            asked += self.complete(batch, "structuring")
            waiting = {}
            for prompt in batch:
                name = prompt.request.task_id
                generation = self.cache.rows[self.key(prompt.request.text, attempt)]
                answers.append(generation)
                result = _read_answer(name, generation, attempt)
                last[name] = result
                if result.value is None:
                    invalid.append((name, result.reason))
                    waiting[name] = prompts[name] + AGAIN.format(reason=result.reason)
        values = [last[document.id] for document in documents]
        first = sum(value.value is not None and value.attempts == 1 for value in values)
        return values, {
            "model": self.model,
            "revision": self.revision,
            "retries_allowed": RETRIES,
            "max_new_tokens": MAX_NEW_TOKENS,
            "answers": len(answers),
            "asked_in_this_run": asked,
            "retries": len(answers) - len(documents),
            "valid_at_first_answer": first,
            "validity_rate": _share(first, len(values)),
            "invalid_answers_by_reason": reasons(invalid),
            "validity_rate_with_retries": _share(len(values) - len(waiting), len(values)),
            "prompt_tokens": sum(answer.prompt_tokens for answer in answers),
            "new_tokens": sum(len(answer.tokens) for answer in answers),
            "kept_of_headings": kept(documents, values),
        }


def _read_answer(document: str, generation: Generation, attempt: int) -> Structured:
    """Return a model's answer as JSON, or the reason why it cannot be read."""
    raw = generation.raw
    try:
        value = parse_json(json_part(raw))
    except RejectedDocumentError as e:
        cut_off = f"cut off: after {len(raw)} characters"
        reason = cut_off if generation.finish == "length" else str(e)
        return Structured(document, None, reason, attempt)
    if not isinstance(value, dict):
        return Structured(document, None, f"no object: {type(value).__name__}", attempt)
    if not value:
        return Structured(document, None, "nothing in it", attempt)
    return Structured(document, value, attempts=attempt)


def json_part(raw: str) -> str:
    """Return the JSON part of an answer.

    Args:
        raw: The completion.

    Returns:
        The first block fenced as JSON or without a language, unless the answer begins with a brace.
        Without such a block, the text from the first brace to the last, else the whole answer.
    """
    text = answer(raw).strip()
    if not text.startswith("{"):
        for fence in fences(text):
            code = fence.code.strip()
            if code and fence.language.lower() in JSON_LANGUAGES:
                return code
    return text[max(text.find("{"), 0) : text.rfind("}") + 1] or text


def kept(documents: list[Document], values: list[Structured]) -> dict[str, Any]:
    """Measure what a structurer kept of the JSON of `headings`.

    Args:
        documents: The documents.
        values: What the structurer made of them. Those without JSON are not measured.

    Returns:
        ``words``, the share of the words of `headings` that were kept; ``words_added``, the share
        of words that `headings` does not have; ``code_examples``, the share of code examples that
        were kept. An example is kept if one string has all its lines. The other entries are the
        counts behind them.
    """
    by_document = {value.document: value.value for value in values if value.value is not None}
    measured = [document for document in documents if document.id in by_document]
    expected_words = common_words = present_words = examples = same_examples = 0
    for reference in structured(measured, "headings"):
        expected = list(_strings(reference.value))
        present = list(_strings(by_document[reference.document]))
        words = _words(expected)
        words_present = _words(present)
        expected_words += words.total()
        present_words += words_present.total()
        common_words += (words & words_present).total()
        texts = ["".join(text.split()) for _, text in present]
        for key, text in expected:
            if key == "code":
                code = "".join(text.split())
                examples += 1
                same_examples += any(code in other for other in texts)
    return {
        "documents": len(by_document),
        "headings_words": expected_words,
        "words": _share(common_words, expected_words),
        "words_added": _share(present_words - common_words, present_words),
        "headings_code_examples": examples,
        "code_examples": _share(same_examples, examples),
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None


def _strings(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    """(key, text) of each string of a JSON value, and ("", title) of each key that is a title."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, list):
        for child in value:
            yield from _strings(child)
    elif isinstance(value, dict):
        for name, child in value.items():
            if name not in ("", "explanation", "examples", "code"):
                yield "", name
            yield from _strings(child, name)


def _words(strings: list[tuple[str, str]]) -> Counter[str]:
    words: Counter[str] = Counter()
    for _, text in strings:
        words.update(re.findall(r"\w+", text.lower()))
    return words


def json_of(corpus: str, documents: list[Document]) -> list[Structured]:
    """Return the JSON of a text corpus.

    Args:
        corpus: Name of the corpus.
        documents: Its documents.

    Returns:
        The stored JSON for structured:FILE; for other documents the JSON of their kind's
        structurer.

    Raises:
        UserError: A document has changed since it was structured.
    """
    stored: dict[str, Structured] = {}
    for part in corpora.parse_corpus(corpus).parts:
        if part.source == "structured" and part.value is not None:
            for value in load_structured(corpora.structured_file(part.value), documents):
                stored[value.document] = value
    others = [document for document in documents if document.id not in stored]
    return [*stored.values(), *structured(others)]


def load_structured(path: Path, documents: list[Document]) -> list[Structured]:
    """Read what `structure` wrote.

    Args:
        path: The file.
        documents: The documents of the corpus.

    Returns:
        One entry per line of the file, also for documents that are not in `documents`.

    Raises:
        UserError: A document's text has changed since, or the file is damaged.
    """
    current = {document.id: digest(document.text) for document in documents}
    values = []
    for row in read_rows(path, FIELDS):
        name = row["document"]
        if current.get(name, row["text_sha256"]) != row["text_sha256"]:
            raise UserError(
                f"{path}: {name} has changed since it was structured; structure the corpus again"
            )
        values.append(Structured(name, row["value"], row["reason"], row["attempts"]))
    return values
