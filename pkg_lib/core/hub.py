"""The Hugging Face hub: is it there, which commit of a repository is meant, and the files of that commit.

A name such as "main" means another commit every month, so what is loaded is always the snapshot of one
commit.
"""

from __future__ import annotations

import os
from pathlib import Path

from pkg_lib.core.types import UserError

TIMEOUT_S = 5
TRY_AGAIN = "try again with a network connection"
# Copies for other frameworks lie in folders of their own (Llama's "original") or have suffixes of their own.
OTHERS = ("*/*", "*.gguf", "*.onnx", "*.pth", "*.pt", "*.h5", "*.msgpack")


def reachable() -> bool:
    """Whether the hub (HF_ENDPOINT, else huggingface.co) answers: one probe, since its client tries for
    long."""
    import httpx

    if os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "TRUE", "YES", "ON"):
        return False
    try:
        httpx.head(os.environ.get("HF_ENDPOINT", "https://huggingface.co"), timeout=TIMEOUT_S)
    except httpx.HTTPError:
        return False
    return True


def require(what: str, otherwise: str) -> None:
    """UserError when the hub does not answer; `otherwise` says what else the user can do."""
    if not reachable():
        raise UserError(f"{what} comes from the Hugging Face hub, which does not answer; {otherwise}")


def cached(repository: str, revision: str = "") -> Path | None:
    """The snapshot of a revision ("" is the main branch) in the local cache; its name is the commit. None:
    none."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repository, "config.json", revision=revision or None)
    return Path(config).parent if isinstance(config, str) else None


def commit(repository: str, what: str, revision: str = "", otherwise: str = TRY_AGAIN) -> str:
    """The commit that a revision means now: the hub's answer, else the cache's; UserError where neither
    knows."""
    from httpx2 import HTTPError  # what the hub's client lets through where a connection breaks off
    from huggingface_hub import hf_hub_download

    if not reachable():
        if (folder := cached(repository, revision)) is None:
            raise UserError(f"{what} comes from the Hugging Face hub, which does not answer; {otherwise}")
        return folder.name
    try:
        # Unlike a mere question for the commit this leaves its name in the local cache, for times without it.
        return Path(hf_hub_download(repository, "config.json", revision=revision or None)).parent.name
    except (HTTPError, OSError, ValueError) as e:
        raise UserError(f"{what}: the hub does not serve {repository} {revision}: {_reason(e)}") from e


def snapshot(repository: str, commit: str, what: str) -> Path:
    """The directory with a commit's tokenizer, configuration and weights (safetensors if any)."""
    from httpx2 import HTTPError
    from huggingface_hub import HfApi, snapshot_download

    place = f"{what}: commit {commit[:12]} of {repository}"
    if not reachable():
        if (folder := cached(repository, commit)) is None:
            raise UserError(f"{place} is not in the local cache and the hub does not answer")
        return folder
    try:
        names = HfApi().list_repo_files(repository, revision=commit)
        bins = ["*.bin"] if any(n.endswith(".safetensors") and "/" not in n for n in names) else []
        return Path(snapshot_download(repository, revision=commit, ignore_patterns=[*OTHERS, *bins]))
    except (HTTPError, OSError, ValueError) as e:
        raise UserError(f"{place} cannot be had from the hub: {_reason(e)}") from e


def _reason(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]
