"""Endpoints: models that a server holds, by name.

The file endpoints.toml of the checkout, or the file that PKG_ENDPOINTS names, describes them:

    [mine]
    base_url = "http://localhost:8000/v1"
    model = "Qwen/Qwen2.5-Coder-32B-Instruct"  # the server's name of it; other fields: `Endpoint`
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from urllib.parse import urlsplit

from annotated_types import Ge, Gt, MinLen

from pkg_lib.core.reading import DamagedFileError, expanded, is_there, read_text, shown
from pkg_lib.core.registry import LONGEST_NAME, Registry, unknown
from pkg_lib.core.store import home
from pkg_lib.core.types import UserError, digest

RESERVED = {"model", "messages", "prompt", "n", "stream"}  # parameters that `extra` may not replace
SHORTEST_KEY = 8  # characters; a shorter text occurs in answers by chance, and is replaced there
Positive: TypeAlias = Annotated[float, Gt(0)]
NotNegative: TypeAlias = Annotated[float, Ge(0)]


@dataclass(frozen=True)
class Endpoint:
    """A table of the file. The key itself is only in the environment.

    ``model``, ``seed``, ``omit`` and ``extra`` decide the answers and are part of the cache key;
    the address is not. A budget counts all stored answers of the endpoint. Answers that are under
    way when it is spent exceed it.

    Attributes:
        name: The name of the table.
        base_url: The server's address.
        model: The server's name of the model.
        api: The API, and the package whose client speaks it.
        key: The environment variable that contains the key; "" if none is needed.
        usd_per_million: Prices of a million prompt tokens and a million new tokens.
        budget: The most tokens or dollars to spend.
        concurrency: The most requests at one time.
        timeout: Seconds for a whole answer.
        retries: How often a request is sent again after a fault.
        seed: Whether the server takes a seed, which is the sample's number.
        omit: Parameters that the server refuses.
        extra: Further parameters of every request.
    """

    name: str
    base_url: str
    model: Annotated[str, MinLen(1)]
    api: Literal["openai", "anthropic"] = "openai"
    key: str = ""
    usd_per_million: tuple[NotNegative, NotNegative] | None = None
    budget: dict[Literal["tokens", "dollars"], Positive] = field(default_factory=dict)
    concurrency: Annotated[int, Ge(1)] = 8
    timeout: Positive = 600.0
    retries: Annotated[int, Ge(0)] = 6
    seed: bool = False
    omit: tuple[Literal["temperature", "top_p", "max_tokens"], ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def record(self) -> dict[str, Any]:
        """What decides the answers, and the ``revision`` that represents it in cache keys."""
        record = {
            "model": self.model,
            "seed": self.seed,
            "omit": sorted(self.omit),
            "extra": self.extra,
        }
        identity = digest(json.dumps(record, sort_keys=True))
        return record | {"revision": f"endpoint-sha256-{identity[:16]}"}

    def read_key(self) -> str:
        """Read the key from the environment.

        Returns:
            The key; "" if the endpoint needs none.

        Raises:
            UserError: The key is not set, or what is set cannot be a key.
        """
        # Files often end a key with a line break.
        key = os.environ.get(self.key, "").strip()
        fault = ""
        if self.key and not key:
            fault = f"the environment variable {self.key} is not set"
        elif self.key and len(key) < SHORTEST_KEY:
            short = f"{self.key} has fewer than {SHORTEST_KEY} characters"
            fault = f"{short}, so it cannot be a key; check its value"
        elif not (key.isascii() and key.isprintable()):
            fault = f"{self.key} holds a character that no key has"
        if fault:
            raise UserError(f"endpoint {self.name}: {fault}")
        return key


class Endpoints(Registry[Endpoint]):
    """The endpoints that a file describes; none if the file does not exist.

    Args:
        path: The file.
        described: Its endpoints.
    """

    def __init__(self, path: Path, described: Iterable[Endpoint]) -> None:
        super().__init__("endpoint", described)
        self.path = path

    def get_or_fail(self, name: str) -> Endpoint:
        """Return the endpoint of a name.

        Args:
            name: The name.

        Returns:
            The endpoint.

        Raises:
            UserError: There is none; the message lists the names to choose from.
        """
        if name in self:
            return self[name]
        if self:
            raise unknown(self.kind, name, self, f"in {shown(str(self.path))}")
        fault = "describes no endpoint" if self.path.exists() else "does not exist"
        endpoint = f"endpoint '{name[:LONGEST_NAME]}'"
        raise UserError(f"{endpoint}: the file {self.path} {fault}; see docs/endpoints.md")


def endpoints_path() -> Path:
    """Return the file of endpoints, PKG_ENDPOINTS or endpoints.toml of `home`; it need not exist."""
    return expanded(os.environ.get("PKG_ENDPOINTS") or home() / "endpoints.toml")


def endpoints() -> Endpoints:
    """Return all endpoints that the file describes.

    Returns:
        The endpoints; none if the file does not exist.

    Raises:
        UserError: There is a mistake in the file.
    """
    path = endpoints_path()
    try:
        tables = tomllib.loads(read_text(path)) if is_there(path) else {}
    except tomllib.TOMLDecodeError as e:
        raise DamagedFileError.of(path, f"it is not TOML ({e})") from e
    except (RecursionError, ValueError) as e:  # Python's parser raises these, too
        raise DamagedFileError.of(
            path, "it is nested too deep or holds a number that is too large"
        ) from e
    described = []
    for name, table in tables.items():
        try:
            described.append(_endpoint(name, table))
        except UserError as e:
            raise UserError(f"{path}: endpoint {name}: {e}") from None
    return Endpoints(path, described)


def _endpoint(name: str, table: Any) -> Endpoint:
    """Validate a table of the file."""
    # Slow to import, and not needed without a file.
    from pydantic import TypeAdapter, ValidationError

    values = dict(table) if isinstance(table, dict) else {}
    known = [f.name for f in fields(Endpoint) if f.name != "name"]
    strange = values.keys() - set(known)
    if strange:
        raise unknown("field", min(strange), known)
    try:
        endpoint = TypeAdapter(Endpoint).validate_python({"name": name, **values})
    except ValidationError as e:
        # Its text would show the value, which may be a key.
        fault = e.errors(include_input=False)[0]
        raise UserError(f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}") from None
    try:
        url = urlsplit(endpoint.base_url)
        json.dumps(endpoint.extra, allow_nan=False)
    except (TypeError, ValueError) as e:
        what = "base_url is not an address, or extra contains a value that JSON does not allow"
        raise UserError(f"{what}: {e}") from None
    if url.scheme not in ("http", "https") or not url.hostname or "@" in url.netloc:
        raise UserError("base_url must be http(s)://HOST[:PORT]/PATH, without a user or a password")
    if endpoint.key and not (endpoint.key.isidentifier() and endpoint.key.isupper()):
        raise UserError("key must be the NAME of an environment variable, not the key itself")
    if "dollars" in endpoint.budget and not endpoint.usd_per_million:
        raise UserError("a budget in dollars needs usd_per_million")
    reserved = RESERVED & endpoint.extra.keys()
    if reserved:
        raise UserError(f"extra may not hold {min(reserved)}")
    return endpoint
