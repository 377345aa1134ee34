"""What every figure must be: legible at its size, nothing over anything; the columns of both kinds."""

import pytest
from matplotlib.text import Text

from pkg_lib.retrieval.methods import METHODS

CODE, TEXT = (
    tuple(c.name for c in METHODS.values() if kind in c.corpus_kinds and not c.variant_of)
    for kind in ("code", "text")
)


COLUMN, PAGE = 8.5, 17.0  # cm
SMALLEST, LARGEST = 7, 10  # pt


def unseen_labels(figure):
    """Labels of ticks that are not drawn: outside of the axes' limits, or of axes that are off."""
    unseen = set()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            margin = 1e-9 * (high - low)
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not axes.axison or not low - margin <= tick.get_loc() <= high + margin:
                    unseen |= {tick.label1, tick.label2}
    return unseen


def shown_texts(figure):
    """The texts of a drawn figure."""
    figure.draw_without_rendering()
    unseen = unseen_labels(figure)
    texts = [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible()]
    return [text for text in texts if text not in unseen]


def problems(figure):
    """What keeps a figure from being read in print: its width, small or large letters, texts that are
    clipped, and texts that overlap."""
    found = []
    width = figure.get_size_inches()[0] * 2.54
    if min(abs(width - COLUMN), abs(width - PAGE)) > 0.05:
        found.append(f"{width:.2f} cm wide")
    boxes = []
    for text in shown_texts(figure):
        name, size, box = text.get_text(), text.get_fontsize(), text.get_window_extent()
        if not SMALLEST <= size <= LARGEST:
            found.append(f"{size} pt: {name}")
        inside = box.x0 >= 0 and box.y0 >= 0
        inside &= box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
        if not inside:
            found.append(f"clipped: {name}")
        found += [f"{name} overlaps {other}" for other, q in boxes if box.overlaps(q)]
        boxes.append((name, box))
    return found


def legible(figure, centimetres=COLUMN):
    """Checks that a figure has its width and no problems; returns the texts."""
    assert figure.get_size_inches()[0] * 2.54 == pytest.approx(centimetres, abs=0.05)
    found = problems(figure)
    assert not found, found
    return [text.get_text() for text in shown_texts(figure)]
