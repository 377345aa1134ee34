"""The notebooks in Jupyter: kernels start in notebooks/, and JupyterLab stores no outputs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request

import pytest
from analysis.browser import Browser, executable
from checkout import ROOT

NOTEBOOKS = sorted(p.name for p in (ROOT / "notebooks").glob("*.ipynb"))
# Of the executed notebooks, one needs no model, and the progress bars of the other are widgets.
EXECUTED = ("closed_models.ipynb", "explore.ipynb")
# This notebook about a model is run in the browser.
CLICKED = "rq1_code_pkg.ipynb"
TOKEN = "a-token-of-the-tests"
TRACKER = "user_settings/@jupyterlab/notebook-extension/tracker.jupyterlab-settings"


class Server:
    """Run `jupyter lab` in a checkout, without a browser."""

    def __init__(self, checkout, folder) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{probe.getsockname()[1]}"
        options = [
            "--no-browser",
            "--allow-root",
            f"--port={self.address[10:]}",
            "--port-retries=0",
        ]
        options += [f"--IdentityProvider.token={TOKEN}"]
        options += [
            f"--LabApp.{name}_dir={folder / name}" for name in ("user_settings", "workspaces")
        ]
        (folder / TRACKER).parent.mkdir(parents=True)
        # The page contains all cells, also those out of view.
        (folder / TRACKER).write_text('{"windowingMode": "none"}')
        with (folder / "log").open("wb") as log:
            about = {
                "cwd": checkout.root,
                "env": checkout.environment(),
                "stdout": log,
                "stderr": log,
            }
            command = [checkout.python, "-m", "jupyterlab", *options]
            self.process = subprocess.Popen(command, **about, start_new_session=True)
        wait(lambda: self.process.poll() is not None or self.answers())

    def answers(self) -> bool:
        try:
            return "version" in self.call("GET", "/api")
        except OSError:
            return False

    def call(self, method: str, path: str, body: object = None):
        """Send a request to the API; return the JSON of the answer."""
        head = {"Authorization": f"token {TOKEN}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{self.address}{path}", data, head, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"{}")

    def save(self, path: str) -> None:
        """Save a notebook as JupyterLab does, with an output and metadata of the language."""
        content = self.call("GET", f"/api/contents/{path}")["content"]
        content["metadata"]["language_info"] = {"name": "python", "version": "3.11.0"}
        content["metadata"]["kernelspec"]["display_name"] = "Python 3 (ipykernel)"
        first = next(c for c in content["cells"] if c["cell_type"] == "code")
        first["outputs"] = [{"output_type": "stream", "name": "stdout", "text": "x"}]
        first["execution_count"] = 7
        self.call(
            "PUT",
            f"/api/contents/{path}",
            {"type": "notebook", "format": "json", "content": content},
        )


def wait(condition, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture(scope="module")
def server(checkout, tmp_path_factory):
    started = Server(checkout, tmp_path_factory.mktemp("jupyter"))
    yield started
    os.killpg(started.process.pid, signal.SIGKILL)
    started.process.wait()


@pytest.fixture(autouse=True)
def clean(checkout):
    """Assert that a test changes nothing that git reports."""
    before = checkout.git("status", "--porcelain")
    yield
    assert checkout.git("status", "--porcelain") == before


@pytest.mark.parametrize("notebook", EXECUTED)
def test_executes_a_notebook_without_changing_the_checkout(checkout, notebook):
    words = [
        "-m",
        "nbconvert",
        "--execute",
        "--to",
        "notebook",
        "--stdout",
        f"notebooks/{notebook}",
    ]
    about = {
        "cwd": checkout.root,
        "env": checkout.environment(),
        "capture_output": True,
        "text": True,
    }
    done = subprocess.run([checkout.python, *words], **about)
    assert done.returncode == 0, done.stderr
    assert all(
        c["execution_count"] for c in json.loads(done.stdout)["cells"] if c["cell_type"] == "code"
    )


def test_saves_notebooks_of_the_checkout_without_outputs_and_others_with_outputs(server, checkout):
    for notebook in NOTEBOOKS:
        server.save(f"notebooks/{notebook}")
    other = checkout.root / "results" / "shown" / "other.ipynb"  # git ignores the directory
    other.parent.mkdir(exist_ok=True)
    other.write_bytes((checkout.root / "notebooks" / NOTEBOOKS[0]).read_bytes())
    server.save("results/shown/other.ipynb")
    assert '"execution_count": 7' in other.read_text()


@pytest.mark.skipif(
    executable() is None, reason="no Chromium: apt-get install chromium, or PKG_CHROMIUM"
)
def test_runs_all_cells_in_the_browser(server, tmp_path):
    browser = Browser(tmp_path / "profile")

    def shown(condition: str, seconds: float = 120) -> None:
        wait(lambda: browser.run(condition), seconds)

    try:
        size = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.send("Emulation.setDeviceMetricsOverride", **size)
        page = f"http://{server.address}/lab/tree/notebooks/{CLICKED}?token={TOKEN}"
        browser.send("Page.navigate", url=page)
        shown("document.querySelectorAll('.jp-Notebook .jp-CodeCell').length > 3")
        shown("!!document.querySelector('[title*=\"Idle\"], [data-status=idle]')")
        for selector, text in (
            (".lm-MenuBar-itemLabel", "Run"),
            (".lm-Menu-itemLabel", "Run All Cells"),
        ):
            items = f"[...document.querySelectorAll('{selector}')]"
            element = f"{items}.find(e => e.textContent.trim() == '{text}')"
            shown(f"!!({element})")
            browser.click(element)
            time.sleep(1)  # the menu accepts a click after its animation
        cells = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]"
        prompts = f"{cells}.map(e => e.textContent.trim())"
        shown(f"{prompts}.some(p => p != '[ ]:')", 30)
        shown(f"{prompts}.every(p => /^.[0-9]+.:$/.test(p))", 300)
        assert browser.run(prompts) == [f"[{n}]:" for n in range(1, len(browser.run(prompts)) + 1)]
        assert browser.run("document.querySelectorAll('[data-mime-type*=\"error\"]').length") == 0
    finally:
        browser.close()
