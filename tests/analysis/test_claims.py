"""The rule of the claim ledger: what a measurement makes of a claim, and how measurements are put together."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from pkg_lib.papers.claims import claim_report, claim_tests, claims
from pkg_lib.papers.claims.claims import (
    CONTRADICTED,
    INCONCLUSIVE,
    MIXED,
    NOT_ATTEMPTED,
    REPRODUCED,
    Claim,
    Evidence,
)
from pkg_lib.papers.pkg.topic_rates import share_above

PAIR = {"benchmark": "humaneval", "column": "Block-PKG", "against": "None"}


def claim(test="paired", id="c", **args):
    return Claim(id, "topic", "both", "Table 1", "says", test, "runs", args)


def frame(helped, hurt, same=60, column="Block-PKG", **more):
    """Verdicts of None and a column: tasks that only the column solves, only None solves, both solve."""
    none = [False] * helped + [True] * hurt + [True] * same
    other = [True] * helped + [False] * hurt + [True] * same
    return pd.DataFrame(
        {"None": none, column: other} | more, [f"HumanEval/{i}" for i in range(len(none))]
    ).astype("boolean")


def study(*frames, corpora=("pkg-contexts", "textbook", "stdlib"), model="qwen2.5-coder-0.5b-instruct"):
    """A study whose stored runs are these frames, each of another corpus."""
    found = claim_tests.Study([model], ["humaneval"], list(corpora), results=None)
    runs = [
        (SimpleNamespace(model=model, benchmark="humaneval", corpus=c), f)
        for c, f in zip(corpora, frames, strict=False)
    ]
    found.__dict__["runs"] = [claim_tests.Run(e, f) for e, f in runs]
    return found


def verdicts(c, *frames):
    (one,) = claims.judge(claim_tests.measure(study(*frames), [c]))
    return one.verdict, [e.verdict for e in one.evidence]


@pytest.mark.parametrize(
    ("helped", "hurt", "above"),
    [
        (30, 5, REPRODUCED),
        (5, 30, CONTRADICTED),
        (11, 9, INCONCLUSIVE),
        (9, 11, INCONCLUSIVE),
        (0, 0, INCONCLUSIVE),
    ],
)
def test_a_direction_is_decided_by_the_test_and_the_sign_alike_for_both_sides(helped, hurt, above):
    opposite = {REPRODUCED: CONTRADICTED, CONTRADICTED: REPRODUCED, INCONCLUSIVE: INCONCLUSIVE}
    assert verdicts(claim(relation="above", **PAIR), frame(helped, hurt))[0] == above
    assert verdicts(claim(relation="below", **PAIR), frame(helped, hurt))[0] == opposite[above]
    turned = PAIR | {"column": "None", "against": "Block-PKG"}
    assert verdicts(claim(relation="above", **turned), frame(helped, hurt))[0] == opposite[above]


def test_without_a_measurement_nothing_is_attempted():
    assert verdicts(claim(relation="above", **PAIR)) == (NOT_ATTEMPTED, [])
    unknown = frame(30, 5)
    unknown["Block-PKG"] = pd.array([pd.NA] * len(unknown), "boolean")
    assert verdicts(claim(relation="above", **PAIR), unknown) == (NOT_ATTEMPTED, [])
    assert verdicts(claim(relation="above", **PAIR), frame(30, 5, column="BM25")) == (NOT_ATTEMPTED, [])
    (one,) = claims.judge([(claim("unavailable"), [])])
    assert one.verdict == NOT_ATTEMPTED and "runs" in one.why


def test_the_rule_itself_attempts_nothing_without_tasks_or_a_number():
    for relation in claims.RELATIONS:
        assert claims.decide(relation, Evidence("m", "w", 0, 0.3, 0.2, 0.4, target=0.3)) == NOT_ATTEMPTED
        assert claims.decide(relation, Evidence("m", "w", 10, math.nan, target=0.3)) == NOT_ATTEMPTED


def test_text_corpora_are_measured_for_claims_about_text_alone():
    both = study(
        frame(30, 5, column="BM25"), frame(5, 30, column="BM25"), corpora=("pkg-contexts", "python-docs")
    )
    args = {"benchmark": "humaneval", "column": "BM25", "against": "None", "relation": "above"}
    code, text = claims.judge(claim_tests.measure(both, [claim(**args), claim(id="t", kind="text", **args)]))
    assert (code.verdict, text.verdict) == (REPRODUCED, CONTRADICTED)
    assert [e.where for e in text.evidence] == ["HumanEval, python-docs"]


def test_every_measurement_counts():
    above = claim(relation="above", **PAIR)
    assert verdicts(above, frame(30, 5), frame(40, 5))[0] == REPRODUCED
    assert verdicts(above, frame(30, 5), frame(5, 30)) == (MIXED, [REPRODUCED, CONTRADICTED])
    assert verdicts(above, frame(30, 5), frame(10, 10)) == (MIXED, [REPRODUCED, INCONCLUSIVE])


def test_mixed_claims_are_told_apart_by_whether_their_measurements_contradict_each_other():
    above, below = (claim(relation=r, id=r, **PAIR) for r in ("above", "below"))

    def of(*frames):
        return claim_report.findings(claims.judge(claim_tests.measure(study(*frames), [above, below])))

    against, some, other = (
        "Reproduced in some measurements and contradicted in others",
        "Reproduced in some measurements and inconclusive",
        "Contradicted in some measurements and inconclusive",
    )
    starts = lambda said: [w for w in (against, some, other) if any(s.startswith(w) for s in said)]  # noqa: E731
    assert starts(of(frame(30, 5), frame(5, 30))) == [against]
    assert starts(of(frame(30, 5), frame(10, 10))) == [some, other]


def test_what_a_word_is_taken_for_is_not_called_published():
    few = claim(relation="at most", target=5.0, ours=True, **PAIR)
    (one,) = claims.judge(claim_tests.measure(study(frame(30, 5)), [few]))
    assert [claim_report.published(e) for e in (*one.evidence, claim_tests.claimed_by(few))] == [
        "\N{MINUS SIGN}2.0 to +14.0 (taken here: +5.0)"
    ] * 2


def test_a_model_keeps_its_own_verdict():
    found = [(claim(relation="above", **PAIR), [point("a", 0.3), point("b", -0.3), point("b", -0.2)])]
    (one,) = claims.judge(found)
    assert one.verdict == MIXED and claims.by_subject(one) == {"a": REPRODUCED, "b": CONTRADICTED}


def point(subject, effect, p=0.001, **more):
    return Evidence(
        subject,
        f"run {effect}",
        100,
        effect,
        effect - 0.05,
        effect + 0.05,
        p,
        family=f"{subject} {effect}",
        **more,
    )


def test_p_values_of_one_run_are_corrected_together_and_a_pair_counts_once():
    names = ("BM25", "Dense", "Func-BM25")
    once = [
        (claim(id=n, relation="above"), [replace(point("m", 0.2, 0.02), family="run", pair=n)]) for n in names
    ]
    assert [a.verdict for a in claims.judge(once)] == [INCONCLUSIVE] * 3
    twice = [
        (claim(id=str(i), relation="above"), [replace(point("m", 0.2, 0.02), family="run", pair="x")])
        for i in range(3)
    ]
    assert [a.verdict for a in claims.judge(twice)] == [REPRODUCED] * 3
    apart = [(c, [replace(e, family=c.id) for e in found]) for c, found in once]
    assert [a.verdict for a in claims.judge(apart)] == [REPRODUCED] * 3


def test_a_size_claim_has_no_p_and_does_not_burden_the_directions():
    (one,) = claims.judge(claim_tests.measure(study(frame(30, 5)), [claim(relation="about", **PAIR)]))
    assert math.isnan(one.evidence[0].p)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.06, 0.14, REPRODUCED),
        (0.16, 0.3, CONTRADICTED),
        (-0.2, 0.04, CONTRADICTED),
        (0.03, 0.2, INCONCLUSIVE),
    ],
)
def test_about_is_an_interval_within_five_points(low, high, expected):
    e = Evidence("m", "w", 100, (low + high) / 2, low, high, target=0.1)
    assert claims.decide("about", e) == expected


@pytest.mark.parametrize(
    ("low", "high", "at_most", "at_least"),
    [
        (0, 0.04, REPRODUCED, CONTRADICTED),
        (0.06, 0.1, CONTRADICTED, REPRODUCED),
        (0.02, 0.1, INCONCLUSIVE, INCONCLUSIVE),
    ],
)
def test_at_most_and_at_least_are_an_interval_on_one_side(low, high, at_most, at_least):
    e = Evidence("m", "w", 100, 0.05, low, high, target=0.05)
    assert (claims.decide("at most", e), claims.decide("at least", e)) == (at_most, at_least)


@pytest.mark.parametrize(
    ("relation", "effect", "target", "expected"),
    [
        ("equal", 14.2, 14.2, REPRODUCED),
        ("equal", 14.26, 14.2, CONTRADICTED),
        ("equal", 3.6, 4, REPRODUCED),
        ("equal", 4.8, 4, CONTRADICTED),
        ("positive", 0.1, math.nan, REPRODUCED),
        ("positive", 0.0, math.nan, CONTRADICTED),
        ("scale", 5.9, 3, REPRODUCED),
        ("scale", 1.4, 3, CONTRADICTED),
        ("scale", 6.1, 3, CONTRADICTED),
    ],
)
def test_recomputed_numbers_need_no_interval(relation, effect, target, expected):
    assert claims.decide(relation, Evidence("m", "w", 1, effect, exact=True, target=target)) == expected


def test_an_unknown_relation_is_an_error():
    with pytest.raises(ValueError, match="above, below"):
        claims.decide("better", point("m", 0.1))


def test_a_sentence_about_every_case_falls_with_one():
    found = [replace(point("paper", v), exact=True) for v in (1.0, 2.0, -1.0)]
    every, some = claim(relation="positive", all=True), claim(relation="positive")
    assert [a.verdict for a in claims.judge([(every, found), (some, found)])] == [CONTRADICTED, MIXED]


def test_smallest_effect_is_found_at_its_power():
    n, discordant = 500, 0.3
    d = claims.detectable(n, discordant)
    shares = [(discordant + d) / 2, (discordant - d) / 2, 1 - discordant]
    helped, hurt, _ = np.random.default_rng(0).multinomial(n, shares, 20_000).T
    shown = (helped - hurt) / np.sqrt(helped + hurt) > norm.ppf(0.975)
    assert shown.mean() == pytest.approx(claims.POWER, abs=0.02)


def test_smallest_effect_shrinks_with_n_and_grows_with_strictness_and_is_unknown_without_discordance():
    assert (
        claims.detectable(1000, 0.2) < claims.detectable(200, 0.2) < claims.detectable(200, 0.2, alpha=0.005)
    )
    assert all(math.isnan(claims.detectable(n, s)) for n, s in ((100, 0.0), (100, 0.01), (0, 0.5)))


def test_smallest_is_at_the_strictest_level_of_the_family():
    rows = [
        (claim(id=n, relation="above"), [replace(point("m", 0.0, 0.9, discordant=0.3), family="r", pair=n)])
        for n in "abcd"
    ]
    assert claims.judge(rows)[0].evidence[0].smallest == pytest.approx(
        claims.detectable(100, 0.3, claims.ALPHA / 4)
    )


def test_smallest_of_an_inconclusive_size_is_half_of_its_interval():
    (one,) = claims.judge([(claim(relation="about"), [Evidence("m", "w", 100, 0.1, 0.02, 0.2, target=0.1)])])
    assert one.evidence[0].smallest == pytest.approx(0.09)


def test_shares_count_tasks_of_all_or_of_those_that_another_column_solves():
    verdict = frame(4, 6, 10, **{"Func-BM25": [True] * 4 + [False] * 16})
    only = claim(
        "share",
        benchmark="humaneval",
        passed=["None"],
        failed=["Block-PKG"],
        relation="about",
        count=10,
        of=164,
    )
    lost = claim(
        "share", benchmark="humaneval", among=["None"], failed=["Block-PKG"], relation="at most", target=5.0
    )
    found = claims.judge(claim_tests.measure(study(verdict), [only, lost]))
    assert [a.evidence[0].effect for a in found] == [6 / 20, 6 / 16]
    assert found[0].evidence[0].target == 10 / 164 and found[1].verdict == CONTRADICTED


def test_errors_are_compared_task_by_task():
    from pkg_lib.core.types import Outcome

    verdict = frame(0, 30, 60)
    failed = {t: Outcome("failed", "NameError") for t in verdict.index[:30]}
    passed = {t: Outcome("passed") for t in verdict.index}
    found = study(verdict)
    found.runs[0].experiment.outcomes = lambda c: passed if c == "None" else passed | failed
    more = claim(
        "error_shift", benchmark="humaneval", error="NameError", column="Block-PKG", relation="above"
    )
    fewer = claim(
        "error_shift", benchmark="humaneval", error="NameError", column="Block-PKG", relation="below"
    )
    assert [a.verdict for a in claims.judge(claim_tests.measure(found, [more, fewer]))] == [
        REPRODUCED,
        CONTRADICTED,
    ]


TOPICS = ["Data Structures", "Algorithms"]


@pytest.fixture
def by_topic(tmp_path, monkeypatch):
    """90 tasks of data structures, then 90 of algorithms, with a column that helps in the first and hurts in the other."""
    ids = [f"HumanEval/{i}" for i in range(180)]
    (tmp_path / "tasks").mkdir()
    lines = [f"{t},c,{TOPICS[i >= 90]},rule,x" for i, t in enumerate(ids)]
    (tmp_path / "tasks" / "humaneval.topics.csv").write_text(
        "\n".join(["# made from x", "task_id,category,topic,by,nearest", *lines])
    )
    verdict = pd.concat([frame(30, 0), frame(0, 30)])
    verdict.index = ids
    found = study(verdict)
    object.__setattr__(found, "results", tmp_path)
    return found


def test_topics_are_compared_one_by_one(by_topic):
    def said(relation, topics, **more):
        one = claim("topic_differences", relation=relation, topics=topics, **PAIR, **more)
        (found,) = claims.judge(claim_tests.measure(by_topic, [one]))
        return found.verdict, [(e.n, round(e.effect, 2)) for e in found.evidence]

    assert said("above", TOPICS[:1]) == (REPRODUCED, [(90, 0.33)])
    assert said("above", TOPICS[1:]) == (CONTRADICTED, [(90, -0.33)])
    assert said("above", TOPICS)[0] == MIXED and said("above", TOPICS, all=True)[0] == CONTRADICTED
    whole = claim("topic_differences", relation="above", **PAIR)
    (found,) = claims.judge(claim_tests.measure(by_topic, [whole]))
    assert {e.where.rpartition(", ")[2] for e in found.evidence if e.n} == {"Data structures", "Algorithms"}
    assert len({e.family for e in found.evidence}) == 1 and len({e.pair for e in found.evidence}) == len(
        found.evidence
    )


def test_the_share_of_topics_is_bounded_by_those_that_are_decided(by_topic):
    half = claim("topic_share", relation="about", target=50.0, **PAIR)
    seven = claim("topic_share", relation="about", target=70.0, **PAIR)
    found = claims.judge(claim_tests.measure(by_topic, [half, seven]))
    (e,) = found[0].evidence
    assert (e.n, e.effect, e.low, e.high) == (180, 0.5, 0.5, 0.5)
    assert [a.verdict for a in found] == [REPRODUCED, CONTRADICTED]


def test_a_share_of_topics_in_doubt_is_inconclusive(by_topic):
    (run,) = by_topic.runs
    verdict = pd.concat([frame(30, 0), frame(11, 9, 70)]).set_index(run.verdicts.index)
    by_topic.__dict__["runs"] = [claim_tests.Run(run.experiment, verdict)]
    both = claim("topic_share", relation="about", target=100.0, **PAIR)
    ((e,),) = [a.evidence for a in claims.judge(claim_tests.measure(by_topic, [both]))]
    assert (e.effect, e.low, e.high) == (1.0, 0.5, 1.0) and e.verdict == INCONCLUSIVE


def test_the_highest_of_several_is_above_each_of_them(by_topic):
    (run,) = by_topic.runs
    run.verdicts["Dense"] = run.verdicts["None"]

    def shares(*against):
        one = claim("topic_share", relation="at least", target=60.0, **PAIR | {"against": list(against)})
        ((e,),) = [a.evidence for a in claims.judge(claim_tests.measure(by_topic, [one]))]
        return e.effect, e.low, e.high, e.verdict

    assert shares("None") == shares("None", "Dense") == (0.5, 0.5, 0.5, CONTRADICTED)
    run.verdicts["Dense"] = True
    assert shares("None", "Dense")[0] == 0.0
    run.verdicts["Dense"] = False
    assert shares("Dense") == (1.0, 1.0, 1.0, REPRODUCED)


def test_a_share_of_topics_that_is_true_is_hardly_ever_contradicted():
    """Seven topics of ten gain three points and three lose them; topics as large as MBPP's, many draws of tasks."""
    sizes, rng, wrong = (81, 89, 26, 42, 65, 84, 49, 25, 24, 15), np.random.default_rng(0), 0
    topic = pd.Series(np.repeat([f"topic {i}" for i in range(len(sizes))], sizes))
    gain = pd.Series(np.repeat([0.03] * 7 + [-0.03] * 3, sizes))
    for _ in range(100):
        draw = pd.Series(rng.random(len(topic)))
        helped, hurt = draw < (0.15 + gain) / 2, draw > 1 - (0.15 - gain) / 2
        n, *found = share_above(helped, hurt.to_frame("None"), topic)
        e = Evidence("m", "w", n, *found, unit="percent", target=0.7)
        wrong += claims.decide("about", e) == CONTRADICTED
    assert wrong <= 5


def test_runs_and_published_completions_are_told_apart(by_topic, monkeypatch):
    """One claim on both: each group counts its own part, and a model all of its claims."""
    (run,) = by_topic.runs
    monkeypatch.setattr(claim_tests, "_replays", lambda *_: {"gpt": run.verdicts})
    both = claim("topic_differences", relation="above", topics=TOPICS[:1], **PAIR)
    theirs = claim("replayed", relation="above", id="d", **PAIR | {"column": "Block-PKG"})
    said = claim_report.findings(claims.judge(claim_tests.measure(by_topic, [both, theirs])))
    assert "Of 1 tested on runs of this study's models: 1 reproduced." in said
    assert "Of 2 tested on completions that the authors published: 1 reproduced, 1 inconclusive." in said
    assert "On gpt: 2 claims, 1 reproduced, 1 inconclusive." in said


def test_without_stored_topics_nothing_is_attempted(by_topic):
    (by_topic.results / "tasks" / "humaneval.topics.csv").unlink()
    assert claim_tests.measure(by_topic, [claim("topic_differences", relation="above", **PAIR)])[0][1] == []


def test_longer_prompts_are_shown_as_such():
    found = study(frame(1, 1).assign(**{"Func-PKG": True}))
    tokens = {"Block-PKG": range(10, 70), "Func-PKG": range(100, 220, 2)}
    experiment = found.runs[0].experiment
    experiment.retrievers = tuple(tokens)
    experiment.completions = lambda c: {
        f"t{i}": SimpleNamespace(prompt_tokens=n) for i, n in enumerate(tokens[c])
    }
    args = {"benchmark": "humaneval", "column": "Block-PKG", "against": "Func-PKG"}
    (one,) = claims.judge(claim_tests.measure(found, [claim("tokens", relation="below", **args)]))
    assert one.verdict == REPRODUCED and one.evidence[0].effect == pytest.approx(-119.5)
    del found.runs[0].verdicts["Func-PKG"]  # as Study leaves out what is not measured
    assert claim_tests.measure(found, [claim("tokens", relation="below", **args)])[0][1] == []


def test_a_column_that_is_not_measured_is_no_evidence(tmp_path, monkeypatch):
    verdict = frame(30, 5).assign(Few=pd.array([pd.NA] * 95, "boolean"))
    stored = SimpleNamespace(
        retrievers=["None", "Block-PKG", "Few"], place=lambda *a: "x", verdicts=lambda c: verdict
    )
    (tmp_path / "x.jsonl").touch()
    monkeypatch.setattr("pkg_lib.papers.claims.claim_study.open_experiment", lambda *a, **k: stored)
    study_ = claim_tests.Study([], ["humaneval"], ["published"], tmp_path)
    run = study_._run("m", "humaneval", "published")
    assert list(run.verdicts) == list(frame(30, 5))
