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
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import Any

from pkg_lib.core.endpoints import Endpoint
from pkg_lib.core.types import Request, UserError
from pkg_lib.generation.prompts import turns

FIRST_WAIT, LONGEST_WAIT = 0.5, 60.0  # seconds before a request is sent again; each time twice as long
MOST_PATIENCE = 600.0  # seconds of Retry-After beyond which the run ends instead
GIVE_UP = 3  # prompts without an answer, one after the other
HOPELESS = (401, 402, 403, 404)  # the key, the account or the model is wrong: so would be every other request
AGAIN = (408, 409, 425, 429)  # and 5xx
CUT = ("length", "max_tokens", "model_context_window_exceeded")
UNKNOWN = -1  # the id of a token: servers tell how many there are, not which


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as the Generator takes it; `about` is recorded beside it."""

    request: Request
    tokens: list[int]
    prompt_tokens: int
    about: dict[str, Any]
    raw: str
    finish: str


class NoAnswer(Exception):
    """A request that is not sent again."""


class RemoteBackend:
    """An endpoint; `chat` asks for a message, else the text is continued. UserError: no key, no package.

    `kept` gives the prompt tokens and new tokens of what is stored already, which a budget counts.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        chat: bool = True,
        max_new_tokens: int | None = None,
        kept: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        self.endpoint, self.chat, self.max_new_tokens, self.kept = endpoint, chat, max_new_tokens, kept
        self.key = os.environ.get(endpoint.key, "") if endpoint.key else ""
        if endpoint.key and not self.key:
            raise UserError(f"endpoint {endpoint.name}: the environment variable {endpoint.key} is not set")
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
        asyncio.run(_Session(self, requests, sampling).all(done))

    def client(self) -> Any:
        """The package's client; it takes no other key (OPENAI_API_KEY and its like) to this server."""
        own = {"openai": "AsyncOpenAI", "anthropic": "AsyncAnthropic"}[self.endpoint.api]
        options = {"base_url": self.endpoint.base_url, "max_retries": 0, "timeout": self.endpoint.timeout}
        return getattr(self.package, own)(api_key=self.key or "none", **options)

    async def send(self, client: Any, request: Request, sampling: dict[str, float]) -> Any:
        """The package's answer object."""
        options: dict[str, Any] = {"temperature": 0, **sampling, "max_tokens": self.max_new_tokens}
        if self.endpoint.seed:
            options["seed"] = request.sample
        unwanted = {*self.endpoint.omit, *(n for n, value in options.items() if value is None)}
        body = {n: v for n, v in options.items() if n not in unwanted} | self.endpoint.extra
        about: dict[str, Any] = {"model": self.endpoint.model, "extra_body": body}
        if not self.chat:
            return await client.completions.create(prompt=request.text, **about)
        if self.endpoint.api == "anthropic":
            about["max_tokens"] = self.max_new_tokens
            return await client.messages.create(messages=turns(request.text), **about)
        return await client.chat.completions.create(messages=turns(request.text), **about)

    def read(self, request: Request, answer: Any) -> Reply:
        """What the answer says. ValueError for half an answer, or for something else than one."""
        refusal = None
        if self.endpoint.api == "anthropic":
            blocks, finish = getattr(answer, "content", None), getattr(answer, "stop_reason", None)
            if not isinstance(blocks, list) or not finish:
                raise ValueError("what came is no whole message")
            raw = "".join(b.text for b in blocks if b.type == "text")
            names = ("input_tokens", "output_tokens")
        else:
            choices = getattr(answer, "choices", None)
            if not choices or (self.chat and getattr(choices[0], "message", None) is None):
                raise ValueError("what came is no whole completion")
            finish, names = choices[0].finish_reason, ("prompt_tokens", "completion_tokens")
            raw = (choices[0].message.content if self.chat else choices[0].text) or ""
            refusal = getattr(choices[0].message, "refusal", None) if self.chat else None
        if finish in ("refusal", "content_filter"):
            refusal = refusal or finish
        if not isinstance(raw, str):
            raise ValueError("what came is no text")
        usage = getattr(answer, "usage", None)
        asked, new = (int(getattr(usage, name, None) or 0) for name in names)
        told = {"server_model": "model", "fingerprint": "system_fingerprint", "id": "id"}
        served = {here: getattr(answer, there, None) for here, there in told.items()}
        served |= {"refusal": refusal, "finish_reason": finish}
        about = {n: self.clean(str(v)) for n, v in served.items() if v}
        if usage is not None:
            about["usage"] = dict(zip(("prompt_tokens", "new_tokens"), (asked, new), strict=True))
        text, end = self.clean(raw), "length" if finish in CUT else "end"
        return Reply(request, [UNKNOWN] * new, asked, about, text, end)

    def clean(self, text: str) -> str:
        """The text without the key, which a server may repeat."""
        return text.replace(self.key, "***") if len(self.key) > 5 else text


class _Session:
    """Requests on their way: what waits, what came, and why no more are sent (`over`)."""

    def __init__(self, backend: RemoteBackend, requests: list[Request], sampling: dict[str, float]) -> None:
        self.backend, self.endpoint = backend, backend.endpoint
        self.waiting, self.sampling = deque(requests), sampling
        self.total, self.came, self.in_a_row = len(requests), 0, 0
        self.over, self.faults = "", list[str]()
        self.not_before = 0.0  # on the monotonic clock; the server asked for it
        self.asked, self.new = backend.kept()

    async def all(self, done: Callable[[Reply, str, str], None]) -> None:
        async with self.backend.client() as client:
            count = min(self.endpoint.concurrency, self.total)
            await asyncio.gather(*(self.work(client, done) for _ in range(count)))
        if missing := self.total - self.came:
            why = self.over or self.faults[0]
            kept = f"{missing} of {self.total} prompts have no answer"
            again = "what came is kept: run the same command again, without --fresh, to go on with the rest"
            raise UserError(f"endpoint {self.endpoint.name}: {why}; {kept}, {again}")

    async def work(self, client: Any, done: Callable[[Reply, str, str], None]) -> None:
        """Asks one prompt after the other, as long as some wait and nothing speaks against it."""
        while self.waiting and not self.spent():
            request, began = self.waiting.popleft(), time.perf_counter()
            try:
                reply = await self.answer(client, request)
            except NoAnswer as e:
                self.faults.append(f"{request.task_id}: {e}")
                self.in_a_row += 1
                if self.in_a_row >= GIVE_UP:
                    self.over = self.over or str(e)
                continue
            self.came, self.in_a_row = self.came + 1, 0
            if (self.endpoint.budget_tokens or self.endpoint.budget_dollars) and "usage" not in reply.about:
                self.over = self.over or "the server does not tell the tokens used, so no budget can be kept"
            self.asked, self.new = self.asked + reply.prompt_tokens, self.new + len(reply.tokens)
            reply.about["seconds"] = round(time.perf_counter() - began, 3)
            done(reply, reply.raw, reply.finish)

    def spent(self) -> bool:
        """Whether no more requests are sent; a budget that is used up is the reason from here on."""
        tokens, dollars = self.asked + self.new, self.endpoint.dollars(self.asked, self.new)
        budgets = {
            "budget_tokens": (tokens, self.endpoint.budget_tokens, f"{tokens:,} tokens"),
            "budget_dollars": (dollars, self.endpoint.budget_dollars, f"{dollars:,.4f} US dollars"),
        }
        for name, (used, most, words) in budgets.items():
            if most is not None and used >= most:
                self.over = self.over or f"{words} are spent and {name} is {most:g}: raise it"
        return bool(self.over)

    async def answer(self, client: Any, request: Request) -> Reply:
        """One prompt's answer, asked for again after a fault. NoAnswer where that is of no use."""
        for attempt in range(self.endpoint.retries + 1):
            while (wait := self.not_before - time.monotonic()) > 0 and not self.over:
                await asyncio.sleep(min(wait, 1.0))
            if self.over:
                break
            try:
                async with asyncio.timeout(self.endpoint.timeout):
                    return self.backend.read(request, await self.backend.send(client, request, self.sampling))
            # A broken body is a ValueError, an odd one whatever reading it raises.
            except (self.backend.package.APIError, TimeoutError, ValueError, TypeError, AttributeError) as e:
                if refused := _filtered(e):
                    return Reply(request, [], 0, {"refusal": refused, "usage": {}}, "", "end")
                self.judge(e)
                fault = self.words(e)
            if not self.over and attempt < self.endpoint.retries:
                await asyncio.sleep(min(FIRST_WAIT * 2**attempt, LONGEST_WAIT) * random.uniform(1, 1.25))
        raise NoAnswer(self.over or fault)

    def judge(self, error: Exception) -> None:
        """Ends the run where no request can do better, and notes how long the server asks to wait.

        NoAnswer for a request that is wrong in itself.
        """
        status = getattr(error, "status_code", None)
        never = isinstance(error, self.backend.package.APIConnectionError) and not self.came
        if status in HOPELESS or (never and type(error.__cause__).__name__ == "ConnectError"):
            self.over = self.over or self.words(error)
        elif status and status < 500 and status not in AGAIN:
            raise NoAnswer(self.words(error)) from error
        response = getattr(error, "response", None)
        wait = _seconds(response.headers.get("retry-after", "")) if response is not None else 0.0
        if wait > MOST_PATIENCE:
            self.over = self.over or f"the server asks to wait {wait:.0f} seconds"
        self.not_before = max(self.not_before, time.monotonic() + wait)

    def words(self, error: Exception) -> str:
        """An error in a line, without the key."""
        if isinstance(error, TimeoutError):
            return f"no whole answer within {self.endpoint.timeout:g} seconds"
        cause = error.__cause__ if isinstance(error, self.backend.package.APIConnectionError) else None
        text = (
            f"{self.endpoint.base_url}: {type(cause).__name__} {cause}"
            if cause
            else str(error) or type(error).__name__
        )
        return self.backend.clean(" ".join(text.split()))[:300]


def _filtered(error: Exception) -> str:
    """How a provider's filter refused a prompt, "" where it did not."""
    words = ("content_filter", "content_policy_violation")
    refused = getattr(error, "status_code", None) == 400
    return next((word for word in words if refused and word in str(error)), "")


def _seconds(retry_after: str) -> float:
    """The header's seconds, also of a date; 0 for anything else."""
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        return max(0.0, (parsedate_to_datetime(retry_after) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError):
        return 0.0
