"""Painted proofs: f of the composite, by hand, and the machine's proofs of the same size, by the curve."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from starlette.testclient import TestClient

from proofmap.app.server import Server
from proofmap.core import streams
from proofmap.fills import Noise
from tests.app.served import NAMES, SIZE, begun, net, uploaded, worked_off
from tests.sessions import bound
from tests.toys import linear_probabilities

COUNT = SIZE[0] * SIZE[1]


def packed(keep: np.ndarray) -> str:
    return base64.b64encode(np.packbits(keep.reshape(-1)).tobytes()).decode()


def test_a_painted_proof_is_the_composite_through_the_net(client: TestClient, server: Server) -> None:
    photo = uploaded(client)
    keep = np.random.default_rng(1).random(SIZE) < 0.3
    asked = {"photo": photo, "net": "toy", "mask": packed(keep), "labels": [3]}
    answer = client.post("/api/paint", json=asked).json()
    f = net()
    image = server.nets.seen(server.items[photo], "toy")[0].double().numpy()
    gray = f.gray.view(3, 1, 1).double().numpy()
    truth = linear_probabilities(f, np.where(keep, image, gray))
    assert answer["share"] == keep.mean() and answer["machine"] == []
    assert [label["label"] for label in answer["labels"]] == np.argsort(-truth)[:5].tolist()
    assert [label["f"] for label in answer["labels"]] == pytest.approx(
        np.sort(truth)[::-1].tolist(), abs=1e-5
    )
    assert {label["name"] for label in answer["labels"]} == {*NAMES}


def test_the_machines_proof_of_the_same_size_lies_on_its_curve(client: TestClient, server: Server) -> None:
    photo = uploaded(client)
    job = begun(client, photo, ["gradient-x-input", "gradient"])
    worked_off(server)
    curve = client.get(f"/api/jobs/{job}/maps/1/3").json()["insertion"]
    node = len(curve["shares"]) // 2
    keep = (np.arange(COUNT) < round(curve["shares"][node] * COUNT)).reshape(SIZE)
    asked = {"photo": photo, "net": "toy", "mask": packed(keep), "job": job}
    machine = client.post("/api/paint", json=asked).json()["machine"]
    assert [(m["method"], m["label"]) for m in machine] == [(0, 1), (0, 3), (1, 1), (1, 3)]
    assert machine[3]["f"] == pytest.approx(curve["f"][node], abs=1e-5)


def test_of_a_random_fill_the_picture_that_is_shown_counts(client: TestClient, server: Server) -> None:
    photo = uploaded(client)
    asked = {
        "photo": photo,
        "net": "toy",
        "fill": "noise",
        "mask": packed(np.zeros(SIZE, dtype=bool)),
        "seed": 5,
    }
    answer = client.post("/api/paint", json=asked).json()
    image = server.nets.seen(server.items[photo], "toy")
    drawn = bound(Noise(), net())(image, streams.image_keys(image, 5, "curve fill", 0))
    truth = linear_probabilities(net(), drawn[0].double().numpy())
    assert answer["share"] == 0 and answer["labels"][0]["f"] == pytest.approx(truth.max(), abs=1e-5)


@pytest.mark.parametrize("mask", ["", "!!", "AAAA", base64.b64encode(bytes(COUNT // 8 + 1)).decode()])
def test_a_mask_of_another_size_is_refused(client: TestClient, mask: str) -> None:
    answer = client.post("/api/paint", json={"photo": uploaded(client), "net": "toy", "mask": mask})
    assert answer.status_code == 422 and "mask" in answer.json()["error"]


def test_a_job_of_another_photo_is_refused(client: TestClient, server: Server) -> None:
    job = begun(client, uploaded(client), ["gradient"])
    asked = {
        "photo": uploaded(client, seed=1),
        "net": "toy",
        "mask": packed(np.ones(SIZE, dtype=bool)),
        "job": job,
    }
    assert "another photo" in client.post("/api/paint", json=asked).json()["error"]
    unknown = {
        "photo": uploaded(client),
        "net": "toy",
        "mask": packed(np.ones(SIZE, dtype=bool)),
        "labels": [7],
    }
    assert "no label 7" in client.post("/api/paint", json=unknown).json()["error"]
    worked_off(server)
