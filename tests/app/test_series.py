"""Series on the server: chosen or uploaded, within its limits; beliefs, maps and chosen proofs are the model's."""

from __future__ import annotations

import io
import wave
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra app is not installed")

from starlette.testclient import TestClient

from proofmap.app import items
from proofmap.app.server import Server
from tests.app.lists import BEATS, beat, series_server
from tests.app.served import opened
from tests.app.test_items import beliefs, finished, packed, refused, sent


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, Server]]:
    server = series_server(tmp_path_factory.mktemp("series"))
    with opened(server) as client:
        yield client, server


def upload(client: TestClient, name: str, content: bytes | str) -> Any:
    return client.post(f"/api/data?net=toy&name={name}", content=content)


def test_the_page_is_in_the_words_of_series(served: tuple[TestClient, Server]) -> None:
    about = served[0].get("/api/about").json()
    assert (about["item"], about["positions"], about["data"]["total"]) == ("series", "segments", 3)
    assert about["default"]["methods"] == ["belief-order"]
    assert {"time-shift", "blur", "gray"} <= {fill["name"] for fill in about["fills"]}
    page = served[0].get("/").text
    assert "Which segments prove what the model believes?" in page and "judge many series:" in page
    assert ".ts,.csv,.tsv,.npz,.wav" in page and "pixel" not in page
    assert served[0].get("/static/lines.js").status_code == 200


def test_series_of_the_data_are_listed(served: tuple[TestClient, Server]) -> None:
    found = served[0].get("/api/data/data?first=1&number=1").json()
    (item,) = found["items"]
    assert (item["name"], item["truth"], item["cells"]) == ("series-00001", "late", [])


def test_beliefs_maps_and_chosen_segments_of_a_series_are_those_of_the_model(
    served: tuple[TestClient, Server],
) -> None:
    client, server = served
    item = sent(client, data="data", index=1)["photo"]
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


TS = "@timeStamps false\n@classLabel true early late\n@data\n{}:early\n"


def test_files_of_series_are_taken_in_every_format(served: tuple[TestClient, Server]) -> None:
    client, _ = served
    text = ":".join(",".join(map(str, channel)) for channel in BEATS[0].tolist())
    npz = io.BytesIO()
    np.savez(npz, series=BEATS[:1])
    for name, content in (("mine.ts", TS.format(text)), ("mine.npz", npz.getvalue())):
        data = upload(client, name, content).json()
        assert (data["name"], data["total"]) == (name, 1), data
        item = sent(client, data=data["data"], index=0)["photo"]
        assert beliefs(client, item)["early"] == pytest.approx(beat(BEATS[:1])[0, 0], abs=1e-6)


def test_what_is_no_series_of_the_model_is_refused(
    served: tuple[TestClient, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    client, _ = served
    short = upload(client, "short.csv", "t0,t1,t2\n1,2,3\n")
    assert "1 channel and 3 time steps, but the model takes 2 channels and 8 time steps" in refused(short)
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(b"\0\0" * 5)
    assert "1 channel and 5 time steps" in refused(upload(client, "a.wav", sound.getvalue()))
    assert "a.wav cannot be read as a WAV file" in refused(upload(client, "a.wav", b"RIFF"))
    assert "no line @data" in refused(upload(client, "a.ts", "1,2"))
    assert "no value at time step 1" in refused(upload(client, "a.csv", "a,b\n1,\n"))
    assert "UTF-8" in refused(upload(client, "a.csv", b"\xff\xfe\x00"))
    assert "a.npz cannot be read" in refused(upload(client, "a.npz", b"PK no zip"))
    assert "not a file of series" in refused(upload(client, "a.xlsx", b"PK"))
    bomb = io.BytesIO()
    np.savez_compressed(bomb, series=np.zeros((1, 2, 8)), more=np.zeros(2**20))
    monkeypatch.setattr("proofmap.data.series_files.MOST_BYTES", 2**20)
    assert "MB of arrays" in refused(upload(client, "a.npz", bomb.getvalue()))
    monkeypatch.setitem(items.LIMITS, "rows", 2)
    many = io.BytesIO()
    np.savez(many, series=BEATS)
    assert "3 series; a file may have 2" in refused(upload(client, "a.npz", many.getvalue()))
    assert refused(upload(client, "a.ts", b"x" * (items.LIMITS["table_bytes"] + 1)), 413)
    assert "take series, no texts" in refused(client.post("/api/items", json={"text": "a"}))
    assert "has the series 0 to 2, not 3" in refused(
        client.post("/api/items", json={"data": "data", "index": 3}), 404
    )
