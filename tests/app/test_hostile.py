"""The server as others may treat it: hostile requests, many tabs, jobs that are cancelled, a process that is killed."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path

import pytest

from proofmap.app.server import MOST_UNDECODED
from tests.app.hostile import KINDS, Hostile, World, picture
from tests.app.processes import Answer, Served, mask
from tests.app.served import made, opened, uploaded
from tests.docs.pages import DOCS, blocks

PNG = {"content-type": "image/png"}
"""A method that takes minutes on the slow net."""
MOST = 15.0
"""Seconds of processor time that an answer may cost."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home-of-the-server")


@pytest.fixture(scope="module")
def served(home: Path) -> Iterator[Served]:
    server = Served(home)
    yield server
    if server.process.poll() is None:
        server.kill()


@pytest.fixture(scope="module")
def world(served: Served) -> World:
    photo = served.photo(picture())
    job = served.job(photo)
    assert served.until(job, "done", "failed") == "done"
    return World(served.port, photo, job)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_hostile_requests_are_refused_and_tell_nothing(
    kind: Callable[[World], Iterator[Hostile]], world: World, served: Served, home: Path
) -> None:
    holes: list[str] = []
    for hostile in kind(world):
        before = served.processor_time
        answer = served.raw(hostile.sent, hang_up=hostile.hang_up)
        problem = _problem(hostile, answer, served.processor_time - before, home)
        if problem:
            holes.append(f"{hostile.name}: {problem}")
    assert not holes, "\n".join(holes)
    assert served.process.poll() is None and served.send("GET", "/api/about").status == 200
    assert "Traceback" not in served.log.read_text()


def _problem(hostile: Hostile, answer: Answer, seconds: float, home: Path) -> str:
    """What is wrong with an answer; empty where nothing is."""
    if answer.status >= 500:
        return f"{answer.status} {answer.body[:300]!r}"
    if hostile.refused and 0 < answer.status < 400:
        return f"taken: {answer.status} {answer.body[:200]!r}"
    if seconds > MOST:
        return f"cost {seconds:.0f} s of processor time"
    text = answer.body.decode("utf-8", "replace") + json.dumps(dict(answer.headers))
    told = [
        word
        for word in (str(home), "root:x:", "Traceback", 'File "', "site-packages", "/src/")
        if word in text
    ]
    if told:
        return f"tells {told}: {text[:300]}"
    if answer.status and "content-security-policy" not in answer.headers and answer.status != 400:
        return "has no content policy"
    return ""


def test_after_all_that_the_server_still_makes_maps_and_names_no_machine(
    served: Served, world: World
) -> None:
    job = served.job(world.photo)
    assert served.until(job, "done", "failed") == "done"
    painted = {"photo": world.photo, "net": "net.py:make", "mask": mask(), "labels": [0], "job": job}
    answer = served.send("POST", "/api/paint", painted).json()
    assert answer["share"] == 0.5 and len(answer["machine"]) == 2


def test_the_example_of_the_documentation_works(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (code,) = [block.code for block in blocks(DOCS / "reference" / "api.md") if block.title == "ask.py"]
    (tmp_path / "cat.jpg").write_bytes(picture("JPEG"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["ask.py", f"http://127.0.0.1:{served.port}"])
    exec(compile(code, "ask.py", "exec"), {})
    told = capsys.readouterr().out
    assert told.startswith("done proofmap explain cat.jpg") and told.count("best pixel") == 3


def test_a_flood_of_pictures_keeps_nobody_else_waiting() -> None:
    server, decoded = made(), threading.Event()
    with opened(server) as client:
        asked = f"/api/photos/{uploaded(client)}/beliefs?net=toy"
        assert client.get(asked).status_code == 200
        add = server.items.add_photo
        server.items.add_photo = lambda content, name="": decoded.wait(600) and add(content, name)  # type: ignore[method-assign,return-value]
        with ThreadPoolExecutor(60) as visitors:
            sent = [
                visitors.submit(client.post, "/api/photos", content=picture(), headers=PNG) for _ in range(50)
            ]
            refused = {
                done.result().status_code for done in islice(as_completed(sent, 30), 50 - MOST_UNDECODED)
            }
            beliefs = client.get(asked)
            decoded.set()
        taken = [done.result().status_code for done in sent]
    assert refused == {429} and beliefs.status_code == 200
    assert taken.count(200) == MOST_UNDECODED


# ---- many tabs, cancelling, dying -----------------------------------------------------------------------------------
