"""Nets of a server: which are offered and how they are called; pools of random images as ``explain`` has them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

import proofmap as pm
from proofmap.app import nets as module
from proofmap.app.nets import Nets, Offer, offers
from proofmap.app.server import Server
from proofmap.core.errors import InputError
from proofmap.core.inputs import Series
from proofmap.models import ModelInfo
from tests.app.served import Slow, begun, net, uploaded, with_slow, worked_off

INSTALLED = [ModelInfo(name, 224, "", f"about {name}") for name in ("small", "efficientnet-lite0")]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "installed_models", lambda: INSTALLED)


def test_installed_nets_are_offered_the_usual_one_first() -> None:
    assert [offer.name for offer in offers([], None, "cpu")] == ["efficientnet-lite0", "small"]


def test_nets_of_the_command_line_come_first_and_tell_no_folder() -> None:
    weights = Path("/secret/place/w.safetensors")
    found = offers(["/secret/place/net.py:make", "hf:/secret/place/vit", "small"], None, "cpu")
    assert [offer.name for offer in found] == ["net.py:make", "hf:vit", "small", "efficientnet-lite0"]
    (first, *_) = offers(["cifar10-resnet20"], weights, "cpu")
    assert first.name == "cifar10-resnet20@w.safetensors"
    assert first.options == ("--model", "cifar10-resnet20", "--weights", str(weights))
    again = offers(["small"], weights, "cpu")
    assert [offer.name for offer in again] == ["small@w.safetensors", "small", "efficientnet-lite0"]


def test_a_server_needs_a_net_of_a_kind_that_the_page_shows() -> None:
    class Tides(Series):
        noun, singular = "tides", "tide"

    with pytest.raises(InputError, match="--model"):
        Nets([])
    tides = pm.Classifier(
        torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 2)),
        inputs=Tides(length=8, mean=(0.0,), std=(1.0,)),
    )
    with pytest.raises(InputError, match="shows photos, rows, series, texts, but tides takes tides"):
        Nets([Offer("tides", "", lambda: tides)]).classifier("tides")


def test_random_images_are_those_that_explain_takes(client: TestClient, server: Server) -> None:
    photo = uploaded(client)
    job = begun(client, photo, ["gradient"], fill="images:size=16", seed=0)
    worked_off(server)
    image = server.nets.seen(server.items[photo], "toy")
    found = pm.evaluate(
        net(), image, methods=["gradient"], labels=[1, 3], metrics=["insertion:fill=images(size=16)"]
    )
    areas = [client.get(f"/api/jobs/{job}/maps/0/{label}").json()["area"] for label in (1, 3)]
    assert areas == pytest.approx(found.results[0].insertion.auc[0].tolist(), abs=1e-5)


def test_a_net_or_a_method_that_exits_ends_nothing_else(
    client: TestClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(*_: object, **__: object) -> Any:
        sys.exit(3)

    server.nets.offered["leaving"] = Offer("leaving", "", leave)
    with pytest.raises(SystemExit):
        server.worker.ask(lambda: server.nets.facts("leaving")).result(600)
    with_slow(server)
    monkeypatch.setattr(Slow, "maps", leave)
    photo = uploaded(client)
    jobs = [begun(client, photo, [method]) for method in ("slow", "gradient")]
    worked_off(server)
    answers = [client.get(f"/api/jobs/{job}").json() for job in jobs]
    assert [answer["state"] for answer in answers] == ["failed", "done"]
    assert answers[0]["message"] == "SystemExit: 3"
