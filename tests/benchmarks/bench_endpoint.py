"""Requests a second of the endpoint client against bare httpx, before a stub that answers after 100 ms.

    python tests/benchmarks/bench_endpoint.py [--requests 200] [--concurrency 32] [--seconds 0.1] [--repeat 3]

Both send the same requests, at most so many at once, one after the other in pairs; the fastest of each counts.
The stub is a process of its own. `least_s` is what the stub's waiting alone takes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]

import httpx

from benchmarks.clock import rounded, timed
from pkg_lib.core.endpoints import Endpoint
from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.core.types import Request
from pkg_lib.generation.prompts import turns
from pkg_lib.generation.remote import RemoteBackend

STUB = Path(__file__).resolve().parents[1] / "endpoint_stub.py"
GOAL = 1.2  # seconds for the defaults


@contextmanager
def stub(seconds: float) -> Any:
    """The URL of a stub in a process of its own."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, str(STUB), str(seconds)], **pipes)
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(10)


async def bare(url: str, requests: list[Request], concurrency: int) -> list[str]:
    """The same requests through httpx alone."""
    free = asyncio.Semaphore(concurrency)
    async with httpx.AsyncClient(
        timeout=60, limits=httpx.Limits(max_connections=concurrency)
    ) as client:

        async def one(request: Request) -> str:
            body = {
                "model": "m",
                "messages": turns(request.text),
                "temperature": 0,
                "max_tokens": 512,
            }
            async with free:
                answer = await client.post(f"{url}/chat/completions", json=body)
            return answer.json()["choices"][0]["message"]["content"]

        return await asyncio.gather(*map(one, requests))


def measure(count: int, concurrency: int, seconds: float, repeat: int) -> dict[str, Any]:
    requests = [Request(str(n), f"prompt {n} " + "x = 1\n" * 60, "f") for n in range(count)]
    ours, peer, same = [], [], True
    with stub(seconds) as url:
        backend = RemoteBackend(
            Endpoint("stub", url, "m", concurrency=concurrency), True, 512, lambda: (0, 0)
        )
        for _ in range(repeat):
            answers: dict[str, str] = {}

            def done(row: Any, raw: str, _: str, answers: dict[str, str] = answers) -> None:
                answers[row.request.task_id] = raw

            wall, processor, _ = timed(lambda done=done: backend.generate(requests, done))
            ours.append((wall, processor))
            wall, processor, texts = timed(lambda: asyncio.run(bare(url, requests, concurrency)))
            peer.append((wall, processor))
            same &= [answers[r.task_id] for r in requests] == texts
    best, least = min(ours), math.ceil(count / concurrency) * seconds
    figures = {
        "ours_s": best[0],
        "httpx_s": min(peer)[0],
        "ratio": best[0] / min(peer)[0],
        "least_s": least,
    }
    figures |= {"ours_cpu_s": best[1], "httpx_cpu_s": min(peer)[1], "first_ours_s": ours[0][0]}
    about = {
        "requests": count,
        "concurrency": concurrency,
        "stub_seconds": seconds,
        "same_answers": same,
    }
    load = round(os.getloadavg()[0], 2)
    return (
        about
        | rounded(figures, 3)
        | {"processors": os.cpu_count(), "load": load, "versions": versions()}
    )


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="the endpoint client beside bare httpx")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(words)
    figures = measure(options.requests, options.concurrency, options.seconds, options.repeat)
    print(json.dumps(figures, indent=1))
    write_json(options.output or results_dir() / "benchmarks" / "endpoint.json", figures)
    return 0 if figures["same_answers"] and figures["ours_s"] < GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
