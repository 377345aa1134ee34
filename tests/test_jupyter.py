"""The notebooks in JupyterLab as a user has them: a server in the checkout, kernels that start in
notebooks/."""

from __future__ import annotations

import time

import pytest
from analysis.browser import Browser, executable
from checkout import ROOT
from jupyter_api import TOKEN, Server

NOTEBOOKS = sorted(p.name for p in (ROOT / "notebooks").glob("*.ipynb"))
# About no model, and one whose progress bars are widgets; the one about a model is clicked.
EXECUTED, CLICKED = ("closed_models.ipynb", "explore.ipynb"), "rq1_code_pkg.ipynb"


@pytest.fixture(scope="module")
def server(checkout, tmp_path_factory):
    log = tmp_path_factory.mktemp("jupyter") / "log"
    started = Server(checkout.python, checkout.root, log, checkout.environment())
    yield started
    started.close()


@pytest.fixture
def clean(checkout):
    """Whatever was run left for git nothing but what was left before."""
    before = checkout.git("status", "--porcelain")
    yield
    assert checkout.git("status", "--porcelain") == before


@pytest.mark.parametrize("notebook", EXECUTED)
def test_a_notebook_runs_to_its_end_and_changes_nothing(server, clean, notebook):
    server.run_all(f"notebooks/{notebook}")


def test_a_saved_notebook_is_stored_as_git_has_it(server, clean):
    for notebook in NOTEBOOKS:
        server.save(f"notebooks/{notebook}")


def test_another_notebook_keeps_its_outputs(server, checkout, clean):
    other = checkout.root / "results" / "shown" / "other.ipynb"  # git ignores the directory
    other.parent.mkdir(exist_ok=True)
    other.write_bytes((checkout.root / "notebooks" / NOTEBOOKS[0]).read_bytes())
    server.save("results/shown/other.ipynb")
    assert '"execution_count": 7' in other.read_text()


def wait(browser: Browser, condition: str, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not browser.run(condition):
        assert time.monotonic() < deadline, condition
        time.sleep(0.2)


@pytest.mark.skipif(
    executable() is None, reason="no Chromium on PATH: apt-get install chromium, or PKG_CHROMIUM"
)
def test_run_all_in_the_browser(server, clean, tmp_path):
    browser = Browser(tmp_path / "profile")
    try:
        size = {"width": 1400, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.send("Emulation.setDeviceMetricsOverride", **size)
        browser.send(
            "Page.navigate", url=f"http://{server.address}/lab/tree/notebooks/{CLICKED}?token={TOKEN}"
        )
        wait(browser, "document.querySelectorAll('.jp-Notebook .jp-CodeCell').length > 3")
        wait(browser, "!!document.querySelector('[title*=\"Idle\"], [data-status=idle]')")
        for selector, text in ((".lm-MenuBar-itemLabel", "Run"), (".lm-Menu-itemLabel", "Run All Cells")):
            element = (
                f"[...document.querySelectorAll('{selector}')].find(e => e.textContent.trim() == '{text}')"
            )
            wait(browser, f"!!({element})")
            browser.click(element)
            time.sleep(1)  # the menu takes a click once it lies still
        prompts = (
            "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(e => e.textContent.trim())"
        )
        wait(browser, f"{prompts}.some(p => p != '[ ]:')", 30)
        wait(browser, f"{prompts}.every(p => /^.[0-9]+.:$/.test(p))", 300)
        assert browser.run(prompts) == [f"[{n}]:" for n in range(1, len(browser.run(prompts)) + 1)]
        errors = "document.querySelectorAll('.jp-RenderedText[data-mime-type*=\"error\"]').length"
        assert browser.run(errors) == 0
    finally:
        browser.close()
        for session in server.call("GET", "/api/sessions"):
            server.call("DELETE", f"/api/sessions/{session['id']}")
