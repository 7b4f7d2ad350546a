"""Labels worth a proof: wrong ones that the net does not believe, and those of other objects in the photo."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

from proofmap.app.routes import _parts_of, _seen_in_parts, _wrong_labels
from tests.app.served import NAMES, net, uploaded
from tests.toys import pixels


def test_wrong_labels_are_those_of_the_rule_of_studies() -> None:
    f, image = torch.full((100,), 0.001), pixels(1, 6)
    f[7], f[8], f[3], f[50:] = 0.8, 0.05, 0.009, 0.0001
    draws = [_wrong_labels(f, range(100), image, seed) for seed in range(40)]
    assert _wrong_labels(f, range(100), image, 5) == draws[5] and len({tuple(draw) for draw in draws}) > 15
    assert all(f[near] >= f[far] and f[near] < 0.01 for near, far in draws), "a near one and a far one"
    assert _wrong_labels(torch.tensor([0.5, 0.2, 0.3]), range(3), image) == [1], (
        "the net believes all a little"
    )


def test_parts_overlap_and_cover_the_photo() -> None:
    image = torch.arange(48.0).view(1, 1, 6, 8)
    parts = _parts_of(image)
    assert parts.shape == (9, 1, 6, 8)
    assert parts[0].mean() == pytest.approx(image[..., :3, :4].mean().item(), abs=0.3)
    assert parts[8].mean() == pytest.approx(image[..., 3:, 4:].mean().item(), abs=0.3)
    assert parts[4].mean() == pytest.approx(image[..., 1:4, 2:6].mean().item(), abs=0.3)


def test_a_label_is_suggested_if_it_leads_in_a_part_more_clearly_than_in_the_whole() -> None:
    whole = torch.tensor([0.7, 0.05, 0.2, 0.05])
    parts = torch.tensor(
        [[0.9, 0.1, 0.0, 0.0], [0.1, 0.6, 0.3, 0.0], [0.3, 0.0, 0.39, 0.31], [0.85, 0.15, 0.0, 0.0]]
    )
    assert [(a, round(p, 2)) for a, p in _seen_in_parts(whole, parts, range(4))] == [(1, 0.6)]


def test_the_server_gives_them_with_their_f(client: TestClient) -> None:
    photo = uploaded(client)
    answer = client.get(f"/api/photos/{photo}/beliefs?net=toy&number=5").json()
    assert answer["wrong"] and all(one in answer["labels"] and one["f"] < 0.01 for one in answer["wrong"])
    found = client.get(f"/api/labels?net=toy&search=cat&photo={photo}").json()["labels"]
    believed = {one["label"]: one["f"] for one in answer["labels"]}
    assert [one["f"] for one in found] == [believed[one["label"]] for one in found] and len(found) == 3
    assert client.get("/api/labels?net=toy&search=cat").json()["labels"][0]["f"] is None
    for one in client.get(f"/api/photos/{photo}/suggestions?net=toy").json()["labels"]:
        assert one["part"] >= 2 * one["f"] and NAMES[one["label"]] == one["name"]
    assert len(net().names) == 5 and np.isfinite(list(believed.values())).all()
