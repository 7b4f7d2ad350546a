"""What is saved of a job: maps in two formats, sheet and page, and a command line that gives the same maps again."""

from __future__ import annotations

import io
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load, load_file
from starlette.testclient import TestClient

from proofmap.app.choices import Choices
from proofmap.app.nets import Nets, offers
from proofmap.app.server import Server
from tests.app.served import NAMES, SIZE, begun, opened, picture, uploaded, with_slow, worked_off
from tests.command import run

NET = """
from tests.app.served import net

def make():
    return net()
"""


def content(client: TestClient, job: str, file: str) -> bytes:
    answer = client.get(f"/api/jobs/{job}/files/{file}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"].startswith("attachment")
    return answer.content


def test_files_of_a_job(client: TestClient, server: Server) -> None:
    job = begun(client, uploaded(client), ["gradient", "random"])
    worked_off(server)
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
    for step in slow.steps:
        step.set()
    worked_off(server)


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
