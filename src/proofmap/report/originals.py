"""The original photo, small, with a frame around the part that the net sees; drawn if some of it was cropped."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image, ImageDraw

from proofmap.core.inputs import Inputs, Pictures
from proofmap.report.pictures import data_uri

LOST = 0.03
"""Share of a photo's area that may be cropped without showing the original."""
SIDE = 320
"""The longest side of the small original, in pixels."""
_LEAST = 24  # of the shorter side, where a photo is very narrow
_DIMMED = 0.45


@dataclass(frozen=True)
class Original:
    """A photo of which the net sees a part: a small picture as a data URI, and its caption."""

    picture: str
    width: int
    height: int
    words: str


def original_of(photo: Image.Image, inputs: Inputs, *, cropped: bool = False) -> Original | None:
    """The original with a frame around what the net sees; None if it sees all or nearly all of it.

    ``cropped`` says that the dataset crops its photos itself, as for :meth:`Pictures.prepare`.
    """
    if not isinstance(inputs, Pictures):
        return None
    share = inputs.seen_share(photo, cropped=cropped)
    if share > 1 - LOST:
        return None
    small = framed(photo, inputs.seen_part(photo, cropped=cropped))
    words = (
        f"The original, {photo.width} x {photo.height}. The net sees {_percent(share)} of it, the part inside the frame. "
        "Everything on this page is about that part."
    )
    return Original(data_uri(small, "JPEG", quality=85), small.width, small.height, words)


def crop_words(photo: Image.Image, inputs: Inputs) -> str:
    """How much of a photo the net sees, for a sheet, which shows that part only; empty if it sees all or nearly all."""
    share = inputs.seen_share(photo) if isinstance(inputs, Pictures) else 1.0
    if share > 1 - LOST:
        return ""
    return f"The net sees {_percent(share)} of the original ({photo.width} x {photo.height} pixels): what is shown here. The rest is cropped."


def framed(photo: Image.Image, part: tuple[float, float, float, float]) -> Image.Image:
    """The photo made small, darker outside the part (in shares of its sides), which gets a frame."""
    scale = min(1.0, SIDE / max(photo.size))
    size = tuple(max(min(_LEAST, side), round(side * scale)) for side in photo.size)
    small = photo.convert("RGBA").resize((size[0], size[1]), Image.Resampling.BILINEAR)
    page = Image.new("RGBA", small.size, (128, 128, 128, 255))
    shown = Image.alpha_composite(page, small).convert("RGB")
    left, top, right, bottom = (
        round(share * side) for share, side in zip(part, (*small.size, *small.size), strict=True)
    )
    box = (left, top, max(left + 1, right), max(top + 1, bottom))
    dimmed = Image.blend(shown, Image.new("RGB", shown.size), 1 - _DIMMED)
    dimmed.paste(shown.crop(box), box[:2])
    draw = ImageDraw.Draw(dimmed)
    edge = (box[0], box[1], box[2] - 1, box[3] - 1)
    draw.rectangle(edge, outline=(0, 0, 0), width=3)
    draw.rectangle(
        (edge[0] + 1, edge[1] + 1, max(edge[0] + 1, edge[2] - 1), max(edge[1] + 1, edge[3] - 1)),
        outline="white",
    )
    return dimmed


def _percent(share: float) -> str:
    return "less than 1 %" if share < 0.005 else f"{100 * share:.0f} %"
