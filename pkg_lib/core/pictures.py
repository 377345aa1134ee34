"""Pictures that take little space."""

import io

from PIL import Image


def with_256_colours(png: bytes, dpi: int | None = None) -> bytes:
    """Reduce a drawing to 256 colours, which look the same and take a third of the bytes.

    Args:
        png: The picture.
        dpi: Its resolution, which is recorded in the file; None if it does not matter.

    Returns:
        The picture as PNG, on white where it was transparent. The same picture gives the same bytes.
    """
    smaller = io.BytesIO()
    resolution = {"dpi": (dpi, dpi)} if dpi else {}
    with Image.open(io.BytesIO(png)) as picture:
        opaque = Image.new("RGBA", picture.size, "white")
        opaque.alpha_composite(picture.convert("RGBA"))
    opaque.convert("RGB").quantize(256).save(smaller, "png", optimize=True, **resolution)
    return smaller.getvalue()
