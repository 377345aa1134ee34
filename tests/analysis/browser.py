"""Control of a headless Chromium through its DevTools protocol, without a driver to install."""

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

NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
)
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "--remote-allow-origins=*",
)
START_SECONDS = 60
PROBLEM_EVENTS = ("Runtime.exceptionThrown", "Network.loadingFailed")
LOCAL_ADDRESSES = ("file:", "data:", "about:")


def executable() -> str | None:
    """Find the Chromium to use.

    Returns:
        The value of PKG_CHROMIUM, else the first Chromium on PATH, else None.
    """
    configured = os.environ.get("PKG_CHROMIUM")
    if configured:
        return configured
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    return None


class Browser:
    """A headless browser with one page.

    Args:
        profile: An empty directory for the profile.

    Attributes:
        events: All messages that the browser sent without a request.
    """

    def __init__(self, profile: Path) -> None:
        self.process = subprocess.Popen(
            [executable(), *FLAGS, f"--user-data-dir={profile}"],
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.events: list[dict] = []
        self.numbers = itertools.count(1)
        port, path = self._address(profile / "DevToolsActivePort")
        url = f"ws://127.0.0.1:{port}{path}"
        self.socket = create_connection(url, timeout=START_SECONDS)
        self.session: str | None = None
        target = self.send("Target.createTarget", url="about:blank")
        attached = self.send(
            "Target.attachToTarget",
            targetId=target["targetId"],
            flatten=True,
        )
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def _address(self, file: Path) -> list[str]:
        """Wait for the port and path that the browser writes into a file."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            words = file.read_text().split() if file.exists() else []
            if len(words) == 2:
                return words
            is_running = self.process.poll() is None
            assert is_running, "the browser does not start"
            in_time = time.monotonic() < deadline
            assert in_time, "the browser does not start"
            time.sleep(0.05)

    def _receive(self) -> dict:
        return json.loads(self.socket.recv())

    def send(self, method: str, **parameters) -> dict:
        """Send a command to the page, or to the browser before a page is attached.

        Args:
            method: Name of the DevTools command.
            **parameters: Its parameters.

        Returns:
            The result of the command.
        """
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        self.socket.send(json.dumps(message))
        answer = self._receive()
        while answer.get("id") != number:
            self.events.append(answer)
            answer = self._receive()
        assert "error" not in answer, answer
        return answer["result"]

    def _is_loaded(self) -> bool:
        return any(e.get("method") == "Page.loadEventFired" for e in self.events)

    def open(self, page: Path, width: int, height: int = 800) -> None:
        """Load a page from disk and forget earlier events.

        Args:
            page: The HTML file.
            width: Width of the window in pixels.
            height: Height of the window in pixels.
        """
        self.events.clear()
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        self.send("Page.navigate", url=page.resolve().as_uri())
        while not self._is_loaded():
            self.events.append(self._receive())

    def run(self, expression: str):
        """Evaluate a JavaScript expression in the page.

        Args:
            expression: The expression. A promise is awaited.

        Returns:
            Its value.
        """
        answer = self.send(
            "Runtime.evaluate",
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def escape(self) -> None:
        """Press the Escape key."""
        for kind in ("rawKeyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key="Escape",
                code="Escape",
                windowsVirtualKeyCode=27,
            )

    def click(self, element: str) -> None:
        """Click with the mouse on the middle of an element.

        Args:
            element: A JavaScript expression for the element.
        """
        middle = "r => ({x: r.x + r.width / 2, y: r.y + r.height / 2})"
        position = self.run(f"({middle})({element}.getBoundingClientRect())")
        pressed_buttons = {"mouseMoved": 0, "mousePressed": 1, "mouseReleased": 0}
        for kind, buttons in pressed_buttons.items():
            self.send(
                "Input.dispatchMouseEvent",
                type=kind,
                button="left",
                buttons=buttons,
                clickCount=1,
                x=position["x"],
                y=position["y"],
            )

    def problems(self) -> list[str]:
        """List everything that went wrong in the page.

        Returns:
            Errors and warnings of the console, uncaught exceptions, and requests that failed
            or left the disk, as JSON.
        """
        return [json.dumps(event) for event in self.events if is_problem(event)]

    def close(self) -> None:
        """End the browser and all its processes."""
        self.socket.close()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def is_problem(event: dict) -> bool:
    """Decide whether an event reports an error, a warning or a request to the network.

    Args:
        event: An event of the DevTools protocol.

    Returns:
        True if a page of the report must not cause the event.
    """
    method = event.get("method", "")
    parameters = event.get("params", {})
    if method == "Log.entryAdded":
        return parameters["entry"]["level"] in ("error", "warning")
    if method == "Runtime.consoleAPICalled":
        return parameters["type"] in ("error", "warning", "assert")
    if method == "Network.requestWillBeSent":
        url = parameters.get("request", {}).get("url", "")
        return not url.startswith(LOCAL_ADDRESSES)
    return method in PROBLEM_EVENTS
