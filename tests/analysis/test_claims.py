"""Rules of the claim ledger: how a measurement decides a claim, and how verdicts are combined."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from pkg_lib.core.store import write_json
from pkg_lib.core.types import Outcome
from pkg_lib.papers.claims import claim_tests, claims
from pkg_lib.papers.claims.claim_ledger import (
    verdict_by_subject,
    verdicts_by_source,
    verdicts_finding,
)
from pkg_lib.papers.claims.claim_tests import Measured, StoredRuns
from pkg_lib.papers.claims.claims import (
    CONTRADICTED,
    FAILS,
    FAILS_BUILT,
    HOLDS,
    HOLDS_BUILT,
    INCONCLUSIVE,
    MIXED,
    NOT_ATTEMPTED,
    REPLAYED,
    REPRODUCED,
    Claim,
    Evidence,
)

MODEL = "qwen2.5-coder-0.5b-instruct"
PAIR = {"benchmark": "humaneval", "column": "Block-PKG", "against": "NoRAG"}
OPPOSITE = {HOLDS: FAILS, FAILS: HOLDS, INCONCLUSIVE: INCONCLUSIVE}


def make_claim(test="paired", id="c", **args):
    """Make a claim that a test decides with some arguments."""
    return Claim(id, "topic", "both", "Table 1", "says", test, "runs", args)


def make_verdicts(helped, hurt, same=60, column="Block-PKG"):
    """Make verdicts of NoRAG and of a method.

    Args:
        helped: Number of tasks that only the method solves.
        hurt: Number of tasks that only NoRAG solves.
        same: Number of tasks that both solve.
        column: Name of the method.
    """
    no_rag = [False] * helped + [True] * hurt + [True] * same
    method = [True] * helped + [False] * hurt + [True] * same
    tasks = [f"HumanEval/{i}" for i in range(len(no_rag))]
    return pd.DataFrame({"NoRAG": no_rag, column: method}, tasks).astype("boolean")


def make_runs(*frames, corpora=("pkg-contexts", "textbook", "stdlib"), model=MODEL, limit=None):
    """Make stored runs of some verdicts, each of another corpus, without published completions."""
    measured = []
    for corpus, frame in zip(corpora, frames, strict=False):
        run = SimpleNamespace(model=model, benchmark="humaneval", corpus=corpus, limit=limit)
        measured.append(Measured(model, f"HumanEval, {corpus}", frame, run))
    runs = StoredRuns([model], ["humaneval"], list(corpora), Path("none"))
    runs.__dict__["runs"] = measured
    runs.__dict__["replays"] = {}
    return runs


def assess(runs, *claims_to_assess):
    """Measure and judge some claims."""
    return claims.judge(claim_tests.measure(runs, claims_to_assess, {}))


def verdicts(claim, *frames):
    """Return the verdict on a claim and those of its measurements."""
    (assessed,) = assess(make_runs(*frames), claim)
    return assessed.verdict, [e.verdict for e in assessed.evidence]


def make_evidence(subject, effect, p=0.001, **changes):
    evidence = Evidence(
        subject,
        "run",
        100,
        effect,
        effect - 0.05,
        effect + 0.05,
        p,
        family=f"{subject} {effect}",
    )
    return replace(evidence, **changes)


@pytest.mark.parametrize(
    ("helped", "hurt", "above"),
    [(30, 5, HOLDS), (5, 30, FAILS), (11, 9, INCONCLUSIVE), (0, 0, INCONCLUSIVE)],
)
def test_direction_is_decided_by_significance_and_sign_for_both_relations(helped, hurt, above):
    frame = make_verdicts(helped, hurt)
    assert verdicts(make_claim(relation="above", **PAIR), frame)[0] == above
    assert verdicts(make_claim(relation="below", **PAIR), frame)[0] == OPPOSITE[above]
    swapped = {"benchmark": "humaneval", "column": "NoRAG", "against": "Block-PKG"}
    assert verdicts(make_claim(relation="above", **swapped), frame)[0] == OPPOSITE[above]


def test_claim_without_a_measurement_is_not_attempted():
    unmeasured = make_verdicts(30, 5)
    unmeasured["Block-PKG"] = pd.array([pd.NA] * len(unmeasured), "boolean")
    for frames in ([], [unmeasured], [make_verdicts(30, 5, column="BM25")]):
        assert verdicts(make_claim(relation="above", **PAIR), *frames) == (NOT_ATTEMPTED, [])
    without_tasks = Evidence("m", "w", 0, 0.3, 0.2, 0.4, target=0.3)
    without_effect = Evidence("m", "w", 10, target=0.3)
    for relation in ("above", "about", "equal"):
        assert claims.decide(relation, without_tasks) == NOT_ATTEMPTED
        assert claims.decide(relation, without_effect) == NOT_ATTEMPTED


def test_every_measurement_counts_and_mixed_verdicts_are_counted():
    above = make_claim(relation="above", id="above", **PAIR)
    below = make_claim(relation="below", id="below", **PAIR)
    gain = make_verdicts(30, 5)
    loss = make_verdicts(5, 30)
    unclear = make_verdicts(10, 10)
    assert verdicts(above, gain, make_verdicts(40, 5))[0] == HOLDS
    assert verdicts(above, gain, loss) == (MIXED, [HOLDS, FAILS])
    assert verdicts(above, gain, unclear) == (MIXED, [HOLDS, INCONCLUSIVE])
    assessed = assess(make_runs(gain, unclear), above, below)
    (finding,) = verdicts_finding(assessed)
    assert finding.startswith("Of 2 claims, 0 are confirmed")
    assert "2 have mixed evidence" in finding
    by_source = verdicts_by_source(assessed).frame
    assert (by_source["claims"] == "2").all()
    assert by_source.loc["runs of this study's models", MIXED] == "2"


def test_each_model_keeps_its_own_verdict():
    evidence = [make_evidence("a", 0.3), make_evidence("b", -0.3), make_evidence("b", -0.2)]
    (assessed,) = claims.judge([(make_claim(relation="above", **PAIR), evidence)])
    assert assessed.verdict == MIXED
    assert verdict_by_subject(assessed) == {"a": HOLDS, "b": FAILS}


def test_claim_about_all_cases_fails_with_one_of_them():
    evidence = [make_evidence("paper", effect, exact=True) for effect in (1.0, 2.0, -1.0)]
    about_all = make_claim(relation="positive", all=True)
    about_each = make_claim(relation="positive")
    assessed = claims.judge([(about_all, evidence), (about_each, evidence)])
    assert [a.verdict for a in assessed] == [FAILS, MIXED]


def test_p_values_of_one_run_are_corrected_together_and_a_pair_counts_once():
    def judge(pairs, families):
        measured = []
        for number, (pair, family) in enumerate(zip(pairs, families, strict=True)):
            claim = make_claim(id=str(number), relation="above")
            measured.append((claim, [make_evidence("m", 0.2, 0.02, family=family, pair=pair)]))
        return [assessed.verdict for assessed in claims.judge(measured)]

    methods = ["BM25", "VoyageEmb", "Func-BM25"]
    one_run = ["run", "run", "run"]
    assert judge(methods, one_run) == [INCONCLUSIVE] * 3
    assert judge(["x", "x", "x"], one_run) == [HOLDS] * 3
    assert judge(methods, ["a", "b", "c"]) == [HOLDS] * 3

    # A claim about a size has no p-value, so it does not affect the correction.
    (size,) = assess(make_runs(make_verdicts(30, 5)), make_claim(relation="about", **PAIR))
    assert math.isnan(size.evidence[0].p)


def test_size_is_decided_by_its_interval():
    for low, high, about, at_most in (
        (0.06, 0.09, HOLDS, HOLDS),
        (0.16, 0.3, FAILS, FAILS),
        (-0.2, 0.04, FAILS, HOLDS),
        (0.03, 0.2, INCONCLUSIVE, INCONCLUSIVE),
    ):
        evidence = Evidence("m", "w", 100, (low + high) / 2, low, high, target=0.1)
        assert claims.decide("about", evidence) == about
        assert claims.decide("at most", evidence) == at_most
        assert claims.decide("at least", evidence) == OPPOSITE[at_most]


def test_recomputed_number_is_decided_by_its_value():
    for relation, target, matching, deviating in (
        ("equal", 14.2, 14.24, 14.26),
        ("equal", 4, 3.6, 4.8),
        ("positive", math.nan, 0.1, 0.0),
        ("scale", 3, 5.9, 1.4),
    ):
        evidence = Evidence("m", "w", 1, matching, exact=True, target=target)
        assert claims.decide(relation, evidence) == HOLDS
        evidence = replace(evidence, effect=deviating)
        assert claims.decide(relation, evidence) == FAILS


def test_detectable_effect_is_found_with_the_stated_power():
    tasks = 500
    discordant = 0.3
    effect = claims.detectable(tasks, discordant)
    shares = [(discordant + effect) / 2, (discordant - effect) / 2, 1 - discordant]
    helped, hurt, _ = np.random.default_rng(0).multinomial(tasks, shares, 20_000).T
    is_significant = (helped - hurt) / np.sqrt(helped + hurt) > norm.ppf(0.975)
    assert is_significant.mean() == pytest.approx(claims.POWER, abs=0.02)


def test_no_effect_is_detectable_with_too_few_tasks_or_discordant_pairs():
    for tasks, discordant in ((100, 0.0), (100, 0.01), (0, 0.5)):
        assert math.isnan(claims.detectable(tasks, discordant))


def test_errors_are_compared_task_by_task():
    runs = make_runs(make_verdicts(0, 30, 60))
    tasks = list(runs.runs[0].verdicts.index)
    passed = {task: Outcome("passed") for task in tasks}
    failed = {task: Outcome("failed", "NameError") for task in tasks[:30]}
    failed[tasks[-1]] = Outcome("not_measured", "NameError")
    runs.runs[0].run.outcomes = lambda method: passed if method == "NoRAG" else passed | failed
    for relation, verdict in (("above", HOLDS), ("below", FAILS)):
        claim = make_claim("error_shift", relation=relation, error="NameError", **PAIR)
        (assessed,) = assess(runs, claim)
        assert assessed.verdict == verdict
        assert assessed.evidence[0].n == 89


TOPICS = ["Data Structures", "Algorithms"]


@pytest.fixture
def by_topic(monkeypatch):
    """Runs of a method that helps on one topic and hurts on another.

    It helps on 30 of 90 tasks about data structures and hurts on 30 of 90 about algorithms.
    """
    tasks = [f"HumanEval/{i}" for i in range(180)]
    topics = pd.DataFrame({"topic": [TOPICS[0]] * 90 + [TOPICS[1]] * 90}, tasks)
    monkeypatch.setattr(claim_tests, "stored_topics", lambda *_: topics)
    frames = [make_verdicts(30, 0), make_verdicts(0, 30)]
    return make_runs(pd.concat(frames).set_axis(tasks))


def test_topics_are_compared_one_by_one(by_topic):
    def assess_topics(topics, **more):
        claim = make_claim("topic_differences", relation="above", topics=topics, **PAIR, **more)
        (assessed,) = assess(by_topic, claim)
        return assessed.verdict, [(e.n, round(e.effect, 2)) for e in assessed.evidence]

    assert assess_topics(["Data Structures"]) == (HOLDS, [(90, 0.33)])
    assert assess_topics(["Algorithms"]) == (FAILS, [(90, -0.33)])
    assert assess_topics(TOPICS)[0] == MIXED
    assert assess_topics(TOPICS, all=True)[0] == FAILS


def test_claim_without_named_topics_is_measured_on_every_topic(by_topic):
    (assessed,) = assess(by_topic, make_claim("topic_differences", relation="above", **PAIR))
    topics = {e.where.rpartition(", ")[2] for e in assessed.evidence}
    assert topics == {"Data structures", "Algorithms"}
    assert len({e.family for e in assessed.evidence}) == 1
    assert len({e.pair for e in assessed.evidence}) == 2


def test_share_of_topics_has_no_interval(by_topic):
    claim = make_claim("topic_share", relation="at least", target=60.0, **PAIR)
    (assessed,) = assess(by_topic, claim)
    (evidence,) = assessed.evidence
    assert (evidence.effect, evidence.low, evidence.high) == (0.5, 0.5, 0.5)
    assert assessed.verdict == FAILS


def test_omits_runs_that_are_not_stored_and_methods_that_are_not_measured(tmp_path, monkeypatch):
    def make_results(model, benchmark, corpus, *_):
        verdicts = make_verdicts(30, 5).assign(Few=pd.array([pd.NA] * 95, "boolean"))
        return SimpleNamespace(
            benchmark_spec=SimpleNamespace(title="HumanEval"),
            corpus=corpus,
            verdicts=lambda: verdicts,
            generator=object(),
        )

    monkeypatch.setattr(claim_tests, "Results", make_results)
    monkeypatch.setattr(claim_tests, "is_measured", lambda *names: names[-1] == "published")
    (measured,) = StoredRuns([MODEL], ["humaneval"], ["published", "textbook"], tmp_path).runs
    assert measured.family == f"{MODEL}, HumanEval, authors' contexts"
    assert list(measured.verdicts) == ["NoRAG", "Block-PKG"]


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], NOT_ATTEMPTED),
        ([FAILS], INCONCLUSIVE),
        ([HOLDS, INCONCLUSIVE], INCONCLUSIVE),
        ([HOLDS, FAILS], HOLDS),
        ([INCONCLUSIVE], INCONCLUSIVE),
    ],
)
def test_claim_that_models_differ_needs_both_signs(verdicts, expected):
    claim = Claim("c", "", "", "", "", "paired", "", {"differs": True})
    assert claims.Assessed(claim, tuple(Evidence(verdict=v) for v in verdicts)).verdict == expected


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], NOT_ATTEMPTED),
        ([REPRODUCED, INCONCLUSIVE], REPRODUCED),
        ([REPRODUCED, CONTRADICTED], REPRODUCED),
        ([INCONCLUSIVE, INCONCLUSIVE], INCONCLUSIVE),
        ([CONTRADICTED, INCONCLUSIVE], INCONCLUSIVE),
        ([CONTRADICTED, CONTRADICTED], CONTRADICTED),
    ],
)
def test_claim_about_some_cases_holds_with_one_case(verdicts, expected):
    claim = Claim("c", "", "", "", "", "replayed", "", {"some": True})
    assert claims.Assessed(claim, tuple(Evidence(verdict=v) for v in verdicts)).verdict == expected


def test_small_gain_does_not_show_that_closed_models_lose():
    ids = ("closed-block-he", "closed-loss-he")
    about_closed_models = [claim for claim in claims.load() if claim.id in ids]
    gain = make_verdicts(2, 1, 160)
    small_loss = make_verdicts(1, 3, 160)
    large_loss = make_verdicts(1, 30, 160)
    small, loss = assess(make_replays("gpt-4o", gain, small_loss), *about_closed_models)
    assert (small.verdict, loss.verdict) == (REPRODUCED, INCONCLUSIVE)
    small, loss = assess(make_replays("gpt-4o", gain, large_loss), *about_closed_models)
    assert (small.verdict, loss.verdict) == (REPRODUCED, REPRODUCED)


PAPER_MODEL = "codellama-7b-instruct"
VOYAGE = "python-alpaca, embedder voyage-code-2"


@pytest.mark.parametrize(
    ("model", "corpus", "column", "limit", "supported", "opposed"),
    [
        (PAPER_MODEL, "published", "Block-PKG", None, REPRODUCED, CONTRADICTED),
        (PAPER_MODEL, VOYAGE, "Block-PKG", None, REPRODUCED, CONTRADICTED),
        (PAPER_MODEL, VOYAGE, "Reranked", None, REPRODUCED, CONTRADICTED),
        (MODEL, "published", "Block-PKG", None, HOLDS, FAILS),
        (
            PAPER_MODEL,
            "python-alpaca",
            "Block-PKG",
            None,
            HOLDS,
            FAILS,
        ),  # another embedder retrieved
        (PAPER_MODEL, "published", "Reranked", None, HOLDS, FAILS),  # another embedder reranked
        (PAPER_MODEL, "textbook", "Block-PKG", None, HOLDS, FAILS),
        (PAPER_MODEL, f"{VOYAGE}, top 3", "Block-PKG", None, HOLDS, FAILS),
        (PAPER_MODEL, "published", "Block-PKG", 20, HOLDS, FAILS),
    ],
)
def test_only_the_papers_models_in_the_papers_setting_reproduce_or_contradict(
    model, corpus, column, limit, supported, opposed
):
    pair = {"benchmark": "humaneval", "column": column, "against": "NoRAG"}
    claim = make_claim(relation="above", **pair)
    for frame, expected in (
        (make_verdicts(30, 5, column=column), supported),
        (make_verdicts(5, 30, column=column), opposed),
    ):
        runs = make_runs(frame, corpora=[corpus], model=model, limit=limit)
        (assessed,) = assess(runs, claim)
        assert assessed.verdict == expected


def make_replays(subject, *frames):
    """Make stored runs of published completions of a model."""
    where = "HumanEval, published completions"
    runs = make_runs()
    measured = [Measured(subject, where, frame, source=REPLAYED) for frame in frames]
    runs.__dict__["replays"] = {"humaneval": measured}
    return runs


def test_published_completions_reproduce_but_completions_of_another_model_do_not():
    def verdict(subject, frame):
        claim = make_claim("replayed", relation="above", **PAIR)
        (assessed,) = assess(make_replays(subject, frame), claim)
        return assessed.verdict

    assert verdict("gpt-4o", make_verdicts(30, 5)) == REPRODUCED
    assert verdict("gpt-4o", make_verdicts(5, 30)) == CONTRADICTED
    assert verdict("my-model", make_verdicts(30, 5)) == HOLDS


def test_bound_that_the_paper_does_not_name_is_neither_reproduced_nor_contradicted():
    share = {
        "benchmark": "humaneval",
        "among": ["NoRAG"],
        "failed": ["Block-PKG"],
        "target": 5.0,
        "relation": "at most",
        "replayed": True,
    }
    named_by_the_paper = make_claim("share", **share)
    chosen_here = make_claim("share", **share, ours=True)
    for frame, named_verdict, chosen_verdict in (
        (make_verdicts(0, 0, same=200), REPRODUCED, HOLDS),
        (make_verdicts(0, 100), CONTRADICTED, FAILS),
    ):
        runs = make_replays("gpt-4o", frame)
        assert assess(runs, named_by_the_paper)[0].verdict == named_verdict
        assert assess(runs, chosen_here)[0].verdict == chosen_verdict


def test_topics_assigned_by_this_project_reproduce_nothing(by_topic, monkeypatch):
    (measured,) = by_topic.runs
    runs = make_replays("gpt-4o", measured.verdicts)
    claim = make_claim("topic_differences", relation="above", topics=TOPICS[:1], **PAIR)
    assert assess(runs, claim)[0].verdict == HOLDS


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([REPRODUCED, REPRODUCED], REPRODUCED),
        ([REPRODUCED, HOLDS], HOLDS),
        ([FAILS, CONTRADICTED], FAILS),
        ([REPRODUCED, FAILS], MIXED),
        ([HOLDS, HOLDS_BUILT, INCONCLUSIVE], MIXED),
        ([NOT_ATTEMPTED, FAILS_BUILT], FAILS_BUILT),
    ],
)
def test_agreeing_measurements_get_the_weakest_of_their_verdicts(verdicts, expected):
    assert claims.overall(verdicts) == expected


# Measurements of a small graph. At 0.05 texts per second, its 300 texts take 100 minutes to
# encode, and its 100 functions take 33.
GRAPH = {
    "functions": 100,
    "nodes": 350,
    "edges": 350,
    "payloads": 300,
    "documents": 100,
    "build": {"one": {"wall_s": 15.0, "save_s": 1.0}},
    "search": {"exact_ms": 30.0},
    "encoding": {"texts_per_cpu_s": 0.05},
}


def test_claim_that_a_graph_takes_an_hour_is_compared_as_a_size(tmp_path):
    """Neither a graph that takes seconds nor one that takes two days supports the claim."""
    (claim,) = [claim for claim in claims.load() if claim.id == "graph-hour"]

    def assess_graph(graph):
        write_json(tmp_path / "benchmarks" / "graph.json", graph)
        (assessed,) = assess(StoredRuns([MODEL], [], [], tmp_path), claim)
        return assessed

    assessed = assess_graph(GRAPH)
    assert assessed.verdict == MIXED
    assert [round(e.effect, 2) for e in assessed.evidence] == [0.25, 66.93]
    assert [e.verdict for e in assessed.evidence] == [FAILS_BUILT, HOLDS_BUILT]
    for texts_per_second in (10.0, 0.001):
        encoding = {"texts_per_cpu_s": texts_per_second}
        assert assess_graph(GRAPH | {"encoding": encoding}).verdict == FAILS_BUILT
    without_encoding = {name: value for name, value in GRAPH.items() if name != "encoding"}
    assert len(assess_graph(without_encoding).evidence) == 1


UNPRUNED = "Func-PKG, unpruned"
PRUNING = {"benchmark": "humaneval", "column": "Func-PKG", "against": UNPRUNED}


def make_runs_of_contexts(pruned, unpruned, models=(MODEL,)):
    """Make runs of models that share their contexts.

    Args:
        pruned: Numbers of the tasks that the pruned contexts solve.
        unpruned: Numbers of the tasks that the unpruned contexts solve.
        models: Names of the models.
    """
    tasks = [f"HumanEval/{i}" for i in range(100)]
    solved = {"Func-PKG": pruned, UNPRUNED: unpruned}

    def leakage(method):
        leaks = {}
        for number, task in enumerate(tasks):
            passes = number in solved[method]
            leaks[task] = SimpleNamespace(passes=passes, callable=True)
        return leaks

    frame = pd.DataFrame({"NoRAG": True, "Func-PKG": True}, tasks).astype("boolean")
    variant = pd.DataFrame({UNPRUNED: True}, tasks).astype("boolean")
    measured = []
    for model in models:
        run = SimpleNamespace(
            model=model,
            benchmark="humaneval",
            corpus="textbook",
            limit=None,
            leakage=leakage,
            contexts=lambda method: [],
            tasks=[SimpleNamespace(id=task) for task in tasks],
            offers=lambda method: True,
            verdicts=lambda methods: variant[methods],
        )
        measured.append(Measured(model, "HumanEval, textbook", frame, run))
    runs = StoredRuns(list(models), ["humaneval"], ["textbook"], Path("none"))
    runs.__dict__["runs"] = measured
    runs.__dict__["replays"] = {}
    return runs


def test_pruning_is_judged_by_the_contexts_that_solve_their_task():
    claim = make_claim("context_validity", relation="above", **PRUNING)
    models = (MODEL, "qwen2.5-coder-1.5b-instruct")
    for pruned, unpruned, expected in (
        (range(30), range(5), HOLDS_BUILT),
        (range(5), range(30), FAILS_BUILT),
        (range(30), range(30), INCONCLUSIVE),
    ):
        (assessed,) = assess(make_runs_of_contexts(pruned, unpruned, models), claim)
        assert assessed.verdict == expected
        # Two models with the same contexts are one measurement.
        assert [e.n for e in assessed.evidence] == [100]


def test_reads_the_verdicts_of_a_variant_that_a_claim_names():
    runs = make_runs_of_contexts(range(3), range(3))
    (assessed,) = assess(runs, make_claim(relation="above", **PRUNING))
    assert [(e.n, e.effect) for e in assessed.evidence] == [(100, 0.0)]
