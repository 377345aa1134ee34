"""What every figure must be: legible at its size, nothing over anything; the columns of both kinds."""

import pytest
from matplotlib.text import Text

from pkg_lib.retrieval.methods import METHODS

CODE, TEXT = (
    tuple(c.name for c in METHODS.values() if kind in c.corpus_kinds and not c.variant_of)
    for kind in ("code", "text")
)


def legible(figure, centimetres=8.5):
    """Checks width, size of letters, that texts stay inside and apart; returns the texts."""
    assert figure.get_size_inches()[0] * 2.54 == pytest.approx(centimetres, abs=0.05)
    figure.draw_without_rendering()
    texts = [t for t in figure.findobj(Text) if t.get_text().strip() and t.get_visible()]
    assert min(t.get_fontsize() for t in texts) >= 7
    boxes = [(t.get_text(), t.get_window_extent()) for t in texts]
    for name, box in boxes:
        assert (
            box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
        ), name
    assert [
        (a, b) for i, (a, p) in enumerate(boxes) for b, q in boxes[i + 1 :] if p.overlaps(q)
    ] == []
    return [name for name, _ in boxes]
