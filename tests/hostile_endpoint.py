"""A server of OpenAI's chat API with one kind of hostile response for each path: /SCENARIO/v1/chat/completions.

with HostileEndpoint() as server:
    server.url("giant"), server.seen
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


def answer(content: object = CODE, usage: object = USAGE, **more: object) -> bytes:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": content},
    }
    return json.dumps(
        {"id": "x", "model": "m", "choices": [choice], "usage": usage} | more
    ).encode()


def counted(prompt: object, new: object) -> bytes:
    return answer(usage={"prompt_tokens": prompt, "completion_tokens": new})


def bomb(rounds: int = 1) -> bytes:
    """300 MB of blanks in an answer, packed, and packed again for each further round."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    blanks = b" " * 2**20
    packed = b"".join([*(packer.compress(blanks) for _ in range(300)), packer.compress(answer())])
    packed += packer.flush()
    for _ in range(rounds - 1):
        packed = gzip.compress(packed, 1)
    return packed


NESTED = b'{"id": "x", "z": ' + b"[" * 900 + b"]" * 900 + b"," + answer()[1:]
NUMBER = (
    b'{"usage": {"prompt_tokens": %s, "completion_tokens": 5},' + answer(usage=None)[1:-15] + b"}"
)
TOO_MANY = {"status": 429, "body": b"{}"}

# Path -> status, body and headers; 200, an answer and none where a field is missing.
SCENARIOS: dict[str, dict[str, object]] = {
    "ok": {},
    "markup": {"body": answer(MARKUP, model=MARKUP, id=MARKUP)},
    "other_port": {"status": 307, "headers": {"Location": "http://127.0.0.1:9/v1/x"}},
    "other_host": {"status": 308, "headers": {"Location": "http://localhost/ok/v1/x"}},
    "file": {"status": 302, "headers": {"Location": "file:///etc/passwd"}},
    "no_address": {"status": 302, "headers": {"Location": "http://[::1/v1"}},
    "circle": {"status": 307, "headers": {"Location": "/circle/v1/chat/completions"}},
    "within": {"status": 307, "headers": {"Location": "/ok/v1/chat/completions"}},
    "tokens_large": {"body": counted(5, 300_000_000)},
    "tokens_huge": {"body": counted(5, 10**15)},
    "tokens_endless": {"body": counted(5, 10**25)},
    "tokens_negative": {"body": counted(-(10**9), -5)},
    "nested": {"body": b"[" * 200_000 + b"]" * 200_000},
    "nested_field": {"body": NESTED},
    "wide": {"body": b'{"choices": [' + b"[]," * 10**7 + b"[]]}"},
    "list": {"body": b"[]"},
    "null": {"body": b"null"},
    "html": {"body": b"<html>hi</html>"},
    "latin": {"body": b"\xff\xfe\x00"},
    "empty": {"body": b""},
    "no_content": {"status": 204, "body": b""},
    "parts": {"body": answer([{"type": "text", "text": CODE}])},
    "number": {"body": answer(7)},
    "surrogate": {"body": answer('def f():\n    return "\x00"\n\ud800')},
    "giant": {"body": answer("x" * (60 << 20))},
    "giant_error": {"status": 400, "body": b"x" * (60 << 20)},
    "gzip": {"body": gzip.compress(answer()), "headers": {"Content-Encoding": "gzip"}},
    "gzip_broken": {"body": gzip.compress(answer())[:-20], "headers": {"Content-Encoding": "gzip"}},
    "gzip_not": {"headers": {"Content-Encoding": "gzip"}},
    "unknown_encoding": {"headers": {"Content-Encoding": "rot13"}},
    "unknown_charset": {"status": 500, "headers": {"Content-Type": "text/html; charset=rot13"}},
    "cookie": {"headers": {"Set-Cookie": "a=b; expires=Wed, 21 Oct 999999 07:28:00 GMT"}},
    "retry_infinite": TOO_MANY | {"headers": {"Retry-After": "1e999"}},
    "retry_digits": TOO_MANY | {"headers": {"Retry-After": "9" * 400}},
    "retry_day": TOO_MANY | {"headers": {"Retry-After": "Thu, 99 Foo 99999999999 00:00:00 GMT"}},
    "retry_arabic": TOO_MANY | {"headers": {"Retry-After": "\u0661".encode().decode("latin1")}},
    "retry_year": TOO_MANY | {"headers": {"Retry-After": "Wed, 21 Oct 999999 07:28:00 GMT"}},
    "retry_negative": TOO_MANY | {"headers": {"Retry-After": "-5"}},
    "missing": {"status": 404, "body": b"{}"},
    "status_600": {"status": 600, "body": b"{}"},
    "abort": {"body": answer().replace(b'"stop"', b'"abort"')},
    "slow": {},  # a byte every 0.2 seconds
}
BOMBS = ("bomb", "bomb_in_bomb")


class HostileEndpoint:
    """Serves the scenarios from this process; `seen` holds (path, Authorization) of every request."""

    def __enter__(self) -> HostileEndpoint:
        self.seen: list[tuple[str, str]] = []
        self.bodies = {"bomb": bomb(), "bomb_in_bomb": bomb(2)}
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                self.do_POST()

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outer.seen.append((self.path, self.headers.get("Authorization", "")))
                try:
                    outer.respond(self, self.path.split("/")[1])
                except OSError:  # the client has had enough
                    self.close_connection = True

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def url(self, scenario: str) -> str:
        return f"http://127.0.0.1:{self.server.server_port}/{scenario}/v1"

    def respond(self, handler: BaseHTTPRequestHandler, name: str) -> None:
        """Sends the scenario's response."""
        about = SCENARIOS.get(name, {})
        body = about.get("body", answer())
        headers = {"Content-Type": "application/json"} | dict(about.get("headers", {}))
        if name in BOMBS:
            body = self.bodies[name]
            headers["Content-Encoding"] = ", ".join(["gzip"] * (1 + BOMBS.index(name)))
        handler.send_response(about.get("status", 200))
        for header, value in headers.items():
            handler.send_header(header, value)
        handler.send_header("Content-Length", str(1000 if name == "slow" else len(body)))
        handler.end_headers()
        for part in self.drip() if name == "slow" else [body]:
            handler.wfile.write(part)
            handler.wfile.flush()

    def drip(self) -> Iterator[bytes]:
        for _ in range(1000):
            time.sleep(0.2)
            yield b" "
