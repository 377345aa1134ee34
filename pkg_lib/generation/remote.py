"""Generation by a model behind an endpoint: concurrent requests through the provider's own client package.

A response is an answer or a fault (`generation/responses.py`). After a fault (429, 5xx, a broken, late,
oversized or incomplete response), the request is sent again, after twice the time at each attempt and not
before Retry-After. A run ends when the key or the model is wrong, the server never answered, a redirect leads
to another server, the budget is spent, or GIVE_UP prompts in a row have no answer. Answers under way are
still waited for and kept. Refusals and empty answers are answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from http.client import responses
from importlib import import_module
from typing import Any
from urllib.parse import quote

from pkg_lib.core import limits
from pkg_lib.core.endpoints import Endpoint
from pkg_lib.core.types import Request, UserError
from pkg_lib.generation.prompts import turns
from pkg_lib.generation.responses import Fault, Redirected, read_answer, reported, response_bytes

FIRST_WAIT, LONGEST_WAIT = (
    0.5,
    60.0,
)  # seconds before a request is sent again; each time twice as long
MOST_PATIENCE = 600.0  # seconds of Retry-After beyond which the run ends instead
GIVE_UP = 3  # prompts without an answer, one after the other
HOPELESS = (
    401,
    402,
    403,
    404,
)  # the key, the account or the model is wrong: so would be every other request
AGAIN = (408, 409, 425, 429)  # and 5xx
REDIRECTS = (301, 302, 303, 307, 308)
FILTERED = ("content_filter", "content_policy_violation")
SHORTEST_KEY = 8  # characters; a shorter text is found in answers by chance, and replaced there
UNKNOWN = -1  # the id of a token: servers report how many there are, not which
NEW_TOKENS = (
    "max_tokens",
    "max_completion_tokens",
    "max_new_tokens",
)  # names of the limit in requests


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as the Generator takes it; `about` is recorded beside it."""

    request: Request
    tokens: list[int]
    prompt_tokens: int
    about: dict[str, Any]
    raw: str = ""
    finish: str = "end"


class NoAnswer(Exception):
    """A request that is not sent again."""


class RemoteBackend:
    """An endpoint; `chat` asks for a message, else the text is continued. UserError: no key, no package.

    `kept` gives the prompt tokens and new tokens of what is stored already, which a budget counts.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        chat: bool,
        max_new_tokens: int | None,
        kept: Callable[[], tuple[int, int]],
    ) -> None:
        self.endpoint, self.chat, self.max_new_tokens, self.kept = (
            endpoint,
            chat,
            max_new_tokens,
            kept,
        )
        self.key = os.environ.get(
            endpoint.key, ""
        ).strip()  # files often end a key with a line break
        if endpoint.key and not self.key:
            raise UserError(
                f"endpoint {endpoint.name}: the environment variable {endpoint.key} is not set"
            )
        if endpoint.key and len(self.key) < SHORTEST_KEY:
            short = f"{endpoint.key} has fewer than {SHORTEST_KEY} characters"
            raise UserError(f"endpoint {endpoint.name}: {short}, so it is no key; check its value")
        if not (self.key.isascii() and self.key.isprintable()):
            raise UserError(
                f"endpoint {endpoint.name}: {endpoint.key} holds a character that no key has"
            )
        if endpoint.api == "anthropic" and not chat:
            raise UserError(f"endpoint {endpoint.name} takes messages alone; leave --style out")
        try:
            self.package = import_module(endpoint.api)
        except ImportError as e:
            raise UserError(f"endpoint {endpoint.name}: pip install '.[endpoints]' ({e})") from e

    def generate(
        self, requests: list[Request], done: Callable[[Reply, str, str], None], **sampling: float
    ) -> None:
        """Calls `done(reply, raw, finish)` as each answer comes. UserError, at the end, if one is missing."""
        self.waiting, self.done, self.sampling = deque(requests), done, sampling
        self.came = self.in_a_row = 0  # answers; prompts without one since the last of them
        self.over = self.fault = ""  # why no more requests are sent; what went wrong with one
        self.not_before = 0.0  # on the monotonic clock; the server asked for it
        self.asked, self.new = self.kept() if self.endpoint.budget else (0, 0)
        asyncio.run(self._all())
        if missing := len(requests) - self.came:
            why = f"{self.over or self.fault}; {missing} of {len(requests)} prompts have no answer"
            again = "Fix this, then run the same command again (without --fresh)."
            raise UserError(
                f"endpoint {self.endpoint.name}: {why}. The answers so far are kept. {again}"
            )

    @property
    def max_tokens(self) -> int:
        """The most new tokens that a request allows; the project's own limit where it states none."""
        asked = {} if "max_tokens" in self.endpoint.omit else {"max_tokens": self.max_new_tokens}
        stated = [(asked | self.endpoint.extra).get(name) for name in NEW_TOKENS]
        return max(
            (n for n in stated if isinstance(n, int) and n > 0), default=limits.MAX_ANSWER_TOKENS
        )

    @property
    def most_bytes(self) -> int:
        """How large the body of a response may be."""
        return response_bytes(self.max_tokens)

    async def _all(self) -> None:
        from pkg_lib.generation.connection import (
            open_client,
        )  # needs the packages of the extra `endpoints`

        client = open_client(self.package, self.endpoint, self.key, self.most_bytes)
        async with client:
            await asyncio.gather(*(self._work(client) for _ in range(self.endpoint.concurrency)))

    async def _work(self, client: Any) -> None:
        """Asks one prompt after the other, as long as some wait and nothing speaks against it."""
        while self.waiting and not self._spent():
            request, began = self.waiting.popleft(), time.perf_counter()
            try:
                reply = await self._answer(client, request)
            except NoAnswer as e:
                self.fault, self.in_a_row = f"{request.task_id}: {e}", self.in_a_row + 1
                self.over = self.over or (str(e) if self.in_a_row >= GIVE_UP else "")
                continue
            self.came, self.in_a_row = self.came + 1, 0
            self.asked, self.new = self.asked + reply.prompt_tokens, self.new + len(reply.tokens)
            if self.endpoint.budget and "usage" not in reply.about:
                self.over = (
                    "the server does not report plausible token counts, so no budget can be kept"
                )
            reply.about["seconds"] = round(time.perf_counter() - began, 3)
            self.done(reply, reply.raw, reply.finish)

    def _spent(self) -> bool:
        """Whether no more requests are sent; a budget that is used up is the reason from here on."""
        asked_usd, new_usd = self.endpoint.usd_per_million or (0, 0)
        dollars = (self.asked * asked_usd + self.new * new_usd) / 1e6
        used = {"tokens": self.asked + self.new, "dollars": dollars}
        for unit, most in self.endpoint.budget.items():
            if used[unit] >= most:
                self.over = (
                    f"{used[unit]:,.6g} {unit} are spent and budget.{unit} is {most:g}: raise it"
                )
        return bool(self.over)

    async def _answer(self, client: Any, request: Request) -> Reply:
        """One prompt's answer, asked for again after a fault. NoAnswer where that is of no use."""
        for attempt in range(self.endpoint.retries + 1):
            while (wait := self.not_before - time.monotonic()) > 0 and not self.over:
                await asyncio.sleep(min(wait, 1.0))
            if self.over:
                break
            try:
                async with asyncio.timeout(self.endpoint.timeout):
                    return self._read(request, await self._send(client, request))
            except (
                self.package.APIError,
                Fault,
                Redirected,
                TimeoutError,
                ValueError,
                TypeError,
            ) as e:
                fault = self._words(e)
                if isinstance(e, self.package.BadRequestError):
                    refused = [word for word in FILTERED if word in e.response.text]
                    if refused:
                        return Reply(request, [], 0, {"refusal": refused[0], "usage": {}})
                self._judge(e, fault)
            if not self.over and attempt < self.endpoint.retries:
                await asyncio.sleep(
                    min(FIRST_WAIT * 2**attempt, LONGEST_WAIT) * random.uniform(1, 1.25)
                )
        raise NoAnswer(self.over or fault)

    async def _send(self, client: Any, request: Request) -> bytes:
        """The body of the response."""
        options = {"temperature": 0, **self.sampling, "max_tokens": self.max_new_tokens}
        options |= {"seed": request.sample} if self.endpoint.seed else {}
        body = {
            n: v for n, v in options.items() if n not in self.endpoint.omit
        } | self.endpoint.extra
        about: dict[str, Any] = {"model": self.endpoint.model, "extra_body": body}
        if not self._as_chat(request):
            requests = client.completions
            about["prompt"] = request.text
        else:
            requests = (
                client.messages if self.endpoint.api == "anthropic" else client.chat.completions
            )
            about["messages"] = turns(request.text)
        if self.endpoint.api == "anthropic":
            about["max_tokens"] = self.max_new_tokens
        # Raw, since the packages accept responses that lack fields.
        response = await requests.with_raw_response.create(**about)
        return response.http_response.content

    def _as_chat(self, request: Request) -> bool:
        """Whether a request is sent as messages; a prompt that is sent as it is goes to completions."""
        return self.chat and not request.as_it_is

    def _read(self, request: Request, body: bytes) -> Reply:
        """The answer in a response. Raises Fault where there is none."""
        answer = read_answer(
            body, self.endpoint.api, self._as_chat(request), request.text, self.max_tokens
        )
        about: dict[str, Any] = {name: self._clean(value) for name, value in answer.about.items()}
        if answer.prompt_tokens is not None and answer.new_tokens is not None:
            about["usage"] = {
                "prompt_tokens": answer.prompt_tokens,
                "new_tokens": answer.new_tokens,
            }
        # `read_answer` has compared the count with the text and with what was asked for.
        tokens = [UNKNOWN] * (answer.new_tokens or 0)
        raw = self._clean(answer.text)
        return Reply(request, tokens, answer.prompt_tokens or 0, about, raw, answer.finish)

    def _judge(self, error: Exception, fault: str) -> None:
        """Ends the run where no request can do better, and notes how long the server asks to wait.

        NoAnswer for a request that is wrong in itself.
        """
        status, response = getattr(error, "status_code", 0), getattr(error, "response", None)
        never_connected = not self.came and type(error.__cause__).__name__ == "ConnectError"
        if status in HOPELESS or never_connected or isinstance(error, Redirected):
            self.over = fault
        elif 400 <= status < 500 and status not in AGAIN:
            raise NoAnswer(fault) from error
        wait = _seconds(response.headers.get("retry-after", "")) if response is not None else 0.0
        if wait > MOST_PATIENCE:
            self.over = f"the server asks to wait {wait:.0f} seconds"
        self.not_before = max(self.not_before, time.monotonic() + wait)

    def _words(self, error: Exception) -> str:
        """An error in one printable line, without the key."""
        if isinstance(error, TimeoutError):
            return f"no whole answer within {self.endpoint.timeout:g} seconds"
        response = getattr(error, "response", None)
        if response is not None:
            told = _told(response.status_code, reported(response.content))
        elif isinstance(error, self.package.APIError):
            told = f"{error} {error.__cause__ or ''}"
        else:
            told = str(error)
        escaped = json.dumps(self.key)[1:-1]
        for form in (escaped.replace("/", "\\/"), escaped, quote(self.key, safe="")):
            told = told.replace(form, "***") if self.key else told
        line = " ".join(self._clean(f"{self.endpoint.base_url}: {told}").split())[:300]
        return "".join(c if c.isprintable() else repr(c)[1:-1] for c in line)

    def _clean(self, text: str) -> str:
        """The text without the key, which a server may repeat; any other text as it is."""
        return text.replace(self.key, "***") if self.key else text


def _told(status: int, words: str) -> str:
    """What a response that is an error says; also where the server sends no words with it."""
    if words:
        return f"{status} {words}"
    # The client follows a redirect that says where to; it raises an error for any other.
    if status in REDIRECTS:
        return f"{status}: the server redirected without saying where to"
    meaning = f" ({responses[status].lower()})" if status in responses else ""
    return f"{status}{meaning}, without a message"


def _seconds(retry_after: str) -> float:
    """The header's seconds, or those until its date; 0 for anything else."""
    if retry_after.isascii() and retry_after.replace(".", "", 1).isdecimal():
        return float(retry_after)
    try:
        date = parsedate_tz(retry_after)
        return max(0.0, mktime_tz(date) - time.time()) if date else 0.0
    except (ValueError, OverflowError, TypeError, IndexError):  # such as a date in the year 999999
        return 0.0
