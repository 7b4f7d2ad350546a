"""Rows and texts on the server: chosen or typed, within its limits; beliefs, maps and chosen proofs are the model's."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from starlette.testclient import TestClient

from proofmap.app import items
from proofmap.app.server import Server
from proofmap.core.errors import InputError
from tests.app.lists import BEATS, COLUMNS, ROWS, beat, churn, mood, rows_server, series_server, texts_server
from tests.app.served import opened, worked_off

TEXT = "a good film with a bad end, but good"


@pytest.fixture(scope="module")
def rows() -> Iterator[tuple[TestClient, Server]]:
    server = rows_server()
    with opened(server) as client:
        yield client, server


@pytest.fixture(scope="module")
def texts() -> Iterator[tuple[TestClient, Server]]:
    server = texts_server()
    with opened(server) as client:
        yield client, server


def sent(client: TestClient, **asked: Any) -> Any:
    answer = client.post("/api/items", json=asked)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(answer: Any, status: int = 422) -> str:
    assert answer.status_code == status, answer.text
    return str(answer.json()["error"])


def beliefs(client: TestClient, item: str) -> dict[str, float]:
    found = client.get(f"/api/photos/{item}/beliefs?net=toy").json()
    return {label["name"]: label["f"] for label in found["labels"]}


def finished(client: TestClient, server: Server, item: str, method: str = "belief-order") -> str:
    asked = {"photo": item, "net": "toy", "labels": [0, 1], "methods": [method], "fill": "gray"}
    job = client.post("/api/jobs", json=asked).json()["job"]
    worked_off(server)
    answer = client.get(f"/api/jobs/{job}").json()
    assert answer["state"] == "done", answer["message"]
    return str(job)


def packed(mask: list[int]) -> str:
    return base64.b64encode(np.packbits(np.array(mask, np.uint8)).tobytes()).decode()


def test_the_page_is_in_the_words_of_what_the_model_takes(
    rows: tuple[TestClient, Server], texts: tuple[TestClient, Server]
) -> None:
    about = rows[0].get("/api/about").json()
    assert (about["item"], about["positions"], about["data"]["total"]) == ("row", "columns", 4)
    assert about["default"]["methods"] == ["belief-order"]
    offered = {method["name"] for method in about["methods"]}
    assert {"belief-order", "kernel-shap", "random"} <= offered
    assert not {"grad-cam", "gradient", "belief-mask"} & offered, "the model has no gradients"
    assert not {"centered-gaussian", "edges", "first-words"} & offered, (
        "columns have no neighbours and no order"
    )
    assert "first-words" in {method["name"] for method in texts[0].get("/api/about").json()["methods"]}
    assert [fill["name"] for fill in about["fills"]] == ["gray", "images", "class-median"]
    page = rows[0].get("/").text
    assert "Which columns prove what the model believes?" in page and "pixel" not in page
    page = texts[0].get("/").text
    assert "Which words prove what the model believes?" in page and "<textarea" in page


def test_rows_of_the_data_are_listed_and_found_by_name(rows: tuple[TestClient, Server]) -> None:
    client, _ = rows
    found = client.get("/api/data?first=1&number=2").json()
    assert [item["index"] for item in found["items"]] == [1, 2] and found["found"] == 4
    assert found["columns"] == [*COLUMNS] and found["items"][0]["cells"] == ["60", "4", "0", "Bonn"]
    assert found["items"][0]["truth"] == "yes"
    assert [i["index"] for i in client.get("/api/data?search=-3").json()["items"]] == [3]
    assert client.get("/api/data?number=101").status_code == 422
    assert refused(client.post("/api/items", json={"index": 4}), 404).endswith("not 4")


def test_beliefs_maps_and_chosen_columns_of_a_row_are_those_of_the_model(
    rows: tuple[TestClient, Server],
) -> None:
    client, server = rows
    item = sent(client, index=1)
    assert item["truth"] == "yes"
    row = ROWS.iloc[[1]].drop(columns="churned")
    expected = churn(row)[0]
    assert beliefs(client, item["photo"]) == pytest.approx(
        dict(zip(("no", "yes"), expected, strict=True)), abs=1e-6
    )
    columns = client.get(f"/api/photos/{item['photo']}/positions?net=toy").json()["positions"]
    assert columns == [
        {"name": name, "value": value} for name, value in zip(COLUMNS, ("60", "4", "0", "Bonn"), strict=True)
    ]
    job = finished(client, server, item["photo"])
    yes = client.get(f"/api/jobs/{job}/maps/0/1").json()
    order = np.frombuffer(base64.b64decode(yes["order"]), "<u2")
    hidden = row.copy()
    hidden["age"], hidden["income"], hidden["visits"], hidden["city"] = (
        ROWS["age"].mean(),
        ROWS["income"].mean(),
        ROWS["visits"].mean(),
        "Ulm",
    )
    along = [churn(hidden)[0, 1]]
    for k in order.argsort():
        hidden[COLUMNS[k]] = row[COLUMNS[k]]
        along.append(churn(hidden)[0, 1])
    assert yes["insertion"]["f"] == pytest.approx(along, abs=1e-5)
    assert yes["insertion"]["shares"] == [0, 0.25, 0.5, 0.75, 1]
    assert yes["empty"] == pytest.approx(along[0], abs=1e-5)
    assert along[yes["enough"]] >= 0.9 * expected[1] > max([0, *along[1 : yes["enough"]]])
    asked = {"photo": item["photo"], "net": "toy", "mask": packed([0, 0, 0, 1]), "labels": [1], "job": job}
    painted = client.post("/api/paint", json=asked).json()
    hidden["age"], hidden["visits"] = ROWS["age"].mean(), ROWS["visits"].mean()
    f = next(label["f"] for label in painted["labels"] if label["name"] == "yes")
    assert f == pytest.approx(churn(hidden)[0, 1], abs=1e-5) and painted["share"] == 0.25
    best = next(proof["f"] for proof in painted["machine"] if proof["label"] == 1)
    assert best == pytest.approx(along[1], abs=1e-5), "the first column of the map"
    assert "4 positions" in refused(client.post("/api/paint", json={**asked, "mask": "AAAA"}))
    assert "rows have no sheet" in refused(client.get(f"/api/jobs/{job}/files/sheet.png"))
    command = client.get(f"/api/jobs/{job}/files/command.txt").text
    assert command.startswith("proofmap explain customers.csv --rows row-1 --model toy.py:make")


def test_texts_have_limits(rows: tuple[TestClient, Server], texts: tuple[TestClient, Server]) -> None:
    client, _ = texts
    assert "this server has no data" in refused(client.get("/api/data"), 404)
    assert "empty" in refused(client.post("/api/items", json={"text": " \n"}))
    long = "a" * (items.LIMITS["characters"] + 1)
    assert "20,001 characters, and at most 20,000" in refused(client.post("/api/items", json={"text": long}))
    words = sent(client, text="one " * 41)["photo"]
    assert "41 words, and at most 40" in refused(client.get(f"/api/photos/{words}/beliefs?net=toy"))
    assert "no texts" in refused(rows[0].post("/api/items", json={"text": "a"}))
    kept = items.Kept[str, int](lambda things: len(things) > 2, "gone")
    for k in range(3):
        kept.add(str(k), k)
    assert kept["2"] == 2
    with pytest.raises(InputError, match="gone"):
        kept["0"]


def test_words_of_a_text_prove_what_the_model_believes(texts: tuple[TestClient, Server]) -> None:
    client, server = texts
    item = sent(client, text=TEXT)["photo"]
    assert beliefs(client, item) == pytest.approx(
        dict(zip(("good", "bad"), mood([TEXT])[0], strict=True)), abs=1e-6
    )
    words = [one["name"] for one in client.get(f"/api/photos/{item}/positions?net=toy").json()["positions"]]
    assert "".join(words) == TEXT and len(words) == 9
    job = finished(client, server, item)
    for label in (0, 1):
        found = client.get(f"/api/jobs/{job}/maps/0/{label}").json()
        assert (found["width"], found["height"]) == (9, 1), "the text's own length"
        order = np.frombuffer(base64.b64decode(found["order"]), "<u2").argsort()
        shown = [sorted(order[:k]) for k in range(10)]
        along = mood(["".join(words[k] for k in places) for places in shown])[:, label]
        assert found["insertion"]["f"] == pytest.approx(along.tolist(), abs=1e-5)
    mask = [int("good" in word) for word in words]
    painted = client.post("/api/paint", json={"photo": item, "net": "toy", "mask": packed(mask)}).json()
    good = "".join(word for word, m in zip(words, mask, strict=True) if m)
    assert painted["labels"][0]["f"] == pytest.approx(mood([good])[0, 0], abs=1e-5)
    assert client.get(f"/api/jobs/{job}/files/page.html").status_code == 200


def test_texts_of_any_script_come_back_as_they_are(texts: tuple[TestClient, Server]) -> None:
    client, _ = texts
    for text in ("הסרט good היה", "この映画は良い。", "👩‍👩‍👧 ok\n\ttwo  spaces"):
        item = sent(client, text=text)["photo"]
        found = client.get(f"/api/photos/{item}/positions?net=toy").json()["positions"]
        assert "".join(one["name"] for one in found) == text


# ---- Series on the server: chosen from the data; beliefs, maps and chosen proofs are the model's -----


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Server]]:
    server = series_server(tmp_path_factory.mktemp("series"))
    with opened(server) as client:
        yield client, server


def test_the_page_is_in_the_words_of_series(served: tuple[TestClient, Server]) -> None:
    about = served[0].get("/api/about").json()
    assert (about["item"], about["positions"], about["data"]["total"]) == ("series", "segments", 3)
    assert about["default"]["methods"] == ["belief-order"]
    assert {"time-shift", "blur", "gray"} <= {fill["name"] for fill in about["fills"]}
    page = served[0].get("/").text
    assert "Which segments prove what the model believes?" in page and "judge many series:" in page
    assert "pixel" not in page
    assert served[0].get("/static/lines.js").status_code == 200


def test_series_of_the_data_are_listed(served: tuple[TestClient, Server]) -> None:
    found = served[0].get("/api/data?first=1&number=1").json()
    (item,) = found["items"]
    assert (item["name"], item["truth"], item["cells"]) == ("series-00001", "late", [])


def test_beliefs_maps_and_chosen_segments_of_a_series_are_those_of_the_model(
    served: tuple[TestClient, Server],
) -> None:
    client, server = served
    item = sent(client, index=1)["photo"]
    assert beliefs(client, item)["late"] == pytest.approx(beat(BEATS[1:2])[0, 1], abs=1e-6)
    found = client.get(f"/api/photos/{item}/positions?net=toy").json()
    assert [one["name"] for one in found["positions"]] == ["0 to 1 s", "1 to 2 s", "2 to 3 s", "3 to 4 s"]
    assert found["positions"][2]["value"] == "left 1, right 0.5"
    drawing = found["drawing"]
    assert [line["name"] for line in drawing["lines"]] == ["left", "right"]
    assert (
        sorted(set(drawing["columns"]))
        == [0, 1, 2, 3]
        == sorted(set(drawing["columns"]), key=drawing["columns"].index)
    )
    job = finished(client, server, item)
    late = client.get(f"/api/jobs/{job}/maps/0/1").json()
    assert late["insertion"]["shares"] == [0, 0.25, 0.5, 0.75, 1]
    asked = {"photo": item, "net": "toy", "mask": packed([0, 0, 1, 0]), "labels": [1], "job": job}
    shown = BEATS[1:2].copy()
    shown[..., :4], shown[..., 6:] = 0, 0
    painted = client.post("/api/paint", json=asked).json()
    f = next(label["f"] for label in painted["labels"] if label["name"] == "late")
    assert f == pytest.approx(beat(shown)[0, 1], abs=1e-5) and painted["share"] == 0.25
    assert client.get(f"/api/jobs/{job}/files/sheet.png").content[:4] == b"\x89PNG"
    command = client.get(f"/api/jobs/{job}/files/command.txt").text
    assert command.startswith("proofmap explain series:beats.npz --rows series-00001 --model toy.py:make")


def test_what_is_no_series_of_the_data_is_refused(served: tuple[TestClient, Server]) -> None:
    client, _ = served
    assert "take series, no texts" in refused(client.post("/api/items", json={"text": "a"}))
    assert "has the series 0 to 2, not 3" in refused(client.post("/api/items", json={"index": 3}), 404)
