"""Endpoints: models that a server holds, by name. endpoints.toml of the checkout, or the file PKG_ENDPOINTS:

[mine]
base_url = "http://localhost:8000/v1"
model = "Qwen/Qwen2.5-Coder-32B-Instruct"  # as the server calls it; other fields: `Endpoint`
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from annotated_types import Ge, Gt

from pkg_lib.core.registry import unknown
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import UserError, digest

OURS = {"model", "messages", "prompt", "n", "stream"}  # what `extra` may not replace


@dataclass(frozen=True)
class Endpoint:
    """A table of the file. A key itself stands in the environment alone.

    `model`, `seed`, `omit` and `extra` decide the answers and are part of the cache key; the address is not.
    A budget counts all that is kept of the endpoint, and is passed by as many answers as are under way.
    """

    name: str
    base_url: str
    model: str
    api: Literal["openai", "anthropic"] = "openai"  # whose client speaks to it
    key: str = ""  # the environment variable that holds the key; "": none is needed
    input_usd_per_million: Annotated[float, Ge(0)] | None = None
    output_usd_per_million: Annotated[float, Ge(0)] | None = None
    concurrency: Annotated[int, Ge(1)] = 8
    timeout: Annotated[float, Gt(0)] = 600.0  # seconds for a whole answer
    retries: Annotated[int, Ge(0)] = 6
    budget_dollars: Annotated[float, Gt(0)] | None = None
    budget_tokens: Annotated[int, Gt(0)] | None = None
    seed: bool = False  # whether the server takes one: the sample's number
    omit: tuple[str, ...] = ()  # parameters that the server refuses: temperature, top_p, max_tokens
    extra: dict[str, Any] = field(default_factory=dict)  # parameters of every request

    def check(self) -> None:
        """UserError for what types do not say; it never shows a value that may be a key."""
        url = urlsplit(self.base_url)
        if url.scheme not in ("http", "https") or not url.hostname or "@" in url.netloc:
            raise UserError("base_url must be http(s)://HOST[:PORT]/PATH, without a user or a password")
        if not re.fullmatch("([A-Za-z_][A-Za-z0-9_]*)?", self.key):
            raise UserError("key must be the name of an environment variable, not the key itself")
        if self.budget_dollars and self.price is None:
            raise UserError("budget_dollars needs input_usd_per_million and output_usd_per_million")
        if taken := OURS & self.extra.keys():
            raise UserError(f"extra may not hold {min(taken)}")

    @property
    def price(self) -> tuple[float, float] | None:
        """Dollars for a million prompt tokens, and new ones; None where one is not given."""
        asked, new = self.input_usd_per_million, self.output_usd_per_million
        return None if asked is None or new is None else (asked, new)

    def dollars(self, asked: float, new: float) -> float:
        """What so many tokens cost; 0 where no prices are given."""
        return sum(n * usd for n, usd in zip((asked, new), self.price or (0, 0), strict=True)) / 1e6

    @property
    def decides(self) -> dict[str, Any]:
        """What decides the answers."""
        return {"model": self.model, "seed": self.seed, "omit": sorted(self.omit), "extra": self.extra}

    @property
    def revision(self) -> str:
        """What stands for the model in cache keys."""
        return f"endpoint-sha256-{digest(json.dumps(self.decides, sort_keys=True, default=str))[:16]}"


def endpoints_file() -> Path:
    return Path(os.environ.get("PKG_ENDPOINTS") or ROOT / "endpoints.toml").expanduser()


def endpoints() -> dict[str, Endpoint]:
    """All that the file describes, by name; none where it is not there. UserError for a mistake in it."""
    path = endpoints_file()
    try:
        tables = tomllib.loads(path.read_text("utf8")) if path.exists() else {}
    except (OSError, ValueError) as e:
        raise UserError(f"{path} cannot be read: {e}") from e
    return {name: _endpoint(path, name, table) for name, table in tables.items()}


def _endpoint(path: Path, name: str, table: Any) -> Endpoint:
    from pydantic import TypeAdapter, ValidationError  # slow to import, and not needed without a file

    known = [f.name for f in fields(Endpoint) if f.name != "name"]
    given = table if isinstance(table, dict) else {}
    try:
        if strange := [n for n in given if n not in known]:
            raise unknown("field", strange[0], known)
        endpoint = TypeAdapter(Endpoint).validate_python({"name": name, **given})
        endpoint.check()
    except ValidationError as e:
        fault = e.errors(include_input=False)[0]
        place = ".".join(map(str, fault["loc"])) or "table"
        raise UserError(f"{path}: endpoint {name}: {place}: {fault['msg']}") from None
    except UserError as e:
        raise UserError(f"{path}: endpoint {name}: {e}") from None
    return endpoint


def endpoint_of(name: str) -> Endpoint:
    """The endpoint of a name. UserError with the names to choose from."""
    known = endpoints()
    if name not in known:
        raise UserError(f"{unknown('endpoint', name, known or ['none'])}, described in {endpoints_file()}")
    return known[name]
