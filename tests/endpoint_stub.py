"""A server of OpenAI's and Anthropic's APIs that answers by a rule and fails by a plan.

    with Stub(["429", "half"]) as stub:
        ...
        stub.url, stub.seen, stub.answered

Here the first request gets a 429, the second gets half an answer, and later requests get a whole one.

Usage as a program: python tests/endpoint_stub.py SECONDS

Prints the base URL and answers every request after SECONDS, until its standard input is closed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

HANG = 30.0  # seconds
TLS_HANDSHAKE = b"\x16"
# Value of Retry-After for the faults "429 later" and "429 tomorrow".
RETRY_AFTER = {"later": 1, "tomorrow": 86400}


def text_of(body: dict[str, Any]) -> str:
    """Return the prompt of a request.

    Args:
        body: Body of a request to any of the APIs.

    Returns:
        The prompt, or the last message of a chat.
    """
    if "prompt" in body:
        return body["prompt"]
    return body["messages"][-1]["content"]


def _count(text: str | None) -> int:
    """Count words, which the stub reports as tokens."""
    return len((text or "").split())


def openai_answer(
    body: dict[str, Any],
    text: str | None,
    **more: Any,
) -> dict[str, Any]:
    """Make a response of /chat/completions or /completions.

    Args:
        body: Body of the request.
        text: The answer.
        **more: `finish_reason` of the answer, further fields of its `message`, and further top-level
            fields, which replace the default ones.

    Returns:
        The body of the response.
    """
    choice = {
        "index": 0,
        "finish_reason": more.pop("finish_reason", "stop"),
    }
    message = {"role": "assistant", "content": text}
    message.update(more.pop("message", {}))
    if "prompt" in body:
        choice["text"] = text
    else:
        choice["message"] = message
    response = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": f"{body['model']}-served",
        "choices": [choice],
        "usage": {
            "prompt_tokens": _count(text_of(body)),
            "completion_tokens": _count(text),
        },
        "system_fingerprint": "fp_1",
    }
    response.update(more)
    return response


def anthropic_answer(
    body: dict[str, Any],
    text: str,
    stop: str = "end_turn",
) -> dict[str, Any]:
    """Make a response of Anthropic's /messages.

    Args:
        body: Body of the request.
        text: The answer.
        stop: The stop reason.

    Returns:
        The body of the response.
    """
    content = []
    if text:
        content.append({"type": "text", "text": text})
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": f"{body['model']}-served",
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": {
            "input_tokens": _count(text_of(body)),
            "output_tokens": _count(text),
        },
    }


def solve(body: dict[str, Any]) -> dict[str, Any]:
    """Answer with a fenced function that returns the start of the prompt.

    Args:
        body: Body of the request.

    Returns:
        The body of the response.
    """
    start = text_of(body)[:40]
    code = f"def f():\n    return {start!r}"
    return openai_answer(body, f"```python\n{code}\n```")


@dataclass
class _Response:
    """A response as it is sent; `cut` means that the connection closes after half of its body."""

    content: bytes
    content_type: str = "application/json"
    status: str = "200 OK"
    headers: str = ""
    cut: bool = False

    def encode(self) -> bytes:
        length = len(self.content)
        content = self.content
        if self.cut:
            content = content[: length // 2]
        head = (
            f"HTTP/1.1 {self.status}\r\n"
            f"Content-Type: {self.content_type}\r\n"
            f"{self.headers}"
            f"Content-Length: {length}\r\n"
            "\r\n"
        )
        return head.encode() + content


def _response_of(fault: str, answer: bytes, authorization: str | None) -> _Response:
    """Make the response of a fault.

    Args:
        fault: "ok", or what goes wrong.
        answer: The answer without a fault.
        authorization: The Authorization header of the request, which refusals quote.

    Returns:
        The response.
    """
    if fault.startswith("4"):
        error = {"message": f"{fault} {authorization}"}
        response = _Response(json.dumps({"error": error}).encode())
        response.status = f"{fault[:3]} Refused"
        seconds = RETRY_AFTER.get(fault[4:])
        if seconds is not None:
            response.headers = f"Retry-After: {seconds}\r\n"
        return response
    if fault.startswith("5"):
        return _Response(b"<h1>broken</h1>", "text/html", f"{fault} Broken")
    if fault == "html":
        return _Response(b"<html>a proxy's page</html>", "text/html")
    if fault == "no choices":
        return _Response(b'{"object": "chat.completion", "choices": []}')
    if fault == "cut json":
        return _Response(answer[: len(answer) // 2])
    return _Response(answer, cut=fault == "half")


class Stub:
    """Serve the APIs from this process.

    Faults are "4..", optionally followed by "later" or "tomorrow", "5..", "hang", "half", "cut json",
    "html", "no choices" and "reset".

    Args:
        plan: The fault of each request, or a function from number and prompt to a fault. Requests
            beyond the plan get an answer.
        rule: Maps the body of a request to the body of the response.
        seconds: Time until a response.
        lives: Number of requests after which the server dies: it closes its port and every
            connection. It never dies if not given.

    Attributes:
        seen: (path, headers, body) of every request.
        times: When each request arrived, in seconds.
        answered: Prompts that got a whole answer.
        most_at_once: Largest number of requests at the same time.
    """

    def __init__(
        self,
        plan: list[str] | Callable[[int, str], str] = (),
        rule: Callable[[dict[str, Any]], dict[str, Any] | bytes] = solve,
        seconds: float = 0.0,
        lives: int | None = None,
    ) -> None:
        self.plan = plan
        self.rule = rule
        self.seconds = seconds
        self.lives = lives
        self.seen: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.times: list[float] = []
        self.answered: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self.port = 0
        self.writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Stub:
        self.loop = asyncio.new_event_loop()
        self.ready = threading.Event()
        self.writers.clear()
        self.thread = threading.Thread(
            target=self.run,
            daemon=True,
        )
        self.thread.start()
        assert self.ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.die)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)

    @property
    def url(self) -> str:
        """The base URL for a client of the API."""
        return f"http://127.0.0.1:{self.port}/v1"

    def run(self) -> None:
        """Serve until the event loop is stopped."""
        asyncio.set_event_loop(self.loop)
        self.loop.create_task(self.start())
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0.01))
        self.loop.close()

    async def start(self) -> None:
        """Open the port; a second start opens the same one."""
        self.server = await asyncio.start_server(
            self.serve,
            "127.0.0.1",
            self.port,
        )
        address = self.server.sockets[0].getsockname()
        self.port = address[1]
        self.ready.set()

    def die(self) -> None:
        """Close the port and every connection."""
        self.server.close()
        for writer in self.writers:
            writer.transport.abort()

    async def serve(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Serve the requests of one connection.

        Args:
            reader: Receives from the client.
            writer: Sends to the client.
        """
        self.writers.add(writer)
        try:
            while await self.one(reader, writer):
                pass
        except (
            asyncio.IncompleteReadError,
            ConnectionError,
            asyncio.CancelledError,
        ):
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    async def one(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Serve one request.

        Args:
            reader: Receives from the client.
            writer: Sends to the client.

        Returns:
            Whether the connection stays open.
        """
        start = await reader.readexactly(1)
        if start == TLS_HANDSHAKE:
            return False
        head = start + await reader.readuntil(b"\r\n\r\n")
        path, headers = _parse_head(head.decode())
        length = int(headers.get("content-length", 0))
        body = json.loads(await reader.readexactly(length))
        number = len(self.seen)
        prompt = text_of(body)
        self.seen.append((path, headers, body))
        self.times.append(self.loop.time())
        if self.lives is not None and number >= self.lives:
            self.die()
            return False
        fault = self.fault_of(number, prompt)
        await self.wait(fault)
        answer = self.rule(body)
        if not isinstance(answer, bytes):
            answer = json.dumps(answer).encode()
        if fault == "reset":
            writer.transport.abort()
            return False
        response = _response_of(fault, answer, headers.get("authorization"))
        writer.write(response.encode())
        await writer.drain()
        if response.cut:
            writer.transport.close()
            return False
        if fault == "ok":
            self.answered.append(prompt)
        return True

    def fault_of(self, number: int, prompt: str) -> str:
        """Look up the planned fault of a request.

        Args:
            number: Number of the request, from 0.
            prompt: Its prompt.

        Returns:
            The fault, or "ok".
        """
        if callable(self.plan):
            return self.plan(number, prompt)
        if number < len(self.plan):
            return self.plan[number]
        return "ok"

    async def wait(self, fault: str) -> None:
        """Wait before a response, and count the requests that wait at the same time.

        Args:
            fault: The fault of the request.
        """
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        seconds = HANG if fault == "hang" else self.seconds
        await asyncio.sleep(seconds)
        self.at_once -= 1


def _parse_head(head: str) -> tuple[str, dict[str, str]]:
    """Return the path and the headers of a request; names of headers are in lower case."""
    first, *lines = head.split("\r\n")
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        if line:
            headers[name.lower()] = value.strip()
    path = first.split()[1]
    return path, headers


if __name__ == "__main__":
    with Stub(seconds=float(sys.argv[1])) as started:
        print(started.url, flush=True)
        sys.stdin.read()
