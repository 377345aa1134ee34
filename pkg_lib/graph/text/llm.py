"""The paper's structurer: a language model writes a document's JSON (Section 3.1.2, "constrained prompting").

The prompt demands one JSON object of a fixed shape. The answer must be strict JSON (documents.py); else the
model is asked again with the reason, at most RETRIES times, and then the document is rejected with the last
reason. The paper prints no prompt for this step; this one is ours. data/structuring.py asks.
"""

from __future__ import annotations

import re

from pkg_lib.graph.text.documents import Rejected, Structured, parse_json

RETRIES = 2
_FENCE = re.compile(r"^[ \t]*```(?:json|JSON)?[ \t]*\n(.*?)\n[ \t]*```[ \t]*$", re.S | re.M)

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
    """The JSON in an answer: its first fenced block, else from the first brace to the last, else all."""
    text = raw.strip()
    if not text.startswith("{") and (fenced := _FENCE.search(text)):
        return fenced[1]
    return text[max(text.find("{"), 0) : text.rfind("}") + 1] or text
