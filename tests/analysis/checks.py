"""Checks of figures: every text must be legible at its printed size and overlap nothing."""

import pytest
from matplotlib.text import Text

from pkg_lib.retrieval.methods import METHODS


def _methods_for(kind):
    """Return the methods for corpora of a kind, without variants."""
    methods = [method for method in METHODS.values() if not method.variant_of]
    return tuple(method.name for method in methods if kind in method.corpus_kinds)


CODE = _methods_for("code")
TEXT = _methods_for("text")

# Widths of a column and of a page, in cm.
COLUMN = 8.5
PAGE = 17.0
# Font sizes, in pt.
SMALLEST = 7
LARGEST = 10


def width_in_centimetres(figure):
    return figure.get_size_inches()[0] * 2.54


def visible_range(axis):
    """Return the lowest and the highest position at which an axis draws a tick."""
    low, high = sorted(axis.get_view_interval())
    margin = 1e-9 * (high - low)
    return low - margin, high + margin


def hidden_labels(figure):
    """Find the labels of ticks that are not drawn.

    Args:
        figure: A figure that was drawn.

    Returns:
        Labels outside the limits of their axis, and all labels of axes that are off.
    """
    hidden = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = visible_range(axis)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                is_drawn = axes.axison and low <= tick.get_loc() <= high
                if not is_drawn:
                    hidden.update((tick.label1, tick.label2))
    return hidden


def shown_texts(figure):
    """Draw a figure and find its texts.

    Args:
        figure: The figure.

    Returns:
        All visible texts that are not empty.
    """
    figure.draw_without_rendering()
    hidden = hidden_labels(figure)
    shown = []
    for text in figure.findobj(Text):
        is_empty = not text.get_text().strip()
        if text.get_visible() and not is_empty and text not in hidden:
            shown.append(text)
    return shown


def is_inside(box, figure):
    """Tell whether a box lies within a figure."""
    edges = figure.bbox
    if box.x0 < 0 or box.y0 < 0:
        return False
    return box.x1 <= edges.x1 and box.y1 <= edges.y1


def problems(figure):
    """List what makes a figure hard to read in print.

    Args:
        figure: The figure.

    Returns:
        A wrong width, letters that are too small or too large, and texts that are clipped
        or overlap each other.
    """
    found = []
    width = width_in_centimetres(figure)
    if min(abs(width - COLUMN), abs(width - PAGE)) > 0.05:
        found.append(f"{width:.2f} cm wide")
    boxes = []
    for text in shown_texts(figure):
        name = text.get_text()
        size = text.get_fontsize()
        box = text.get_window_extent()
        if not SMALLEST <= size <= LARGEST:
            found.append(f"{size} pt: {name}")
        if not is_inside(box, figure):
            found.append(f"clipped: {name}")
        for other_name, other_box in boxes:
            if box.overlaps(other_box):
                found.append(f"{name} overlaps {other_name}")
        boxes.append((name, box))
    return found


def legible(figure, centimetres=COLUMN):
    """Assert that a figure has its width and no problems.

    Args:
        figure: The figure.
        centimetres: The expected width.

    Returns:
        The strings of its texts.
    """
    width = width_in_centimetres(figure)
    assert width == pytest.approx(centimetres, abs=0.05)
    found = problems(figure)
    assert not found, found
    return [text.get_text() for text in shown_texts(figure)]
