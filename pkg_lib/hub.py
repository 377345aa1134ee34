"""Is the Hugging Face hub there? One short probe, since its own client retries for half a minute when it is not."""

from __future__ import annotations

import os

from pkg_lib.types import UserError

TIMEOUT_S = 5


def reachable() -> bool:
    """Whether the hub (HF_ENDPOINT, else huggingface.co) answers within TIMEOUT_S seconds."""
    import httpx

    if os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "TRUE", "YES", "ON"):
        return False
    try:
        httpx.head(os.environ.get("HF_ENDPOINT", "https://huggingface.co"), timeout=TIMEOUT_S)
    except httpx.HTTPError:
        return False
    return True


def require(what: str, otherwise: str = "try again with a network connection") -> None:
    """UserError in one line when the hub does not answer; `otherwise` says what else the user can do."""
    if not reachable():
        raise UserError(f"{what} comes from the Hugging Face hub, which does not answer; {otherwise}")
