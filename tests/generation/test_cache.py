"""Test the generation cache: its keys, and recovery from kills, damage and full disks."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace

import pytest

from pkg_lib.core import limits
from pkg_lib.core.reading import DamagedFileError
from pkg_lib.core.store import read_rows, write_jsonl
from pkg_lib.core.types import Generation, UserError
from pkg_lib.generation.cache import (
    GenerationCache,
    generation_key,
    pack,
    pack_completions,
    pack_rows,
    packed,
    read_generations,
    stored,
)

PARAMS = {"max_new_tokens": 512, "do_sample": False}
BASE = ("model", "rev", "prompt", PARAMS, 0)


def generation(key: str = "k", raw: str = "text") -> Generation:
    return Generation(key, "T/0", raw, [1, 2], "end", 7, {"settings": "s"})


@pytest.fixture
def cache(tmp_path):
    cache = GenerationCache(tmp_path / "g")
    for key in "abc":
        cache.append("h/none.jsonl", generation(key, f"raw {key}\n\u2028é\ud800"))
    return cache


def test_every_ingredient_changes_the_key():
    others = [("m", *BASE[1:]), ("model", "r", *BASE[2:]), ("modelr", "ev", *BASE[2:])]
    others += [(*BASE[:2], "prompt ", *BASE[3:]), (*BASE[:3], PARAMS | {"max_new_tokens": 511}, 0)]
    others += [(*BASE[:3], PARAMS | {"stop": "settled"}, 0), (*BASE[:4], 1)]
    assert len({generation_key(*ingredients) for ingredients in (BASE, *others)}) == 8


def test_keys_match_those_of_stored_results():
    """Stored results contain these keys. A changed key would invalidate every committed generation."""
    assert generation_key(*BASE) == generation_key(
        "model", "rev", "prompt", dict(reversed(PARAMS.items()))
    )
    assert generation_key(*BASE) == "f82bc9fc4eae2aed659940fa7ba40533"


def test_reads_back_what_it_stored(cache):
    cache.append("other/corpus/bm25.jsonl", generation("d"))
    again = GenerationCache(cache.root)
    assert again.rows == cache.rows and again.damaged == []
    assert (
        again.rows["b"].raw == "raw b\n\u2028é\ud800"
        and "d" in again.rows
        and "z" not in again.rows
    )


def test_caches_share_parsed_rows(cache, tmp_path, monkeypatch):
    parsed = []

    def counted(path):
        parsed.append(path)
        return read_generations(path)

    monkeypatch.setattr("pkg_lib.generation.cache.read_generations", counted)
    path = cache.root / "h/none.jsonl"
    copy = shutil.copytree(cache.root, tmp_path / "copy")
    held = [GenerationCache(root) for root in (cache.root, cache.root, copy)]
    assert parsed == [path] and all(other.rows == cache.rows for other in held)
    assert {*held[2].files.values()} == {copy / "h/none.jsonl"}
    path.write_bytes(path.read_bytes().replace(b"raw b", b"RAW B"))
    changed = GenerationCache(cache.root)
    assert changed.rows["b"].raw.startswith("RAW B") and held[0].rows == cache.rows
    changed.clear()
    del held
    assert GenerationCache(cache.root).rows["b"].raw.startswith("RAW B") and len(parsed) == 3


def test_finds_answers_by_prompt_as_they_are_added_and_removed(cache):
    new = replace(generation("d"), meta={"prompt_sha256": "p", "settings": "s"})
    assert ("p", "s") not in cache.by_prompt()
    cache.append("h/none.jsonl", new)
    assert cache.by_prompt()["p", "s"] == new
    cache.clear()
    assert not cache.by_prompt() and GenerationCache(cache.root).by_prompt()["p", "s"] == new


@pytest.mark.parametrize("cut", [1, 2, 30])
def test_recovers_from_a_torn_last_line(cache, cut, caplog):
    path = cache.root / "h/none.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    again = GenerationCache(cache.root)
    assert set(again.rows) == set("ab")
    assert again.damaged == [f"{path}:3"]
    assert f"{path}, line 3 is damaged: " in caplog.text and "`run` generates" in caplog.text
    again.append("h/none.jsonl", generation("c"))
    healed = GenerationCache(cache.root)
    assert set(healed.rows) == set("abc") and healed.damaged == []


WHOLE = asdict(generation("b"))
DAMAGE = {
    "not JSON": b"{{{",
    "not UTF-8": b'{"key": "\xff"}',
    "no object": b"[1]",
    "empty": b"",
    "NULs after a crash": b"\0" * 20,
    "a field missing": b'{"key": "b"}',
    "raw is null": json.dumps(WHOLE | {"raw": None}).encode(),
    "tokens are text": json.dumps(WHOLE | {"tokens": "12"}).encode(),
    "meta is a list": json.dumps(WHOLE | {"meta": []}).encode(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_reports_a_damaged_middle_line(cache, damage, caplog):
    path = cache.root / "h/none.jsonl"
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], DAMAGE[damage], *lines[2:]]))
    again = GenerationCache(cache.root)
    assert set(again.rows) == set("ac")
    assert again.damaged == [f"{path}:2"] and f"{path}, line 2 is damaged: " in caplog.text
    again.append("h/none.jsonl", generation("b"))
    assert set(GenerationCache(cache.root).rows) == set("abc")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"key": None}, "field key is null, not text"),
        ({"raw": 5}, "field raw is 5, not text"),
        ({"tokens": [1, "x"]}, "field tokens"),
        ({"tokens": "12"}, "field tokens is '12', not a list"),
        ({"finish": "abort"}, "field finish is 'abort', not one of end, length, settled"),
        ({"prompt_tokens": 1.5}, "field prompt_tokens is 1.5, not a whole number"),
        ({"meta": []}, "field meta is a list of 0, not an object"),
        ({"meta": {"seconds": "x"}}, "field seconds is 'x'"),
    ],
)
def test_reports_a_wrong_field_in_the_same_words_everywhere(cache, change, why):
    path = cache.root / "h/none.jsonl"
    path.write_text(json.dumps(WHOLE | change) + "\n" + json.dumps(WHOLE) + "\n")
    (damaged, generation_of_it), (_, sound) = read_generations(path)
    assert damaged.why.startswith(why) and generation_of_it is None and sound is not None


def test_reads_packed_answers_and_adds_to_them(cache):
    path = cache.root / "h/none.jsonl"
    before = cache.rows
    pack(cache.root)
    assert not path.exists() and stored(path) and GenerationCache(cache.root).rows == before
    packed = path.with_name("none.jsonl.gz").read_bytes()
    cache.append("h/none.jsonl", generation("b", "made again"))
    cache.append("h/none.jsonl", generation("d"))
    again = GenerationCache(cache.root)
    assert [*again.rows] == [*"abcd"] and again.rows["b"].raw == "made again"
    path.write_bytes(path.read_bytes()[:-1])  # torn
    pack(cache.root)
    assert {k: g.raw for k, g in GenerationCache(cache.root).rows.items()} == {
        **{k: g.raw for k, g in before.items() if k != "d"},
        "b": "made again",
    }
    assert path.with_name("none.jsonl.gz").read_bytes() != packed


def test_packs_earlier_rows_unless_they_were_regenerated(tmp_path):
    names = (
        "runs/b/m/none/none/samples",
        "runs/b/m/none/bm25/samples",
        "replay/m/b/shown/none.shown",
        "replay/m/b/none",
    )
    old, again, shown, replay = (tmp_path / f"{name}.jsonl" for name in names)
    for path in (old, again, shown, replay):
        write_jsonl(path, [{"task_id": "1"}])
    write_jsonl(packed(again), [{"task_id": "2"}])
    pack_rows(tmp_path)
    paths = (old, again, shown, replay)
    assert [read_rows(packed(p)) for p in paths] == [[{"task_id": n}] for n in "1211"]
    assert not any(path.exists() for path in paths)


def test_packing_again_changes_nothing(cache):
    pack(cache.root)
    packed = cache.root / "h/none.jsonl.gz"
    first = packed.read_bytes()
    cache.append("h/none.jsonl", generation("b", cache.rows["b"].raw))
    pack(cache.root)
    assert packed.read_bytes() == first


def test_reports_a_damaged_packed_file(cache):
    pack(cache.root)
    packed = cache.root / "h/none.jsonl.gz"
    packed.write_bytes(packed.read_bytes()[:-9])
    again = GenerationCache(cache.root)
    assert not again.rows and [*again.unreadable] == [packed]
    with pytest.raises(DamagedFileError, match=r"none\.jsonl\.gz is damaged"):
        again.require(cache.root / "h/none.jsonl")
    again.require(cache.root / "h/bm25.jsonl")


def test_cuts_off_a_long_torn_line(tmp_path):
    (tmp_path / "x.jsonl").write_bytes(b'{"key": "' + b"x" * 100_000)
    cache = GenerationCache(tmp_path)
    cache.append("x.jsonl", generation("a"))
    assert (tmp_path / "x.jsonl").read_bytes().count(b"\n") == 1
    assert set(GenerationCache(cache.root).rows) == {"a"}


def test_reports_a_directory_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("in the way")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        cache = GenerationCache(root)
        with pytest.raises(UserError, match="cannot write the generation cache"):
            cache.append("x.jsonl", generation())
        assert cache.rows == {}  # the cache holds only rows that are on disk


def test_does_not_write_a_row_that_no_reader_accepts(cache, monkeypatch):
    path = cache.root / "h/none.jsonl"
    before = path.read_bytes()
    monkeypatch.setattr(limits, "MAX_ROW_BYTES", 10_000)
    with pytest.raises(UserError, match="10,000"):
        cache.append("h/none.jsonl", generation("d", "x" * 10_000))
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", len(before) + 10)
    with pytest.raises(UserError, match="bytes"):
        cache.append("h/none.jsonl", generation("d"))
    assert path.read_bytes() == before and set(cache.rows) == set("abc")
    assert set(GenerationCache(cache.root).rows) == set("abc")


def test_pack_skips_what_is_not_a_file(tmp_path):
    (tmp_path / "a.jsonl").mkdir()
    (tmp_path / "b.jsonl").symlink_to("/dev/zero")
    (tmp_path / "c.jsonl").symlink_to("missing")
    (tmp_path / "d.jsonl").write_text('{"key": "k"}\n')
    with pytest.raises(UserError) as error:
        pack(tmp_path)
    assert len(error.value.args) == 3 and "computes" not in str(error.value)
    assert (tmp_path / "d.jsonl.gz").exists() and not (tmp_path / "d.jsonl").exists()


@pytest.mark.parametrize(
    "folder",
    [
        "cache/m/humaneval/none",
        "structured/answers/m",
        "tasks/topics/mbpp/answers/m",
        "repo_qa/shop/answers/m",
    ],
)
def test_packs_completions_in_every_folder(tmp_path, folder):
    row = asdict(generation())
    write_jsonl(tmp_path / folder / "a.jsonl", [row])
    damaged = tmp_path / folder / "b.jsonl"
    damaged.symlink_to("missing")
    (line,) = pack_completions(tmp_path)
    assert str(damaged) in line
    assert not (tmp_path / folder / "a.jsonl").exists()
    assert list(GenerationCache(tmp_path / folder).rows) == ["k"]


def test_packs_only_completions(tmp_path):
    write_jsonl(tmp_path / "tasks" / "functions.jsonl", [{"key": "k"}])
    assert pack_completions(tmp_path) == [] and (tmp_path / "tasks" / "functions.jsonl").exists()
