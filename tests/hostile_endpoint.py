"""A server of OpenAI's chat API that gives one kind of hostile response per path.

The path of a scenario is /SCENARIO/v1/chat/completions:

    with HostileEndpoint() as server:
        base_url = server.url("giant")
        ...
        requests = server.seen
"""

from __future__ import annotations

import gzip
import json
import threading
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CODE = "```python\ndef f():\n    pass\n```"
MARKUP = '<script>document.title="x"</script>\x1b[31m\u202e =1+1 {{7*7}} \\input{/etc/passwd}'
USAGE = {"prompt_tokens": 5, "completion_tokens": 5}
MEGABYTE = 2**20
SLOW_LENGTH = 1000


def answer(
    content: object = CODE,
    usage: object = USAGE,
    **more: object,
) -> bytes:
    """Encode a response of /chat/completions.

    Args:
        content: Content of the message.
        usage: Token counts.
        **more: Further top-level fields, which replace the default ones.

    Returns:
        The body of the response.
    """
    message = {"role": "assistant", "content": content}
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": message,
    }
    response = {
        "id": "x",
        "model": "m",
        "choices": [choice],
        "usage": usage,
    }
    response.update(more)
    return json.dumps(response).encode()


def counted(prompt: object, new: object) -> bytes:
    """Encode a response with the given token counts.

    Args:
        prompt: Number of tokens of the prompt.
        new: Number of generated tokens.

    Returns:
        The body of the response.
    """
    usage = {"prompt_tokens": prompt, "completion_tokens": new}
    return answer(usage=usage)


def bomb(rounds: int = 1) -> bytes:
    """Compress a response that 300 MB of blanks precede.

    Args:
        rounds: How many times the response is compressed.

    Returns:
        The gzip-compressed body.
    """
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    blanks = b" " * MEGABYTE
    packed = b""
    for _ in range(300):
        packed += packer.compress(blanks)
    packed += packer.compress(answer())
    packed += packer.flush()
    for _ in range(rounds - 1):
        packed = gzip.compress(packed, 1)
    return packed


def nested(depth: int) -> bytes:
    """Encode an empty JSON list within lists.

    Args:
        depth: Number of lists.

    Returns:
        The JSON text.
    """
    return b"[" * depth + b"]" * depth


def redirect(status: int, location: str) -> dict[str, object]:
    """Describe a redirecting response.

    Args:
        status: HTTP status.
        location: Where the client is sent.

    Returns:
        Status and headers.
    """
    return {
        "status": status,
        "headers": {"Location": location},
    }


def too_many_requests(retry_after: str) -> dict[str, object]:
    """Describe a response with status 429.

    Args:
        retry_after: Value of the Retry-After header.

    Returns:
        Status, body and headers.
    """
    return {
        "status": 429,
        "body": b"{}",
        "headers": {"Retry-After": retry_after},
    }


REST_OF_ANSWER = answer()[1:]
NESTED_FIELD = b'{"id": "x", "z": ' + nested(900) + b"," + REST_OF_ANSWER
WIDE = b'{"choices": [' + b"[]," * 10**7 + b"[]]}"
GIANT = 60 * MEGABYTE
COMPRESSED = gzip.compress(answer())
GZIP = {"headers": {"Content-Encoding": "gzip"}}

# Path -> response. A missing status is 200, a missing body is an answer, missing headers are none.
SCENARIOS: dict[str, dict[str, object]] = {
    "ok": {},
    "markup": {"body": answer(MARKUP, model=MARKUP, id=MARKUP)},
    "other_port": redirect(307, "http://127.0.0.1:9/v1/x"),
    "other_host": redirect(308, "http://localhost/ok/v1/x"),
    "file": redirect(302, "file:///etc/passwd"),
    "no_address": redirect(302, "http://[::1/v1"),
    "circle": redirect(307, "/circle/v1/chat/completions"),
    "within": redirect(307, "/ok/v1/chat/completions"),
    "tokens_large": {"body": counted(5, 300_000_000)},
    "tokens_huge": {"body": counted(5, 10**15)},
    "tokens_endless": {"body": counted(5, 10**25)},
    "tokens_negative": {"body": counted(-(10**9), -5)},
    "nested": {"body": nested(200_000)},
    "nested_field": {"body": NESTED_FIELD},
    "wide": {"body": WIDE},
    "list": {"body": b"[]"},
    "null": {"body": b"null"},
    "html": {"body": b"<html>hi</html>"},
    "latin": {"body": b"\xff\xfe\x00"},
    "empty": {"body": b""},
    "no_content": {"status": 204, "body": b""},
    "parts": {"body": answer([{"type": "text", "text": CODE}])},
    "number": {"body": answer(7)},
    "surrogate": {"body": answer('def f():\n    return "\x00"\n\ud800')},
    "giant": {"body": answer("x" * GIANT)},
    "giant_error": {"status": 400, "body": b"x" * GIANT},
    "gzip": {"body": COMPRESSED, **GZIP},
    "gzip_broken": {"body": COMPRESSED[:-20], **GZIP},
    "gzip_not": GZIP,
    "unknown_encoding": {"headers": {"Content-Encoding": "rot13"}},
    "unknown_charset": {"status": 500, "headers": {"Content-Type": "text/html; charset=rot13"}},
    "cookie": {"headers": {"Set-Cookie": "a=b; expires=Wed, 21 Oct 999999 07:28:00 GMT"}},
    "retry_infinite": too_many_requests("1e999"),
    "retry_digits": too_many_requests("9" * 400),
    "retry_day": too_many_requests("Thu, 99 Foo 99999999999 00:00:00 GMT"),
    "retry_arabic": too_many_requests("\u0661".encode().decode("latin1")),
    "retry_year": too_many_requests("Wed, 21 Oct 999999 07:28:00 GMT"),
    "retry_negative": too_many_requests("-5"),
    "missing": {"status": 404, "body": b"{}"},
    "status_600": {"status": 600, "body": b"{}"},
    "abort": {"body": answer().replace(b'"stop"', b'"abort"')},
    "slow": {},  # sends one byte every 0.2 seconds
}
# Scenarios with a compressed body -> number of compressions.
BOMBS = {"bomb": 1, "bomb_in_bomb": 2}


class HostileEndpoint:
    """Serve all scenarios from this process.

    Attributes:
        seen: (path, Authorization header) of every request.
        bodies: Response body by scenario with a compressed body.
    """

    def __enter__(self) -> HostileEndpoint:
        self.seen: list[tuple[str, str]] = []
        self.bodies = {name: bomb(rounds) for name, rounds in BOMBS.items()}
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                length = self.headers.get("Content-Length")
                self.rfile.read(int(length or 0))
                authorization = self.headers.get("Authorization", "")
                endpoint.seen.append((self.path, authorization))
                scenario = self.path.split("/")[1]
                try:
                    endpoint.respond(self, scenario)
                except OSError:  # the client closed the connection
                    self.close_connection = True

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        thread = threading.Thread(
            target=self.server.serve_forever,
            daemon=True,
        )
        thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def url(self, scenario: str) -> str:
        """Return the base URL of a scenario.

        Args:
            scenario: Name of the scenario.

        Returns:
            The base URL for a client of the API.
        """
        port = self.server.server_port
        return f"http://127.0.0.1:{port}/{scenario}/v1"

    def respond(self, handler: BaseHTTPRequestHandler, name: str) -> None:
        """Send the response of a scenario.

        Args:
            handler: Handler of the request.
            name: Name of the scenario; an unknown name gets a harmless answer.
        """
        scenario = SCENARIOS.get(name, {})
        status = scenario.get("status", 200)
        body = scenario.get("body", answer())
        headers = {"Content-Type": "application/json"}
        headers.update(scenario.get("headers", {}))
        if name in BOMBS:
            body = self.bodies[name]
            encodings = ["gzip"] * BOMBS[name]
            headers["Content-Encoding"] = ", ".join(encodings)
        length = len(body)
        parts: Iterator[bytes] = iter([body])
        if name == "slow":
            length = SLOW_LENGTH
            parts = self.drip()

        handler.send_response(status)
        for header, value in headers.items():
            handler.send_header(header, value)
        handler.send_header("Content-Length", str(length))
        handler.end_headers()
        for part in parts:
            handler.wfile.write(part)
            handler.wfile.flush()

    def drip(self) -> Iterator[bytes]:
        """Yield the body of the slow response byte by byte.

        Yields:
            A blank every 0.2 seconds.
        """
        for _ in range(SLOW_LENGTH):
            time.sleep(0.2)
            yield b" "
