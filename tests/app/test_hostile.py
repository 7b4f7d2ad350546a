"""The server as others may treat it: hostile requests, many tabs, jobs that are cancelled, a process that is killed."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("uvicorn")

from fastapi.testclient import TestClient

from proofmap.app.application import create_app
from proofmap.app.jobs import MOST_WAITING
from proofmap.app.security import Access
from proofmap.app.server import MOST_UNDECODED
from tests.app.hostile import KINDS, Hostile, World, picture
from tests.app.processes import Answer, Served, mask
from tests.app.served import made, opened, uploaded
from tests.docs.pages import DOCS, blocks

PNG = {"content-type": "image/png"}
LONG = "learned-mask:steps=20000,fill=gray"
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


def test_there_are_two_hundred_of_them_and_more() -> None:
    world = World(8000, "0" * 32, "0" * 32)
    every = [hostile for kind in KINDS for hostile in kind(world)]
    assert len(every) > 200 and len({hostile.name for hostile in every}) == len(every)


def test_after_all_that_the_server_still_makes_maps_and_names_no_machine(
    served: Served, world: World
) -> None:
    job = served.job(world.photo)
    assert served.until(job, "done", "failed") == "done"
    painted = {"photo": world.photo, "net": "net.py:make", "mask": mask(), "labels": [0], "job": job}
    answer = served.send("POST", "/api/paint", painted).json()
    assert answer["share"] == 0.5 and len(answer["machine"]) == 2


def test_too_many_jobs_are_refused_until_one_is_cancelled(served: Served, world: World) -> None:
    jobs = [served.job(world.photo, LONG, net="net.py:slow")]
    served.until(jobs[0], "running")
    jobs += [served.job(world.photo) for _ in range(MOST_WAITING)]
    asked = {"photo": world.photo, "net": "net.py:make", "labels": [0], "methods": ["gradient"]}
    assert served.send("POST", "/api/jobs", asked).status == 429
    for job in reversed(jobs):
        assert served.send("DELETE", f"/api/jobs/{job}").status == 200
    assert served.until(served.job(world.photo), "done", "failed") == "done"


def test_who_has_no_token_or_a_wrong_one_gets_nothing() -> None:
    token = "a-token-of-letters"
    access = Access("0.0.0.0", 8000, token)
    ask = TestClient(
        create_app(made(access=access)), base_url="http://192.0.2.7:8000", follow_redirects=False
    ).request
    paths = [
        ("GET", "/"),
        ("GET", "/api/about"),
        ("GET", "/api"),
        ("GET", "/static/index.html"),
        ("POST", "/api/jobs"),
    ]
    wrong = (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": token},
        {"authorization": f"Basic {token}"},
        {"authorization": f"Bearer {token}x"},
        {"cookie": f"{access.cookie}=wrong"},
        {"cookie": f"other={token}"},
        {"cookie": "\x01=;;;"},
    )
    for headers in wrong:
        for verb, path in paths:
            assert ask(verb, path, headers=headers).status_code == 401
    for path in ("/api/about?token=wrong", f"/api/about?token={token}&token=x", f"/api/about?Token={token}"):
        assert ask("GET", path).status_code == 401
    assert ask("POST", f"/api/jobs?token={token}").status_code == 401  # an address alone never writes
    assert ask("GET", "/api/about", headers={"authorization": f"Bearer {token}"}).status_code == 200
    led = ask("GET", f"/?token={token}")
    assert led.status_code == 303 and "httponly; path=/; samesite=strict" in led.headers["set-cookie"].lower()
    assert token not in led.headers["location"]
    away = ask("GET", f"//evil.example/?token={token}")
    assert not away.headers["location"].startswith("//")
    assert (
        ask(
            "GET", "/api/about", headers={"host": "evil.example", "authorization": f"Bearer {token}"}
        ).status_code
        == 403
    )


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
        add = server.photos.add
        server.photos.add = lambda content, name="": decoded.wait(600) and add(content, name)  # type: ignore[method-assign,return-value]
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


def test_fifty_tabs_watch_one_job_and_none_keeps_another_waiting(served: Served, world: World) -> None:
    """Fifty clients poll at once while a job runs; another drops a photo and is answered; all see the job's end."""
    job = served.job(world.photo, LONG, net="net.py:slow")
    served.until(job, "running")
    tabs = [Tab(served, job) for _ in range(50)]
    for tab in tabs:
        tab.start()
    for k in range(3):
        photo = served.photo(picture(size=(20 + k, 20)))
        assert served.send("GET", f"/api/photos/{photo}/beliefs?net=net.py:make").status == 200
    while any(tab.steps < 3 for tab in tabs):  # every tab sees the job move
        assert all(tab.is_alive() for tab in tabs), "a tab was not answered"
        time.sleep(0.05)
    served.send("DELETE", f"/api/jobs/{job}")
    for tab in tabs:
        tab.join(600)
    assert {tab.state for tab in tabs} == {"cancelled"}  # so the job ran all the while


class Tab(threading.Thread):
    """A page that watches a job as the real one does: with a cursor, every 300 ms."""

    def __init__(self, served: Served, job: str) -> None:
        super().__init__(daemon=True)
        self.served, self.job, self.state, self.steps = served, job, "", 0

    def run(self) -> None:
        last = 0
        while self.state not in ("done", "failed", "cancelled"):
            answer = self.served.send("GET", f"/api/jobs/{self.job}?after={last}").json()
            assert all(event["number"] > last for event in answer["events"])
            self.steps += any(event["kind"] == "progress" for event in answer["events"])
            last, self.state = answer["last"], answer["state"]
            time.sleep(0.3)


def test_a_job_that_is_cancelled_frees_the_machine_for_the_next(served: Served, world: World) -> None:
    before = served.threads
    long = [served.job(world.photo, LONG, net="net.py:slow") for _ in range(2)]
    served.until(long[0], "running")
    following = served.job(world.photo)
    assert served.send("GET", f"/api/jobs/{following}").json()["place"] == 2
    assert served.send("DELETE", f"/api/jobs/{long[1]}").json()["state"] == "cancelled"  # it waits: at once
    assert served.state(following) == "waiting"
    served.send("DELETE", f"/api/jobs/{long[0]}")
    assert served.until(following, "done", "failed") == "done"
    assert [served.state(job) for job in long] == ["cancelled", "cancelled"]
    assert served.send("GET", f"/api/jobs/{long[0]}/maps/0/0").status == 404
    assert served.threads <= before + 1  # the same ones work on


@pytest.mark.slow
def test_a_server_that_was_killed_comes_back_at_the_same_address(
    served: Served, world: World, home: Path
) -> None:
    running = served.job(world.photo, LONG, net="net.py:slow")
    served.until(running, "running")
    before = {path.relative_to(home) for path in home.rglob("*")}
    served.kill()
    assert {path.relative_to(home) for path in home.rglob("*")} == before  # no file of the job, whole or half
    assert not [*(home / "temporary").iterdir()]
    log = served.log
    log.write_text("")
    again = Served(home, port=served.port)
    try:
        assert again.port == served.port
        lost = again.send("GET", f"/api/jobs/{running}")
        assert lost.status == 404 and "the server was restarted" in lost.json()["error"]
        assert again.send("GET", f"/api/photos/{world.photo}/beliefs?net=net.py:make").status == 404
        assert again.send("GET", "/api/jobs").json() == {"jobs": []}
        assert again.until(again.job(again.photo(picture())), "done", "failed") == "done"
        stopping = again.job(again.photo(picture()), LONG, net="net.py:slow")
        again.until(stopping, "running")
        again.stop()  # a running job, which would take longer than the limit there, does not keep it
        assert "Traceback" not in log.read_text()
    finally:
        if again.process.poll() is None:
            again.kill()
