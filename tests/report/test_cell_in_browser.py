"""The picture of a proof that cell.js draws is the one that Python draws, in a real browser."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from proofmap.core.inputs import Pictures
from proofmap.core.ranking import keep_top, rank
from proofmap.report.cell import cut_picture
from proofmap.report.html import page_file
from proofmap.report.pictures import data_uri, photo
from proofmap.results.proof_shape import ProofShape
from tests.browser import pixels_of

N, SIDE = 16, 20  # of the map, and of a pixel of the map in the picture
BLUE = (0, 96, 168)
PAGE = """<!doctype html><meta charset="utf-8"><style>{style} #node {{ width: 320px }}</style><img id="photo" src="{photo}"><div id="node"></div>
<script type="module">{script}
const [bytes, facts, curve] = {data};
await byId("photo").decode();
const map = {{ photo: byId("photo"), width: {n}, height: {n}, appears: new Float32Array(bytesOf(bytes).buffer) }};
window.cell = new ProofCell({{ name: "a map", map, facts, curve, hidden: [255, 0, 51] }});
byId("node").append(cell.node);
cell.show();
document.documentElement.dataset.ready = "true";
</script>"""


def script() -> str:
    texts = (page_file(name) for name in ("shared.js", "cell.js"))
    return "\n".join(line for text in texts for line in text.splitlines() if not line.startswith("import "))


@pytest.fixture(scope="module")
def shown() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(3, N, N, generator=generator), torch.rand(N, N, generator=generator)


@pytest.fixture
def page(browser: Any, shown: tuple[torch.Tensor, torch.Tensor]) -> Iterator[Any]:
    image, heat = shown
    appears = ((rank(heat[None])[0].numpy() + 0.5) / N**2).astype("<f4").tobytes()
    facts = ProofShape(0.4, 0.2, 0.5, 0.25, 0.5, 1.0, 1.25, peak_share=0.5, empty=0.3).record()
    curve = {"shares": [0, 0.25, 0.5, 1], "values": [0.3, 0.38, 0.5, 0.4]}
    data = json.dumps([base64.b64encode(appears).decode(), facts, curve])
    uri = data_uri(photo(image, Pictures(size=(N, N))), "PNG")
    context = browser.new_context(offline=True, color_scheme="light", viewport={"width": 400, "height": 700})
    opened, complaints = context.new_page(), []
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.set_content(PAGE.format(style=page_file("look.css"), photo=uri, script=script(), data=data, n=N))
    opened.wait_for_selector("html[data-ready]", state="attached")
    yield opened
    context.close()
    assert complaints == []


def canvas(page: Any) -> np.ndarray:
    """The colours of the picture."""
    found: np.ndarray = pixels_of(page.locator("canvas.proof"))[0][..., :3].astype(int)
    return found


def middles(picture: np.ndarray) -> np.ndarray:
    return picture[SIDE // 2 :: SIDE, SIDE // 2 :: SIDE]


def test_a_proof_is_drawn_as_python_draws_it(page: Any, shown: tuple[torch.Tensor, torch.Tensor]) -> None:
    image, heat = shown
    inputs = Pictures(size=(N, N))
    for share in (0.25, 0.75):
        page.evaluate("(share) => cell.show({ share })", share)
        ours = np.asarray(cut_picture(image, heat, inputs, share, BLUE, N * SIDE)).astype(int)
        assert canvas(page).shape == ours.shape
        assert np.abs(middles(canvas(page)) - middles(ours)).max() <= 3


def test_the_outline_is_where_python_draws_it(page: Any) -> None:
    """The left half is first, and has no specks."""
    page.evaluate(
        "() => { cell.map.appears = Float32Array.from({ length: 256 }, (_, i) => (i % 16 + 1) / 16); cell.show({ share: 0.5 }); }"
    )
    row = canvas(page)[SIDE // 2, 100:]  # hairlines are at 40 and 80
    line = 100 + np.flatnonzero((np.abs(row - BLUE) <= 40).all(axis=1))
    assert line.min() >= 157 and line.max() <= 162 and 1 <= len(line) <= 3


def test_heat_has_four_bands_of_rank_and_nothing_beyond(
    page: Any, shown: tuple[torch.Tensor, torch.Tensor]
) -> None:
    _, heat = shown
    page.evaluate("() => cell.show({ mode: 'heat' })")
    seen = middles(canvas(page))
    coloured = seen.max(axis=2) - seen.min(axis=2) > 8
    assert (coloured == keep_top(heat[None], 0.4)[0].numpy()).all()
    first = keep_top(heat[None], 0.05)[0].numpy()
    assert np.abs(seen[first] - (249, 178, 36)).max() <= 0.15 * 255


def test_the_pointer_shows_what_the_net_saw(page: Any, shown: tuple[torch.Tensor, torch.Tensor]) -> None:
    image, heat = shown
    page.locator("canvas.proof").hover()
    keep = keep_top(heat[None], 0.25)[0].numpy()
    whole = np.asarray(photo(image, Pictures(size=(N, N)))).astype(int)
    assert (middles(canvas(page)) == np.where(keep[..., None], whole, (255, 0, 51))).all()


def test_numbers_and_the_word_stand_below(page: Any) -> None:
    text = " ".join(page.locator(".proof-words").inner_text().split())
    assert (
        text
        == "belief 40 % → proof 20 % · peak 50 % too weak 25 % of the pixels reach the belief nothing shown 30 %"
    )
    assert "too weak" in page.locator("canvas.proof").get_attribute("aria-label")
    red = page.evaluate("() => getComputedStyle(document.querySelector('.one-word')).color")
    assert red == "rgb({}, {}, {})".format(*BLUE)
