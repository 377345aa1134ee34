"""Compare the endpoint client with bare httpx, in the time that a batch of requests takes.

    python tests/benchmarks/bench_endpoint.py [--requests 200] [--concurrency 32] [--seconds 0.1] [--repeat 3]

Both clients send the same requests to a stub that answers after --seconds, at most --concurrency at once. The
stub runs in a separate process. The clients alternate, and the fastest repetition of each counts. `least_s` is
the time that the stub's delays alone take.
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
    TESTS = Path(__file__).resolve().parents[1]
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]

import httpx

from benchmarks.clock import rounded, timed
from pkg_lib.core.endpoints import Endpoint
from pkg_lib.core.store import results_dir, versions, write_json
from pkg_lib.core.types import Request
from pkg_lib.generation.prompts import turns
from pkg_lib.generation.remote import RemoteBackend

STUB = Path(__file__).resolve().parents[1] / "endpoint_stub.py"
GOAL = 1.2  # seconds, with the default arguments
MAX_TOKENS = 512


@contextmanager
def stub(seconds: float) -> Any:
    """Start the stub server in a separate process.

    Args:
        seconds: Delay of each answer.

    Yields:
        The URL of the stub.
    """
    process = subprocess.Popen(
        [sys.executable, str(STUB), str(seconds)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(10)


async def send_with_httpx(
    url: str,
    requests: list[Request],
    concurrency: int,
) -> list[str]:
    """Send requests with httpx alone.

    Args:
        url: URL of the server.
        requests: The requests.
        concurrency: Greatest number of requests at once.

    Returns:
        The text of each answer.
    """
    free = asyncio.Semaphore(concurrency)
    limits = httpx.Limits(max_connections=concurrency)
    async with httpx.AsyncClient(timeout=60, limits=limits) as client:

        async def send(request: Request) -> str:
            body = {
                "model": "m",
                "messages": turns(request.text),
                "temperature": 0,
                "max_tokens": MAX_TOKENS,
            }
            async with free:
                answer = await client.post(f"{url}/chat/completions", json=body)
            return answer.json()["choices"][0]["message"]["content"]

        return await asyncio.gather(*map(send, requests))


def send_with_client(
    backend: RemoteBackend,
    requests: list[Request],
) -> dict[str, str]:
    """Send requests with the endpoint client.

    Args:
        backend: The client.
        requests: The requests.

    Returns:
        The text of each answer by task id.
    """
    answers: dict[str, str] = {}

    def done(row: Any, raw: str, _finish: str) -> None:
        answers[row.request.task_id] = raw

    backend.generate(requests, done)
    return answers


def measure(
    count: int,
    concurrency: int,
    seconds: float,
    repeat: int,
) -> dict[str, Any]:
    """Measure both clients on the same requests.

    Args:
        count: Number of requests.
        concurrency: Greatest number of requests at once.
        seconds: Delay of each answer.
        repeat: Number of repetitions.

    Returns:
        The seconds of both clients, whether their answers are equal, and the state of the machine.
    """
    requests = []
    for number in range(count):
        text = f"prompt {number} " + "x = 1\n" * 60
        requests.append(Request(str(number), text, "f"))
    ours = []  # (wall seconds, processor seconds) of each repetition
    peer = []
    same = True
    with stub(seconds) as url:
        endpoint = Endpoint("stub", url, "m", concurrency=concurrency)
        backend = RemoteBackend(endpoint, True, MAX_TOKENS, lambda: (0, 0))
        for _ in range(repeat):
            wall_s, cpu_s, answers = timed(lambda: send_with_client(backend, requests))
            ours.append((wall_s, cpu_s))
            wall_s, cpu_s, texts = timed(
                lambda: asyncio.run(send_with_httpx(url, requests, concurrency))
            )
            peer.append((wall_s, cpu_s))
            same &= [answers[request.task_id] for request in requests] == texts
    ours_s, ours_cpu_s = min(ours)
    httpx_s, httpx_cpu_s = min(peer)
    figures = {
        "ours_s": ours_s,
        "httpx_s": httpx_s,
        "ratio": ours_s / httpx_s,
        "least_s": math.ceil(count / concurrency) * seconds,
        "ours_cpu_s": ours_cpu_s,
        "httpx_cpu_s": httpx_cpu_s,
        "first_ours_s": ours[0][0],
    }
    return {
        "requests": count,
        "concurrency": concurrency,
        "stub_seconds": seconds,
        "same_answers": same,
        **rounded(figures, 3),
        "processors": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "versions": versions(),
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark from the command line.

    Args:
        arguments: Command-line arguments; by default those of the process.

    Returns:
        The exit status: 0 if the answers are equal and the time meets the goal, else 1.
    """
    parser = argparse.ArgumentParser(description="the endpoint client beside bare httpx")
    parser.add_argument("--requests", type=int, default=200)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    figures = measure(options.requests, options.concurrency, options.seconds, options.repeat)
    print(json.dumps(figures, indent=1))
    output = options.output or results_dir() / "benchmarks" / "endpoint.json"
    write_json(output, figures)
    fast = figures["ours_s"] < GOAL
    return 0 if figures["same_answers"] and fast else 1


if __name__ == "__main__":
    sys.exit(main())
