"""Endpoints: models that a server holds, by name. endpoints.toml of the checkout, or the file PKG_ENDPOINTS:

[mine]
base_url = "http://localhost:8000/v1"
model = "Qwen/Qwen2.5-Coder-32B-Instruct"  # as the server calls it; other fields: `Endpoint`
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, MinLen

from pkg_lib.core.reading import Damaged, expanded, is_there, read_text, shown
from pkg_lib.core.registry import LONGEST_NAME, Registry, unknown
from pkg_lib.core.store import ROOT
from pkg_lib.core.types import UserError, digest

OURS = {"model", "messages", "prompt", "n", "stream"}  # what `extra` may not replace
Positive, NotNegative = Annotated[float, Gt(0)], Annotated[float, Ge(0)]


@dataclass(frozen=True)
class Endpoint:
    """A table of the file. A key itself stands in the environment alone.

    `model`, `seed`, `omit` and `extra` decide the answers and are part of the cache key; the address is not.
    A budget counts all that is kept of the endpoint, and is passed by as many answers as are under way.
    """

    name: str
    base_url: str
    model: Annotated[str, MinLen(1)]
    api: Literal["openai", "anthropic"] = "openai"  # whose client speaks to it
    key: str = ""  # the environment variable that holds the key; "": none is needed
    usd_per_million: tuple[NotNegative, NotNegative] | None = None  # prompt tokens, new tokens
    budget: dict[Literal["tokens", "dollars"], Positive] = field(default_factory=dict)
    concurrency: Annotated[int, Ge(1)] = 8
    timeout: Positive = 600.0  # seconds for a whole answer
    retries: Annotated[int, Ge(0)] = 6
    seed: bool = False  # whether the server takes one: the sample's number
    omit: tuple[Literal["temperature", "top_p", "max_tokens"], ...] = ()  # what the server refuses
    extra: dict[str, Any] = field(default_factory=dict)  # parameters of every request

    @property
    def record(self) -> dict[str, Any]:
        """What decides the answers, and the `revision` that stands for it in cache keys."""
        about = {
            "model": self.model,
            "seed": self.seed,
            "omit": sorted(self.omit),
            "extra": self.extra,
        }
        return about | {
            "revision": f"endpoint-sha256-{digest(json.dumps(about, sort_keys=True))[:16]}"
        }


class Endpoints(Registry[Endpoint]):
    """The endpoints that a file describes; none where the file does not exist."""

    def __init__(self, path: Path, described: Iterable[Endpoint]) -> None:
        super().__init__("endpoint", described)
        self.path = path

    def get_or_fail(self, name: str) -> Endpoint:
        """The endpoint of a name. Raises UserError with the names to choose from, if there are any."""
        if name in self:
            return self[name]
        if self:
            raise unknown(self.kind, name, self, f"in {shown(str(self.path))}")
        fault = "describes no endpoint" if self.path.exists() else "does not exist"
        raise UserError(
            f"endpoint '{name[:LONGEST_NAME]}': the file {self.path} {fault}; see docs/endpoints.md"
        )


def endpoints() -> Endpoints:
    """All that the file describes; none where it does not exist. UserError for a mistake in it."""
    path = expanded(os.environ.get("PKG_ENDPOINTS") or ROOT / "endpoints.toml")
    try:
        tables = tomllib.loads(read_text(path)) if is_there(path) else {}
    except tomllib.TOMLDecodeError as e:
        raise Damaged.of(path, f"it is not TOML ({e})") from e
    except (RecursionError, ValueError) as e:  # Python's parser lets these through
        raise Damaged.of(path, "it is nested too deep or holds a number that is too large") from e
    described = (
        _endpoint(f"{path}: endpoint {name}", name, table) for name, table in tables.items()
    )
    return Endpoints(path, described)


def _endpoint(place: str, name: str, table: Any) -> Endpoint:
    from pydantic import (
        TypeAdapter,
        ValidationError,
    )  # slow to import, and not needed without a file

    known = [f.name for f in fields(Endpoint) if f.name != "name"]
    given = {"name": name} | (table if isinstance(table, dict) else {})
    try:
        if strange := given.keys() - {"name", *known}:
            raise unknown("field", min(strange), known)
        endpoint = TypeAdapter(Endpoint).validate_python(given)
        url = urlsplit(endpoint.base_url)
        if url.scheme not in ("http", "https") or not url.hostname or "@" in url.netloc:
            raise UserError(
                "base_url must be http(s)://HOST[:PORT]/PATH, without a user or a password"
            )
        if endpoint.key and not (endpoint.key.isidentifier() and endpoint.key.isupper()):
            raise UserError("key must be the NAME of an environment variable, not the key itself")
        if "dollars" in endpoint.budget and not endpoint.usd_per_million:
            raise UserError("a budget in dollars needs usd_per_million")
        json.dumps(endpoint.extra, allow_nan=False)
        if taken := OURS & endpoint.extra.keys():
            raise UserError(f"extra may not hold {min(taken)}")
    except ValidationError as e:  # its text would show what stands there, which may be a key
        fault = e.errors(include_input=False)[0]
        raise UserError(f"{place}: {'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
    except UserError as e:
        raise UserError(f"{place}: {e}") from None
    except (TypeError, ValueError) as e:
        raise UserError(
            f"{place}: base_url is no address, or extra holds what JSON cannot: {e}"
        ) from None
    return endpoint
