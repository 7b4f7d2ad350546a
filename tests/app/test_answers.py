"""What is answered at once: what there is, what the net sees and believes, labels by name."""

from __future__ import annotations

import io
import re
from typing import Any

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

import proofmap as pm
from proofmap.app.routes import routes_of
from proofmap.app.server import Server
from proofmap.methods import METHODS
from tests.app.served import NAMES, SIZE, net, picture, uploaded
from tests.docs.pages import DOCS
from tests.toys import linear_probabilities


def pixels(content: bytes) -> np.ndarray:
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
    assert np.array_equal(pixels(view.content), pixels(picture()))  # it has the net's size already


def test_the_fill_is_what_hidden_pixels_show(client: TestClient) -> None:
    photo = uploaded(client)
    shown = pixels(client.get(f"/api/photos/{photo}/fill?net=toy&fill=gray").content)
    gray = (net().gray.view(3).numpy() * 255).round()
    assert shown.shape == (*SIZE, 3) and np.array_equal(shown[0, 0], gray) and (shown == shown[0, 0]).all()
    noise = [client.get(f"/api/photos/{photo}/fill?net=toy&fill=noise&seed={k}").content for k in (0, 0, 1)]
    assert noise[0] == noise[1] != noise[2]
    road = client.get(f"/api/photos/{photo}/fill?net=toy&fill=road")
    assert road.status_code == 422 and "choose another" in road.json()["error"]


def test_beliefs_are_the_probabilities(client: TestClient) -> None:
    answer = client.get(f"/api/photos/{uploaded(client)}/beliefs?net=toy&number=3").json()
    truth = linear_probabilities(net(), pixels(picture()).transpose(2, 0, 1) / 255)
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
