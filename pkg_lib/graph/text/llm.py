"""The paper's structurer: a language model writes a document's JSON (Section 3.1.2, "constrained prompting").

The prompt demands one JSON object of a fixed shape. The answer must be strict JSON (documents.py); else the model is
asked again with the reason, at most RETRIES times, and then the document is rejected with the last reason. The paper
prints no prompt for this step; this one is ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pkg_lib.core.types import Document, Generation, Request, digest
from pkg_lib.graph.text.documents import Rejected, Structured, parse_json

RETRIES = 2
MAX_NEW_TOKENS = 1600  # JSON repeats the section and escapes it; sections have 1,200 tokens at most
_NO_ENTRY_POINT = "<json>"  # the answer is no program, so decoding never stops early for one
_FENCE = re.compile(r"^[ \t]*```(?:json|JSON)?[ \t]*\n(.*?)\n[ \t]*```[ \t]*$", re.S | re.M)

PROMPT = """\
Turn this section of a programming tutorial into JSON.

Answer with one JSON object and nothing else, in this shape:
{{"<title of the section>": {{"explanation": "<the text>", "examples": [{{"explanation": "<what the code shows>", "code": "<the code>"}}]}}}}

Rules:
- Keep every code example, complete and unchanged. Inside a string write a line break as \\n and a quotation mark as \\".
- Keep the wording of the text; leave out only markup.
- A subsection is an object of the same shape under its own title, inside its section. No key may occur twice in an object.
- Leave "explanation" or "examples" out where there is nothing to say. No comments, no trailing commas.

The section:

{text}
"""
AGAIN = "\nYour last answer to this could not be used ({reason}). Answer again with one complete, valid JSON object only.\n"


@dataclass
class LLM:
    """The structurer `llm`. `generate(requests, done)` asks the model; `cache` holds its answers by key (a
    GenerationCache), of which new ones go to `file` as soon as they are there: a stopped run goes on where it was.

    `asked` counts the prompts that went to the model, `answers` are all answers to a document, the last one its own.
    """

    generate: Callable[[list[Request], Callable[[Any, str, str], None]], None]
    cache: Any
    model: str
    revision: str = ""
    style: str = "chat"
    file: str = "structured.jsonl"
    asked: int = 0
    answers: dict[str, list[Generation]] = field(default_factory=dict)

    def structure(self, documents: list[Document]) -> list[Structured]:
        """One entry a document, in order; rounds over all documents, so that the model can batch them."""
        results: dict[str, Structured] = {}
        prompts = {d.id: PROMPT.format(text=d.text.strip("\n")) for d in documents}
        waiting = dict(prompts)
        for attempt in range(1, RETRIES + 2):
            keys = {i: self._key(prompt, attempt) for i, prompt in waiting.items()}
            self._ask({keys[i]: Request(i, p, _NO_ENTRY_POINT) for i, p in waiting.items()}, attempt)
            for i, key in keys.items():
                answer = self.cache[key]
                self.answers.setdefault(i, []).append(answer)
                results[i] = read_answer(i, answer.raw, answer.finish, attempt)
            rejected = {i: results[i].reason for i in waiting if results[i].value is None}
            waiting = {i: prompts[i] + AGAIN.format(reason=reason) for i, reason in rejected.items()}
            if not waiting:
                break
        return [results[d.id] for d in documents]

    def _key(self, prompt: str, attempt: int) -> str:
        params = {
            "attempt": attempt,
            "do_sample": False,
            "dtype": "bfloat16",
            "max_new_tokens": MAX_NEW_TOKENS,
        }
        params |= {"sample": 0, "stage": "structure", "style": self.style}
        return digest(self.model, self.revision, prompt, json.dumps(params, sort_keys=True))[:32]

    def _ask(self, requests: dict[str, Request], attempt: int) -> None:
        """Sends what the cache does not hold; each answer is stored as soon as it is there."""
        todo = {id(r): key for key, r in requests.items() if key not in self.cache}

        def done(row: Any, raw: str, finish: Any) -> None:
            meta = {"attempt": attempt, "prompt_sha256": digest(row.request.text)}
            key, task = todo[id(row.request)], row.request.task_id
            answer = Generation(key, task, raw, row.tokens, finish, row.prompt_tokens, meta)
            self.cache.append(self.file, answer)

        self.asked += len(todo)
        if todo:
            self.generate([r for r in requests.values() if id(r) in todo], done)


def read_answer(document: str, raw: str, finish: str, attempt: int) -> Structured:
    """A model's answer as JSON, or the reason why it is none."""
    try:
        value = parse_json(json_part(raw))
    except Rejected as e:
        reason = f"cut off: after {len(raw)} characters" if finish == "length" else str(e)
        return Structured(document, None, reason, attempt)
    if not isinstance(value, dict):
        return Structured(document, None, f"no object: {type(value).__name__}", attempt)
    return Structured(document, value or None, "" if value else "nothing in it", attempt)


def json_part(raw: str) -> str:
    """The JSON in an answer: its first fenced block, else what stands from the first brace to the last, else all of it."""
    text = raw.strip()
    if text.startswith("{"):
        return text[: text.rfind("}") + 1] if "}" in text else text
    if match := _FENCE.search(text):
        return match[1]
    start, end = text.find("{"), text.rfind("}")
    return text[start : end + 1] if 0 <= start < end else text
