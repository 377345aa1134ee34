"""EVOR's tables and figures count only complete results."""

from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from pkg_lib.analysis.tables import DASH
from pkg_lib.core.registry import load_plugins
from pkg_lib.core.types import UnavailableError, UserError
from pkg_lib.papers.evor import evor_analysis, evor_figures, evor_tables
from pkg_lib.papers.evor.evor_methods import MPSC_SAMPLES
from pkg_lib.papers.evor.evor_results import BenchmarkResults, EvorResults, load_evor_results
from tests.analysis.checks import legible

TASKS = "ab"
# Verdicts of the two tasks; HALF lacks the second.
ALL = {"a": True, "b": True}
NONE = {"a": False, "b": False}
HALF = {"a": True}


def results_of(passed, contexts=None, feedback=None, solutions=None, details=None):
    """A benchmark m of two tasks.

    `passed`: round -> verdict of each task that has one. `contexts`: round -> (round of its prompt, tokens
    spent beside it, recall) of each task. An answer has 10 tokens.
    """
    stored = {}
    for name, rows in (contexts or {}).items():
        stored[name] = {
            i: SimpleNamespace(task_id=i, method=m, spent=n, recall=recall)
            for i, (m, n, recall) in zip(TASKS, rows, strict=True)
        }
    answer = SimpleNamespace(prompt_tokens=6, tokens=[0] * 4)
    results = SimpleNamespace(
        model="model",
        limit=None,
        results=Path("no such folder"),
        benchmark_spec=SimpleNamespace(title="M (a rule)", controls={}),
        tasks=[SimpleNamespace(id=i) for i in TASKS],
        files=lambda name: SimpleNamespace(samples=SimpleNamespace(exists=lambda: name in passed)),
        verdicts=lambda names: pd.DataFrame(
            {n: pd.Series(passed[n], dtype="boolean") for n in names}
        ),
        contexts=lambda name: list(stored.get(name, {}).values()),
        contexts_by_task=lambda name: stored.get(name, {}),
        completions=lambda name: dict.fromkeys(TASKS, answer),
        knowledge=SimpleNamespace(feedback_rows=lambda name: (feedback or {}).get(name, {})),
        solutions=lambda name: (solutions or {}).get(name, {}),
        measures=lambda name: pd.DataFrame({"used": {"a": 1.0}}),
        outcomes=lambda name: {
            str(n): SimpleNamespace(status="failed", detail=text)
            for n, text in enumerate((details or {}).get(name, ()))
        },
        sample_names=lambda method, temperature: [],
    )
    return EvorResults("model", [BenchmarkResults("m", results)])


def benchmark_of(*arguments):
    """The only benchmark of `results_of`, with the same arguments."""
    (benchmark,) = results_of(*arguments).benchmarks
    return benchmark


def test_ignores_incomplete_rounds():
    """An incomplete round lacks tasks that failed before, so it would look better than it is."""
    evor = results_of({"EVOR@0": ALL, "EVOR@1": ALL, "EVOR@2": HALF, "NoRAG": HALF})
    (benchmark,) = evor.benchmarks
    assert benchmark.rounds("EVOR") == ["EVOR@0", "EVOR@1"]
    assert benchmark.rounds("NoRAG") == ["NoRAG"]
    assert benchmark.rounds("MPSC") == []
    assert benchmark.last_verdicts("MPSC").isna().all()
    assert evor.with_any_of(["MPSC"]) == []
    assert evor.with_any_of(["MPSC", "EVOR"]) == evor.evolved == [benchmark]
    assert benchmark.short_title == "M"


def test_compares_knowledge_bases_after_the_same_round():
    method = "EVOR of documents"
    of_documents = {f"{method}@0": NONE, f"{method}@1": ALL}
    passed = {"EVOR@0": NONE, "EVOR@1": NONE, "EVOR@2": NONE, "EVOR@3": ALL}
    evor = results_of(passed | of_documents | {"EVOR of snippets@0": NONE})
    (benchmark,) = evor.benchmarks
    assert evor_tables.last_common_round(benchmark) == 1
    before, after, change = evor_tables.source_cells(benchmark, method)
    assert before.startswith("0.0")
    assert after.startswith("100.0")
    assert change.startswith("+100.0")
    assert evor_tables.source_cells(benchmark, "EVOR")[1].startswith("0.0")
    assert evor_tables.source_cells(benchmark, "EVOR")[2] == DASH
    assert evor_tables.source_cells(benchmark, "EVOR of snippets")[1:] == [DASH, DASH]
    table = evor_tables.sources_table(evor)
    assert list(table.frame.index) == ["documents (Doc)", "snippets (Code)", "EVOR"]
    # An incomplete round is omitted, and later rounds keep their numbers.
    benchmark = benchmark_of(passed | {"EVOR@1": HALF} | of_documents)
    assert evor_tables.source_cells(benchmark, "EVOR")[1] == DASH
    assert evor_tables.source_cells(benchmark, method)[2] == DASH


@pytest.mark.parametrize("forms", [("RK, BM25", "RK, 500 tokens"), ("RK, whole documents",), ()])
def test_does_not_draw_incomplete_retrieval_forms(forms):
    complete = dict.fromkeys(forms, NONE)
    evor = results_of({"RK": ALL, "RK, 2000 tokens": HALF} | complete)
    figure = evor_figures.form_figure(evor)
    (axes,) = figure.axes
    points = [line.get_xdata() for line in axes.lines if line.get_marker() == "o"]
    rows = [label.get_text() for label in axes.get_yticklabels()]
    if "RK, BM25" in forms:
        retrievers = ["BM25", "both (RK)"]
        lengths = ["500", "1,000 (RK)"]
        compared = 2
        assert points == [[0], [100], [0], [100]]
    else:
        retrievers = ["both (RK)"]
        lengths = ["1,000 (RK)"]
        compared = 0
        assert points == [[100], [100]]
    assert rows == ["retriever", *retrievers, "tokens of context", *lengths]
    shown = legible(figure)
    assert "M (2)" in shown
    assert any(text.startswith(f"0 of {compared} other retrievers") for text in shown)


def test_a_finished_task_costs_only_the_tokens_of_its_inputs():
    samples = MPSC_SAMPLES["EVOR + MPSC"]
    contexts = {
        "EVOR@0": [("EVOR@0", 0, None), ("EVOR@0", 0, None)],
        # b ended before, with 200 for its inputs
        "EVOR@1": [("EVOR@1", 300, None), ("EVOR@0", 200, None)],
        "EVOR@2": [("EVOR@1", None, None), ("EVOR@0", None, None)],
        "EVOR + MPSC": [(samples[0], 1000, None), (samples[1], 1000, None)],
        **{sample: [("EVOR, last prompt", None, None)] * 2 for sample in samples},
    }
    benchmark = benchmark_of(dict.fromkeys(("EVOR@0", "EVOR@1", "EVOR@2"), ALL), contexts)
    assert benchmark.all_tokens("EVOR").to_dict() == {"a": 10 + 10 + 300, "b": 10 + 200}
    with_mpsc = benchmark.all_tokens("EVOR + MPSC").to_dict()
    assert with_mpsc == {"a": 320 + 50 + 1000, "b": 210 + 50 + 1000}


def test_the_losses_table_follows_failed_drafts_through_recall_and_use():
    contexts = {
        "EVOR@0": [("EVOR@0", 0, 0.5), ("EVOR@0", 0, 1.0)],
        "EVOR@1": [("EVOR@1", 0, 1.0), ("EVOR@0", 0, 1.0)],
    }
    feedback = {"EVOR@0": {"a": {"ok": False, "error": ""}, "b": {"ok": True, "error": ""}}}
    passed = {"EVOR@0": {"a": False, "b": False}, "EVOR@1": {"a": True, "b": False}}
    table = evor_analysis.losses_table(results_of(passed, contexts, feedback))
    assert table.frame.iloc[0].tolist() == [2, 1, 1, 0, 1, 1, 0, 1, 1, 1]


def test_counts_programs_that_use_a_missing_attribute_again():
    rows = {i: {"ok": False, "error": "has no attribute 'root'"} for i in TASKS}
    evor = results_of(
        {"EVOR@0": NONE, "EVOR@1": {"a": False, "b": True}},
        feedback={"EVOR@0": rows},
        solutions={"EVOR@1": {"a": "m.root(1)", "b": "m.isqrt(1)"}},
    )
    table = evor_analysis.repeated_names_table(evor)
    assert table.frame.iloc[0].tolist() == [2, 1, 1, 0]


def test_counts_a_missing_name_once_per_program():
    details = ["renamed away: drop, append", "renamed away: drop", "name 'x' is not defined", "no"]
    evor = results_of({"NoRAG": NONE}, details={"NoRAG": details})
    table = evor_analysis.missing_names_table(evor)
    assert table.frame.iloc[0].tolist() == [2, 0, 3, "drop", 2]


def test_a_method_without_missing_names_has_dashes():
    evor = results_of({"NoRAG": NONE}, details={"NoRAG": ["no"]})
    table = evor_analysis.missing_names_table(evor)
    assert table.frame.iloc[0].tolist() == [2, 0, 0, DASH, DASH]


def test_compares_queries_on_tasks_that_were_prompted_again():
    contexts = {
        "EVOR@0": [("EVOR@0", 0, 0.0), ("EVOR@0", 0, 1.0)],
        "EVOR@1": [("EVOR@1", 0, 1.0), ("EVOR@0", 0, 1.0)],
    }
    evor = results_of({"EVOR@0": NONE, "EVOR@1": HALF}, contexts)
    table = evor_analysis.queries_table(evor)
    assert list(table.frame.index) == ["M (a rule): the model writes it (EVOR)"]
    cells = table.frame.iloc[0].tolist()
    # b had ended, and a is in one of the halves; an incomplete round has no pass@1.
    half = cells[:3] if cells[0] else cells[3:6]
    assert cells[0] + cells[3] == 1 and half == [1, "0.0", "100.0"]
    assert cells[6:] == [DASH, DASH]


def test_tables_omit_results_that_are_not_stored():
    evor = results_of({"NoRAG": ALL}, {"NoRAG": [("NoRAG", None, None)] * 2})
    tables = (
        evor_tables.judging_table,
        evor_tables.sources_table,
        evor_tables.private_table,
        evor_analysis.queries_table,
        evor_analysis.losses_table,
        evor_analysis.repeated_names_table,
    )
    assert [table(evor) for table in tables] == [None] * len(tables)
    assert list(evor_tables.methods_table(evor).frame.index) == ["M (a rule): NoRAG"]


def test_the_round_figure_draws_verdicts_and_recall():
    contexts = {f"EVOR@{n}": [(f"EVOR@{n}", 0, 1.0), (f"EVOR@{n}", 0, 0.0)] for n in range(2)}
    evor = results_of({"EVOR@0": NONE, "EVOR@1": ALL}, contexts)
    evor.model = "qwen2.5-coder-1.5b-instruct"
    figure = evor_figures.round_figure(evor)
    panel, place_of_legend = figure.axes
    drawn = [list(container.lines[0].get_ydata()) for container in panel.containers]
    assert drawn == [[0, 100], [50, 50]] and place_of_legend.get_legend()
    assert "M (2; 2)" in legible(figure)
    curves = evor_figures.token_curves(evor.benchmarks[0])
    assert curves["EVOR"]["tokens"].tolist() == [10.0, 20.0]
    assert curves["EVOR"]["value"].tolist() == [0.0, 100.0]
    assert curves.keys() == {"EVOR"}


def test_the_token_figure_states_the_cost_of_all_rounds():
    contexts = {name: [(name, 0, 1.0)] * 2 for name in ("EVOR@0", "EVOR@1", "NoRAG")}
    evor = results_of({"EVOR@0": NONE, "EVOR@1": ALL, "NoRAG": HALF | {"b": False}}, contexts)
    evor.model = "qwen2.5-coder-1.5b-instruct"
    shown = legible(evor_figures.token_figure(evor))
    assert {"M (2)", "EVOR, by round", "NoRAG"} <= set(shown)
    title = "All rounds cost 2.0 to 2.0 times the tokens of round 0\n"
    assert any(
        text.startswith(f"{title}and change pass@1 significantly on 0 of 1 benchmarks\nqwen")
        for text in shown
    )


def test_a_round_that_solves_many_more_tasks_counts_as_a_change(monkeypatch):
    monkeypatch.setattr("pkg_lib.analysis.stats.ALPHA", 0.6)  # p is 0.5 with two tasks
    evor = results_of({"EVOR@0": NONE, "EVOR@1": ALL})
    assert evor_figures.changed_benchmarks(evor) == 1
    assert evor_figures.changed_benchmarks(results_of({"EVOR@0": ALL, "EVOR@1": ALL})) == 0


def test_rejects_benchmarks_that_are_not_part_of_evor_or_not_measured(tmp_path):
    load_plugins()
    with pytest.raises(UserError, match="no benchmark of EVOR: humaneval; choose from"):
        load_evor_results(tmp_path, "qwen2.5-coder-1.5b-instruct", "humaneval", None)
    with pytest.raises(UnavailableError, match="on newlisp are stored"):
        load_evor_results(tmp_path, "qwen2.5-coder-1.5b-instruct", "newlisp", None)


def test_published_tables_keep_the_printed_numbers():
    columns = ["model", "dataset"]
    table = evor_tables.published_table("table2_main", "T", "method", columns, "pass_at_1_percent")
    assert table.frame.loc["EVOR", ("ChatGPT", "Scipy-M")] == "37.9"


def test_captions_name_the_benchmarks_with_fewer_rounds():
    rounds = {f"EVOR@{n}": ALL for n in range(3)}
    longer = benchmark_of(rounds)
    shorter = benchmark_of({name: rounds[name] for name in ("EVOR@0", "EVOR@1")})
    shorter.results.benchmark_spec.title = "L (a rule)"
    evor = EvorResults("model", [longer, shorter])
    wanted = "EVOR was run until round 2, but on L until round 1 only. "
    assert wanted in evor_figures.round_caption(evor)
    assert wanted in evor_figures.token_caption(evor)
    longer.results.sample_names = lambda method, temperature: ["DocPrompting, T0.8, 1"]
    assert "DocPrompting was sampled only on M." in evor_figures.token_caption(evor)
    assert "was run until" not in evor_figures.round_caption(EvorResults("model", [longer]))


def test_a_note_on_mpsc_is_shown_only_with_results_of_mpsc():
    contexts = {"NoRAG": [("NoRAG", None, None)] * 2, "MPSC": [("NoRAG", 5, None)] * 2}
    without = evor_tables.methods_table(results_of({"NoRAG": ALL}, contexts))
    assert not any("MPSC" in note for note in without.notes)
    samples = MPSC_SAMPLES["MPSC"]
    contexts |= {sample: [("NoRAG", None, None)] * 2 for sample in samples}
    passed = dict.fromkeys(("NoRAG", "MPSC", *samples), ALL)
    (note,) = [
        note
        for note in evor_tables.methods_table(results_of(passed, contexts)).notes
        if note.startswith("MPSC")
    ]
    assert "M (a rule)" in note


def test_the_first_finding_states_the_effect_of_retrieval_and_rounds(monkeypatch):
    monkeypatch.setattr("pkg_lib.analysis.stats.ALPHA", 0.6)  # p is 0.5 with two tasks
    evor = results_of({"NoRAG": NONE, "RK": ALL, "EVOR@0": ALL, "EVOR@1": ALL})
    raised = evor_analysis.evor_findings(evor)[0]
    assert (
        "once raises pass@1 significantly on 1 of 1 benchmarks (most on M: from 0.0 to 100.0 %)"
        in raised
    )
    assert "run on 1 of them, change it significantly on none" in raised
    lower = results_of({"NoRAG": ALL, "RK": NONE, "EVOR@0": ALL, "EVOR@1": NONE})
    assert "once changes pass@1" in evor_analysis.evor_findings(lower)[0]
    assert evor_analysis.evor_findings(results_of({"NoRAG": ALL})) == []


def test_splits_benchmarks_for_the_appendix():
    results = results_of({"NoRAG": ALL}).benchmarks[0].results
    measured = [BenchmarkResults(name, results) for name in ("beatnum", "newlisp")]
    every = EvorResults("model", measured, missing=["monkey"])
    main, appendix = every.split("newlisp, monkey")
    assert [b.name for b in main.benchmarks] == ["beatnum"]
    assert [b.name for b in appendix.benchmarks] == ["newlisp"]
    assert main.missing == ["monkey"]
    whole, nothing = every.split("beatnum newlisp")
    assert whole is every
    assert nothing.benchmarks == []
    with pytest.raises(UserError, match="newlsip"):
        every.split("newlsip")


def test_a_notebook_without_benchmarks_is_an_error(tmp_path):
    with pytest.raises(UserError, match="name one"):
        load_evor_results(tmp_path, "model", " , ", None)
