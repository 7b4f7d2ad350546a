"""Photos: checked before they are decoded, known by their content, the least used forgotten first."""

from __future__ import annotations

import gc
import io

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from proofmap.app import items as kept
from proofmap.app import jobs, nets
from proofmap.app.items import Item, Items, NotFound, clean_name
from proofmap.app.jobs import MapJob
from proofmap.app.server import Server
from proofmap.core.errors import InputError
from proofmap.results.evaluation import Evaluation
from proofmap.session import Session
from tests.app.hostile import png
from tests.app.served import SIZE, begun, picture, uploaded, worked_off


@pytest.mark.parametrize("width, height", [(9000, 9000), (1, 40_000_000), (40_000_000, 1)])
def test_too_many_pixels_are_refused_before_any_is_decoded(
    width: int, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image.Image, "load", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(InputError, match=rf"{width} x {height} pixels; at most (40 million|65,535)"):
        Items().add_photo(png(width, height), "large.png")


def test_a_photo_is_known_by_its_content() -> None:
    photos = Items()
    first, again, other = (
        photos.add_photo(picture(0), "a.png"),
        photos.add_photo(picture(0)),
        photos.add_photo(picture(1)),
    )
    assert first.id == again.id != other.id and len(first.id) == 32
    with photos[first.id].opened() as shown:
        assert np.asarray(shown).shape == (*SIZE, 3)


def test_a_photo_that_a_net_has_seen_is_not_decoded_again(
    client: TestClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.worker.ask(lambda: None).result(600)  # the net is loaded before
    decoded, decode = list[str](), kept.decoded
    monkeypatch.setattr(kept, "decoded", lambda *given: decoded.append("") or decode(*given))
    photo = uploaded(client, seed=9)
    assert client.get(f"/api/photos/{photo}/beliefs?net=toy").status_code == 200
    assert client.get(f"/api/photos/{photo}/view?net=toy").status_code == 200
    assert len(decoded) == 2  # when it was sent, and for the net


def test_the_least_used_photo_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_PHOTOS", 2)
    photos = Items()
    first, second = photos.add_photo(picture(0)).id, photos.add_photo(picture(1)).id
    assert photos[first].id == first
    photos.add_photo(picture(2))
    assert photos[first].id == first
    with pytest.raises(NotFound, match="upload it again"):
        photos[second]


def test_all_photos_together_have_a_most_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept, "MOST_BYTES", int(1.5 * len(picture(0))))
    photos = Items()
    first, second = (photos.add_photo(picture(seed)).id for seed in (0, 1))
    assert photos[second].id == second
    with pytest.raises(NotFound):
        photos[first]


@pytest.mark.parametrize(
    "given, shown",
    [
        ("cat.jpg", "cat.jpg"),
        ("../../etc/passwd", "passwd"),
        ("--out=x", "out=x"),
        ("a\nb.png", "a b.png"),
        ("/", "photo"),
    ],
)
def test_names_of_photos_are_harmless(given: str, shown: str) -> None:
    assert clean_name(given) == shown


def test_a_name_cannot_pretend_to_be_a_sample() -> None:
    assert not Items().add_photo(picture(), "sample:cat").name.startswith("sample:")


def test_what_is_describe_kept_many_uploads_does_not_grow(
    client: TestClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten visitors, each with a photo of their own, its labels and a fill, some with a job; 300 of them: benchmarks/serve_memory.py."""
    monkeypatch.setattr(kept, "MOST_PHOTOS", 3)
    monkeypatch.setattr(nets, "_SEEN", 3)
    monkeypatch.setattr(nets, "_FILLS", 2)
    monkeypatch.setattr(jobs, "MOST_KEPT", 1)

    def held() -> list[int]:
        """What lives in this process after some visitors, wherever it is held."""
        for seed in range(100, 105):
            photo = uploaded(client, seed=seed)
            for asked in ("beliefs", "view", "fill"):
                assert client.get(f"/api/photos/{photo}/{asked}?net=toy").status_code == 200
            if seed >= 103:
                begun(client, photo, ["random"])
                worked_off(server)
        gc.collect()
        living = gc.get_objects()
        return [
            sum(isinstance(thing, kind) for thing in living) for kind in (Item, MapJob, Evaluation, Session)
        ]

    first = held()
    assert all(now <= before for now, before in zip(held(), first, strict=True))
    assert len(server.items._items) == 3 and len(server.jobs._all) == 1
    assert len(server.nets._seen) == 3 and len(server.nets._fills) == 2


def test_uploads_and_samples(client: TestClient) -> None:
    answer = client.post("/api/photos", json={"sample": "coffee"}).json()
    assert (answer["name"], answer["width"], answer["height"]) == ("sample:coffee", 600, 400)
    small = client.get("/api/samples/coffee")
    assert Image.open(io.BytesIO(small.content)).size == (192, 128) and len(small.content) < 20_000
    assert (
        client.get("/api/samples/..%2fcoffee").status_code == 404 == client.get("/api/samples/x").status_code
    )
    assert "no sample is named" in client.post("/api/photos", json={"sample": "x"}).json()["error"]
    assert client.post("/api/photos", json={"sample": "cat", "path": "/etc"}).status_code == 422
    assert (
        client.post("/api/photos", content=picture(), headers={"content-type": "text/plain"}).status_code
        == 422
    )


def test_what_is_no_picture_is_refused_in_words_for_everybody(client: TestClient) -> None:
    answer = client.post(
        "/api/photos?name=wrong.txt", content=b"words", headers={"content-type": "image/png"}
    )
    assert answer.status_code == 422
    said = answer.json()["error"]
    assert said.startswith("wrong.txt cannot be read as an image") and said.endswith(
        "JPEG, PNG or WebP, up to 20 MB."
    )


def test_a_photo_that_is_gone_is_a_404(client: TestClient, server: Server) -> None:
    assert client.get(f"/api/photos/{uploaded(client)}/view?net=toy").status_code == 200
    answer = client.get(f"/api/photos/{'0' * 32}/view?net=toy")
    assert answer.status_code == 404 and "upload it again" in answer.json()["error"]
