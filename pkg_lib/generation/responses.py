"""What the body of a server's response says: an answer, embeddings, or a fault.

A body is read in four steps: JSON, an error that the server reports in it, the fields that an answer must
have, and the reason why the model stopped. A body that fails at one of them is a `Fault`; nothing of it is
kept. The number of values in a body is bounded before it is parsed, because small values take far more memory
than their text. Servers differ in small things. The module accepts what real servers send (content in parts,
finish reasons in capitals, no usage) and nothing that could be half an answer.
"""

from __future__ import annotations

import json
import math
from base64 import b64decode
from dataclasses import dataclass
from typing import Annotated, Any, NoReturn

import numpy as np
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError

from pkg_lib.core import limits

# The reasons that servers give for a complete answer, in lower case. Every other reason is a fault: `abort`,
# `error`, `cancelled`, `load`, `pause_turn`, `insufficient_system_resource`, null, and those not known yet.
ENDED = (
    *("stop", "end_turn", "stop_sequence"),  # OpenAI, Anthropic
    *(
        "eos",
        "eos_token",
        "complete",
        "completed",
        "end",
    ),  # Text Generation Inference, Together, Cohere
    *(
        "tool_calls",
        "tool_use",
        "function_call",
    ),  # the model called a tool that the request does not offer
)
CUT = ("length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded")
REFUSED = ("refusal", "content_filter", "content_filtered", "guardrail_intervened", "safety")
REFUSED += ("recitation", "blocklist", "prohibited_content", "spii")  # Gemini
TEXT_PARTS = (None, "text", "output_text")
# Plausible counts of tokens: what chat templates and special tokens add to the text itself.
TEMPLATE_TOKENS, SPECIAL_TOKENS = 2**15, 32


class Fault(Exception):
    """A response that is no answer; the message says why, if possible in the server's own words."""


class Redirected(Exception):
    """A redirect to another server, which would see the key and the prompts; it is not followed."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer.

    Attributes:
        text: The text as sent, without reasoning.
        finish: "length" where a limit cut the text, else "end".
        about: What the server says about the answer and about itself: ``server_model``, ``fingerprint``,
            ``id``, ``refusal`` and ``finish_reason``, as far as it gives them.
        prompt_tokens: Tokens of the prompt; None unless both counts are plausible.
        new_tokens: Tokens of the answer; None unless both counts are plausible.
    """

    text: str
    finish: str
    about: dict[str, str]
    prompt_tokens: int | None
    new_tokens: int | None


def _label(value: Any) -> str | None:
    """A short name that can be printed, from whatever the server gives."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    if isinstance(value, int) and abs(value) >= 10**18:
        return None
    printable = (c for c in str(value)[: 2 * limits.MAX_LABEL] if c.isprintable())
    return "".join(printable)[: limits.MAX_LABEL] or None


def _count(value: Any) -> int | None:
    """A whole number that is not negative, else None; some servers write 5.0."""
    whole = isinstance(value, int | float) and not isinstance(value, bool) and value == int(value)
    return int(value) if whole and value >= 0 else None


def _object(value: Any) -> Any:
    return value if isinstance(value, dict) else None


Label = Annotated[str | None, BeforeValidator(_label)]
Count = Annotated[int | None, BeforeValidator(_count)]


class Usage(BaseModel):
    """How many tokens a request took, under the names of either API."""

    prompt: Count = Field(None, validation_alias=AliasChoices("prompt_tokens", "input_tokens"))
    new: Count = Field(None, validation_alias=AliasChoices("completion_tokens", "output_tokens"))


class ContentPart(BaseModel):
    """A part of a message: text, reasoning, a picture, a refusal."""

    type: str | None = None
    text: Any = None
    refusal: Any = None


Content = str | list[str | ContentPart] | None


class Response(BaseModel):
    """What the responses of all APIs share."""

    id: Label = None
    model: Label = None
    system_fingerprint: Label = None
    usage: Annotated[Usage | None, BeforeValidator(_object)] = None


class Message(BaseModel):
    """A message of OpenAI's chat API. Reasoning in fields of its own (`reasoning_content`) is not read."""

    content: Content = None
    refusal: str | None = None


class ResponseChoice(BaseModel):
    """What both choices of OpenAI's APIs share."""

    finish_reason: str | None = None
    error: Any = None


class ChatChoice(ResponseChoice):
    """One answer of /chat/completions."""

    message: Message


class TextChoice(ResponseChoice):
    """One answer of /completions."""

    text: Content


class ChatResponse(Response):
    """The response of /chat/completions."""

    choices: list[ChatChoice] = Field(min_length=1)


class TextResponse(Response):
    """The response of /completions."""

    choices: list[TextChoice] = Field(min_length=1)


class MessageResponse(Response):
    """The response of Anthropic's /messages."""

    content: str | list[str | ContentPart]
    stop_reason: str | None = None


def read_answer(body: bytes, api: str, chat: bool, prompt: str, max_tokens: int) -> Answer:
    """Read the body of a response to one prompt.

    Args:
        body: The body, decoded.
        api: "openai" or "anthropic".
        chat: Whether a message was asked for, else the continuation of a text.
        prompt: The prompt's text, by which the count of its tokens is judged.
        max_tokens: How many new tokens the request allowed at most.

    Returns:
        The answer.

    Raises:
        Fault: The body is not a complete answer, or it is too large.
    """
    value = _parsed(body, answer_elements(max_tokens))
    if api == "anthropic":
        _check_parts(value.get("content"))
        response = _validated(MessageResponse, value)
        text, refusal = _joined(response.content)
        reason = response.stop_reason
    else:
        response = _validated(ChatResponse if chat else TextResponse, _with_one_choice(value))
        choice = response.choices[0]
        if choice.error:
            raise Fault(f"the server reports an error: {_words(choice.error)}")
        text, refusal = _joined(choice.message.content if chat else choice.text)
        refusal = (choice.message.refusal if chat else None) or refusal
        reason = choice.finish_reason
    known = (reason or "").strip().lower()
    if known not in ENDED + CUT + REFUSED:
        why = (
            f"its finish reason is {reason[:50]!r}"
            if known and reason
            else "it has no finish reason"
        )
        raise Fault(f"the answer is not complete: {why}")
    size = len(text.encode("utf8", "surrogatepass"))
    if size > (most := answer_bytes(max_tokens)):
        raise Fault(f"the answer has {size:,} bytes; max_tokens = {max_tokens:,} allows {most:,}")
    refusal = (refusal or (reason if known in REFUSED else None) or "")[: limits.MAX_REFUSAL]
    labels = {
        "server_model": response.model,
        "fingerprint": response.system_fingerprint,
        "id": response.id,
    }
    labels |= {"refusal": refusal, "finish_reason": _label(reason)}
    about = {name: label for name, label in labels.items() if label}
    counts = _plausible(
        response.usage, len(prompt.encode("utf8", "surrogatepass")), size, max_tokens
    )
    return Answer(text, "length" if known in CUT else "end", about, *counts)


def read_embeddings(body: bytes, count: int) -> np.ndarray:
    """Read the body of a response to a request for embeddings.

    Args:
        body: The body, decoded.
        count: How many texts were sent.

    Returns:
        float32 vectors [count, d] of length 1, in the order of the texts.

    Raises:
        Fault: The body does not hold one vector with a direction for each text.
    """
    data = _parsed(body, limits.MAX_ELEMENTS).get("data")
    if not isinstance(data, list):
        raise Fault(f"the response holds no vectors: data is {_kind(data)}")
    if len(data) != count:
        raise Fault(f"not one vector for each of {count} texts: {len(data)} came")
    rows: list[np.ndarray | None] = [None] * count
    for place, item in enumerate(data):
        if not isinstance(item, dict):
            raise Fault(f"the response holds no vectors: an element of data is {_kind(item)}")
        index = place if item.get("index") is None else _count(item["index"])
        if index is None or index >= count or rows[index] is not None:
            raise Fault(
                f"not one vector for each of {count} texts: an index is missing or comes twice"
            )
        rows[index] = _numbers(item.get("embedding"))
    dimensions = {len(row) for row in rows if row is not None}
    if len(dimensions) != 1 or not 0 < max(dimensions) <= limits.MAX_DIMENSIONS:
        raise Fault(f"vectors of {sorted(dimensions)[:5]} numbers")
    with np.errstate(all="ignore"):  # numbers whose squares are beyond float64 are found below
        vectors = np.array(rows, np.float64)
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(norms) & (norms > 0)).all():
        raise Fault("not one vector with a direction for each text")
    return (vectors / norms).astype(np.float32)


def response_bytes(max_tokens: int) -> int:
    """Give the size in bytes that the body of an answer may have, unpacked."""
    return min(
        limits.RESPONSE_BYTES_BASE + limits.RESPONSE_BYTES_PER_TOKEN * max_tokens,
        limits.MAX_RESPONSE_BYTES,
    )


def answer_bytes(max_tokens: int) -> int:
    """Give the size in bytes that the text of an answer may have."""
    return min(
        limits.ANSWER_BYTES_BASE + limits.ANSWER_BYTES_PER_TOKEN * max_tokens,
        limits.MAX_ANSWER_BYTES,
    )


def answer_elements(max_tokens: int) -> int:
    """Give the number of brackets, braces and commas that the body of an answer may have."""
    return min(limits.ELEMENTS_BASE + limits.ELEMENTS_PER_TOKEN * max_tokens, limits.MAX_ELEMENTS)


def _elements(body: bytes) -> int:
    """How many brackets, braces and commas a body has, in texts too: about as many values its JSON holds."""
    return sum(body.count(character) for character in (b"[", b"{", b","))


def _parsed(body: bytes, most: int) -> dict[str, Any]:
    """The JSON object that a body holds, which reports no error and has at most so many elements."""
    if (elements := _elements(body)) > most:
        raise Fault(f"the body has {elements:,} brackets, braces and commas; {most:,} are allowed")
    try:
        value = json.loads(body, parse_constant=_not_a_number, parse_float=_finite)
    except (ValueError, RecursionError) as e:
        why = "too many levels" if isinstance(e, RecursionError) else e
        raise Fault(f"the body cannot be read as JSON ({why}): {_beginning(body)}") from e
    if _deeper_than(limits.MAX_DEPTH, value):
        raise Fault(f"the body has more than {limits.MAX_DEPTH} levels of objects and arrays")
    if not isinstance(value, dict):
        raise Fault("the body is not a JSON object")
    answers = value.keys() & {"choices", "content", "data"}
    if value.get("error"):
        raise Fault(f"the server reports an error: {_words(value['error'])}")
    if "error" in (value.get("object"), value.get("type")) or not answers:
        raise Fault(f"the server sent no answer: {_words(value)}")
    return value


def reported(body: bytes) -> str:
    """Give the words of a server's error.

    Args:
        body: The body of the error's response.

    Returns:
        The message in its JSON, or the beginning of any other body; "" where the body says nothing.
    """
    if _elements(body) > limits.MAX_ERROR_ELEMENTS:
        return _beginning(body)
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return _beginning(body)
    if _deeper_than(limits.MAX_DEPTH, value):
        return _beginning(body)
    told = (value.get("error") or value) if isinstance(value, dict) else value
    return _words(told) if told else ""


def _beginning(body: bytes) -> str:
    return body[:200].decode("utf8", "replace").strip()


def _not_a_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"the number {digits[:20]} is too large")
    return number


def _deeper_than(most: int, value: Any) -> bool:
    """Whether a JSON value has more levels; level by level, since recursion has a limit of its own."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(most + 1):
        inner: list[Any] = []
        for item in level:
            children = item.values() if isinstance(item, dict) else item
            inner.extend(c for c in children if isinstance(c, dict | list))
        if not inner:
            return False
        level = inner
    return True


def _with_one_choice(value: dict[str, Any]) -> dict[str, Any]:
    """The response with the choice whose index is 0, else with the first, so that no other is validated."""
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices:
        return value
    first = (
        c
        for c in choices
        if isinstance(c, dict) and type(c.get("index")) is int and c["index"] == 0
    )
    choice = next(first, choices[0])
    if isinstance(choice, dict):
        _check_parts(choice.get("text"))
        message = choice.get("message")
        _check_parts(message.get("content") if isinstance(message, dict) else None)
    return value | {"choices": [choice]}


def _check_parts(content: Any) -> None:
    if isinstance(content, list) and len(content) > limits.MAX_PARTS:
        raise Fault(
            f"the message has {len(content):,} parts; at most {limits.MAX_PARTS:,} are read"
        )


def _validated(model: type[Any], value: dict[str, Any]) -> Any:
    try:
        return model.model_validate(value)
    except ValidationError as e:
        first = e.errors(include_input=False, include_url=False, include_context=False)[0]
    names: list[str] = []
    inner: Any = value
    for step in first["loc"]:
        if isinstance(inner, dict) and step in inner:
            names.append(str(step))
        elif isinstance(inner, dict) and first["type"] == "missing":
            raise Fault(
                f"the response is not an answer: the field {'.'.join([*names, str(step)])} is missing"
            )
        elif not (isinstance(inner, list) and isinstance(step, int)):
            break  # what follows is the name of a type
        inner = inner[step]
    raise Fault(f"the response is not an answer: the field {'.'.join(names)} holds {_kind(inner)}")


def _kind(value: Any) -> str:
    """What a JSON value is, for a message."""
    if isinstance(value, dict | list):
        name = "object" if isinstance(value, dict) else "array"
        return f"an {name}" if value else f"an empty {name}"
    if isinstance(value, str):
        return f"the text {value[:50]!r}"
    return json.dumps(value)[:50]


def _words(error: Any) -> str:
    """What an error in a response says, in a few words."""
    if isinstance(error, dict):
        message = next((error[n] for n in ("message", "detail", "error") if error.get(n)), error)
        code = error.get("code") or error.get("type")
        told = message if isinstance(message, str) else json.dumps(message)
        return f"{told[:1000]} ({code})" if isinstance(code, str | int) else told[:1000]
    return error[:1000] if isinstance(error, str) else json.dumps(error)[:1000]


def _joined(content: Content) -> tuple[str, str | None]:
    """The text of a message, and the refusal among its parts."""
    if content is None or isinstance(content, str):
        return content or "", None
    texts: list[str] = []
    refusal = None
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif part.type == "refusal" and isinstance(part.refusal, str):
            refusal = part.refusal
        elif part.type in TEXT_PARTS and isinstance(part.text, str):
            texts.append(part.text)
        elif part.type in TEXT_PARTS:
            raise Fault("the response is not an answer: a part of its text is not text")
    return "".join(texts), refusal


def _plausible(
    usage: Usage | None, prompt_bytes: int, text_bytes: int, max_tokens: int
) -> tuple[int, int] | tuple[None, None]:
    """The tokens of prompt and answer; None for both unless each fits its text.

    A token has at least one byte. Tokens of hidden reasoning are not in the text, but count as new tokens.
    """
    if usage is None or usage.prompt is None or usage.new is None:
        return None, None
    most_new = min(max(max_tokens, text_bytes), limits.MAX_ANSWER_BYTES) + SPECIAL_TOKENS
    prompt_fits = bool(prompt_bytes) <= usage.prompt <= prompt_bytes + TEMPLATE_TOKENS
    new_fits = bool(text_bytes) <= usage.new <= most_new
    return (usage.prompt, usage.new) if prompt_fits and new_fits else (None, None)


def _numbers(embedding: Any) -> np.ndarray:
    """The numbers of one vector, which a server sends as such or as base64 of little-endian float32."""
    if isinstance(embedding, list):
        if strange := set(map(type, embedding)) - {int, float}:
            raise Fault(
                f"a vector holds a value that is no number ({min(t.__name__ for t in strange)})"
            )
        try:
            return np.array(embedding, np.float64)
        except OverflowError as e:
            raise Fault("a vector holds a number that is too large") from e
    if not isinstance(embedding, str):
        raise Fault(f"a vector is {_kind(embedding)}, neither numbers nor base64")
    try:
        return np.frombuffer(b64decode(embedding, validate=True), "<f4")
    except ValueError as e:
        raise Fault(f"a vector is a text, but not the base64 of float32 numbers: {e}") from e
