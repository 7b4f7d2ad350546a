"""The command ``proofmap serve``: what it refuses, what it prints, and that Ctrl-C ends it."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from proofmap.cli import serve as command
from tests.app.lists import ROWS
from tests.app.served import picture
from tests.command import run

NET = """
import torch
from proofmap import Classifier

def make():
    return Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 3)), size=4, batch_size=8)
"""


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What would have been served, in place of serving it."""
    monkeypatch.chdir(tmp_path)
    Path("net.py").write_text(NET)
    Path("rows.py").write_text("from tests.app.lists import rows_model as make\n")
    Path("rows.csv").write_text(ROWS.to_csv(index=False))
    Path("method.py").write_text("def bright(classifier, images, labels): return images.mean(1)[:, None]\n")
    found: list[Any] = []
    monkeypatch.setattr(command, "_run", lambda app, listening: found.append((app, listening.getsockname())))
    return found


def test_it_listens_on_the_loopback_alone(
    started: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--model", "net.py:make", "--method", "method.py:bright", "--port", "0", "--no-browser")
    assert run(monkeypatch, "serve", *arguments) == 0
    ((_, (host, port)),) = started
    told = capsys.readouterr()
    assert (
        host == "127.0.0.1" and f"http://127.0.0.1:{port}/" in told.out and "token" not in told.out + told.err
    )


def test_a_model_of_tables_is_served_with_its_rows(
    started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("--model", "rows.py:make", "--data", "rows.csv", "--target", "churned")
    assert run(monkeypatch, "serve", "--port", "0", "--no-browser", *arguments) == 0
    ((app, (_, port)),) = started
    with TestClient(app, base_url=f"http://127.0.0.1:{port}") as client:
        about = client.get("/api/about").json()
        assert (about["item"], about["data"]["name"], about["data"]["total"]) == ("row", "rows.csv", 4)
        assert [net["name"] for net in about["nets"]] == ["rows.py:make"], "no nets of photos"
        item = client.post("/api/items", json={"index": 3}).json()
        asked = {"photo": item["photo"], "net": "rows.py:make", "labels": [0], "methods": ["random"]}
        job = client.post("/api/jobs", json=asked).json()["job"]
        command = client.get(f"/api/jobs/{job}").json()["command"]
    assert command.startswith("proofmap explain rows.csv --target churned --rows row-3 --model rows.py:make")


def test_others_need_the_token_that_is_printed(
    started: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("--host", "0.0.0.0", "--model", "net.py:make", "--port", "0", "--no-browser")
    assert run(monkeypatch, "serve", *arguments) == 0
    told = capsys.readouterr()
    token = told.out.partition("?token=")[2].strip()
    assert len(token) >= 32 and f"Bearer {token}" in told.err


def test_a_browser_is_opened_at_the_page(started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    class AtOnce:
        def __init__(self, seconds: float, call: Any, given: list[str]) -> None:
            opened.extend(given)

        def start(self) -> None:
            pass

    monkeypatch.setattr(command.threading, "Timer", AtOnce)
    for more in ([], ["--no-browser"]):
        assert run(monkeypatch, "serve", "--model", "net.py:make", "--port", "0", *more) == 0
    assert opened == [f"http://127.0.0.1:{started[0][1][1]}/"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("--model", "nothing"), "nothing"),
        (("--model", "gone.py:make"), "gone.py"),
        (("--method", "nothing"), "no method is named"),
        (("--method", "gone.py:x"), "gone.py"),
        (("--weights", "w.safetensors"), "--model"),
        (("--data", "rows.csv", "--target", "churned"), "need --model, a model of tables, series or texts"),
        (("--model", "net.py:make", "--data", "rows.csv", "--target", "churned"), "takes photos"),
        (("--model", "rows.py:make", "--data", "gone.csv", "--target", "churned"), "gone.csv"),
        (("--model", "rows.py:make", "--data", "rows.csv", "--target", "gone"), "'gone'"),
        (("--model", "rows.py:make"), "a model of rows needs --data FILE"),
        (("--host", "no.such.host.invalid"), "no.such.host.invalid"),
        (("--device", "nothing"), "device"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_served(
    started: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    words: str,
) -> None:
    assert run(monkeypatch, "serve", "--port", "0", "--no-browser", *arguments) == 2
    assert words in capsys.readouterr().err and not started


def test_a_port_that_is_taken(
    started: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert run(monkeypatch, "serve", "--port", str(port), "--no-browser") == 2
    assert f"port {port}" in (told := capsys.readouterr().err) and "--port 0" in told and not started


def test_a_missing_extra(
    started: list[Any], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(monkeypatch, "serve", "--port", "0") == 2
    assert "proofmap[app]" in capsys.readouterr().err and not started


SLOW = """
import pathlib, torch

def slow(classifier, images, labels):
    pathlib.Path("begun").touch()
    for _ in range(10**9):  # one step, longer than anyone waits, and all of it inside torch
        images = images * 1.0
"""


def test_ctrl_c_ends_it_while_it_works(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    (tmp_path / "slow.py").write_text(SLOW)
    options = ("--port", "0", "--no-browser", "--model", "net.py:make", "--method", "slow.py:slow")
    process = subprocess.Popen(
        [sys.executable, "-m", "proofmap", "serve", *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        address, end = process.stdout.readline().split()[-1], time.monotonic() + 600
        _start(address, "slow")
        while not (tmp_path / "begun").exists():
            assert process.poll() is None and time.monotonic() < end, "it did not come to the slow step"
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 130 and "Traceback" not in told and "stopped" in told


def _start(address: str, method: str) -> None:
    """Send a photo and ask for a method's maps of it."""
    asked = urllib.request.Request(f"{address}api/photos", picture(), {"content-type": "image/png"})
    photo = json.load(urllib.request.urlopen(asked, timeout=600))["photo"]
    job = {"photo": photo, "net": "net.py:make", "labels": [0, 1], "methods": [method]}
    more = urllib.request.Request(
        f"{address}api/jobs", json.dumps(job).encode(), {"content-type": "application/json"}
    )
    assert urllib.request.urlopen(more, timeout=600).status == 202


NETS = """
import numpy as np
import torch
import proofmap as pm
from torch import nn

torch.manual_seed(0)
photos = nn.Sequential(nn.Flatten(), nn.Linear(48, 3))
walks = pm.Classifier(
    nn.Sequential(nn.Flatten(), nn.Linear(24, 2)), inputs=pm.Series(length=12, mean=(0.0, 0.0), std=(1.0, 1.0))
)

def risky(frame):
    high = 1 / (1 + np.exp(-frame["age"].to_numpy() / 50))
    return np.stack([1 - high, high], axis=1)

def moods(texts):
    good = np.array([0.9 if "good" in text else 0.2 for text in texts])
    return np.stack([1 - good, good], axis=1)

texts = pm.Classifier(moods, inputs=pm.Text(length=8))
"""
SERVED = {
    "photo": ("nets.py:photos?size=4", ()),
    "row": ("nets.py:risky?data=people.csv", ("--data", "people.csv")),
    "series": ("nets.py:walks", ("--data", "walk.csv")),
    "text": ("nets.py:texts", ()),
}


@pytest.mark.parametrize("kind", SERVED)
def test_each_kind_of_input_is_served(kind: str, started: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    Path("nets.py").write_text(NETS)
    Path("people.csv").write_text("age,income\n20,3\n70,1\n40,2\n")
    Path("walk.csv").write_text("time,x,y\n" + "".join(f"{t},{t % 3},{t % 5}\n" for t in range(12)))
    model, words = SERVED[kind]
    assert run(monkeypatch, "serve", "--port", "0", "--no-browser", "--model", model, *words) == 0
    ((app, (_, port)),) = started
    with TestClient(app, base_url=f"http://127.0.0.1:{port}") as client:
        about = client.get("/api/about").json()
        assert about["item"] == kind
        headers = {"content-type": "image/png"}
        item = (
            client.post("/api/photos?name=a.png", content=picture(), headers=headers)
            if kind == "photo"
            else client.post("/api/items", json={"text": "a good film"} if kind == "text" else {"index": 0})
        ).json()
        net = next(net["name"] for net in about["nets"] if net["name"].startswith("nets.py"))
        asked = {
            "photo": item["photo"],
            "net": net,
            "labels": [0, 1],
            "methods": ["occlusion" if kind == "photo" else "random"],
        }
        job = client.post("/api/jobs", json=asked).json()["job"]
        while (found := client.get(f"/api/jobs/{job}").json())["state"] in ("waiting", "running"):
            time.sleep(0.01)
    assert found["state"] == "done", found
