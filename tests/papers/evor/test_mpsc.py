"""MPSC selects the one of five solutions that agrees best with tests and checks written by the model."""

from __future__ import annotations

import pytest

from pkg_lib.core.types import UnavailableError, UserError
from pkg_lib.papers.evor import mpsc
from pkg_lib.papers.evor.evor_methods import MPSC_SAMPLES
from tests.papers.evor.conftest import answer


def test_tests_are_assertions_that_compare_a_call_with_a_value():
    raw = """```python
assert half(9) == 3  # three
assert half(x=[1]) == (1, 2)
assert other(1) == 1
assert half(2)
assert half(3 == 1
```"""
    expected = [("half(9)", "3"), ("half(x=[1])", "(1, 2)")]
    assert mpsc.assertions(raw, "half") == expected


def test_a_missing_check_is_empty():
    raw = "```python\ndef check_2(result, n):\n    return result >= 0\n```"
    assert mpsc.checks(raw) == ["", "def check_2(result, n):\n    return result >= 0", ""]
    assert mpsc.checks("I would not know.") == ["", "", ""]


def test_the_solution_that_agrees_with_most_tests_and_checks_has_the_highest_score():
    # There are two tests. The second solution passes both; the third passes one that no check accepts.
    bits = ["00" + "000" + "101000", "11" + "100" + "101000", "01" + "000" + "101000", ""]
    scores = mpsc.confidence(bits, 2)
    assert scores.argmax() == 1
    assert scores[2] > scores[0] == scores[3]
    without_bits = mpsc.confidence(["", "", "", "", ""], 0)
    assert without_bits.argmax() == 0  # Equal solutions keep their order.


def test_the_answer_is_the_selected_sample(toy):
    def answering(request):
        if "assertions on `half`" in request.text:
            return "```python\nassert half(16) == 4\nassert half(10) == 3\n```"
        if "three short functions" in request.text:
            return "```python\ndef check_1(result, n):\n    return result * result <= n\n```"
        if "You write" in request.text and "def half" in request.text:
            body = {3: "math.isqrt(n)", 4: "n // 4"}.get(request.sample, "math.whole_root(n)")
            return f"```python\nimport math\n\ndef half(n):\n    return {body}\n```"
        return answer(request)

    evaluator = toy(answering)
    samples = MPSC_SAMPLES["MPSC"]
    evaluator.prepare([*samples, "MPSC"])
    results = evaluator.run
    half, add = results.contexts("MPSC")
    assert half.method == samples[2]
    assert half.spent > 0
    assert add.method in samples
    selected = results.solutions(samples[2])
    assert results.solutions("MPSC")["toy/0"] == selected["toy/0"]
    assert results.verdicts(["MPSC"])["MPSC"].to_dict() == {"toy/0": True, "toy/1": True}


def test_names_a_sample_that_has_no_answers(toy):
    with pytest.raises(UserError, match=MPSC_SAMPLES["MPSC"][0]):
        toy(answer).prepare(["MPSC"])


def test_with_evor_mpsc_samples_the_last_prompt_of_each_task(toy):
    def answering(request):
        if "You write" in request.text and "def half" in request.text:
            # The solution of every round fails. Of the samples, only the third is correct.
            is_third = request.sample == 13
            call = "math.isqrt(n)" if is_third else f"math.root_{request.sample}(n)"
            return f"```python\nimport math\n\ndef half(n):\n    return {call}\n```"
        if "assertions on `half`" in request.text:
            return "```python\nassert half(16) == 4\nassert half(10) == 3\n```"
        return answer(request)

    rounds = [f"EVOR@{number}" for number in range(5)]
    samples = MPSC_SAMPLES["EVOR + MPSC"]
    with pytest.raises(UnavailableError, match=r"complete EVOR@0 first"):
        toy(answering).prepare([*samples, "EVOR + MPSC"])
    evaluator = toy(answering)
    evaluator.prepare([*rounds, *samples, "EVOR + MPSC"])
    results = evaluator.run
    half, add = results.contexts("EVOR + MPSC")
    # The model was prompted for `half` in every round, and for `add` only in the first.
    prompts_of_half = [results.contexts(name)[0].prompt_sha256 for name in rounds]
    assert half.prompt_sha256 == prompts_of_half[-1]
    assert half.prompt_sha256 not in prompts_of_half[:-1]
    assert add.prompt_sha256 == results.contexts("EVOR@0")[1].prompt_sha256
    assert half.method == samples[2]
    assert add.method in samples
    verdicts = results.verdicts(["EVOR + MPSC"])["EVOR + MPSC"]
    assert verdicts.to_dict() == {"toy/0": True, "toy/1": True}
    # No answer of a round is used as a sample, and the last prompts have no verdicts.
    keys_of_rounds = {g.key for name in rounds for g in results.completions(name).values()}
    keys_of_samples = {g.key for name in samples for g in results.completions(name).values()}
    assert not keys_of_rounds & keys_of_samples
    assert not results.files("EVOR, last prompt").samples.exists()
