"""The notebooks in JupyterLab as a user has them: a server in the checkout, kernels that start in notebooks/."""

from __future__ import annotations

import time

import pytest
from analysis.browser import Browser, executable
from checkout import ROOT
from jupyter_api import TOKEN, Server

NOTEBOOKS = sorted(p.name for p in (ROOT / "notebooks").glob("*.ipynb"))
CLICKED = ("rq1_code_pkg.ipynb", "overlap.ipynb", "closed_models.ipynb")
needs_browser = pytest.mark.skipif(
    executable() is None, reason="no Chromium on PATH: apt-get install chromium, or PKG_CHROMIUM"
)


@pytest.fixture(scope="module")
def server(checkout, tmp_path_factory):
    log = tmp_path_factory.mktemp("jupyter") / "log"
    started = Server(checkout.python, checkout.root, log, checkout.environment())
    yield started
    started.close()


@pytest.fixture
def browser(server, tmp_path):
    started = Browser(tmp_path / "profile")
    yield started
    started.close()
    for session in server.call("GET", "/api/sessions"):
        server.call("DELETE", f"/api/sessions/{session['id']}")


@pytest.fixture
def clean(checkout):
    """Whatever was run left for git nothing but what was left before."""
    before = checkout.git("status", "--porcelain")
    yield
    assert checkout.git("status", "--porcelain") == before


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_every_notebook_runs_to_its_end_and_changes_nothing(server, checkout, clean, notebook):
    server.run_all(f"notebooks/{notebook}")


def test_a_saved_notebook_is_stored_as_git_has_it(server, clean):
    for notebook in NOTEBOOKS:
        server.save(f"notebooks/{notebook}")


def test_another_notebook_keeps_its_outputs(server, checkout, clean):
    own = checkout.root / "results" / "shown" / "own.ipynb"  # git ignores the directory
    own.parent.mkdir(exist_ok=True)
    own.write_bytes((checkout.root / "notebooks" / NOTEBOOKS[0]).read_bytes())
    server.save("results/shown/own.ipynb")
    assert '"execution_count": 7' in own.read_text()


def click(browser, selector: str, text: str = "") -> None:
    """A click of the mouse on the element once it is there; with a text, on the first that holds just this."""
    place = f"[...document.querySelectorAll({selector!r})].find(e => !{text!r} || e.textContent.trim() == {text!r})"
    wait(browser, f"!!({place})")
    at = browser.run(
        f"(r => ({{x: r.x + r.width / 2, y: r.y + r.height / 2}}))({place}.getBoundingClientRect())"
    )
    for kind, pressed in (("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 0)):
        browser.send(
            "Input.dispatchMouseEvent", type=kind, **at, button="left", buttons=pressed, clickCount=1
        )


def wait(browser, condition: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not browser.run(condition):
        assert time.monotonic() < deadline, condition
        time.sleep(0.2)


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize("notebook", CLICKED)
def test_run_all_in_the_browser(server, browser, clean, notebook):
    browser.send(
        "Emulation.setDeviceMetricsOverride", width=1400, height=900, deviceScaleFactor=1, mobile=False
    )
    address = (
        f"http://{server.address}/lab/workspaces/{notebook[:-6]}/tree/notebooks/{notebook}?token={TOKEN}"
    )
    browser.send("Page.navigate", url=address)
    wait(browser, "document.querySelectorAll('.jp-Notebook .jp-CodeCell').length > 3")
    wait(browser, "!!document.querySelector('[title*=\"Idle\"], [data-status=idle]')")
    click(browser, ".lm-MenuBar-itemLabel", "Run")
    time.sleep(1)  # the menu takes a click once it lies still
    click(browser, ".lm-Menu-itemLabel", "Run All Cells")
    prompts = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(e => e.textContent.trim())"
    wait(browser, f"{prompts}.some(p => p != '[ ]:')", 30)
    wait(browser, f"{prompts}.every(p => /^.[0-9]+.:$/.test(p))", 300)
    assert browser.run(prompts) == [f"[{n}]:" for n in range(1, len(browser.run(prompts)) + 1)]
    assert browser.run("document.querySelectorAll('.jp-RenderedText[data-mime-type*=\"error\"]').length") == 0
