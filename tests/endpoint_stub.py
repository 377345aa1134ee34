"""A server of both APIs that answers by rule and fails by plan: python tests/endpoint_stub.py SECONDS

with Stub(["429", "half"]) as stub:    # the first request gets a 429, the second half an answer, others all
    stub.url, stub.seen, stub.answered
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable
from typing import Any

FAULTS = (
    "429",
    "429 later",
    "500",
    "503",
    "hang",
    "half",
    "cut json",
    "html",
    "no choices",
    "reset",
)
HANG = 30.0


def text_of(body: dict[str, Any]) -> str:
    return body["prompt"] if "prompt" in body else body["messages"][-1]["content"]


def openai_answer(body: dict[str, Any], text: str | None, **more: Any) -> dict[str, Any]:
    """An answer of /chat/completions or /completions, with usage by words."""
    usage = {
        "prompt_tokens": len(text_of(body).split()),
        "completion_tokens": len((text or "").split()),
    }
    choice = {"index": 0, "finish_reason": more.pop("finish_reason", "stop")}
    message = {"role": "assistant", "content": text, **more.pop("message", {})}
    choice |= {"text": text} if "prompt" in body else {"message": message}
    about = {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": f"{body['model']}-served",
    }
    return about | {"choices": [choice], "usage": usage, "system_fingerprint": "fp_1"} | more


def anthropic_answer(body: dict[str, Any], text: str, stop: str = "end_turn") -> dict[str, Any]:
    usage = {"input_tokens": len(text_of(body).split()), "output_tokens": len(text.split())}
    content = [{"type": "text", "text": text}] if text else []
    about = {"id": "m", "type": "message", "role": "assistant", "model": f"{body['model']}-served"}
    return about | {"content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}


def solve(body: dict[str, Any]) -> dict[str, Any]:
    """The rule: a fenced function that names the prompt's first words."""
    return openai_answer(body, f"```python\ndef f():\n    return {text_of(body)[:40]!r}\n```")


class Stub:
    """`seen`: (path, headers, body) of every request; `answered`: prompts that got a whole answer.

    After `lives` requests the server dies: it closes its port and every connection.
    """

    def __init__(
        self,
        plan: list[str] | Callable[[int, str], str] = (),
        rule: Callable[[dict[str, Any]], dict[str, Any] | bytes] = solve,
        seconds: float = 0.0,
        lives: int | None = None,
    ) -> None:
        self.plan, self.rule, self.seconds, self.lives = plan, rule, seconds, lives
        self.seen: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.times: list[float] = []
        self.answered: list[str] = []
        self.at_once = self.most_at_once = 0
        self.port = 0

    def __enter__(self) -> Stub:
        self.loop, ready = asyncio.new_event_loop(), threading.Event()

        async def start() -> None:
            self.server = await asyncio.start_server(self.serve, "127.0.0.1", self.port)
            self.port = self.server.sockets[0].getsockname()[1]
            ready.set()

        def run() -> None:
            asyncio.set_event_loop(self.loop)
            self.loop.create_task(start())
            self.loop.run_forever()
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self.loop.run_until_complete(asyncio.sleep(0.01))
            self.loop.close()

        self.writers: set[asyncio.StreamWriter] = set()
        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        assert ready.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self.loop.call_soon_threadsafe(self.die)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def die(self) -> None:
        self.server.close()
        for writer in self.writers:
            writer.transport.abort()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.add(writer)
        try:
            while await self.one(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.writers.discard(writer)
            writer.close()

    async def one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection stays."""
        start = await reader.readexactly(1)
        if start == b"\x16":  # a client that speaks TLS
            return False
        first, *lines = (start + await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines if line)
        }
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))))
        number, prompt = len(self.seen), text_of(body)
        self.seen.append((first.split()[1], headers, body))
        self.times.append(self.loop.time())
        if self.lives is not None and number >= self.lives:
            self.die()
            return False
        planned = self.plan[number] if not callable(self.plan) and number < len(self.plan) else "ok"
        fault = self.plan(number, prompt) if callable(self.plan) else planned
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(HANG if fault == "hang" else self.seconds)
        self.at_once -= 1
        answer = self.rule(body)
        answer = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        kind, status, more = "application/json", "200 OK", ""
        if fault.startswith("4"):
            status = f"{fault[:3]} Refused"
            more = {"later": "Retry-After: 1\r\n", "tomorrow": "Retry-After: 86400\r\n"}.get(
                fault[4:], ""
            )
            answer = json.dumps(
                {"error": {"message": f"{fault} {headers.get('authorization')}"}}
            ).encode()
        elif fault.startswith("5"):
            status, answer, kind = f"{fault} Broken", b"<h1>broken</h1>", "text/html"
        elif fault == "html":
            answer, kind = b"<html>a proxy's page</html>", "text/html"
        elif fault == "no choices":
            answer = b'{"object": "chat.completion", "choices": []}'
        elif fault == "cut json":
            answer = answer[: len(answer) // 2]
        elif fault == "reset":
            writer.transport.abort()
            return False
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\n{more}Content-Length: {len(answer)}\r\n\r\n"
        writer.write(head.encode() + (answer[: len(answer) // 2] if fault == "half" else answer))
        await writer.drain()
        if fault == "half":
            writer.transport.close()
            return False
        if fault == "ok":
            self.answered.append(prompt)
        return True


if __name__ == "__main__":
    with Stub(seconds=float(sys.argv[1])) as started:
        print(started.url, flush=True)
        sys.stdin.read()
