"""A headless Chromium over its DevTools protocol: what a page does in a browser, without a driver to install."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from websocket import create_connection

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def executable() -> str | None:
    """PKG_CHROMIUM, else the first Chromium on PATH."""
    return os.environ.get("PKG_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page. `events` are all messages that the browser sent of its own accord."""

    def __init__(self, profile: Path) -> None:
        flags = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
        ]
        flags += [
            "--hide-scrollbars",
            "--remote-debugging-port=0",
            "--remote-allow-origins=*",
            f"--user-data-dir={profile}",
        ]
        self.process = subprocess.Popen(
            [executable(), *flags], stderr=subprocess.DEVNULL, start_new_session=True
        )
        self.events: list[dict] = []
        self.numbers = itertools.count(1)
        port, path = self._address(profile / "DevToolsActivePort")
        self.socket = create_connection(f"ws://127.0.0.1:{port}{path}", timeout=60)
        target = self.send("Target.createTarget", session=None, url="about:blank")["targetId"]
        self.session = self.send("Target.attachToTarget", session=None, targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def _address(self, file: Path) -> list[str]:
        deadline = time.monotonic() + 60
        while not (file.exists() and len(file.read_text().split()) == 2):
            assert self.process.poll() is None and time.monotonic() < deadline, "the browser does not start"
            time.sleep(0.05)
        return file.read_text().split()

    def send(self, method: str, session: str | None = "own", **parameters) -> dict:
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        self.socket.send(json.dumps(message | ({"sessionId": self.session} if session else {})))
        while (answer := json.loads(self.socket.recv())).get("id") != number:
            self.events.append(answer)
        assert "error" not in answer, answer
        return answer["result"]

    def open(self, page: Path, width: int, height: int = 800) -> None:
        """Loads a page from disk at a window of this size; forgets earlier events."""
        self.events.clear()
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.send("Page.navigate", url=page.resolve().as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(json.loads(self.socket.recv()))

    def run(self, expression: str):
        """The value of a JavaScript expression in the page, a promise's when it is there."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        for kind in ("rawKeyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode={"Escape": 27}[key],
            )

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, uncaught exceptions, and requests that failed or left the disk."""
        found = []
        for event in self.events:
            method, about = event.get("method", ""), event.get("params", {})
            url = about.get("request", {}).get("url", "")
            wrong = method == "Runtime.exceptionThrown" or method == "Network.loadingFailed"
            wrong |= method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning")
            wrong |= method == "Runtime.consoleAPICalled" and about["type"] in ("error", "warning", "assert")
            wrong |= method == "Network.requestWillBeSent" and not url.startswith(
                ("file:", "data:", "about:")
            )
            found += [json.dumps(event)] if wrong else []
        return found

    def close(self) -> None:
        self.socket.close()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
