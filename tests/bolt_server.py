"""A real graph database for the tests: ArcadeDB with its Bolt plugin, in a process of its own on the loopback."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

USER, PASSWORD = "root", "a-password-of-the-tests"
HTTP_PORTS: dict[str, int] = {}  # of the servers by their addresses


def skip_without() -> None:
    """Skips where the extras are not installed."""
    for package in ("neo4j", "arcadedb_embedded"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install '.[graphdb,graphdb-tests]'")


def free_port() -> int:
    with closing(socket.socket()) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextmanager
def server(folder: Path, heap: str = "1g") -> Iterator[str]:
    """Its address; the user and the password stand in the environment meanwhile."""
    package = Path(find_spec("arcadedb_embedded").submodule_search_locations[0])
    port, http_port, opens = (
        free_port(),
        free_port(),
        ("java.base/java.nio", "java.base/sun.nio.ch"),
    )
    settings = {
        "server.rootPath": folder,
        "server.rootPassword": PASSWORD,
        "server.defaultDatabases": "pkg[]",
        "server.httpIncomingHost": "127.0.0.1",
        "server.httpIncomingPort": http_port,
        "server.plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
        "bolt.host": "127.0.0.1",
        "bolt.port": port,
    }
    words = [str(package / "jre" / "bin" / "java"), f"-Xmx{heap}"]
    words += [word for module in opens for word in ("--add-opens", f"{module}=ALL-UNNAMED")]
    words += [f"-Darcadedb.{name}={value}" for name, value in settings.items()]
    words += ["-cp", str(package / "jars" / "*"), "com.arcadedb.server.ArcadeDBServer"]
    log = folder / "log.txt"
    before = {name: os.environ.get(name) for name in ("PKG_BOLT_USER", "PKG_BOLT_PASSWORD")}
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, cwd=folder)
    try:
        while "ArcadeDB Server started" not in log.read_text("utf8", "replace"):
            assert process.poll() is None, log.read_text("utf8", "replace")
            time.sleep(0.2)
        os.environ |= {"PKG_BOLT_USER": USER, "PKG_BOLT_PASSWORD": PASSWORD}
        place = f"bolt://127.0.0.1:{port}"
        HTTP_PORTS[place] = http_port
        yield place
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})
        process.kill()
        process.wait()


def sql(place: str, command: str) -> None:
    """Runs a statement of ArcadeDB's own SQL, which has no way over Bolt."""
    address = f"http://127.0.0.1:{HTTP_PORTS[place]}/api/v1/command/pkg"
    credentials = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    headers = {"Authorization": f"Basic {credentials}", "Content-Type": "application/json"}
    body = json.dumps({"language": "sql", "command": command}).encode()
    urllib.request.urlopen(urllib.request.Request(address, body, headers), timeout=120).close()


def create_vector_index(place: str, label: str, dimensions: int) -> None:
    """A vector index as docs/graph_databases.md says: the name is fixed, `label[vector]`."""
    sql(place, f"CREATE PROPERTY {label}.vector IF NOT EXISTS ARRAY_OF_FLOATS")
    about = f"{{dimensions: {dimensions}, similarity: 'COSINE'}}"
    sql(place, f"CREATE INDEX IF NOT EXISTS ON {label} (vector) LSM_VECTOR METADATA {about}")


@contextmanager
def cut_after(place: str, count: int) -> Iterator[tuple[str, list[int]]]:
    """The same server behind a proxy that lets `count` bytes through to it, then nobody; and what is left of them."""
    target, left = ("127.0.0.1", int(place.rpartition(":")[2])), [count]

    def pump(source: socket.socket, sink: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while (data := source.recv(65536)) and (not counted or left[0] > 0):
                left[0] -= len(data) * counted
                sink.sendall(data)
        for side in (source, sink):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                if left[0] <= 0:
                    client.close()
                    continue
                behind = socket.create_connection(target)
                for pair in ((client, behind, True), (behind, client, False)):
                    threading.Thread(target=pump, args=pair, daemon=True).start()

    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"bolt://127.0.0.1:{listener.getsockname()[1]}", left
