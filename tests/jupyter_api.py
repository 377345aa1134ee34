"""A real Jupyter server and its API: sessions, kernels and files as JupyterLab uses them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
import uuid
from pathlib import Path

from websocket import create_connection

TOKEN = "a-token-of-the-tests"


class Server:
    """`jupyter lab` of an environment, started in `folder`, without a browser."""

    def __init__(self, python: Path, folder: Path, log: Path, environment: dict[str, str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = [
            "--no-browser",
            "--allow-root",
            f"--port={port}",
            "--port-retries=0",
            f"--IdentityProvider.token={TOKEN}",
        ]
        options += [f"--LabApp.{name}_dir={log.parent / name}" for name in ("user_settings", "workspaces")]
        self.address, self.log = f"127.0.0.1:{port}", log
        # Every cell is in the page, also those that are not in view.
        tracker = (
            log.parent
            / "user_settings"
            / "@jupyterlab"
            / "notebook-extension"
            / "tracker.jupyterlab-settings"
        )
        tracker.parent.mkdir(parents=True)
        tracker.write_text('{"windowingMode": "none"}')
        with log.open("wb") as out:
            command = [python, "-m", "jupyterlab", *options]
            about = {
                "cwd": folder,
                "env": environment,
                "stdout": out,
                "stderr": out,
                "start_new_session": True,
            }
            self.process = subprocess.Popen(command, **about)
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

    def run_all(self, path: str, timeout: float = 400) -> list[dict]:
        """Opens a notebook with a kernel of its own and executes every code cell; the outputs of the last one.

        AssertionError with the error of the cell that failed.
        """
        notebook = self.call("GET", f"/api/contents/{path}")
        about = {"path": path, "name": Path(path).name, "type": "notebook", "kernel": {"name": "python3"}}
        session = self.call("POST", "/api/sessions", about)
        place = f"ws://{self.address}/api/kernels/{session['kernel']['id']}/channels"
        channels = create_connection(place, header=[f"Authorization: token {TOKEN}"], timeout=timeout)
        try:
            outputs: list[dict] = []
            for cell in notebook["content"]["cells"]:
                if cell["cell_type"] == "code":
                    outputs = execute(channels, cell["source"], path)
            return outputs
        finally:
            channels.close()
            self.call("DELETE", f"/api/sessions/{session['id']}")

    def save(self, path: str) -> None:
        """Saves a notebook as JupyterLab does, with an output in its first code cell and what it knows of the language."""
        model = self.call("GET", f"/api/contents/{path}")
        content = model["content"]
        content["metadata"]["language_info"] = {
            "name": "python",
            "version": "3.11.0",
            "file_extension": ".py",
        }
        content["metadata"]["kernelspec"]["display_name"] = "Python 3 (ipykernel)"
        first = next(c for c in content["cells"] if c["cell_type"] == "code")
        first["outputs"], first["execution_count"] = (
            [{"output_type": "stream", "name": "stdout", "text": "x"}],
            7,
        )
        self.call("PUT", f"/api/contents/{path}", {"type": "notebook", "format": "json", "content": content})

    def close(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def execute(channels, source: str, about: str) -> list[dict]:
    """Executes one cell over a kernel's channels; its outputs once the kernel has replied and is idle again."""
    number = uuid.uuid4().hex
    head = {
        "msg_id": number,
        "msg_type": "execute_request",
        "username": "test",
        "session": number,
        "version": "5.3",
    }
    content = {
        "code": source,
        "silent": False,
        "store_history": True,
        "allow_stdin": False,
        "stop_on_error": True,
    }
    request = {
        "header": head,
        "parent_header": {},
        "metadata": {},
        "content": content,
        "buffers": [],
        "channel": "shell",
    }
    channels.send(json.dumps(request))
    outputs, waiting = [], {"execute_reply", "idle"}
    while waiting:
        answer = channels.recv()
        message = json.loads(answer) if isinstance(answer, str) else {}  # widgets send bytes along
        if message.get("parent_header", {}).get("msg_id") != number:
            continue
        kind, content = message["header"]["msg_type"], message["content"]
        assert kind != "error", f"{about}: {content['ename']}: {content['evalue']}\n{source}"
        if kind in ("stream", "display_data", "execute_result"):
            outputs.append(content)
        waiting -= {kind, content.get("execution_state", "")}
    return outputs
