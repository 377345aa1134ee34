"""Read the body of a server's response: an answer, embeddings, or a fault.

A body is read in four steps: JSON, an error that the server reports in it, the fields that an
answer must have, and the reason why the model stopped. A body that fails at one of them raises
``InvalidResponseError``, and nothing of it is kept. The number of values in a body is bounded before
it is parsed, because small values take far more memory than their text.

Servers differ in small things. This module accepts what real servers send (content in parts, finish
reasons in capitals, no usage) and nothing that could be half an answer.
"""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError

from pkg_lib.core import limits, reading

# The reasons that servers give for a complete answer, in lower case. Every other reason is a fault:
# `abort`, `error`, `cancelled`, `load`, `pause_turn`, null, and those that are not known yet.
# The last line is for a model that calls a tool, although the request offers none.
COMPLETE = """
    stop end_turn stop_sequence
    eos eos_token complete completed end
    tool_calls tool_use function_call
""".split()
CUT = "length max_tokens max_output_tokens model_length model_context_window_exceeded".split()
REFUSED = """
    refusal content_filter content_filtered guardrail_intervened
    safety recitation blocklist prohibited_content spii
""".split()
TEXT_PARTS = (None, "text", "output_text")
# Plausible counts of tokens: what chat templates and special tokens add to the text itself.
TEMPLATE_TOKENS = 2**15
SPECIAL_TOKENS = 32


class InvalidResponseError(Exception):
    """A response that is not an answer; the message says why, if possible in the server's own words."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete answer.

    Attributes:
        text: The text as sent, without reasoning.
        finish: "length" if a limit cut the text, else "end".
        about: What the server says about the answer and about itself: ``server_model``,
            ``fingerprint``, ``id``, ``refusal`` and ``finish_reason``, as far as it gives them.
        prompt_tokens: Tokens of the prompt; None unless both counts are plausible.
        new_tokens: Tokens of the answer; None unless both counts are plausible.
    """

    text: str
    finish: str
    about: dict[str, str]
    prompt_tokens: int | None
    new_tokens: int | None


def _label(value: object) -> str | None:
    """Return a short printable name, whatever the server gives."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        return None
    if isinstance(value, int) and abs(value) >= 10**18:
        return None
    beginning = str(value)[: 2 * limits.MAX_LABEL]
    printable = "".join(filter(str.isprintable, beginning))
    return printable[: limits.MAX_LABEL] or None


def _count(value: object) -> int | None:
    """Return a whole number that is not negative, else None; some servers write 5.0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value >= 0 and value == int(value) else None


def _object(value: object) -> object:
    return value if isinstance(value, dict) else None


def _few_parts(content: object) -> object:
    """Raise an InvalidResponseError for a message of too many parts, before each of them is validated."""
    if isinstance(content, list) and len(content) > limits.MAX_PARTS:
        most = f"at most {limits.MAX_PARTS:,} are read"
        raise InvalidResponseError(f"the message has {len(content):,} parts; {most}")
    return content


Label = Annotated[str | None, BeforeValidator(_label)]
Count = Annotated[int | None, BeforeValidator(_count)]


class Usage(BaseModel):
    """The number of tokens that a request took, under the names of either API."""

    prompt: Count = Field(None, validation_alias=AliasChoices("prompt_tokens", "input_tokens"))
    new: Count = Field(None, validation_alias=AliasChoices("completion_tokens", "output_tokens"))


class ContentPart(BaseModel):
    """A part of a message: text, reasoning, a picture, a refusal."""

    type: str | None = None
    text: Any = None
    refusal: Any = None


Parts = str | list[str | ContentPart]
Content = Annotated[Parts | None, BeforeValidator(_few_parts)]


class Response(BaseModel):
    """The fields that the responses of all APIs share."""

    id: Label = None
    model: Label = None
    system_fingerprint: Label = None
    usage: Annotated[Usage | None, BeforeValidator(_object)] = None


class Message(BaseModel):
    """A message of OpenAI's chat API. Reasoning in fields of its own is not read."""

    content: Content = None
    refusal: str | None = None


class ResponseChoice(BaseModel):
    """The fields that the choices of both OpenAI APIs share."""

    finish_reason: str | None = None
    error: Any = None


class ChatChoice(ResponseChoice):
    """One answer of /chat/completions."""

    message: Message


class TextChoice(ResponseChoice):
    """One answer of /completions."""

    text: Content


class AnthropicMessage(BaseModel):
    """The answer in a response of Anthropic's /messages."""

    content: Annotated[Parts, BeforeValidator(_few_parts)]
    stop_reason: str | None = None


def read_answer(
    body: bytes,
    api: str,
    chat: bool,
    prompt: str,
    max_tokens: int,
) -> Answer:
    """Read the body of a response to one prompt.

    Args:
        body: The body, decoded.
        api: "openai" or "anthropic".
        chat: Whether a message was requested; otherwise the continuation of a text.
        prompt: The prompt's text, by which the count of its tokens is judged.
        max_tokens: How many new tokens the request allowed at most.

    Returns:
        The answer.

    Raises:
        InvalidResponseError: The body is not a complete answer, or it is too large.
    """
    value = _parsed(body, answer_elements(max_tokens))
    refusal = None
    if api == "anthropic":
        message = _validated(AnthropicMessage, value)
        content: Parts | None = message.content
        reason = message.stop_reason
    elif chat:
        choice = _validated(ChatChoice, _choice(value), "choices")
        content, refusal, reason = (
            choice.message.content,
            choice.message.refusal,
            choice.finish_reason,
        )
    else:
        text_choice = _validated(TextChoice, _choice(value), "choices")
        content, reason = text_choice.text, text_choice.finish_reason
    text, refused_part = _joined(content)
    finish = (reason or "").strip().lower()
    if finish not in [*COMPLETE, *CUT, *REFUSED]:
        given = (
            f"its finish reason is {reading.brief(reason)}" if finish else "it has no finish reason"
        )
        raise InvalidResponseError(f"the answer is not complete: {given}")
    size = len(text.encode("utf8", "surrogatepass"))
    if size > (most := answer_bytes(max_tokens)):
        raise InvalidResponseError(
            f"the answer has {size:,} bytes; max_tokens = {max_tokens:,} allows {most:,}"
        )
    response = _validated(Response, value)
    refusal = refusal or refused_part or (reason if finish in REFUSED else None) or ""
    labels = {
        "server_model": response.model,
        "fingerprint": response.system_fingerprint,
        "id": response.id,
        "refusal": refusal[: limits.MAX_REFUSAL],
        "finish_reason": _label(reason),
    }
    about = {name: label for name, label in labels.items() if label}
    prompt_bytes = len(prompt.encode("utf8", "surrogatepass"))
    counts = _plausible(response.usage, prompt_bytes, size, max_tokens)
    return Answer(text, "length" if finish in CUT else "end", about, *counts)


def read_embeddings(body: bytes, count: int) -> NDArray[np.float32]:
    """Read the body of a response to a request for embeddings.

    Args:
        body: The body, decoded.
        count: How many texts were sent.

    Returns:
        float32 vectors [count, d] of length 1, in the order of the texts.

    Raises:
        InvalidResponseError: The body does not hold one vector with a direction for each text.
    """
    data = _parsed(body, limits.MAX_ELEMENTS).get("data")
    if not isinstance(data, list):
        raise InvalidResponseError(f"the response holds no vectors: data is {reading.brief(data)}")
    if len(data) != count:
        raise InvalidResponseError(f"not one vector for each of {count} texts: {len(data)} came")
    rows: dict[int, NDArray[np.float64]] = {}
    for place, item in enumerate(data):
        if not isinstance(item, dict):
            raise InvalidResponseError(
                f"the response holds no vectors: an element is {reading.brief(item)}"
            )
        index = place if item.get("index") is None else _count(item["index"])
        if index is None or index >= count or index in rows:
            why = "an index is missing or comes twice"
            raise InvalidResponseError(f"not one vector for each of {count} texts: {why}")
        rows[index] = _vector(item.get("embedding"))
    dimensions = sorted({len(row) for row in rows.values()})
    if len(dimensions) != 1 or not 0 < dimensions[0] <= limits.MAX_DIMENSIONS:
        raise InvalidResponseError(f"vectors of {dimensions[:5]} numbers")
    with np.errstate(all="ignore"):  # numbers whose squares are beyond float64 are found below
        vectors = np.stack([rows[index] for index in range(count)])
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    has_direction = np.isfinite(norms) & (norms > 0)
    if not has_direction.all():
        raise InvalidResponseError("a vector is zero or not finite")
    directions: NDArray[np.float32] = (vectors / norms).astype(np.float32)
    return directions


def response_bytes(max_tokens: int) -> int:
    """Return the size that the body of an answer may have.

    Args:
        max_tokens: How many new tokens the request allows at most.

    Returns:
        Number of bytes, unpacked. It has room for log probabilities of each token and is never more
        than ``limits.MAX_RESPONSE_BYTES``.
    """
    size = limits.RESPONSE_BYTES_BASE + limits.RESPONSE_BYTES_PER_TOKEN * max_tokens
    return min(size, limits.MAX_RESPONSE_BYTES)


def answer_bytes(max_tokens: int) -> int:
    """Return the size that the text of an answer may have.

    Args:
        max_tokens: How many new tokens the request allows at most.

    Returns:
        Number of bytes as UTF-8, never more than ``limits.MAX_ANSWER_BYTES``.
    """
    size = limits.ANSWER_BYTES_BASE + limits.ANSWER_BYTES_PER_TOKEN * max_tokens
    return min(size, limits.MAX_ANSWER_BYTES)


def answer_elements(max_tokens: int) -> int:
    """Return the number of brackets, braces and commas that the body of an answer may have.

    This number bounds the values in the body, and thereby the memory that parsing takes.

    Args:
        max_tokens: How many new tokens the request allows at most.

    Returns:
        The number, never more than ``limits.MAX_ELEMENTS``.
    """
    return min(limits.ELEMENTS_BASE + limits.ELEMENTS_PER_TOKEN * max_tokens, limits.MAX_ELEMENTS)


def _elements(body: bytes) -> int:
    """Count brackets, braces and commas, also those in texts: a bound on the values in the JSON."""
    return body.count(b"[") + body.count(b"{") + body.count(b",")


def _parsed(body: bytes, most: int) -> dict[str, Any]:
    """Return the JSON object in a body that reports no error and has at most ``most`` elements."""
    elements = _elements(body)
    if elements > most:
        raise InvalidResponseError(
            f"the body has {elements:,} brackets, braces and commas; {most:,} are allowed"
        )
    try:
        value = reading.parse(body.removeprefix(reading.BOM))
    except ValueError as e:
        reason = reading.reason_of(e)
        raise InvalidResponseError(
            f"the body cannot be read as JSON ({reason}): {_beginning(body)}"
        ) from e
    if not isinstance(value, dict):
        raise InvalidResponseError("the body is not a JSON object")
    if value.get("error"):
        raise InvalidResponseError(f"the server reports an error: {_words(value['error'])}")
    is_error = "error" in (value.get("object"), value.get("type"))
    if is_error or not value.keys() & {"choices", "content", "data"}:
        raise InvalidResponseError(f"the server sent no answer: {_words(value)}")
    return value


def reported(body: bytes) -> str:
    """Return the words of a server's error.

    Args:
        body: The body of the error's response.

    Returns:
        The message in its JSON, or the beginning of any other body; "" if the body is empty.
    """
    if _elements(body) > limits.MAX_ERROR_ELEMENTS:
        return _beginning(body)
    try:
        value = reading.parse(body)
    except ValueError:
        return _beginning(body)
    if isinstance(value, dict):
        value = value.get("error") or value
    return _words(value) if value else ""


def _beginning(body: bytes) -> str:
    return body[:200].decode("utf8", "replace").strip()


def _words(error: object) -> str:
    """Return what an error in a response says, in a few words."""
    message, code = error, None
    if isinstance(error, dict):
        code = error.get("code") or error.get("type")
        message = error.get("message") or error.get("detail") or error.get("error") or error
    text = message if isinstance(message, str) else json.dumps(message)
    text = text[:1000]
    if isinstance(code, str | int):
        return f"{text} ({code})"
    return text


def _choice(value: dict[str, Any]) -> object:
    """Return the choice whose index is 0, else the first; no other is validated."""
    choices = value.get("choices")
    if not isinstance(choices, list) or not choices:
        raise InvalidResponseError(
            f"the response is not an answer: choices holds {reading.brief(choices)}"
        )
    chosen = choices[0]
    for choice in reversed(choices):
        if isinstance(choice, dict) and choice.get("index") == 0:
            chosen = choice
    if isinstance(chosen, dict) and chosen.get("error"):
        raise InvalidResponseError(f"the server reports an error: {_words(chosen['error'])}")
    return chosen


Model = TypeVar("Model", bound=BaseModel)


def _validated(
    model: type[Model],
    value: object,
    place: str = "",
) -> Model:
    """Validate a JSON value; the InvalidResponseError names the field below ``place`` and what it holds."""
    try:
        return model.model_validate(value)
    except ValidationError as e:
        errors = e.errors(include_input=False, include_url=False, include_context=False)
        error = errors[0]
    names = [place] if place else []
    for step in error["loc"]:
        try:
            value = value[step]  # type: ignore[index]  # any value, which may have no such step
        except (TypeError, KeyError, IndexError):
            if error["type"] == "missing":
                field = ".".join([*names, str(step)])
                raise InvalidResponseError(
                    f"the response is not an answer: {field} is missing"
                ) from None
            break  # the other steps are the names of types
        if isinstance(step, str):
            names.append(step)
    field = ".".join(names)
    raise InvalidResponseError(
        f"the response is not an answer: {field} holds {reading.brief(value)}"
    )


def _joined(content: Parts | None) -> tuple[str, str | None]:
    """Return the text of a message, and the refusal among its parts."""
    if content is None or isinstance(content, str):
        return content or "", None
    texts: list[str] = []
    refusal = None
    for part in content:
        if isinstance(part, str):
            texts.append(part)
        elif part.type == "refusal" and isinstance(part.refusal, str):
            refusal = part.refusal
        elif part.type in TEXT_PARTS:
            if not isinstance(part.text, str):
                raise InvalidResponseError(
                    "the response is not an answer: a part of its text is not text"
                )
            texts.append(part.text)
    return "".join(texts), refusal


def _plausible(
    usage: Usage | None,
    prompt_bytes: int,
    text_bytes: int,
    max_tokens: int,
) -> tuple[int, int] | tuple[None, None]:
    """Return the tokens of prompt and answer; None for both unless each fits its text.

    A token has at least one byte. Tokens of hidden reasoning are not in the text, but count as new
    tokens.
    """
    if usage is None or usage.prompt is None or usage.new is None:
        return None, None
    most_new = min(max(max_tokens, text_bytes), limits.MAX_ANSWER_BYTES) + SPECIAL_TOKENS
    prompt_fits = bool(prompt_bytes) <= usage.prompt <= prompt_bytes + TEMPLATE_TOKENS
    new_fits = bool(text_bytes) <= usage.new <= most_new
    if not (prompt_fits and new_fits):
        return None, None
    return usage.prompt, usage.new


def _vector(embedding: object) -> NDArray[np.float64]:
    """Return the numbers of a vector, which may be sent as base64 of little-endian float32."""
    if isinstance(embedding, list):
        strange = set(map(type, embedding)) - {int, float}
        if strange:
            kind = min(t.__name__ for t in strange)
            raise InvalidResponseError(f"a vector holds a value that is not a number ({kind})")
        try:
            return np.array(embedding, np.float64)
        except OverflowError as e:
            raise InvalidResponseError("a vector holds a number that is too large") from e
    if not isinstance(embedding, str):
        raise InvalidResponseError(
            f"a vector is {reading.brief(embedding)}, neither numbers nor base64"
        )
    try:
        data = b64decode(embedding, validate=True)
        return np.frombuffer(data, "<f4").astype(np.float64)
    except ValueError as e:
        raise InvalidResponseError(
            f"a vector is a text, but not the base64 of float32 numbers: {e}"
        ) from e
