"""Embedders by name: MiniLM, the six of cAST (its Tables 5 and 9), the PKG paper's Voyage-Code-2, and KINDS.

Files bear the `pinned` name, with a commit, or the digest of a directory's files or of an endpoint's record.
"""

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

from pkg_lib.core import hub
from pkg_lib.core.endpoints import Endpoint, endpoints
from pkg_lib.core.models import KINDS, directory_digest
from pkg_lib.core.reading import absolute
from pkg_lib.core.registry import Registry, unknown
from pkg_lib.core.types import UserError

DEFAULT = "all-MiniLM-L6-v2"
BF16 = f"{DEFAULT}-bf16"
# The same weights with twice the default limit: as many tokens as the model has positions for.
LONG = f"{DEFAULT}-512"
VOYAGE = Endpoint(
    "voyage-code-2", "https://api.voyageai.com/v1", "voyage-code-2", key="VOYAGE_API_KEY"
)
_PINNED = "[0-9a-f]{40}|(?:files|endpoint)-sha256-[0-9a-f]{16}"


@dataclass(frozen=True, slots=True)
class EmbedderSpec:
    """What a name says; `repo` is a hub repository, or a directory as sentence-transformers saves it."""

    name: str
    repo: str = ""
    options: dict = field(default_factory=dict)  # of sentence-transformers
    endpoint: str = ""  # of core/endpoints.py; the user's own may take the place of VOYAGE
    revision: str = ""  # as asked for
    max_tokens: int = 0  # how many tokens of a text it reads; 0: as many as the model is saved with

    @property
    def server(self) -> Endpoint:
        """The endpoint. UserError where none of that name is described, or one that will not do."""
        known = endpoints()
        endpoint = ({VOYAGE.name: VOYAGE} | known).get(self.endpoint) or known.get_or_fail(
            self.endpoint
        )
        if endpoint.api != "openai" or endpoint.budget:
            what = "api openai and without a budget, which counts answers alone"
            raise UserError(f"embedder {self.name} needs an endpoint with {what}")
        return endpoint

    def resolve(self) -> str:
        """The revision now; "" for MiniLM. UserError where it cannot be had, or is not the one asked for."""
        what, instead = f"embedder {self.name}", f"choose {DEFAULT}, which needs none"
        if self.endpoint:
            now = str(self.server.record["revision"])
        elif not self.name.startswith("path:"):
            return hub.commit(self.repo, what, self.revision, instead) if self.repo else ""
        elif Path(self.repo, "modules.json").is_file():
            now = f"files-sha256-{directory_digest(Path(self.repo), '**/*')[:16]}"
        else:
            raise UserError(f"{what} is no directory with the modules.json of an embedder")
        if self.revision not in ("", now):
            raise UserError(f"{what} is {now} now, not {self.revision}: leave @REVISION out")
        return now

    @property
    def pinned(self) -> str:
        """The name with its revision, which MiniLM has none of. Errors as `resolve`."""
        revision = self.revision if re.fullmatch(_PINNED, self.revision) else self.resolve()
        return f"{self.name}@{revision}" if revision else self.name


EMBEDDERS: Registry[EmbedderSpec] = Registry(
    "embedder",
    (
        EmbedderSpec(DEFAULT),
        EmbedderSpec(BF16, options={"model_kwargs": {"dtype": "bfloat16"}}),
        EmbedderSpec(LONG, max_tokens=512),
        EmbedderSpec("BGE-base", "BAAI/bge-base-en"),
        EmbedderSpec("BGE-large", "BAAI/bge-large-en"),
        EmbedderSpec("GIST-base", "avsolatorio/GIST-Embedding-v0"),
        EmbedderSpec("GIST-large", "avsolatorio/GIST-large-Embedding-v0"),
        EmbedderSpec(
            "CodeSage-small-v2", "codesage/codesage-small-v2", {"trust_remote_code": True}
        ),
        EmbedderSpec(
            "Jina-v2-code", "jinaai/jina-embeddings-v2-base-code", {"trust_remote_code": True}
        ),
        EmbedderSpec(VOYAGE.name, endpoint=VOYAGE.name),
    ),
)


def quickest() -> str:
    """MiniLM's name in the precision that this processor is fastest in."""
    flags = Path("/proc/cpuinfo")
    return BF16 if flags.exists() and "avx512_bf16" in flags.read_text("utf8") else DEFAULT


def embedder_spec(name: str) -> EmbedderSpec:
    """The embedder of a name, which may end in @REVISION. UserError with the names to choose from."""
    bare, _, revision = name.partition("@")
    if name in EMBEDDERS or bare in EMBEDDERS.keys() - {DEFAULT, BF16, LONG}:
        return replace(EMBEDDERS[bare], revision=revision)
    kind, _, rest = name.partition(":")
    if kind not in KINDS:
        raise unknown("embedder", name, [*EMBEDDERS, *KINDS.values()])
    forms = {"hf": r"([\w.-]+/[\w.-]+)(?:@(.+))?"}  # elsewhere an @ may be part of the name
    if not (match := re.fullmatch(forms.get(kind, rf"(.+?)(?:@({_PINNED}))?"), rest, re.DOTALL)):
        raise UserError(f"embedder {name}: write {KINDS[kind]}")
    place, revision = match.groups("")
    if kind == "endpoint":
        return EmbedderSpec(f"{kind}:{place}", endpoint=place, revision=revision)
    place = str(absolute(place)) if kind == "path" else place
    return EmbedderSpec(f"{kind}:{place}", place, revision=revision)
