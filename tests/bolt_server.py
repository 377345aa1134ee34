"""A real graph database for the tests.

ArcadeDB runs with its Bolt plugin in a separate process and listens on the loopback interface only.
"""

from __future__ import annotations

import base64
import json
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

USER = "root"
PASSWORD = "a-password-of-the-tests"
CREDENTIALS = {"PKG_BOLT_USER": USER, "PKG_BOLT_PASSWORD": PASSWORD}
# Modules of Java whose internals ArcadeDB accesses.
OPENED_MODULES = ("java.base/java.nio", "java.base/sun.nio.ch")
# Bolt address of each server -> port of its HTTP interface.
HTTP_PORTS: dict[str, int] = {}


def skip_without() -> None:
    """Skip the calling test unless the database driver and the database are installed."""
    for package in ("neo4j", "arcadedb_embedded"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install '.[graphdb,graphdb-tests]'")


def free_port() -> int:
    """Find a free TCP port.

    Returns:
        A port on which no process listens.
    """
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def server(folder: Path, heap: str = "1g") -> Iterator[str]:
    """Run a database server; the environment holds its credentials meanwhile.

    Args:
        folder: Directory for the database and the server's log.
        heap: Maximum size of the Java heap.

    Yields:
        The Bolt address of the server.
    """
    port = free_port()
    http_port = free_port()
    address = f"bolt://127.0.0.1:{port}"
    log = folder / "log.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            _server_command(folder, heap, port, http_port),
            stdout=output,
            stderr=output,
            cwd=folder,
        )
    try:
        _wait_until_started(process, log)
        HTTP_PORTS[address] = http_port
        with pytest.MonkeyPatch.context() as patch:
            for name, value in CREDENTIALS.items():
                patch.setenv(name, value)
            yield address
    finally:
        process.kill()
        process.wait()


def _server_command(folder: Path, heap: str, port: int, http_port: int) -> list[str]:
    package = Path(find_spec("arcadedb_embedded").submodule_search_locations[0])
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
    command = [str(package / "jre" / "bin" / "java"), f"-Xmx{heap}"]
    for module in OPENED_MODULES:
        command += ["--add-opens", f"{module}=ALL-UNNAMED"]
    for name, value in settings.items():
        command.append(f"-Darcadedb.{name}={value}")
    class_path = str(package / "jars" / "*")
    return [*command, "-cp", class_path, "com.arcadedb.server.ArcadeDBServer"]


def _wait_until_started(process: subprocess.Popen, log: Path) -> None:
    while "ArcadeDB Server started" not in log.read_text("utf8", "replace"):
        assert process.poll() is None, log.read_text("utf8", "replace")
        time.sleep(0.2)


def sql(place: str, command: str) -> None:
    """Execute a statement in ArcadeDB's SQL dialect, which Bolt does not carry.

    Args:
        place: Bolt address of the server.
        command: The statement.
    """
    credentials = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{HTTP_PORTS[place]}/api/v1/command/pkg",
        data=json.dumps({"language": "sql", "command": command}).encode(),
        headers={
            "Authorization": f"Basic {credentials}",
            "Content-Type": "application/json",
        },
    )
    urllib.request.urlopen(request, timeout=120).close()


def create_vector_index(place: str, label: str, dimensions: int) -> None:
    """Create a vector index as docs/graph_databases.md describes; its name is `label[vector]`.

    Args:
        place: Bolt address of the server.
        label: Label of the indexed nodes.
        dimensions: Number of components of a vector.
    """
    sql(place, f"CREATE PROPERTY {label}.vector IF NOT EXISTS ARRAY_OF_FLOATS")
    metadata = f"{{dimensions: {dimensions}, similarity: 'COSINE'}}"
    sql(place, f"CREATE INDEX IF NOT EXISTS ON {label} (vector) LSM_VECTOR METADATA {metadata}")


class _Proxy:
    """Forward connections to a server until the clients have sent a number of bytes."""

    def __init__(self, listener: socket.socket, target: tuple[str, int], count: int) -> None:
        self.listener = listener
        self.target = target
        self.left = [count]

    def serve(self) -> None:
        """Accept connections until the listener closes."""
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                if self.left[0] > 0:
                    self.connect(client)
                else:
                    client.close()

    def connect(self, client: socket.socket) -> None:
        """Connect a client with the server in both directions."""
        upstream = socket.create_connection(self.target)
        for arguments in ((client, upstream, True), (upstream, client, False)):
            threading.Thread(target=self.pump, args=arguments, daemon=True).start()

    def pump(self, source: socket.socket, sink: socket.socket, counted: bool) -> None:
        """Copy bytes from one socket to the other, then shut both down."""
        with suppress(OSError):
            while data := source.recv(65536):
                if counted and self.left[0] <= 0:
                    break
                if counted:
                    self.left[0] -= len(data)
                sink.sendall(data)
        for side in (source, sink):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


@contextmanager
def cut_after(place: str, count: int) -> Iterator[tuple[str, list[int]]]:
    """Put a proxy before a server that refuses service after a number of bytes.

    Args:
        place: Bolt address of the server.
        count: Number of bytes that the proxy forwards to the server.

    Yields:
        The address of the proxy, and a list whose only item is the number of bytes left.
    """
    target = ("127.0.0.1", int(place.rpartition(":")[2]))
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        proxy = _Proxy(listener, target, count)
        threading.Thread(target=proxy.serve, daemon=True).start()
        yield f"bolt://127.0.0.1:{listener.getsockname()[1]}", proxy.left
