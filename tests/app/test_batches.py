"""Batches: photos become a run below the folder of runs, with its report; it can be stopped, and asks for no more than is allowed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra app is not installed")

from proofmap.app import batches
from proofmap.study import Run
from tests.app.served import made, opened, uploaded, with_slow, worked_off


def test_photos_become_a_run_with_its_report(tmp_path: Path) -> None:
    server = made(runs=tmp_path)
    server.nets.warm = lambda *_: None  # type: ignore[method-assign]
    with opened(server) as client:
        photos = [uploaded(client, seed=k, name=f"../{'same' if k < 2 else k}.png") for k in range(3)]
        asked = {"photos": photos, "net": "toy", "methods": ["gradient"]}
        batch = client.post("/api/batches", json=asked).json()
        assert (batch["photos"], batch["state"]) in ((3, "waiting"), (3, "running"))
        worked_off(server)
        done = client.get(f"/api/batches/{batch['run']}").json()
        assert done["state"] == "done" and done["begun"], done["message"]
        folder = tmp_path / done["name"].removesuffix("/run")
        assert sorted(path.name for path in (folder / "photos").iterdir()) == [
            "2.png",
            "same-2.png",
            "same.png",
        ]
        with Run(folder / "run") as run:
            assert run.state == "finished" and len(run.images) == 3 and list(run.methods) == ["gradient"]
            assert all(len(row.labels) == batches.LABEL_COUNT for row in run.images)
        (listed,) = client.get("/api/runs").json()["runs"]
        assert listed["run"] == batch["run"] and listed["state"] == "finished"
        assert client.get(f"/runs/{batch['run']}/report").status_code == 200

        slow = with_slow(server)
        client.post("/api/jobs", json={"photo": photos[0], "net": "toy", "labels": [1], "methods": ["slow"]})
        assert slow.begun.wait(600)
        waiting = client.post("/api/batches", json=asked).json()
        assert client.delete(f"/api/batches/{waiting['run']}").json()["state"] == "cancelled"
        for step in slow.steps:
            step.set()
        worked_off(server)
        assert not (tmp_path / waiting["name"] / "manifest.json").exists(), "it was stopped before it began"


@pytest.mark.parametrize(
    "change, word",
    [
        ({"methods": ["rise:masks=9000", "learned-mask:steps=95600"]}, "passes"),
        ({"methods": ["mine.py:evil"]}, "whoever starts the server"),
        ({"photos": ["0" * 32, "1" * 32]}, "upload it again"),
        ({"photos": []}, "photos"),
        ({"net": "other"}, "no net"),
        ({"labels": [1]}, "labels"),
    ],
)
def test_what_cannot_be_met_makes_no_folder(tmp_path: Path, change: dict[str, object], word: str) -> None:
    server = made(runs=tmp_path)
    server.nets.warm = lambda *_: None  # type: ignore[method-assign]
    with opened(server) as client:
        photos = [uploaded(client, seed=k) for k in range(2)]
        answer = client.post(
            "/api/batches", json={"photos": photos, "net": "toy", "methods": ["gradient"], **change}
        )
    assert (
        answer.status_code in (404, 422) and word in json.dumps(answer.json()) and not [*tmp_path.iterdir()]
    )
