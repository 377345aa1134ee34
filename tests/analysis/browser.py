"""A headless Chromium over its DevTools protocol: what a page does in a browser, without a driver to
install."""

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
        flags = (
            "headless=new no-sandbox disable-gpu disable-dev-shm-usage no-first-run hide-scrollbars"
        )
        flags += f" remote-debugging-port=0 remote-allow-origins=* user-data-dir={profile}"
        command = [executable(), *(f"--{flag}" for flag in flags.split())]
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
        self.events: list[dict] = []
        self.numbers = itertools.count(1)
        port, path = self._address(profile / "DevToolsActivePort")
        self.socket = create_connection(f"ws://127.0.0.1:{port}{path}", timeout=60)
        target = self.send("Target.createTarget", session=None, url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", session=None, targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def _address(self, file: Path) -> list[str]:
        deadline = time.monotonic() + 60
        while not (file.exists() and len(file.read_text().split()) == 2):
            assert self.process.poll() is None and time.monotonic() < deadline, (
                "the browser does not start"
            )
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
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        self.send("Page.navigate", url=page.resolve().as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(json.loads(self.socket.recv()))

    def run(self, expression: str):
        """The value of a JavaScript expression in the page, a promise's when it is there."""
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def escape(self) -> None:
        """Presses the key."""
        key = {"key": "Escape", "code": "Escape", "windowsVirtualKeyCode": 27}
        for kind in ("rawKeyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, **key)

    def click(self, element: str) -> None:
        """A click of the mouse on the middle of an element, given as a JavaScript expression."""
        middle = "r => ({x: r.x + r.width / 2, y: r.y + r.height / 2})"
        at = self.run(f"({middle})({element}.getBoundingClientRect())")
        for kind, pressed in (("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)):
            about = {"type": kind, "button": "left", "buttons": pressed, "clickCount": 1}
            self.send("Input.dispatchMouseEvent", **about, **at)

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, uncaught exceptions, and requests that failed or left the
        disk."""
        complaints = []
        for event in self.events:
            method, about = event.get("method", ""), event.get("params", {})
            url = about.get("request", {}).get("url", "")
            wrong = method == "Runtime.exceptionThrown" or method == "Network.loadingFailed"
            wrong |= method == "Log.entryAdded" and about["entry"]["level"] in ("error", "warning")
            wrong |= method == "Runtime.consoleAPICalled" and about["type"] in (
                "error",
                "warning",
                "assert",
            )
            local = url.startswith(("file:", "data:", "about:"))
            wrong |= method == "Network.requestWillBeSent" and not local
            complaints += [json.dumps(event)] if wrong else []
        return complaints

    def close(self) -> None:
        self.socket.close()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
