"""Generation by a model behind an endpoint: requests at once, through the provider's own client package.

What a server does wrong is asked for again (429, 5xx, a broken, late or unreadable answer), after twice the
time at each attempt, and not before Retry-After. A wrong key, a model that is not there, a server that never
answered, a spent budget, and GIVE_UP prompts in a row without an answer end the run; requests under way are
still waited for and kept. Refusals and empty answers are answers.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import mktime_tz, parsedate_tz
from importlib import import_module
from typing import Any

from pkg_lib.core.endpoints import Endpoint
from pkg_lib.core.types import Request, UserError
from pkg_lib.generation.prompts import turns

CLIENTS = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}
FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0  # seconds before a request is sent again; each time twice as long
MOST_PATIENCE = 600.0  # seconds of Retry-After beyond which the run ends instead
GIVE_UP = 3  # prompts without an answer, one after the other
HOPELESS = (401, 402, 403, 404)  # the key, the account or the model is wrong: so would be every other request
AGAIN = (408, 409, 425, 429)  # and 5xx
CUT = ("length", "max_tokens", "model_context_window_exceeded")
REFUSED = ("refusal", "content_filter")
FILTERED = ("content_filter", "content_policy_violation")
UNKNOWN = -1  # the id of a token: servers tell how many there are, not which


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
        self, endpoint: Endpoint, chat: bool, max_new_tokens: int | None, kept: Callable[[], tuple[int, int]]
    ) -> None:
        self.endpoint, self.chat, self.max_new_tokens, self.kept = endpoint, chat, max_new_tokens, kept
        self.key = os.environ.get(endpoint.key, "").strip()  # a line's end may stand there
        if endpoint.key and not self.key:
            raise UserError(f"endpoint {endpoint.name}: the environment variable {endpoint.key} is not set")
        if not (self.key.isascii() and self.key.isprintable()):
            raise UserError(f"endpoint {endpoint.name}: {endpoint.key} holds a character that no key has")
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
            again = "what came is kept: mend that and run the command again, without --fresh, for the rest"
            raise UserError(f"endpoint {self.endpoint.name}: {why}, {again}")

    async def _all(self) -> None:
        # The key is always given: else the package would send that of its own variable (OPENAI_API_KEY).
        about = {"api_key": self.key or "none", "base_url": self.endpoint.base_url, "max_retries": 0}
        client = getattr(self.package, CLIENTS[self.endpoint.api])(**about, timeout=self.endpoint.timeout)
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
                self.over = "the server does not tell the tokens used, so no budget can be kept"
            reply.about["seconds"] = round(time.perf_counter() - began, 3)
            self.done(reply, reply.raw, reply.finish)

    def _spent(self) -> bool:
        """Whether no more requests are sent; a budget that is used up is the reason from here on."""
        asked_usd, new_usd = self.endpoint.usd_per_million or (0, 0)
        dollars = (self.asked * asked_usd + self.new * new_usd) / 1e6
        used = {"tokens": self.asked + self.new, "dollars": dollars}
        for unit, most in self.endpoint.budget.items():
            if used[unit] >= most:
                self.over = f"{used[unit]:,.6g} {unit} are spent and budget.{unit} is {most:g}: raise it"
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
            # A broken body is a ValueError, an odd one whatever reading it raises.
            except (self.package.APIError, TimeoutError, ValueError, TypeError, AttributeError) as e:
                fault = self._words(e)
                refused = [w for w in FILTERED if w in fault]
                if refused and isinstance(e, self.package.BadRequestError):
                    return Reply(request, [], 0, {"refusal": refused[0], "usage": {}})
                self._judge(e, fault)
            if not self.over and attempt < self.endpoint.retries:
                await asyncio.sleep(min(FIRST_WAIT * 2**attempt, LONGEST_WAIT) * random.uniform(1, 1.25))
        raise NoAnswer(self.over or fault)

    async def _send(self, client: Any, request: Request) -> Any:
        """The package's answer object."""
        options = {"temperature": 0, **self.sampling, "max_tokens": self.max_new_tokens}
        options |= {"seed": request.sample} if self.endpoint.seed else {}
        body = {n: v for n, v in options.items() if n not in self.endpoint.omit} | self.endpoint.extra
        about: dict[str, Any] = {"model": self.endpoint.model, "extra_body": body}
        if not self.chat:
            return await client.completions.create(prompt=request.text, **about)
        about["messages"] = turns(request.text)
        if self.endpoint.api == "anthropic":
            return await client.messages.create(max_tokens=self.max_new_tokens, **about)
        return await client.chat.completions.create(**about)

    def _read(self, request: Request, answer: Any) -> Reply:
        """What the answer says; whatever is raised means half an answer, or something else than one."""
        names, refusal = ("prompt_tokens", "completion_tokens"), None
        if self.endpoint.api == "anthropic":
            names = ("input_tokens", "output_tokens")
            raw, finish = "".join(b.text for b in answer.content if b.type == "text"), answer.stop_reason
        else:
            first = (answer.choices or [None])[0]
            raw, finish = (first.message.content if self.chat else first.text) or "", first.finish_reason
            refusal = getattr(first.message, "refusal", None) if self.chat else None
        told = {"server_model": "model", "fingerprint": "system_fingerprint", "id": "id"}
        about: dict[str, Any] = {here: getattr(answer, there, None) for here, there in told.items()}
        refusal = refusal or (finish if finish in REFUSED else None)
        about |= {"refusal": refusal, "finish_reason": finish}
        about = {n: self._clean(str(v)) for n, v in about.items() if v}
        asked, new = (int(getattr(answer.usage, name, 0) or 0) for name in names)
        if answer.usage is not None:
            about["usage"] = {"prompt_tokens": asked, "new_tokens": new}
        end = "length" if finish in CUT else "end"
        return Reply(request, [UNKNOWN] * new, asked, about, self._clean(raw), end)

    def _judge(self, error: Exception, fault: str) -> None:
        """Ends the run where no request can do better, and notes how long the server asks to wait.

        NoAnswer for a request that is wrong in itself.
        """
        status, response = getattr(error, "status_code", 0), getattr(error, "response", None)
        if status in HOPELESS or (not self.came and type(error.__cause__).__name__ == "ConnectError"):
            self.over = fault
        elif 400 <= status < 500 and status not in AGAIN:
            raise NoAnswer(fault) from error
        wait = _seconds(response.headers.get("retry-after", "")) if response is not None else 0.0
        if wait > MOST_PATIENCE:
            self.over = f"the server asks to wait {wait:.0f} seconds"
        self.not_before = max(self.not_before, time.monotonic() + wait)

    def _words(self, error: Exception) -> str:
        """An error in a line, without the key."""
        if isinstance(error, TimeoutError):
            return f"no whole answer within {self.endpoint.timeout:g} seconds"
        response, told = getattr(error, "response", None), f"{error} {error.__cause__ or ''}"
        told = told if response is None else f"{response.status_code} {response.text}"
        return self._clean(" ".join(f"{self.endpoint.base_url}: {told}".split()))[:300]

    def _clean(self, text: str) -> str:
        """The text without the key, which a server may repeat. TypeError for what is no text."""
        return "".join([text]).replace(self.key if len(self.key) > 5 else "\0", "***")


def _seconds(retry_after: str) -> float:
    """The header's seconds, or those until its date; 0 for anything else."""
    if retry_after.replace(".", "", 1).isdecimal():
        return float(retry_after)
    date = parsedate_tz(retry_after)
    return max(0.0, mktime_tz(date) - time.time()) if date else 0.0
