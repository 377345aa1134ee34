"""MPSC: which of five solutions agrees best with the tests and checks that the model wrote."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import Unavailable, UserError
from pkg_lib.papers.evor import mpsc
from pkg_lib.papers.evor.evor_methods import MPSC_SAMPLES
from tests.papers.evor.conftest import answer


def test_assertions_that_compare_a_call_with_a_value_are_tests():
    raw = "```python\nassert half(9) == 3  # three\nassert half(x=[1]) == (1, 2)\nassert other(1) == 1\nassert half(2)\n"
    assert mpsc.assertions(raw + "assert half(3 == 1\n```", "half") == [
        ("half(9)", "3"),
        ("half(x=[1])", "(1, 2)"),
    ]


def test_a_check_that_is_not_there_holds_nowhere():
    raw = "```python\ndef check_2(result, n):\n    return result >= 0\n```"
    assert mpsc.checks(raw) == ["", "def check_2(result, n):\n    return result >= 0", ""]
    assert mpsc.checks("I would not know.") == ["", "", ""]


def test_the_best_connected_solution_leads():
    # Two tests: the second solution passes both, the third one of them, which no check accepts.
    bits = ["00" + "000" + "101000", "11" + "100" + "101000", "01" + "000" + "101000", ""]
    scores = mpsc.confidence(bits, 2)
    assert scores.argmax() == 1 and scores[2] > scores[0] == scores[3]
    assert mpsc.confidence(["", "", "", "", ""], 0).argmax() == 0  # of equals the first


def test_the_chosen_draw_is_the_answer(toy):
    def answering(request):
        if "assertions on `half`" in request.text:
            return "```python\nassert half(16) == 4\nassert half(10) == 3\n```"
        if "three short functions" in request.text:
            return "```python\ndef check_1(result, n):\n    return result * result <= n\n```"
        if "You write" in request.text and "def half" in request.text:
            body = {3: "math.isqrt(n)", 4: "n // 4"}.get(request.sample, "math.whole_root(n)")
            return f"```python\nimport math\n\ndef half(n):\n    return {body}\n```"
        return answer(request)

    preparer = toy(answering)
    drawn = MPSC_SAMPLES["MPSC"]
    preparer.prepare([*drawn, "MPSC"])
    half, add = preparer.run.contexts("MPSC")
    assert half.method == drawn[2] and add.method in drawn and half.spent > 0
    assert preparer.run.solutions("MPSC")["toy/0"] == preparer.run.solutions(drawn[2])["toy/0"]
    assert preparer.run.verdicts(["MPSC"])["MPSC"].to_dict() == {"toy/0": True, "toy/1": True}


def test_a_sample_without_answers_is_named(toy):
    with pytest.raises(UserError, match=MPSC_SAMPLES["MPSC"][0]):
        toy(answer).prepare(["MPSC"])


def test_with_evor_it_draws_from_the_last_prompt_of_each_task(toy):
    def answering(request):
        fails = "You write" in request.text and "def half" in request.text
        # No round runs; of the draws the third does.
        call = "math.isqrt(n)" if request.sample == 13 else f"math.root_{request.sample}(n)"
        return (
            f"```python\nimport math\n\ndef half(n):\n    return {call}\n```"
            if fails
            else checked(request)
        )

    def checked(request):
        tests = "```python\nassert half(16) == 4\nassert half(10) == 3\n```"
        return tests if "assertions on `half`" in request.text else answer(request)

    rounds, drawn = [f"EVOR@{n}" for n in range(5)], MPSC_SAMPLES["EVOR + MPSC"]
    with pytest.raises(Unavailable, match=r"complete EVOR@0 first"):
        toy(answering).prepare([*drawn, "EVOR + MPSC"])
    preparer = toy(answering)
    preparer.prepare([*rounds, *drawn, "EVOR + MPSC"])
    run = preparer.run
    half, add = run.contexts("EVOR + MPSC")
    # `half` was asked for in each round, `add` in the first alone.
    assert [half.prompt_sha256 == run.contexts(c)[0].prompt_sha256 for c in rounds] == [
        False
    ] * 4 + [True]
    assert add.prompt_sha256 == run.contexts("EVOR@0")[1].prompt_sha256
    assert half.method == drawn[2] and add.method in drawn
    assert run.verdicts(["EVOR + MPSC"])["EVOR + MPSC"].to_dict() == {"toy/0": True, "toy/1": True}
    # No round's answer is among the draws, and the prompts have no verdicts of their own.
    keys = [{g.key for g in run.completions(c).values()} for c in (*rounds, *drawn)]
    assert not set.union(*keys[:5]) & set.union(*keys[5:])
    assert not run.files("EVOR, last prompt").samples.exists()
