"""Generation by a model behind an endpoint: concurrent requests through the provider's own client.

The client sends a request again after a fault: 429, 5xx, or a response that is broken, late, too
large or incomplete (``connection.py``, ``responses.py``). A run ends when the key or the model is
wrong, the server never answered, a redirect leads to another server, the budget is spent, or
``GIVE_UP`` prompts in a row have no answer. Requests in flight are still awaited and their answers
kept. Refusals and empty answers count as answers.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from http.client import responses
from importlib import import_module
from typing import Any
from urllib.parse import quote

from pkg_lib.core import limits
from pkg_lib.core.endpoints import Endpoint
from pkg_lib.core.reading import printable
from pkg_lib.core.types import Request, UserError
from pkg_lib.generation.connection import BASE_ERRORS, check_body, open_client
from pkg_lib.generation.prompts import turns
from pkg_lib.generation.responses import InvalidResponseError, read_answer, reported, response_bytes

GIVE_UP = 3  # prompts in a row without an answer
# The key, the account or the model is wrong, so every other request would fail, too.
HOPELESS = (401, 402, 403, 404)
REDIRECTS = (301, 302, 303, 307, 308)
FILTERED = ("content_filter", "content_policy_violation")
UNKNOWN = -1  # the id of a token: servers report how many there are, not which
# Names of the limit on new tokens in requests.
NEW_TOKENS = ("max_tokens", "max_completion_tokens", "max_new_tokens")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as the Generator takes it.

    Attributes:
        request: The request.
        tokens: One id for each new token, ``UNKNOWN`` each.
        prompt_tokens: Number of tokens in the prompt; 0 if unknown.
        about: What is recorded with the answer.
        raw: The text.
        finish: "end" or "length".
    """

    request: Request
    tokens: list[int]
    prompt_tokens: int
    about: dict[str, Any]
    raw: str = ""
    finish: str = "end"


class NoAnswerError(Exception):
    """A request that is not sent again."""


class RemoteBackend:
    """A model behind an endpoint.

    Args:
        endpoint: The server and the model.
        chat: Whether to request a message; otherwise the text is continued.
        max_new_tokens: The most new tokens of an answer; None for the server's own limit.
        kept: Returns the prompt tokens and new tokens of all stored answers, which a budget counts.

    Raises:
        UserError: The key or the client package is missing, or the API takes no such requests.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        chat: bool,
        max_new_tokens: int | None,
        kept: Callable[[], tuple[int, int]],
    ) -> None:
        self.endpoint = endpoint
        self.chat = chat
        self.max_new_tokens = max_new_tokens
        self.kept = kept
        self.key = endpoint.read_key()
        if endpoint.api == "anthropic" and not chat:
            raise UserError(
                f"endpoint {endpoint.name} accepts only chat messages; leave --style out"
            )
        try:
            self.package = import_module(endpoint.api)
        except ImportError as e:
            raise UserError(f"endpoint {endpoint.name}: pip install '.[endpoints]' ({e})") from e
        self.fatal = getattr(self.package, BASE_ERRORS[endpoint.api])

    def generate(
        self, requests: list[Request], done: Callable[[Reply, str, str], None], **sampling: float
    ) -> None:
        """Answer requests concurrently.

        Args:
            requests: The requests.
            done: Is called with the reply, its text and its finish as each answer comes.
            sampling: ``temperature`` and ``top_p``; without them decoding is greedy.

        Raises:
            UserError: An answer is missing at the end.
        """
        self.waiting = deque(requests)
        self.done = done
        self.sampling = sampling
        self.answers = 0
        self.failures_in_a_row = 0
        self.stopped = ""  # the reason why no more requests are sent
        self.last_failure = ""
        self.prompt_tokens = self.new_tokens = 0
        if self.endpoint.budget:
            self.prompt_tokens, self.new_tokens = self.kept()
        asyncio.run(self._answer_all())
        missing = len(requests) - self.answers
        if missing:
            reason = self.stopped or self.last_failure
            what = f"{reason}; {missing} of {len(requests)} prompts have no answer"
            again = "Fix this, then run the same command again (without --fresh)."
            place = f"endpoint {self.endpoint.name}"
            raise UserError(f"{place}: {what}. The answers so far are kept. {again}")

    @property
    def max_tokens(self) -> int:
        """The most new tokens that a request allows; without any, the project's own limit."""
        parameters = dict(self.endpoint.extra)
        if "max_tokens" not in self.endpoint.omit:
            parameters.setdefault("max_tokens", self.max_new_tokens)
        stated = []
        for name in NEW_TOKENS:
            number = parameters.get(name)
            if isinstance(number, int) and number > 0:
                stated.append(number)
        return max(stated, default=limits.MAX_ANSWER_TOKENS)

    @property
    def most_bytes(self) -> int:
        """The size in bytes that the body of a response may have."""
        return response_bytes(self.max_tokens)

    async def _answer_all(self) -> None:
        client = open_client(self.package, self.endpoint, self.key, self.most_bytes)
        async with client:
            workers = [self._work(client) for _ in range(self.endpoint.concurrency)]
            await asyncio.gather(*workers)

    async def _work(self, client: Any) -> None:
        """Send one request after the other, until none waits or the run ends."""
        while self.waiting and not self._is_over():
            request = self.waiting.popleft()
            began = time.perf_counter()
            try:
                reply = await self._answer(client, request)
            except NoAnswerError as e:
                self.last_failure = f"{request.task_id}: {e}"
                self.failures_in_a_row += 1
                if self.failures_in_a_row >= GIVE_UP:
                    self.stopped = self.stopped or str(e)
                continue
            self.answers += 1
            self.failures_in_a_row = 0
            self.prompt_tokens += reply.prompt_tokens
            self.new_tokens += len(reply.tokens)
            if self.endpoint.budget and "usage" not in reply.about:
                missing = "the server does not report plausible token counts"
                self.stopped = f"{missing}, so no budget can be kept"
            seconds = time.perf_counter() - began
            reply.about["seconds"] = round(seconds, 3)
            self.done(reply, reply.raw, reply.finish)

    def _is_over(self) -> bool:
        """Tell whether no more requests are sent, and record a budget that is used up."""
        prompt_price, new_price = self.endpoint.usd_per_million or (0, 0)
        dollars = (self.prompt_tokens * prompt_price + self.new_tokens * new_price) / 1e6
        used = {"tokens": self.prompt_tokens + self.new_tokens, "dollars": dollars}
        for unit, budget in self.endpoint.budget.items():
            if used[unit] >= budget:
                spent = f"{used[unit]:,.6g} {unit} are spent"
                self.stopped = f"{spent} and budget.{unit} is {budget:g}: raise it"
        return bool(self.stopped)

    async def _answer(self, client: Any, request: Request) -> Reply:
        """Get the answer to one prompt; raise NoAnswerError if the client gave up."""
        check_body.set(partial(self._read, request))
        try:
            return self._read(request, await self._send(client, request))
        except self.package.BadRequestError as e:
            for word in FILTERED:
                if word in e.response.text:
                    about = {"refusal": word, "usage": {}}
                    return Reply(request, [], 0, about)
            raise NoAnswerError(self._in_one_line(e)) from e
        except self.package.APIError as e:
            message = self._in_one_line(e)
            if getattr(e, "status_code", 0) in HOPELESS:
                self.stopped = message
            raise NoAnswerError(message) from e
        except (ValueError, TypeError) as e:
            raise NoAnswerError(self._in_one_line(e)) from e
        except self.fatal as e:
            self.stopped = self._in_one_line(e)
            raise NoAnswerError(self.stopped) from e

    async def _send(self, client: Any, request: Request) -> bytes:
        """Send a request and return the body of the response."""
        options: dict[str, Any] = {"temperature": 0, **self.sampling}
        options["max_tokens"] = self.max_new_tokens
        if self.endpoint.seed:
            options["seed"] = request.sample
        for name in self.endpoint.omit:
            options.pop(name, None)
        arguments: dict[str, Any] = {
            "model": self.endpoint.model,
            "extra_body": options | self.endpoint.extra,
        }
        if not self._is_chat(request):
            api = client.completions
            arguments["prompt"] = request.text
        elif self.endpoint.api == "anthropic":
            api = client.messages
            arguments["messages"] = turns(request.text)
            arguments["max_tokens"] = self.max_new_tokens
        else:
            api = client.chat.completions
            arguments["messages"] = turns(request.text)
        # The raw response, because the packages accept responses that lack fields.
        response = await api.with_raw_response.create(**arguments)
        body: bytes = response.http_response.content
        return body

    def _is_chat(self, request: Request) -> bool:
        """Tell whether a request is sent as messages; otherwise the server continues its text."""
        return self.chat and not request.as_it_is

    def _read(self, request: Request, body: bytes) -> Reply:
        """Return the answer in a response; raise InvalidResponseError if there is none."""
        answer = read_answer(
            body,
            api=self.endpoint.api,
            chat=self._is_chat(request),
            prompt=request.text,
            max_tokens=self.max_tokens,
        )
        about: dict[str, Any] = {}
        for name, value in answer.about.items():
            about[name] = self._without_key(value)
        if answer.prompt_tokens is not None and answer.new_tokens is not None:
            about["usage"] = {
                "prompt_tokens": answer.prompt_tokens,
                "new_tokens": answer.new_tokens,
            }
        # `read_answer` has compared the count with the text and with the limit of the request.
        tokens = [UNKNOWN] * (answer.new_tokens or 0)
        return Reply(
            request,
            tokens,
            answer.prompt_tokens or 0,
            about,
            raw=self._without_key(answer.text),
            finish=answer.finish,
        )

    def _in_one_line(self, error: Exception) -> str:
        """Return an error as one printable line, without the key."""
        response = getattr(error, "response", None)
        if response is not None:
            message = _status_message(response.status_code, reported(response.content))
        elif error.__cause__ and isinstance(
            error.__cause__.__cause__, InvalidResponseError | TimeoutError
        ):
            message = str(error.__cause__)  # of `BoundedClient`, complete in itself
        else:
            message = f"{error} {error.__cause__ or ''}"
        if self.key:
            in_json = json.dumps(self.key)[1:-1]
            in_url = quote(self.key, safe="")
            for form in (in_json.replace("/", "\\/"), in_json, in_url):
                message = message.replace(form, "***")
        line = self._without_key(f"{self.endpoint.base_url}: {message}")
        return printable(" ".join(line.split())[:300])

    def _without_key(self, text: str) -> str:
        """Return the text without the key, which a server may repeat."""
        return text.replace(self.key, "***") if self.key else text


def _status_message(status: int, words: str) -> str:
    """Describe a response with the status of an error, even if the server sends no message."""
    if words:
        return f"{status} {words}"
    # The client follows a redirect that says where to; it raises an error for any other.
    if status in REDIRECTS:
        return f"{status}: the server redirected without saying where to"
    meaning = f" ({responses[status].lower()})" if status in responses else ""
    return f"{status}{meaning}, without a message"
