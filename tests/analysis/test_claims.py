"""The rule of the claim ledger: what a measurement makes of a claim, and how measurements are put together."""

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
from pkg_lib.papers.claims.claim_ledger import ledger_findings, verdict_by_subject
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


def claim(test="paired", id="c", **args):
    return Claim(id, "topic", "both", "Table 1", "says", test, "runs", args)


def frame(helped, hurt, same=60, column="Block-PKG"):
    """Verdicts of None and a column: tasks that only the column solves, only None solves, both solve."""
    none = [False] * helped + [True] * hurt + [True] * same
    other = [True] * helped + [False] * hurt + [True] * same
    tasks = [f"HumanEval/{i}" for i in range(len(none))]
    return pd.DataFrame({"NoRAG": none, column: other}, tasks).astype("boolean")


def stored(*frames, corpora=("pkg-contexts", "textbook", "stdlib"), model=MODEL, limit=None):
    """Stored runs of these frames, each of another corpus; no published completions."""
    runs = StoredRuns([model], ["humaneval"], list(corpora), Path("none"))
    about = [
        SimpleNamespace(model=model, benchmark="humaneval", corpus=c, limit=limit) for c in corpora
    ]
    named = zip(about, frames, strict=False)
    runs.__dict__["runs"] = [Measured(model, f"HumanEval, {e.corpus}", f, e) for e, f in named]
    runs.__dict__["replays"] = {}
    return runs


def assess(runs, *some):
    return claims.judge(claim_tests.measure(runs, some, {}))


def verdicts(c, *frames):
    (one,) = assess(stored(*frames), c)
    return one.verdict, [e.verdict for e in one.evidence]


def point(subject, effect, p=0.001, **more):
    bounds = (effect - 0.05, effect + 0.05, p)
    return replace(
        Evidence(subject, "run", 100, effect, *bounds, family=f"{subject} {effect}"), **more
    )


@pytest.mark.parametrize(
    ("helped", "hurt", "above"),
    [(30, 5, HOLDS), (5, 30, FAILS), (11, 9, INCONCLUSIVE), (0, 0, INCONCLUSIVE)],
)
def test_a_direction_is_decided_by_the_test_and_the_sign_alike_for_both_sides(helped, hurt, above):
    assert verdicts(claim(relation="above", **PAIR), frame(helped, hurt))[0] == above
    assert verdicts(claim(relation="below", **PAIR), frame(helped, hurt))[0] == OPPOSITE[above]
    turned = PAIR | {"column": "NoRAG", "against": "Block-PKG"}
    assert verdicts(claim(relation="above", **turned), frame(helped, hurt))[0] == OPPOSITE[above]


def test_without_a_measurement_nothing_is_attempted():
    unknown = frame(30, 5)
    unknown["Block-PKG"] = pd.array([pd.NA] * len(unknown), "boolean")
    for frames in ([], [unknown], [frame(30, 5, column="BM25")]):
        assert verdicts(claim(relation="above", **PAIR), *frames) == (NOT_ATTEMPTED, [])
    for relation in ("above", "about", "equal"):
        for empty in (
            Evidence("m", "w", 0, 0.3, 0.2, 0.4, target=0.3),
            Evidence("m", "w", 10, target=0.3),
        ):
            assert claims.decide(relation, empty) == NOT_ATTEMPTED


def test_every_measurement_counts_and_findings_tell_what_is_mixed():
    above, below = (claim(relation=r, id=r, **PAIR) for r in ("above", "below"))
    assert verdicts(above, frame(30, 5), frame(40, 5))[0] == HOLDS
    assert verdicts(above, frame(30, 5), frame(5, 30)) == (MIXED, [HOLDS, FAILS])
    assert verdicts(above, frame(30, 5), frame(10, 10)) == (MIXED, [HOLDS, INCONCLUSIVE])
    sentences = ledger_findings(assess(stored(frame(30, 5), frame(10, 10)), above, below))
    for verdict in (HOLDS, FAILS):
        assert f"Measured here, {verdict} and inconclusive (1): says." in sentences


def test_a_model_keeps_its_own_verdict_and_a_sentence_about_every_case_falls_with_one():
    points = [point("a", 0.3), point("b", -0.3), point("b", -0.2)]
    (one,) = claims.judge([(claim(relation="above", **PAIR), points)])
    assert one.verdict == MIXED and verdict_by_subject(one) == {"a": HOLDS, "b": FAILS}
    points = [replace(point("paper", v), exact=True) for v in (1.0, 2.0, -1.0)]
    every, some = claim(relation="positive", all=True), claim(relation="positive")
    assert [a.verdict for a in claims.judge([(every, points), (some, points)])] == [FAILS, MIXED]


def test_p_values_of_one_run_are_corrected_together_and_a_pair_counts_once():
    def judged(pairs, families=("run",) * 3):
        named = enumerate(zip(pairs, families, strict=True))
        points = [(str(i), point("m", 0.2, 0.02, family=f, pair=p)) for i, (p, f) in named]
        return [
            a.verdict
            for a in claims.judge([(claim(id=i, relation="above"), [e]) for i, e in points])
        ]

    assert judged(["BM25", "VoyageEmb", "Func-BM25"]) == [INCONCLUSIVE] * 3
    assert judged(["x"] * 3) == judged(["BM25", "VoyageEmb", "Func-BM25"], "abc") == [HOLDS] * 3
    (size,) = assess(stored(frame(30, 5)), claim(relation="about", **PAIR))
    assert math.isnan(size.evidence[0].p)  # so it does not burden the directions


def test_a_size_is_decided_by_the_interval_and_a_recomputed_number_by_itself():
    for low, high, about, at_most in (
        (0.06, 0.09, HOLDS, HOLDS),
        (0.16, 0.3, FAILS, FAILS),
        (-0.2, 0.04, FAILS, HOLDS),
        (0.03, 0.2, INCONCLUSIVE, INCONCLUSIVE),
    ):
        e = Evidence("m", "w", 100, (low + high) / 2, low, high, target=0.1)
        assert claims.decide("about", e) == about and claims.decide("at most", e) == at_most
        assert claims.decide("at least", e) == OPPOSITE[at_most]
    for relation, target, fits, fails in (
        ("equal", 14.2, 14.24, 14.26),
        ("equal", 4, 3.6, 4.8),
        ("positive", math.nan, 0.1, 0.0),
        ("scale", 3, 5.9, 1.4),
    ):
        verdicts = [Evidence("m", "w", 1, v, exact=True, target=target) for v in (fits, fails)]
        assert [claims.decide(relation, e) for e in verdicts] == [HOLDS, FAILS]


def test_smallest_effect_is_found_at_its_power():
    n, discordant = 500, 0.3
    d = claims.detectable(n, discordant)
    shares = [(discordant + d) / 2, (discordant - d) / 2, 1 - discordant]
    helped, hurt, _ = np.random.default_rng(0).multinomial(n, shares, 20_000).T
    shown = (helped - hurt) / np.sqrt(helped + hurt) > norm.ppf(0.975)
    assert shown.mean() == pytest.approx(claims.POWER, abs=0.02)
    assert all(math.isnan(claims.detectable(n, s)) for n, s in ((100, 0.0), (100, 0.01), (0, 0.5)))


def test_errors_are_compared_task_by_task():
    runs = stored(frame(0, 30, 60))
    passed = {t: Outcome("passed") for t in runs.runs[0].verdicts.index}
    failed = {t: Outcome("failed", "NameError") for t in [*passed][:30]}
    failed[[*passed][-1]] = Outcome("not_measured", "NameError")
    runs.runs[0].run.outcomes = lambda c: passed if c == "NoRAG" else passed | failed
    some = [claim("error_shift", relation=r, error="NameError", **PAIR) for r in ("above", "below")]
    assert [(a.verdict, a.evidence[0].n) for a in assess(runs, *some)] == [
        (HOLDS, 89),
        (FAILS, 89),
    ]


TOPICS = ["Data Structures", "Algorithms"]


@pytest.fixture
def by_topic(monkeypatch):
    """90 tasks of data structures, in which a column helps 30, then 90 of algorithms, in which it hurts 30."""
    ids = [f"HumanEval/{i}" for i in range(180)]
    topic = pd.DataFrame({"topic": [TOPICS[i >= 90] for i in range(180)]}, ids)
    monkeypatch.setattr(claim_tests, "stored_topics", lambda *_: topic)
    return stored(pd.concat([frame(30, 0), frame(0, 30)]).set_axis(ids))


def test_topics_are_compared_one_by_one(by_topic):
    def of(topics, **more):
        (one,) = assess(
            by_topic, claim("topic_differences", relation="above", topics=topics, **PAIR, **more)
        )
        return one.verdict, [(e.n, round(e.effect, 2)) for e in one.evidence]

    assert of(TOPICS[:1]) == (HOLDS, [(90, 0.33)]) and of(TOPICS[1:]) == (FAILS, [(90, -0.33)])
    assert of(TOPICS)[0] == MIXED and of(TOPICS, all=True)[0] == FAILS
    (whole,) = assess(by_topic, claim("topic_differences", relation="above", **PAIR))
    assert {e.where.rpartition(", ")[2] for e in whole.evidence} == {
        "Data structures",
        "Algorithms",
    }
    assert (
        len({e.family for e in whole.evidence}) == 1 and len({e.pair for e in whole.evidence}) == 2
    )
    (half,) = assess(by_topic, claim("topic_share", relation="at least", target=60.0, **PAIR))
    (e,) = half.evidence
    assert (e.effect, e.low, e.high, half.verdict) == (0.5, 0.5, 0.5, FAILS)


def test_what_is_not_stored_and_a_column_that_is_not_measured_are_left_out(tmp_path, monkeypatch):
    def run(model, benchmark, corpus, *_):
        verdicts = frame(30, 5).assign(Few=pd.array([pd.NA] * 95, "boolean"))
        about = {
            "benchmark_spec": SimpleNamespace(title="HumanEval"),
            "corpus": corpus,
        }
        return SimpleNamespace(**about, verdicts=lambda: verdicts, generator=object())

    monkeypatch.setattr(claim_tests, "Results", run)
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
def test_a_sentence_that_models_differ_needs_both_signs(verdicts, expected):
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
def test_one_case_is_enough_for_a_claim_about_some_cases(verdicts, expected):
    claim = Claim("c", "", "", "", "", "replayed", "", {"some": True})
    assert claims.Assessed(claim, tuple(Evidence(verdict=v) for v in verdicts)).verdict == expected


def test_a_small_gain_does_not_show_that_closed_models_lose():
    block = [c for c in claims.load() if c.id in ("closed-block-he", "closed-loss-he")]
    small, loss = assess(replayed_as("gpt-4o", frame(2, 1, 160), frame(1, 3, 160)), *block)
    assert (small.verdict, loss.verdict) == (REPRODUCED, INCONCLUSIVE)
    small, loss = assess(replayed_as("gpt-4o", frame(2, 1, 160), frame(1, 30, 160)), *block)
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
def test_only_the_papers_models_doing_the_papers_work_reproduce_or_contradict(
    model, corpus, column, limit, supported, opposed
):
    above = claim(relation="above", **PAIR | {"column": column})
    for frame_of, expected in (
        (frame(30, 5, column=column), supported),
        (frame(5, 30, column=column), opposed),
    ):
        (one,) = assess(stored(frame_of, corpora=[corpus], model=model, limit=limit), above)
        assert one.verdict == expected


def replayed_as(subject, *frames):
    runs = stored()
    measured = [
        Measured(subject, "HumanEval, published completions", f, source=REPLAYED) for f in frames
    ]
    runs.__dict__["replays"] = {"humaneval": measured}
    return runs


def test_published_completions_reproduce_but_completions_of_another_model_do_not():
    above = claim("replayed", relation="above", **PAIR)
    assert assess(replayed_as("gpt-4o", frame(30, 5)), above)[0].verdict == REPRODUCED
    assert assess(replayed_as("gpt-4o", frame(5, 30)), above)[0].verdict == CONTRADICTED
    assert assess(replayed_as("my-model", frame(30, 5)), above)[0].verdict == HOLDS


def test_a_bound_that_the_paper_does_not_name_is_neither_reproduced_nor_contradicted():
    few = {"benchmark": "humaneval", "among": ["NoRAG"], "failed": ["Block-PKG"], "target": 5.0}
    few |= {"relation": "at most", "replayed": True}
    for runs, named, chosen_here in (
        (replayed_as("gpt-4o", frame(0, 0, same=200)), REPRODUCED, HOLDS),
        (replayed_as("gpt-4o", frame(0, 100)), CONTRADICTED, FAILS),
    ):
        assert assess(runs, claim("share", **few))[0].verdict == named
        assert assess(runs, claim("share", **few, ours=True))[0].verdict == chosen_here


def test_a_topic_that_was_assigned_here_reproduces_nothing(by_topic, monkeypatch):
    (measured,) = by_topic.runs
    runs = replayed_as("gpt-4o", measured.verdicts)
    topical = claim("topic_differences", relation="above", topics=TOPICS[:1], **PAIR)
    assert assess(runs, topical)[0].verdict == HOLDS


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
def test_measurements_that_agree_get_the_words_that_claim_least(verdicts, expected):
    assert claims.overall(verdicts) == expected


def test_the_additional_hour_is_compared_as_a_size_with_and_without_encoding(tmp_path):
    """A graph that is built in seconds does not bear out that it takes an hour, nor does one of two days."""
    hour = next(c for c in claims.load() if c.id == "graph-hour")
    run = {"functions": 100, "nodes": 350, "edges": 350, "payloads": 300, "documents": 100}
    run |= {"build": {"one": {"wall_s": 15.0, "save_s": 1.0}}, "search": {"exact_ms": 30.0}}
    run |= {"encoding": {"texts_per_cpu_s": 0.05}}

    def verdicts_for(**changed):
        write_json(tmp_path / "benchmarks" / "graph.json", run | changed)
        runs = StoredRuns([MODEL], [], [], tmp_path)
        (one,) = claims.judge(claim_tests.measure(runs, [hour], {}))
        return (
            one.verdict,
            [round(e.effect, 2) for e in one.evidence],
            [e.verdict for e in one.evidence],
        )

    # 300 texts at 0.05 a second are 100 minutes, 100 rows are 33.
    assert verdicts_for() == (MIXED, [0.25, 66.93], [FAILS_BUILT, HOLDS_BUILT])
    assert verdicts_for(encoding={"texts_per_cpu_s": 10.0})[0] == FAILS_BUILT
    assert verdicts_for(encoding={"texts_per_cpu_s": 0.001})[0] == FAILS_BUILT
    without = {k: v for k, v in run.items() if k != "encoding"}
    write_json(tmp_path / "benchmarks" / "graph.json", without)
    (one,) = claims.judge(claim_tests.measure(StoredRuns([MODEL], [], [], tmp_path), [hour], {}))
    assert len(one.evidence) == 1


UNPRUNED = "Func-PKG, unpruned"


def with_contexts(pruned, whole, models=(MODEL,)):
    """Runs of models on the same contexts, which solve these tasks with pruning and without it."""
    tasks = [f"HumanEval/{i}" for i in range(100)]
    valid = {"Func-PKG": pruned, UNPRUNED: whole}

    def leakage(column):
        return {
            t: SimpleNamespace(passes=i in valid[column], callable=True)
            for i, t in enumerate(tasks)
        }

    every = pd.DataFrame({"NoRAG": True, "Func-PKG": True}, tasks).astype("boolean")
    variant = pd.DataFrame({UNPRUNED: True}, tasks).astype("boolean")
    about = {"benchmark": "humaneval", "corpus": "textbook", "limit": None, "leakage": leakage}
    about |= {"contexts": lambda column: []}
    about |= {"tasks": [SimpleNamespace(id=t) for t in tasks]}
    about |= {"offers": lambda column: True, "verdicts": lambda columns: variant[columns]}
    runs = StoredRuns(list(models), ["humaneval"], ["textbook"], Path("none"))
    named = [SimpleNamespace(model=m, **about) for m in models]
    runs.__dict__["runs"] = [Measured(r.model, "HumanEval, textbook", every, r) for r in named]
    runs.__dict__["replays"] = {}
    return runs


def test_pruning_is_judged_by_the_contexts_that_solve_their_task():
    pair = {"benchmark": "humaneval", "column": "Func-PKG", "against": UNPRUNED}
    raises = claim("context_validity", relation="above", **pair)
    for pruned, whole, expected in (
        (range(30), range(5), HOLDS_BUILT),
        (range(5), range(30), FAILS_BUILT),
        (range(30), range(30), INCONCLUSIVE),
    ):
        (one,) = assess(
            with_contexts(pruned, whole, models=(MODEL, "qwen2.5-coder-1.5b-instruct")), raises
        )
        assert one.verdict == expected
        assert [e.n for e in one.evidence] == [
            100
        ]  # two models with the same contexts are one measurement


def test_a_variant_is_read_where_a_claim_names_it():
    pair = {"benchmark": "humaneval", "column": "Func-PKG", "against": UNPRUNED}
    (one,) = assess(with_contexts(range(3), range(3)), claim(relation="above", **pair))
    assert [(e.n, e.effect) for e in one.evidence] == [(100, 0.0)]
