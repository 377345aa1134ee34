"""One explained query (retrieval/explain.py) as tables, as a tree in HTML, and as a panel to type queries into."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from pkg_lib.analysis.grid import Grid
from pkg_lib.analysis.tables import DASH, render
from pkg_lib.core.store import versions
from pkg_lib.core.types import UserError
from pkg_lib.data.corpora import corpus_digest
from pkg_lib.retrieval.explain import UNITS, Explanation
from pkg_lib.retrieval.retrievers import Knowledge


class Shown(str):
    """HTML that a notebook renders."""

    def _repr_html_(self) -> str:
        return self


def hits(found: Explanation) -> Grid:
    """The ranked nodes with their cosines."""
    rows = {str(i): (f"{h.cosine:.3f}", h.function, h.line, h.where) for i, h in enumerate(found.hits, 1)}
    frame = pd.DataFrame.from_dict(
        rows, orient="index", columns=["cosine", "function", "first line", "where"]
    )
    return Grid(f"The nearest {found.unit}s", frame.rename_axis("rank"), (f"Query: {found.query}",))


def branches(found: Explanation) -> Grid:
    """What pruning chose from (Equation 7): the cosine of what remains without each branch, and of the whole."""
    best = "guarded: the whole competes" if found.guarded else "a branch goes whenever there is one"
    rows = {}
    for b in found.branches:
        rows[f"{b.first}-{b.last}"] = (
            b.line,
            f"{b.score:.3f}",
            "removed" if b.node == found.removed else DASH,
        )
    rows |= {DASH: ("the whole node", f"{found.whole:.3f}", "kept whole" if found.removed < 0 else DASH)}
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["branch", "cosine without it", "pruning"])
    return Grid(
        f"Branches of {found.chosen.function}", frame.rename_axis("lines"), (f"The highest wins; {best}.",)
    )


def tree(found: Explanation) -> Shown:
    """The best node and all below it with scores, the pruned branch struck out; a fragment of HTML."""
    return Shown(render("explained_tree.html.j2", found=found))


def context(found: Explanation) -> Shown:
    """The text that would stand in the prompt, with its source and what was added or left out."""
    return Shown(render("explained_context.html.j2", found=found))


def findings(found: Explanation) -> list[str]:
    """What happened, one sentence each."""
    said = [
        f"The nearest {found.unit} is {found.chosen.where} ({found.chosen.function}), cosine {found.chosen.cosine:.3f}."
    ]
    if found.removed < 0:
        said.append("Nothing was removed." if found.branches else "It has no branch, so nothing was removed.")
    else:
        gone = next(b for b in found.tree if b.node == found.removed)
        way = "rose" if found.pruned > found.whole else "fell"
        rest = f"the cosine {way} from {found.whole:.3f} to {found.pruned:.3f}"
        said.append(
            f"Of {len(found.branches)} branches, lines {gone.first}-{gone.last} were removed: {rest}."
        )
    if found.added:
        said.append(f"Called functions put before it: {', '.join(found.added)}.")
    return said


def page(found: Explanation) -> str:
    """Everything of one query as HTML."""
    return "".join([hits(found).html(), tree(found), branches(found).html(), context(found)])


def provenance(knowledge: Knowledge, found: Explanation) -> dict[str, Any]:
    """What the query was asked of and how; without this checkout's commit."""
    here = {name: version for name, version in versions().items() if name != "commit"}
    asked = {"query": found.query, "unit": found.unit, "guarded": found.guarded}
    digest = corpus_digest(knowledge.documents)
    return {"corpus_digest": digest, "embedder": knowledge.embedder.name, "asked": asked, "versions": here}


def panel(ask: Callable[..., Explanation], query: str, unit: str, guarded: bool, calls: int) -> Any:
    """Widgets that call `ask(query, unit, guarded, calls)` and show its page: an ipywidgets.VBox.

    It shows nothing before the button is pressed, so that an executed notebook is the same with and without it.
    """
    import ipywidgets as widgets

    text = widgets.Text(value=query, description="query", layout=widgets.Layout(width="90%"))
    units = widgets.Dropdown(options=list(UNITS), value=unit, description="unit")
    forms = [("paper: always one branch", False), ("guarded: or none", True)]
    form = widgets.Dropdown(options=forms, value=guarded, description="pruning")
    room = widgets.BoundedIntText(value=calls, min=0, max=2000, step=100, description="calls")
    button, shown = widgets.Button(description="Retrieve", button_style="primary"), widgets.HTML()

    def retrieve(_: object) -> None:
        try:
            shown.value = page(ask(text.value, units.value, form.value, room.value))
        except UserError as e:
            shown.value = render("explained_error.html.j2", message=str(e))

    button.on_click(retrieve)
    return widgets.VBox([text, widgets.HBox([units, form, room, button]), shown])
