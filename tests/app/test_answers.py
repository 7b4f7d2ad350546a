"""What is answered at once: what there is, what the net sees and believes, labels by name."""

from __future__ import annotations

import base64
import io
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load, load_file
from starlette.testclient import TestClient

import proofmap as pm
from proofmap.app.choices import Choices
from proofmap.app.nets import Nets, offers
from proofmap.app.routes import _parts_of, _seen_in_parts, _wrong_labels, routes_of
from proofmap.app.server import Server
from proofmap.core import streams
from proofmap.fills import Noise
from proofmap.methods import METHODS
from tests.app.served import NAMES, SIZE, begun, done, net, opened, picture, uploaded, with_slow, worked_off
from tests.command import run
from tests.docs.pages import DOCS
from tests.sessions import bound
from tests.toys import linear_probabilities, pixels


def pixels_in(content: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def test_about(client: TestClient, server: Server) -> None:
    server.worker.ask(lambda: None).result(600)  # the net is loaded before
    about = client.get("/api/about").json()
    assert about["version"] == pm.__version__ and about["default"]["net"] == "toy"
    assert about["nets"] == [
        {"name": "toy", "labels": 5, "size": list(SIZE), "about": "a toy", "ready": True}
    ]
    live = {method["name"] for method in about["methods"] if method["live"]}
    assert live == {
        "belief-mask",
        "diffmask",
        "extremal-perturbation",
        "fido",
        "fong-vedaldi",
        "iba",
        "igos++",
        "learned-mask",
        "rate-distortion",
    }
    assert [fill["name"] for fill in about["fills"]] == ["gray", "blur", "median", "noise", "images"]


def test_every_fill_that_is_listed_has_a_picture_and_another_says_why_not(client: TestClient) -> None:
    photo = uploaded(client)
    for fill in client.get("/api/about").json()["fills"]:
        assert client.get(f"/api/photos/{photo}/fill?net=toy&fill={fill['name']}").status_code == 200, fill
    refused = client.get(f"/api/photos/{photo}/fill?net=toy&fill=near-rows")
    assert refused.status_code in (400, 422) and "rows" in refused.json()["error"]


def test_every_method_that_is_listed_can_be_asked_for(client: TestClient, server: Server) -> None:
    names = [method["name"] for method in client.get("/api/about").json()["methods"]]
    assert [server.choices.method(name).title() for name in names] == names
    adapters = {"captum", "lime-tabular", "pytorch-grad-cam", "shap"}
    assert {name.partition(":")[0] for name in names} == {*METHODS} - adapters


def test_the_view_is_what_the_net_sees(client: TestClient) -> None:
    photo = uploaded(client)
    view = client.get(f"/api/photos/{photo}/view?net=toy")
    assert view.headers["content-type"] == "image/png"
    assert np.array_equal(pixels_in(view.content), pixels_in(picture()))  # it has the net's size already


def test_the_fill_is_what_hidden_pixels_show(client: TestClient) -> None:
    photo = uploaded(client)
    shown = pixels_in(client.get(f"/api/photos/{photo}/fill?net=toy&fill=gray").content)
    gray = (net().gray.view(3).numpy() * 255).round()
    assert shown.shape == (*SIZE, 3) and np.array_equal(shown[0, 0], gray) and (shown == shown[0, 0]).all()
    noise = [client.get(f"/api/photos/{photo}/fill?net=toy&fill=noise&seed={k}").content for k in (0, 0, 1)]
    assert noise[0] == noise[1] != noise[2]
    road = client.get(f"/api/photos/{photo}/fill?net=toy&fill=road")
    assert road.status_code == 422 and "choose another" in road.json()["error"]


def test_beliefs_are_the_probabilities(client: TestClient) -> None:
    answer = client.get(f"/api/photos/{uploaded(client)}/beliefs?net=toy&number=3").json()
    truth = linear_probabilities(net(), pixels_in(picture()).transpose(2, 0, 1) / 255)
    best = np.argsort(-truth)[:3]
    assert answer["total"] == 5 and [label["label"] for label in answer["labels"]] == best.tolist()
    assert [label["name"] for label in answer["labels"]] == [NAMES[a] for a in best]
    assert np.allclose([label["f"] for label in answer["labels"]], truth[best], atol=1e-5)


@pytest.mark.parametrize(
    "search, found",
    [
        ("cat", ["cattle", "tabby cat", "wildcat"]),
        ("Tabby_Cat", ["tabby cat"]),
        ("3", ["mosque"]),
        ("moskue", ["mosque"]),
        ("xyz", []),
        ("", list(NAMES)),
    ],
)
def test_labels_by_a_part_of_their_name(client: TestClient, search: str, found: list[str]) -> None:
    answer = client.get("/api/labels", params={"net": "toy", "search": search}).json()
    assert [label["name"] for label in answer["labels"]] == found
    assert all(NAMES[label["label"]] == label["name"] for label in answer["labels"])


def test_problems_say_what_to_do(client: TestClient) -> None:
    photo = uploaded(client)
    unknown = client.get(f"/api/photos/{photo}/beliefs?net=other")
    assert unknown.status_code == 404 and "there are toy" in unknown.json()["error"]
    assert client.get("/api/photos/..%2f..%2fetc/view?net=toy").json().keys() == {"error"}
    assert (
        client.post("/api/jobs", content=b"{", headers={"content-type": "application/json"}).status_code
        == 422
    )
    assert client.get("/nothing").json() == {"error": "there is nothing at this address"}


def test_the_documentation_names_every_route_and_no_other(server: Server) -> None:
    page = (DOCS / "reference" / "api.md").read_text("utf-8")
    named = re.findall(r"^\| `([A-Z]+) (/api[^`]*)`", page, re.MULTILINE)
    routes: list[Any] = routes_of(server).routes
    assert sorted(named) == sorted((verb, route.path) for route in routes for verb in route.methods)


def test_there_is_no_page_of_the_api(client: TestClient) -> None:
    assert {client.get(place).status_code for place in ("/docs", "/redoc", "/api/openapi.json")} == {404}


def test_the_page_and_its_files_are_served_and_no_other_file(client: TestClient) -> None:
    assert client.get("/").headers["content-type"].startswith("text/html")
    assert client.get("/static/idea.html").status_code == 200
    assert client.get("/static/..%2fserver.py").status_code == 404


# ---- Painted proofs: f of the composite, by hand, and the machine's proofs of the same size, by the curve -------------


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


# ---- What is saved of a job: maps, sheet and page, and a command line that gives the same maps again ---


NET = """
from tests.app.served import done, net

def make():
    return net()
"""


def content(client: TestClient, job: str, file: str) -> bytes:
    answer = client.get(f"/api/jobs/{job}/files/{file}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"].startswith("attachment")
    return answer.content


def test_files_of_a_job(client: TestClient, server: Server) -> None:
    job = done(client, server, ["gradient", "random"])
    sheet = Image.open(io.BytesIO(content(client, job, "sheet.png")))
    assert sheet.format == "PNG" and sheet.info["Software"] == "Proofmap"
    page = content(client, job, "page.html").decode()
    assert "What do the maps of 2 methods prove?" in page and all(NAMES[a] in page for a in (1, 3))
    tensors = load(content(client, job, "maps.safetensors"))
    assert {*tensors} == {"maps.gradient", "maps.random", "labels"}
    found = server.jobs[job].evaluation
    assert found is not None and tensors["maps.gradient"].shape == (1, 2, *SIZE)
    assert tensors["maps.gradient"].equal(found.maps_of(found.results[0]))
    assert client.get(f"/api/jobs/{job}/files/nothing").status_code == 404
    assert client.get(f"/api/jobs/{job}/files/..%2f..%2fetc%2fpasswd").status_code == 404


def test_nothing_but_the_command_is_saved_of_a_job_that_is_not_done(
    client: TestClient, server: Server
) -> None:
    slow = with_slow(server)
    job = begun(client, uploaded(client), ["slow"])
    assert client.get(f"/api/jobs/{job}/files/maps.safetensors").status_code == 404
    assert content(client, job, "command.txt").startswith(b"proofmap explain noise.png")
    slow.let(server)


def test_the_command_gives_the_same_maps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    Path("my noise.png").write_bytes(picture())
    server = Server(Nets(offers(["net.py:make"], None, "cpu")), Choices())
    with opened(server) as client:
        photo = uploaded(client, name="my noise.png")
        net = client.get("/api/about").json()["default"]["net"]
        asked = ["occlusion:fill=gray", "smooth-grad:samples=2"]
        job = begun(client, photo, asked, net=net, fill="blur:sigma=2", seed=7)
        worked_off(server)
        command = content(client, job, "command.txt").decode()
        ours = load(content(client, job, "maps.safetensors"))
    assert command.startswith("proofmap explain 'my noise.png' --model net.py:make --labels 1,3")
    assert run(monkeypatch, *shlex.split(command)[1:], "--out", "again", "--quiet") == 0
    theirs = load_file("again/maps.safetensors")
    assert {*ours} == {*theirs}
    for name, tensor in ours.items():
        assert np.allclose(tensor.numpy(), theirs[name].numpy(), atol=1e-6), name
    assert '"fill": "blur"' in Path("again/evaluation.json").read_text()


# ---- Labels worth a proof: wrong ones that the net does not believe, and those of other objects in the photo ----------


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
    assert [(a, round(p, 2), part) for a, p, part in _seen_in_parts(whole, parts, range(4))] == [(1, 0.6, 1)]


def test_the_server_gives_them_with_their_f(client: TestClient) -> None:
    photo = uploaded(client)
    answer = client.get(f"/api/photos/{photo}/beliefs?net=toy&number=5").json()
    assert answer["wrong"] and all(one in answer["labels"] and one["f"] < 0.01 for one in answer["wrong"])
    found = client.get(f"/api/labels?net=toy&search=cat&photo={photo}").json()["labels"]
    believed = {one["label"]: one["f"] for one in answer["labels"]}
    assert [one["f"] for one in found] == [believed[one["label"]] for one in found] and len(found) == 3
    assert client.get("/api/labels?net=toy&search=cat").json()["labels"][0]["f"] is None
    for one in client.get(f"/api/photos/{photo}/suggestions?net=toy").json()["labels"]:
        assert one["part"] >= 2 * one["f"] and NAMES[one["label"]] == one["name"] and len(one["box"]) == 4
    assert len(net().names) == 5 and np.isfinite(list(believed.values())).all()
