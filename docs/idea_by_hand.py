"""The data of the page "The idea, by hand", and its pictures in the documentation: ``python -m docs.idea_by_hand``.

Two methods explain one photo for two labels: *missile*, which the net believes, and *mosque*, which it hardly believes. The file
has the photo as the net sees it, the curves of the insertion game, and for each pixel the step of the game at which it appears.
It takes a few minutes on a laptop.
"""

from __future__ import annotations

import base64
import io
import json
import sys

import numpy as np
from PIL import Image

import proofmap as pm
from docs.make_pictures import HERE, PICTURES, judged, net
from proofmap.core.ranking import rank
from proofmap.report.pictures import picture_bytes
from proofmap.results.proof_shape import shape_of

DATA = HERE.parent / "src" / "proofmap" / "app" / "page" / "idea.json"
PHOTO, METHODS, LABELS = "rocket", ("grad-cam", "belief-mask"), ("missile", "mosque")
STEPS = 100
SHOWN = 0.2
"""The share of the pixels in the pictures of the documentation."""


def record() -> dict[str, object]:
    """Everything that the page shows."""
    found = judged((PHOTO,), METHODS, LABELS)
    photo = net().inputs.picture(found.image_of(0))
    buffer = io.BytesIO()
    Image.fromarray(photo).save(buffer, "JPEG", quality=90)
    return {
        "net": "efficientnet-lite0",
        "photo": base64.b64encode(buffer.getvalue()).decode(),
        "gray": [round(255 * float(value)) for value in net().gray.flatten()],
        "size": photo.shape[0],
        "steps": STEPS,
        "labels": [{"name": name, "f": round(float(found.f[0, k]), 5)} for k, name in enumerate(LABELS)],
        "proofs": [_proof(found, m, k) for m in range(len(METHODS)) for k in range(len(LABELS))],
    }


def _proof(found: pm.Evaluation, m: int, k: int) -> dict[str, object]:
    result = found.results[m]
    heat = found.map_of(result, 0, k)
    ranks = rank(heat[None])[0].cpu().numpy().reshape(heat.shape)
    appears = (ranks * STEPS // ranks.size).astype(np.uint8)  # shown from step appears + 1 on
    curves, shape = result.insertion, shape_of(found, result, 0, k)
    shares = (curves.counts.double() / curves.positions).numpy()
    points = np.interp(np.linspace(0, 1, STEPS + 1), shares, curves.probabilities[0, k].numpy())
    return {
        "method": METHODS[m],
        "label": k,
        "appears": base64.b64encode(picture_bytes(Image.fromarray(appears), "PNG")).decode(),
        "curve": [round(float(p), 4) for p in points],
        **shape.record(),
    }


def pictures(data: dict[str, object]) -> None:
    """What each proof shows, side by side, for the steps of the documentation."""
    photo = np.asarray(Image.open(io.BytesIO(base64.b64decode(str(data["photo"])))))
    shown = []
    for proof in data["proofs"]:  # type: ignore[attr-defined]
        appears = np.asarray(Image.open(io.BytesIO(base64.b64decode(proof["appears"]))))
        shown.append(np.where((appears < SHOWN * STEPS)[..., None], photo, data["gray"]).astype(np.uint8))
    gap = np.full((photo.shape[0], 12, 3), 255, np.uint8)
    for name, parts in (
        ("by-hand-believed.png", (photo, shown[2])),
        ("by-hand-wrong.png", (shown[1], shown[3])),
    ):
        row = np.concatenate([parts[0], gap, parts[1]], axis=1)
        Image.fromarray(row).save(PICTURES / name, optimize=True)


if __name__ == "__main__":
    if "--pictures" not in sys.argv:
        DATA.write_text(json.dumps(record(), separators=(",", ":")) + "\n")
    pictures(json.loads(DATA.read_text()))
