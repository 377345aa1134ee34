"""The Hugging Face hub. What is loaded is always one commit's snapshot, since names like "main" move on."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pkg_lib.core.types import UserError

TRY_AGAIN = "try again with a network connection"
# Copies for other frameworks lie in folders of their own (Llama's "original") or have suffixes of their own.
OTHERS = ("*/*", "*.gguf", "*.onnx", "*.pth", "*.pt", "*.h5", "*.msgpack")


def reachable() -> bool:
    """Whether the hub answers: one probe, since its client tries for long."""
    import httpx

    if os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "TRUE", "YES", "ON"):
        return False
    try:
        httpx.head(os.environ.get("HF_ENDPOINT", "https://huggingface.co"), timeout=5)
    except httpx.HTTPError:
        return False
    return True


def require(what: str, otherwise: str, repository: str = "", revision: str = "") -> Path | None:
    """None where the hub answers, else the snapshot in the local cache. UserError where there is neither."""
    if reachable():
        return None
    if not repository or (folder := cached(repository, revision)) is None:
        raise UserError(
            f"{what} comes from the Hugging Face hub, which does not answer; {otherwise}"
        )
    return folder


def cached(repository: str, revision: str = "") -> Path | None:
    """The snapshot of a revision ("": the main branch) in the local cache, if any; its name is the commit."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repository, "config.json", revision=revision or None)
    return Path(config).parent if isinstance(config, str) else None


def commit(repository: str, what: str, revision: str = "", otherwise: str = TRY_AGAIN) -> str:
    """The commit that a revision means now: the hub's answer, else the cache's. UserError without either."""
    from huggingface_hub import hf_hub_download

    if folder := require(what, otherwise, repository, revision):
        return folder.name
    with _served(f"{what}: {repository} {revision}"):
        # Unlike a mere question for the commit this leaves its name in the local cache, for times without it.
        return Path(
            hf_hub_download(repository, "config.json", revision=revision or None)
        ).parent.name


def data_commit(repository: str, what: str) -> str:
    """Return the commit that the main branch of a data set means now.

    Args:
        repository: The data set's name on the hub.
        what: What needs it, for messages.

    Returns:
        The commit.

    Raises:
        UserError: The hub does not answer or has no such data set.
    """
    from huggingface_hub import HfApi

    require(what, TRY_AGAIN)
    with _served(f"{what}: the data set {repository}"):
        return str(HfApi().dataset_info(repository).sha)


def snapshot(repository: str, commit: str, what: str) -> Path:
    """The directory with a commit's tokenizer, configuration and weights (safetensors if any)."""
    from huggingface_hub import HfApi, snapshot_download

    what = f"{what}: commit {commit[:12]} of {repository}"
    if folder := require(what, TRY_AGAIN, repository, commit):
        return folder
    with _served(what):
        names = HfApi().list_repo_files(repository, revision=commit)
        bins = ["*.bin"] if any(n.endswith(".safetensors") and "/" not in n for n in names) else []
        return Path(
            snapshot_download(repository, revision=commit, ignore_patterns=[*OTHERS, *bins])
        )


@contextmanager
def _served(what: str) -> Iterator[None]:
    """UserError for what the hub's client lets through."""
    from httpx2 import HTTPError

    try:
        yield
    except (HTTPError, OSError, ValueError) as e:
        reason = str(e).strip().partition("\n")[0]
        raise UserError(f"{what} cannot be had from the hub: {reason}") from e
