"""A user's mistake gets one line that says what is wrong, and exit code 2."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from pkg_lib import cli, study


def call(monkeypatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["pkg_lib", *arguments])
    return cli.main()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "--model", "nosuch"], "unknown model 'nosuch'; choose from: qwen2.5-coder-0.5b-instruct"),
        (["run", "--model", study.MODEL, "--model", "nosuch"], "unknown model 'nosuch'"),
        (["run", "--benchmark", "nosuch"], "unknown benchmark 'nosuch'; choose from: humaneval"),
        (["run", "--corpus", "nosuch"], "unknown corpus 'nosuch'; choose from: textbook"),
        (["run", "--corpus", "textbook+nosuch"], "unknown corpus 'nosuch'"),
        (["run", "--corpus", "source:/no/such/dir"], "no such directory"),
        (["run", "--corpus", "source:"], "no such directory"),
        (["run", "--notebook", "nosuch"], "unknown notebook 'nosuch'; choose from: "),
        (["run", "--limit", "many"], "'--limit'"),
        (["run", "--limit", "0"], "limit must be at least 1"),
        (["run", "--nosuch"], "--nosuch"),
        (["nosuch"], "nosuch"),
        (["fetch", "nosuch"], "unknown model 'nosuch'"),
        (["verify-cache", "--sample", "0"], "choose --sample"),
        (["verify-cache", "--model", "nosuch"], "unknown model 'nosuch'"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(monkeypatch, capsys, tmp_path, arguments, says):
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    assert call(monkeypatch, *arguments) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.startswith("error: ") and error.count("\n") == 1
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_model_that_needs_a_gpu_is_refused_before_anything_is_done(monkeypatch, capsys, tmp_path):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path))
    assert call(monkeypatch, "run", "--model", "codellama-7b-instruct", "--limit", "2") == 2
    assert "needs a GPU" in capsys.readouterr().err
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_results_directory_that_cannot_be_made(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "file" / "results"))
    assert call(monkeypatch, "run", "--limit", "1") == 2
    assert "set PKG_RESULTS" in capsys.readouterr().err


def test_list_names_everything_that_run_takes(monkeypatch, capsys):
    assert call(monkeypatch, "list") == 0
    shown = capsys.readouterr().out
    for name in ("qwen2.5-coder-0.5b-instruct", "humaneval", "pkg-contexts", "Block-PKG", "rq1_code_pkg"):
        assert name in shown


def test_notebook_parameter_that_is_not_declared():
    notebook = study.NOTEBOOKS / "rq1_code_pkg.ipynb"
    study.check_parameters(notebook, {"model": "m", "limit": 3})
    with pytest.raises(cli.UserError, match="rq1_code_pkg has no parameter 'modle'; it takes: model"):
        study.check_parameters(notebook, {"modle": "m"})


def test_interrupt_says_so_in_one_line_and_exits_130(tmp_path):
    code = "import sys, time\nfrom pkg_lib import cli as m, study\n"
    code += "study.run = lambda *a: (print('started', flush=True), time.sleep(30))\n"
    code += "sys.argv = ['pkg_lib', 'run']\nsys.exit(m.main())"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert process.stdout.readline() == "started\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=20)
    assert process.returncode == 130
    assert error.count("\n") == 1 and "run the same command again, without --fresh" in error
