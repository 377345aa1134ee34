"""Texts of this folder's TOML files: prompts to a model, and programs that run elsewhere."""

import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# What a model is prompted with beside the task itself (Algorithm 1: M_q and M_t).
PROMPTS: dict[str, Any] = tomllib.loads((HERE / "prompts.toml").read_text("utf8"))
# Programs that run in the sandbox, beside a library, or in a process of their own.
PROGRAMS: dict[str, str] = tomllib.loads((HERE / "programs.toml").read_text("utf8"))
