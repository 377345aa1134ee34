"""Figures 7 to 12: maps of the tasks, a shape per topic and a colour per outcome."""

from typing import Any

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from pkg_lib.analysis.figures import (
    INK,
    HouseFigure,
    styled,
)
from pkg_lib.analysis.tables import (
    DASH,
    HIGHER,
    LOWER,
)
from pkg_lib.papers.pkg import topics

SHAPES = dict(
    zip(
        topics.topics().index,
        "os^DvPX<>*",
        strict=True,
    )
)  # topic -> marker
SOLVED, FAILED, UNKNOWN = HIGHER, LOWER, "#B0B0B0"
MARKER_SIZE = 3.8  # in the legends
EDGE = 0.7


@styled
def draw_maps(
    points: pd.DataFrame,
    verdicts: pd.DataFrame,
    topic: pd.Series,
    title: str,
) -> Figure:
    """Draw one map per method, all with the same points.

    A task has the shape of its topic. It is filled if it is solved, open if it is not, and a grey cross if
    it was not measured.

    Args:
        points: A map of `task_maps.task_map`.
        verdicts: Verdicts [task, method] of the methods to draw.
        topic: Topic by task id.
        title: The title.

    Returns:
        A figure of 17 cm.
    """
    figure = HouseFigure(figsize=(6.7, 4.1))
    width = 0.96 / max(1, verdicts.shape[1])
    for number, method in enumerate(verdicts):
        known = verdicts[method]
        axes = figure.add_axes((0.02 + number * width, 0.26, width - 0.02, 0.63))
        _draw_tasks(axes, points.assign(topic=topic, solved=known).loc[verdicts.index])
        axes.set_title(f"{method}: {known.sum()}/{known.count()} solved", loc="left")
    figure.text(0.02, 0.985, title, va="top", fontsize=8)
    _add_legends(figure, verdicts, topic)
    return figure


def _draw_tasks(
    axes: Axes,
    tasks: pd.DataFrame,
) -> None:
    """Draw tasks with the columns x, y, topic and solved."""
    unknown = tasks[tasks["solved"].isna()]
    axes.plot(
        unknown["x"],
        unknown["y"],
        "x",
        color=UNKNOWN,
        markersize=2.5,
        mew=0.6,
        zorder=1,
    )
    for solved, face, edge in ((False, "none", FAILED), (True, SOLVED, SOLVED)):
        sns.scatterplot(
            tasks[tasks["solved"] == solved],
            x="x",
            y="y",
            style="topic",
            style_order=list(SHAPES),
            markers=SHAPES,
            s=13,
            linewidth=EDGE,
            legend=False,
            ax=axes,
            fc=face,
            ec=edge,
            zorder=2 + solved,
        )
    axes.set(
        xticks=[],
        yticks=[],
        xlabel="",
        ylabel="",
    )
    axes.margins(0.04)
    axes.spines[["top", "right"]].set_visible(True)


def _add_legends(
    figure: Figure,
    verdicts: pd.DataFrame,
    topic: pd.Series,
) -> None:
    options: dict[str, Any] = {
        "loc": "upper left",
        "borderaxespad": 0,
        "handlelength": 0.8,
        "alignment": "left",
        "columnspacing": 3,
        "title_fontsize": 7,
    }
    present = set(topic.reindex(verdicts.index))
    figure.legend(
        handles=_outcome_handles(verdicts),
        bbox_to_anchor=(0.02, 0.235),
        title="Colour: outcome",
        **options,
    )
    figure.legend(
        handles=[_topic_handle(verdicts, topic, name) for name in SHAPES if name in present],
        bbox_to_anchor=(0.22, 0.235),
        title=f"Shape: topic; its solved/measured tasks: {', '.join(verdicts.columns)}",
        ncols=2,
        **options,
    )


def _outcome_handles(verdicts: pd.DataFrame) -> list[Line2D]:
    handles = [
        _handle("o", SOLVED, SOLVED, "solved"),
        _handle("o", FAILED, "none", "not solved"),
    ]
    if verdicts.isna().to_numpy().any():
        handles.append(_handle("x", UNKNOWN, UNKNOWN, "not measured"))
    return handles


def _topic_handle(
    verdicts: pd.DataFrame,
    topic: pd.Series,
    name: str,
) -> Line2D:
    """The shape of a topic with its solved and measured tasks in each map."""
    topic_verdicts = verdicts[topic.reindex(verdicts.index) == name]
    shares = []
    for method in topic_verdicts:
        known = topic_verdicts[method]
        shares.append(f"{known.sum()}/{known.count()}" if known.count() else DASH)
    label = f"{topics.topics()['short'][name]} {', '.join(shares)}"
    return _handle(SHAPES[name], INK, "none", label)


def _handle(
    marker: str,
    edge: str,
    face: str,
    label: str,
) -> Line2D:
    return Line2D(
        [],
        [],
        marker=marker,
        color=edge,
        mfc=face,
        label=label,
        linestyle="",
        markersize=MARKER_SIZE,
        mew=EDGE,
    )
