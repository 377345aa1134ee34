"""A real Jupyter server and its API: sessions, kernels and files as JupyterLab uses them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from jupyter_client.session import Session
from websocket import create_connection

TOKEN = "a-token-of-the-tests"


class Server:
    """`jupyter lab` of an environment, started in `folder`, without a browser."""

    def __init__(self, python: Path, folder: Path, log: Path, environment: dict[str, str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = [python, "-m", "jupyterlab", "--no-browser", "--allow-root", f"--port={port}"]
        command += ["--port-retries=0", f"--IdentityProvider.token={TOKEN}"]
        command += [f"--LabApp.{name}_dir={log.parent / name}" for name in ("user_settings", "workspaces")]
        # Every cell is in the page, also those that are not in view.
        tracker = "user_settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"
        (log.parent / tracker).parent.mkdir(parents=True)
        (log.parent / tracker).write_text('{"windowingMode": "none"}')
        self.address = f"127.0.0.1:{port}"
        with log.open("wb") as out:
            about = {"cwd": folder, "env": environment, "stdout": out, "stderr": out}
            self.process = subprocess.Popen(command, **about, start_new_session=True)
        deadline = time.monotonic() + 120
        while not self._answers():
            assert self.process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)

    def _answers(self) -> bool:
        try:
            return "version" in self.call("GET", "/api")
        except OSError:
            return False

    def call(self, method: str, path: str, body: object = None):
        """One request to the API; the answer's JSON."""
        head = {"Authorization": f"token {TOKEN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}{path}", data, head, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")

    def run_all(self, path: str, timeout: float = 400) -> None:
        """Opens a notebook with a kernel of its own and executes every code cell; AssertionError with a
        cell's error."""
        notebook = self.call("GET", f"/api/contents/{path}")
        about = {"path": path, "name": Path(path).name, "type": "notebook", "kernel": {"name": "python3"}}
        session = self.call("POST", "/api/sessions", about)
        place = f"ws://{self.address}/api/kernels/{session['kernel']['id']}/channels"
        channels = create_connection(place, header=[f"Authorization: token {TOKEN}"], timeout=timeout)
        try:
            for cell in notebook["content"]["cells"]:
                if cell["cell_type"] == "code":
                    execute(channels, cell["source"], path)
        finally:
            channels.close()
            self.call("DELETE", f"/api/sessions/{session['id']}")

    def save(self, path: str) -> None:
        """Saves a notebook as JupyterLab does, with an output in its first code cell and what it knows of the
        language."""
        content = self.call("GET", f"/api/contents/{path}")["content"]
        language = {"name": "python", "version": "3.11.0", "file_extension": ".py"}
        content["metadata"]["language_info"] = language
        content["metadata"]["kernelspec"]["display_name"] = "Python 3 (ipykernel)"
        first = next(c for c in content["cells"] if c["cell_type"] == "code")
        first["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
        first["execution_count"] = 7
        self.call("PUT", f"/api/contents/{path}", {"type": "notebook", "format": "json", "content": content})

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def execute(channels, source: str, about: str) -> None:
    """Executes one cell over a kernel's channels, until the kernel has replied and is idle again."""
    content = {"code": source, "silent": False, "store_history": True, "allow_stdin": False}
    request = Session().msg("execute_request", content | {"stop_on_error": True})
    channels.send(json.dumps(request | {"buffers": [], "channel": "shell"}, default=str))
    waiting = {"execute_reply", "idle"}
    while waiting:
        answer = channels.recv()
        message = json.loads(answer) if isinstance(answer, str) else {}  # widgets send bytes along
        if message.get("parent_header", {}).get("msg_id") != request["header"]["msg_id"]:
            continue
        kind, content = message["header"]["msg_type"], message["content"]
        assert kind != "error", f"{about}: {content['ename']}: {content['evalue']}\n{source}"
        waiting -= {kind, content.get("execution_state", "")}
