"""Embedders by name.

There are MiniLM, the six of cAST (its Tables 5 and 9), the PKG paper's Voyage-Code-2, and
``KINDS``. A pinned name ends in a revision: the commit of a hub repository, the digest of a
directory's files, or the digest of what an endpoint is asked for. File names contain it.
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pkg_lib.core import hub
from pkg_lib.core.endpoints import Endpoint, endpoints
from pkg_lib.core.models import KINDS, directory_digest
from pkg_lib.core.reading import absolute
from pkg_lib.core.registry import Registry, unknown
from pkg_lib.core.types import UserError

DEFAULT = "all-MiniLM-L6-v2"
BF16 = f"{DEFAULT}-bf16"
INT8 = f"{DEFAULT}-int8"  # the same weights in 8-bit integers (retrieval/quantized.py)
LONG = (
    f"{DEFAULT}-512"  # the same weights with all their 512 positions; the default reads 256 tokens
)
VOYAGE = Endpoint(
    "voyage-code-2", "https://api.voyageai.com/v1", "voyage-code-2", key="VOYAGE_API_KEY"
)
_PINNED = "[0-9a-f]{40}|(?:files|endpoint)-sha256-[0-9a-f]{16}"
# How the rest of a name, behind "hf:" and the like, is split into place and revision. A path or the
# name of an endpoint may itself contain an @.
_PLACES = {
    "hf": r"([\w.-]+/[\w.-]+)(?:@(.+))?",
    "path": rf"(.+?)(?:@({_PINNED}))?",
    "endpoint": rf"(.+?)(?:@({_PINNED}))?",
}


@dataclass(frozen=True, slots=True)
class EmbedderSpec:
    """An embedder: what its name means.

    Attributes:
        name: The name without a revision.
        repo: A hub repository, or a directory as sentence-transformers saves it; "" for MiniLM.
        options: Options of sentence-transformers.
        endpoint: Name of an endpoint. A table with this name in endpoints.toml replaces ``VOYAGE``.
        revision: The requested revision; "" takes the current one.
        max_tokens: How many tokens of a text are read; 0 takes the limit that the model is saved
            with.
    """

    name: str
    repo: str = ""
    options: dict[str, Any] = field(default_factory=dict)
    endpoint: str = ""
    revision: str = ""
    max_tokens: int = 0

    @property
    def server(self) -> Endpoint:
        """The endpoint.

        Raises:
            UserError: No endpoint has this name, or it does not serve vectors.
        """
        described = endpoints()
        if self.endpoint == VOYAGE.name:
            endpoint = described.get(VOYAGE.name, VOYAGE)
        else:
            endpoint = described.get_or_fail(self.endpoint)
        if endpoint.api != "openai" or endpoint.budget:
            raise UserError(
                f"embedder {self.name} needs an endpoint with api openai, and without a budget:"
                " budgets count only answers"
            )
        return endpoint

    def require_key(self) -> None:
        """Check that the key of the endpoint is set, if there is an endpoint.

        Raises:
            UserError: The key is missing, or the endpoint does not serve vectors.
        """
        if self.endpoint:
            self.server.read_key()

    def resolve(self) -> str:
        """Find the current revision.

        Returns:
            The revision; "" for MiniLM, which has none.

        Raises:
            UserError: The embedder is unavailable, or its revision is not the requested one.
        """
        what = f"embedder {self.name}"
        if self.endpoint:
            now = str(self.server.record["revision"])
        elif not self.name.startswith("path:"):
            advice = f"choose {DEFAULT}, which needs none"
            return hub.commit(self.repo, what, self.revision, advice) if self.repo else ""
        elif Path(self.repo, "modules.json").is_file():
            now = f"files-sha256-{directory_digest(Path(self.repo), '**/*')[:16]}"
        else:
            raise UserError(f"{what} is not a directory with the modules.json of an embedder")
        if self.revision not in ("", now):
            raise UserError(f"{what} is {now} now, not {self.revision}: leave @REVISION out")
        return now

    @property
    def pinned(self) -> str:
        """The name with its revision, which MiniLM does not have.

        Raises:
            UserError: The embedder is unavailable, or its revision is not the requested one.
        """
        is_pinned = re.fullmatch(_PINNED, self.revision)
        revision = self.revision if is_pinned else self.resolve()
        return f"{self.name}@{revision}" if revision else self.name


_OWN_CODE = {"trust_remote_code": True}
EMBEDDERS: Registry[EmbedderSpec] = Registry(
    "embedder",
    (
        EmbedderSpec(DEFAULT),
        EmbedderSpec(INT8),
        EmbedderSpec(BF16, options={"model_kwargs": {"dtype": "bfloat16"}}),
        EmbedderSpec(LONG, max_tokens=512),
        EmbedderSpec("BGE-base", "BAAI/bge-base-en"),
        EmbedderSpec("BGE-large", "BAAI/bge-large-en"),
        EmbedderSpec("GIST-base", "avsolatorio/GIST-Embedding-v0"),
        EmbedderSpec("GIST-large", "avsolatorio/GIST-large-Embedding-v0"),
        EmbedderSpec("CodeSage-small-v2", "codesage/codesage-small-v2", _OWN_CODE),
        EmbedderSpec("Jina-v2-code", "jinaai/jina-embeddings-v2-base-code", _OWN_CODE),
        EmbedderSpec(VOYAGE.name, endpoint=VOYAGE.name),
    ),
)
_WITHOUT_REVISION = (DEFAULT, INT8, BF16, LONG)


def embedder_spec(name: str) -> EmbedderSpec:
    """Look up an embedder.

    Args:
        name: A name in ``EMBEDDERS``, or one of the forms in ``KINDS``; it may end in @REVISION.

    Returns:
        The embedder.

    Raises:
        UserError: The name is unknown or incomplete.
    """
    bare, _, revision = name.partition("@")
    if bare in EMBEDDERS and (name == bare or bare not in _WITHOUT_REVISION):
        return replace(EMBEDDERS[bare], revision=revision)
    kind, _, rest = name.partition(":")
    if kind not in KINDS:
        raise unknown("embedder", name, [*EMBEDDERS, *KINDS.values()])
    match = re.fullmatch(_PLACES[kind], rest, re.DOTALL)
    if not match:
        raise UserError(f"embedder {name}: write {KINDS[kind]}")
    place, revision = match.groups("")
    if kind == "endpoint":
        return EmbedderSpec(f"{kind}:{place}", endpoint=place, revision=revision)
    if kind == "path":
        place = str(absolute(place))
    return EmbedderSpec(f"{kind}:{place}", place, revision=revision)
