"""Texts of this folder's TOML files: prompts to a model, and programs that run elsewhere."""

import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def read_toml(file: str) -> dict[str, Any]:
    """Read a TOML file of this folder.

    Args:
        file: Its name.

    Returns:
        Its tables.
    """
    text = (HERE / file).read_text("utf8")
    return tomllib.loads(text)


# What a model is prompted with beside the task itself (Algorithm 1: M_q and M_t).
PROMPTS = read_toml("prompts.toml")
# Programs that run in the sandbox, beside a library, or in a process of their own.
PROGRAMS: dict[str, str] = read_toml("programs.toml")
