"""The Hugging Face hub. Whatever is loaded is the snapshot of one commit, because branches move."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pkg_lib.core.types import UserError

COMMIT = "[0-9a-f]{40}"  # a regular expression
TRY_AGAIN = "try again with a network connection"
# Copies for other frameworks are in folders of their own or have suffixes of their own.
OTHERS = ("*/*", "*.gguf", "*.onnx", "*.pth", "*.pt", "*.h5", "*.msgpack")


def reachable() -> bool:
    """Tell whether the hub answers. One probe is sent, because the hub's client tries for long."""
    import httpx

    if os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "TRUE", "YES", "ON"):
        return False
    try:
        httpx.head(os.environ.get("HF_ENDPOINT", "https://huggingface.co"), timeout=5)
    except httpx.HTTPError:
        return False
    return True


def require(
    what: str,
    otherwise: str,
    repository: str = "",
    revision: str = "",
) -> Path | None:
    """Require that the hub answers, or that the local cache has a snapshot.

    Args:
        what: What is needed, for the message.
        otherwise: What the reader of the message can do.
        repository: The repository whose snapshot suffices; "" if none does.
        revision: The revision of the snapshot.

    Returns:
        None if the hub answers, else the directory of the snapshot.

    Raises:
        UserError: The hub does not answer, and there is no snapshot.
    """
    if reachable():
        return None
    folder = cached(repository, revision) if repository else None
    if folder is None:
        source = "comes from the Hugging Face hub, which does not answer"
        raise UserError(f"{what} {source}; {otherwise}")
    return folder


def cached(repository: str, revision: str = "") -> Path | None:
    """Find the snapshot of a revision in the local cache.

    Args:
        repository: The repository.
        revision: The revision; "" for the main branch.

    Returns:
        The directory, named after the commit; None without a snapshot.
    """
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repository, "config.json", revision=revision or None)
    return Path(config).parent if isinstance(config, str) else None


def commit(
    repository: str,
    what: str,
    revision: str = "",
    otherwise: str = TRY_AGAIN,
) -> str:
    """Return the commit that a revision means now.

    Args:
        repository: The repository.
        what: What needs it, for messages.
        revision: The revision; "" for the main branch.
        otherwise: What the reader of a message can do.

    Returns:
        The hub's answer; if the hub does not answer, that of the local cache.

    Raises:
        UserError: Neither the hub nor the local cache knows the commit.
    """
    from huggingface_hub import hf_hub_download

    folder = require(what, otherwise, repository, revision)
    if folder is None:
        with _served(f"{what}: {repository} {revision}"):
            # The download leaves the commit's name in the local cache, for use without the hub.
            file = hf_hub_download(repository, "config.json", revision=revision or None)
        folder = Path(file).parent
    return folder.name


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


def snapshot(
    repository: str,
    commit: str,
    what: str,
) -> Path:
    """Download a commit's tokenizer, configuration and weights (safetensors if any).

    Args:
        repository: The repository.
        commit: The commit.
        what: What needs it, for messages.

    Returns:
        The directory.

    Raises:
        UserError: The hub does not serve the commit, and the local cache does not have it.
    """
    from huggingface_hub import HfApi, snapshot_download

    what = f"{what}: commit {commit[:12]} of {repository}"
    if folder := require(what, TRY_AGAIN, repository, commit):
        return folder
    with _served(what):
        names = HfApi().list_repo_files(repository, revision=commit)
        has_safetensors = any(n.endswith(".safetensors") and "/" not in n for n in names)
        ignored = [*OTHERS, "*.bin"] if has_safetensors else [*OTHERS]
        return Path(snapshot_download(repository, revision=commit, ignore_patterns=ignored))


@contextmanager
def _served(what: str) -> Iterator[None]:
    """Turn the errors of the hub's client into a UserError."""
    from httpx2 import HTTPError

    try:
        yield
    except (HTTPError, OSError, ValueError) as e:
        reason = str(e).strip().partition("\n")[0]
        raise UserError(f"{what} cannot be downloaded from the hub: {reason}") from e
