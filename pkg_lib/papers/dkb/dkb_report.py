"""What dkb.ipynb says in sentences, computed from its numbers, and what it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pkg_lib.analysis.tables import probability
from pkg_lib.papers.dkb import dkb
from pkg_lib.papers.dkb import dkb_study as study
from pkg_lib.papers.dkb.dkb import BASE, LLM_KB, OURS, Evident, Study
from pkg_lib.papers.dkb.evidence import Paired, paired
from pkg_lib.papers.dkb.pipelines import Budget
from pkg_lib.retrieval.embed import DEFAULT

ALPHA = 0.05
GRAPH_KINDS = ("upstream", "multi-hop")


def findings(
    found: Study, indexes: Sequence[dict[str, Any] | None], other: Evident | None = None
) -> list[str]:
    """One sentence each; what was not measured is said to be so. `other`: evidence recorded on another repository."""
    said = [*_evidence(found), _llm(found)]
    said += _evidence(other) if other else ["Evidence on another repository was not recorded."]
    said += [_graph(i) for i in indexes if i]
    said += [_answers(found)]
    return [s for s in said if s]


def _evidence(found: Evident) -> list[str]:
    said = [_recall(found, BASE), _recall(found, study.SAME_SIZE), _precision(found), _interfaces(found)]
    said += [_kinds(found, b) for b in (BASE, study.SAME_SIZE) if set(GRAPH_KINDS) <= set(found.kinds)]
    return [f"{found.name}: {s}" for s in said]


def _verdict(d: Paired, base: str) -> str:
    """In words: beyond chance only where the exact test says so too, since the bootstrap is too sure with few questions."""
    value = round(d.value, 3) + 0.0  # no "-0.000"
    size = f"{value:+.3f}, 95 % interval {d.low:+.3f} to {d.high:+.3f}, exact p {_p(d.p)}, {d.n} questions"
    if d.p < ALPHA:
        return f"DKB {'beats' if d.value > 0 else 'stays below'} {base} ({size})"
    where = "above" if value > 0 else "below" if value < 0 else "level with"
    return f"DKB is {where} {base} in the mean, but not beyond chance ({size})"


def _recall(found: Evident, base: str) -> str:
    a, b = (found.values(c, "recall").mean() for c in (OURS, base))
    return (
        f"Of the types that an answer needs, {_percent(a)} reach DKB's context and {_percent(b)} that of {base}: "
        f"{_verdict(found.against(OURS, base), base)}."
    )


def _kinds(found: Evident, base: str) -> str:
    d = found.against(OURS, base, "recall", GRAPH_KINDS)
    return f"On the upstream and multi-hop questions alone {_verdict(d, base)}."


def _precision(found: Evident) -> str:
    a, b = (found.values(c, "precision").mean() for c in (OURS, BASE))
    sizes = found.evidence.groupby("pipeline")["characters"].mean()
    return (
        f"This costs room: DKB's contexts have {sizes[OURS] / sizes[BASE]:.1f} times the characters of No-Graph's, and of the "
        f"types in them {_percent(a)} are needed, against {_percent(b)}."
    )


def _interfaces(found: Evident) -> str:
    means = found.variants.groupby(["reading", "pipeline"])["recall"].mean()
    said = []
    for reading in (dkb.READING, "source"):
        whole, without = (means[reading, p] for p in (OURS, "without interface consumers"))
        change = "the same" if whole == without else f"{without:.3f} instead of {whole:.3f}"
        said.append(f"{change} (reading: {reading})")
    both = (
        "the same in both readings (listed, source)"
        if all(s.startswith("the same") for s in said)
        else " and ".join(said)
    )
    return f'Without the interface-consumer rule, the paper\'s "critical fix", evidence recall is {both}.'


def _p(value: float) -> str:
    shown = probability(value)
    return shown if shown.startswith("<") else f"= {shown}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _llm(found: Study) -> str:
    e = found.extracted
    if e is None:
        return "LLM-KB was not measured: its extraction is not stored."
    rate, share = e.success_rate or 0.0, dkb.coverage(found)[LLM_KB] or 0.0
    d, recall = found.against(OURS, LLM_KB), found.values(LLM_KB, "recall").mean()
    return (
        f"{found.model} gave a record for {len(e.records)} of {len(e.files)} files (file success rate {rate:.3f}; published "
        f"0.650 to 0.806), so {_percent(share)} of the chunks are embedded; its evidence recall is {recall:.3f}, DKB's "
        f"{d.value:+.3f} against it (95 % interval {d.low:+.3f} to {d.high:+.3f})."
    )


def _graph(index: dict[str, Any]) -> str:
    resolved, published = (index["graphs"][m] for m in ("resolved", "as-published"))
    nodes, kept = (sum(g["nodes"].values()) for g in (resolved, published))
    held = published["chunks_of_files_with_a_node"] / index["chunks"]
    name, seconds = index["repository"], resolved["seconds"]["total"]
    return (
        f"{name}: {index['files']:,} files give {nodes:,} types in {seconds:.1f} s; keyed by simple names, as published, "
        f"{kept:,} are left, {published['cycles']} cycles of inheritance arise, and a corpus coupled to its nodes "
        f"holds {100 * held:.1f} % of the chunks."
    )


def _answers(found: Study) -> str:
    if not found.answers:
        return "The answers of a model were not measured: none is stored."
    shares = (
        dkb.named(found)
        .pivot(index="question", columns="pipeline", values="share")
        .reindex(columns=list(found.answers))
    )
    shown = ", ".join(f"{name} {_percent(value)}" for name, value in shares.mean().items())
    bases = [b for b in (BASE, study.SAME_SIZE) if {b, OURS} <= set(shares)]
    against = "; ".join(_verdict(paired(shares[OURS].tolist(), shares[b].tolist()), b) for b in bases)
    beside = f" By these shares {against}." if against else ""
    return f"Of the needed types, {found.model} names in its answers: {shown}.{beside} Whether they are right, nobody has judged."


def provenance(found: Study, indexes: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    """What the tables were made from."""
    ranked = {k: v for k, v in found.opened.ranked.items() if k not in ("ranking", "query_seconds")}
    return {
        "repository": found.name,
        "questions": len(found.opened.questions),
        "k": found.k,
        "depth": found.depth,
        "budget": asdict(Budget()),
        "embedder": DEFAULT,
        "model": found.model,
        "ranking": {k: ranked[k] for k in sorted(ranked)},
        "indexes": {
            i["repository"]: {
                k: i[k] for k in ("files", "chunks", "processes", "processors", "load_before", "versions")
            }
            for i in indexes
            if i
        },
    }
