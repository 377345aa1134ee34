"""What evor.ipynb counts where a run is not whole: rounds, soups, forms of context, tokens."""

from types import SimpleNamespace

import pandas as pd
import pytest
from notebook_code import definitions

from pkg_lib.papers.evor.evor_methods import DRAWS

TASKS = "ab"


def notebook(passed, contexts=None):
    """evor's functions on a benchmark m of two tasks; `passed`: column -> verdict of each task that has one.

    `contexts`: column -> (column of its prompt, tokens beside it) of each task. An answer has 10 tokens.
    """
    stored = {
        column: [
            SimpleNamespace(task_id=i, method=c, spent=n)
            for i, (c, n) in zip(TASKS, rows, strict=True)
        ]
        for column, rows in (contexts or {}).items()
    }
    answer = SimpleNamespace(prompt_tokens=6, tokens=[0] * 4)
    run = SimpleNamespace(
        rules=SimpleNamespace(title="M"),
        tasks=[SimpleNamespace(id=i) for i in TASKS],
        files=lambda method: SimpleNamespace(
            samples=SimpleNamespace(exists=lambda: method in passed)
        ),
        verdicts=lambda columns: pd.DataFrame(
            {c: pd.Series(passed[c], dtype="boolean") for c in columns}
        ),
        contexts=stored.get,
        completions=lambda column: dict.fromkeys(TASKS, answer),
    )
    return SimpleNamespace(**definitions("evor", runs={"m": run}, of=["m"], colours={}))


ALL, NONE, HALF = {"a": True, "b": True}, {"a": False, "b": False}, {"a": True}


def test_a_round_that_some_tasks_lack_is_none():
    """They are those that failed before, so that it would look better than it is."""
    of = notebook({"EVOR@0": ALL, "EVOR@1": ALL, "EVOR@2": HALF, "NoRAG": HALF})
    assert of.rounds("m", "EVOR") == ["EVOR@0", "EVOR@1"]
    assert of.rounds("m", "NoRAG") == ["NoRAG"] and of.rounds("m", "MPSC") == []


def test_soups_are_compared_after_the_same_round():
    soup = "EVOR of documents"
    passed = {f"EVOR@{n}": ALL if n == 3 else NONE for n in range(4)}
    of = notebook(passed | {f"{soup}@0": NONE, f"{soup}@1": ALL, "EVOR of snippets@0": NONE})
    assert of.last_common("m") == 1
    before, after, change = of.soup_cells("m", soup)
    assert before.startswith("0.0") and after.startswith("100.0") and change.startswith("+100.0")
    assert (
        of.soup_cells("m", "EVOR")[1].startswith("0.0") and of.soup_cells("m", "EVOR")[2] == of.DASH
    )
    assert of.soup_cells("m", "EVOR of snippets")[1:] == [of.DASH, of.DASH]
    # A round that is not whole is passed over, and no other takes its name.
    of = notebook(passed | {"EVOR@1": HALF, f"{soup}@0": NONE, f"{soup}@1": ALL})
    assert of.soup_cells("m", "EVOR")[1] == of.DASH == of.soup_cells("m", soup)[2]


@pytest.mark.parametrize("forms", [("RK, BM25", "RK, 500 tokens"), ("RK, whole documents",), ()])
def test_a_form_that_is_not_whole_is_not_drawn(forms):
    of = notebook({"RK": ALL, "RK, 2000 tokens": HALF} | dict.fromkeys(forms, NONE))
    left, right = of.form_figure().axes
    bars = [container.lines[0] for axes in (left, right) for container in axes.containers]
    points = [[*zip(*line.get_data(), strict=True)] for line in bars]
    drawn = "RK, BM25" in forms
    assert points == [
        [(0, 0), (2, 100)] if drawn else [(2, 100)],
        [(500, 0), (1000, 100)] if drawn else [(1000, 100)],
    ]
    assert [label.get_text() for label in left.get_xticklabels()] == ["BM25", "MiniLM", "both"]


def test_tokens_of_a_task_that_had_ended_are_those_of_its_inputs():
    contexts = {
        "EVOR@0": [("EVOR@0", 0), ("EVOR@0", 0)],
        "EVOR@1": [("EVOR@1", 300), ("EVOR@0", 200)],  # b ended before, with 200 for its inputs
        "EVOR@2": [("EVOR@1", None), ("EVOR@0", None)],
        "EVOR + MPSC": [(DRAWS["EVOR + MPSC"][0], 1000), (DRAWS["EVOR + MPSC"][1], 1000)],
        **{c: [("EVOR, last prompt", None)] * 2 for c in DRAWS["EVOR + MPSC"]},
    }
    of = notebook(dict.fromkeys(("EVOR@0", "EVOR@1", "EVOR@2"), ALL), contexts)
    assert of.all_tokens("m", "EVOR").to_dict() == {"a": 10 + 10 + 300, "b": 10 + 200}
    assert of.all_tokens("m", "EVOR + MPSC").to_dict() == {
        "a": 320 + 50 + 1000,
        "b": 210 + 50 + 1000,
    }
