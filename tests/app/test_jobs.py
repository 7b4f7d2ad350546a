"""Jobs: what they find is what ``evaluate`` finds; they wait in a line, can be watched, cancelled and come back to."""

from __future__ import annotations

import base64
import subprocess
import sys
import threading
from concurrent.futures import CancelledError
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient

import proofmap as pm
from proofmap.app import jobs as kept
from proofmap.app import jobs as workers
from proofmap.app.jobs import Busy, Cancelled, NetWorker
from proofmap.app.nets import Offer
from proofmap.app.security import Access
from proofmap.app.server import Server
from proofmap.core.ranking import rank
from tests.app.served import NAMES, SIZE, begun, done, made, net, opened, uploaded, with_slow, worked_off
from tests.mask_toys import lively


def image_of(server: Server, photo: str) -> torch.Tensor:
    return server.nets.seen(server.items[photo], "toy")


def test_a_job_finds_what_evaluate_finds(client: TestClient, server: Server) -> None:
    photo = uploaded(client)
    methods = ["gradient-x-input", "occlusion:fill=gray"]
    job = begun(client, photo, methods, fill="blur", seed=3)
    worked_off(server)
    f, image = net(), image_of(server, photo)
    found = pm.evaluate(
        f,
        image,
        methods=methods,
        labels=[1, 3],
        metrics=["completeness:fill=blur", "soundness:fill=blur", "insertion:fill=blur"],
        seed=3,
    )
    for number, result in enumerate(found.results):
        maps = found.maps_of(result)
        for place, label in enumerate([1, 3]):
            answer = client.get(f"/api/jobs/{job}/maps/{number}/{label}").json()
            assert (answer["width"], answer["height"], answer["name"]) == (SIZE[1], SIZE[0], NAMES[label])
            order = np.frombuffer(base64.b64decode(answer["order"]), dtype="<u2")
            assert np.array_equal(order, rank(maps[:, place])[0].numpy())
            assert len(base64.b64decode(answer["map"])) == SIZE[0] * SIZE[1]
            assert answer["proof"] == pytest.approx(result.insertion.auc[0, place].item(), abs=1e-5)
            assert answer["insertion"]["f"] == pytest.approx(
                result.insertion.probabilities[0, place].tolist(), abs=1e-5
            )
            assert answer["insertion"]["shares"][0] == 0 and answer["insertion"]["shares"][-1] == 1
            assert answer["belief"] == pytest.approx(found.f[0, place].item(), abs=1e-5)
            row = result.rows[place]
            assert [answer["completeness"], answer["soundness"]] == pytest.approx(
                [row["completeness"], row["soundness"]], abs=1e-4
            )


def test_masks_can_be_watched_while_they_are_learned(
    client: TestClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("proofmap.app.server.EVERY", 0.0)
    shown: list[dict[str, Any]] = []
    add = kept.MapJob.add

    def added(job: kept.MapJob, kind: str, *key: object, **fields: object) -> None:
        add(job, kind, *key, **fields)
        shown.extend(event for event in job.events(0)[0] if event["kind"] == kind == "map")

    monkeypatch.setattr(kept.MapJob, "add", added)
    server.nets.offered["lively"] = Offer("lively", "", lively)
    job = done(client, server, ["belief-mask:passes=8,fills=gray+noise"], net="lively")
    assert {(event["label"], event["step"], event["steps"]) for event in shown} == {
        (a, k, 4) for a in (1, 3) for k in (1, 2, 3, 4)
    }
    last = {event["label"]: event for event in shown}
    for label, event in last.items():
        assert len(base64.b64decode(event["data"])) == event["width"] * event["height"]
        final = client.get(f"/api/jobs/{job}/maps/0/{label}").json()
        assert event["data"] == final["map"]  # the last mask on the way is the map
    events = client.get(f"/api/jobs/{job}").json()["events"]
    assert not [event for event in events if event["kind"] == "map"]  # what is scored is asked for at /maps


def test_a_cursor_gives_what_is_new_and_only_the_newest_map(client: TestClient, server: Server) -> None:
    job = server.jobs[begun(client, uploaded(client), ["gradient"])]
    worked_off(server)
    fields = {"method": 0, "steps": 9, "width": 1, "height": 1, "data": ""}
    for step in range(5):
        for label in (1, 3):
            job.add("map", 0, label, label=label, step=step, **fields)
    answer = client.get(f"/api/jobs/{job.id}?after=0").json()
    maps = [event for event in answer["events"] if event["kind"] == "map"]
    assert [(event["label"], event["step"]) for event in maps] == [(1, 4), (3, 4)]
    numbers = [event["number"] for event in answer["events"]]
    assert numbers == sorted(numbers) and answer["last"] == numbers[-1]
    assert client.get(f"/api/jobs/{job.id}?after={answer['last']}").json()["events"] == []
    job.add("state", "again", state="done")
    (new,) = client.get(f"/api/jobs/{job.id}?after={answer['last']}").json()["events"]
    assert new["kind"] == "state" and new["number"] == answer["last"] + 1


def test_a_running_job_answers_others_between_its_steps_and_can_be_cancelled(
    client: TestClient, server: Server
) -> None:
    slow, photo = with_slow(server), uploaded(client)
    first, second, third = (begun(client, photo, [method]) for method in ("slow", "gradient", "gradient"))
    assert slow.begun.wait(600)
    answers = [client.get(f"/api/jobs/{job}").json() for job in (first, second, third)]
    assert [(one["state"], one["place"]) for one in answers] == [
        ("running", None),
        ("waiting", 1),
        ("waiting", 2),
    ]
    answer = server.worker.ask(lambda: "answered")
    slow.steps[0].set()
    assert answer.result(600) == "answered"  # the job has two more steps to go
    assert client.get(f"/api/photos/{photo}/view?net=toy").status_code == 200

    assert client.delete(f"/api/jobs/{second}").json()["state"] == "cancelled"  # it waited
    assert client.get(f"/api/jobs/{third}").json()["place"] == 1
    client.delete(f"/api/jobs/{first}")
    slow.steps[1].set()  # and not the last one
    worked_off(server)
    ends = [client.get(f"/api/jobs/{job}").json()["state"] for job in (first, second, third)]
    assert ends == ["cancelled", "cancelled", "done"]
    assert client.get(f"/api/jobs/{first}/maps/0/1").status_code == 404


def test_equal_requests_get_one_job_which_stops_when_nobody_wants_it(
    client: TestClient, server: Server
) -> None:
    slow, photo = with_slow(server), uploaded(client)
    first, again = (begun(client, photo, ["slow"], seed=1) for _ in range(2))
    other = begun(client, photo, ["slow"], seed=2)
    assert first == again != other and slow.begun.wait(600)
    assert client.delete(f"/api/jobs/{first}?leave=true").status_code == 200
    assert not server.jobs[first].stop, "the second request still wants it"
    client.delete(f"/api/jobs/{first}?leave=true")
    client.delete(f"/api/jobs/{other}")
    assert server.jobs[first].stop
    third = begun(client, photo, ["slow"], seed=1)
    assert third != first, "a job that was stopped answers no new request"
    slow.let(server)
    assert [server.jobs[job].state for job in (first, other, third)] == ["cancelled", "cancelled", "done"]
    assert begun(client, photo, ["slow"], seed=1) == third, "it is done, and computed once"
    client.delete(f"/api/jobs/{third}")
    assert begun(client, photo, ["slow"], seed=1) == third


def test_the_progress_of_a_job(client: TestClient, server: Server) -> None:
    slow = with_slow(server)
    job = begun(client, uploaded(client), ["slow"])
    assert slow.begun.wait(600)
    told = threading.Event()
    server.worker.ask(told.set)
    slow.steps[0].set()
    assert told.wait(600)  # after the first step
    (progress,) = [e for e in client.get(f"/api/jobs/{job}").json()["events"] if e["kind"] == "progress"]
    assert (progress["what"], progress["step"], progress["steps"]) == ("slow", 1, 3)
    assert progress["rate"] > 0 and progress["seconds_left"] == pytest.approx(2 / progress["rate"])
    slow.let(server)


def test_a_job_that_fails_says_why_and_the_next_one_runs(client: TestClient, server: Server) -> None:
    photo = uploaded(client)
    bad, good = begun(client, photo, ["grad-cam:layer=nothing"]), begun(client, photo, ["gradient"])
    worked_off(server)
    answer = client.get(f"/api/jobs/{bad}").json()
    assert answer["state"] == "failed" and "nothing" in answer["message"]
    assert client.get(f"/api/jobs/{good}").json()["state"] == "done"


@pytest.mark.parametrize(
    "change, word",
    [
        ({"labels": [9]}, "no label 9"),
        ({"labels": [1, 1]}, "once"),
        ({"methods": ["gradient", "gradient"]}, "once"),
        ({"methods": ["nothing"]}, "no method is named"),
        ({"fill": "images:size=1024"}, "at most 256 here"),
        ({"fill": "nothing"}, "no fill is named"),
        ({"labels": []}, "labels"),
        ({"labels": [True]}, "labels"),
        ({"methods": ["gradient"] * 4}, "methods"),
        ({"seed": -1}, "seed"),
        ({"more": 1}, "more"),
        ({"photo": "../../x"}, "photo"),
    ],
)
def test_a_request_that_cannot_be_met_makes_no_job(
    client: TestClient, server: Server, change: dict[str, object], word: str
) -> None:
    asked = {"photo": uploaded(client), "net": "toy", "labels": [1], "methods": ["gradient"], **change}
    before = [*server.jobs._all]
    answer = client.post("/api/jobs", json=asked)
    assert answer.status_code == 422 and word in answer.json()["error"]
    assert [*server.jobs._all] == before


@pytest.mark.parametrize(
    "change, told",
    [
        ({"methods": ["learned-mask:steps=90000"], "labels": [0, 1, 2, 3]}, "passes"),
        (
            {"methods": ["rise:masks=9000", "learned-mask:steps=95600"]},
            "200,200 passes of the net; the limit for a job is 200,000",
        ),
    ],
)
def test_passes_are_limited_where_others_can_reach_the_server(change: dict[str, object], told: str) -> None:
    for token in ("", "the-token"):
        server = made(access=Access("0.0.0.0" if token else "127.0.0.1", 8000, token))
        with opened(server) as client:
            client.headers["authorization"] = f"Bearer {token}"
            busy = with_slow(server)
            photo = uploaded(client)
            begun(client, photo, ["slow"])
            assert busy.begun.wait(600)
            asked = {"photo": photo, "net": "toy", "labels": [1], **change}
            answer = client.post("/api/jobs", json=asked)
            assert answer.status_code == (422 if token else 202), answer.text
            if token:
                assert told in answer.json()["error"]
            else:
                client.delete(f"/api/jobs/{answer.json()['job']}")
            busy.let(server)


def test_old_jobs_are_forgotten_and_too_many_are_not_taken(
    client: TestClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "MOST_KEPT", 1)
    monkeypatch.setattr(kept, "MOST_WAITING", 1)
    photo = uploaded(client)
    ids = []
    for _ in range(3):
        ids.append(begun(client, photo, ["gradient"]))
        worked_off(server)
    for job, why in ((ids[0], "no longer kept"), ("0" * 32, "the server was restarted")):
        gone = client.get(f"/api/jobs/{job}")
        assert gone.status_code == 404 and why in gone.json()["error"]
    assert client.get(f"/api/jobs/{ids[2]}").status_code == 200
    slow = with_slow(server)
    begun(client, photo, ["slow"])
    assert slow.begun.wait(600)
    begun(client, photo, ["gradient"])
    full = client.post(
        "/api/jobs", json={"photo": photo, "net": "toy", "labels": [1], "methods": ["gradient"]}
    )
    assert full.status_code == 429 and "later" in full.json()["error"]
    slow.let(server)


def test_at_most_two_nets_are_kept(server: Server) -> None:
    server.nets.offered |= {name: Offer(name, "", net) for name in ("a", "b")}
    for name in ("toy", "a", "toy", "b"):
        server.nets.classifier(name)
    ready = {about["name"] for about in server.nets.about() if about["ready"]}
    assert ready == {"toy", "b"} and server.nets.known("a") is not None


# ---- The one thread: jobs in their order, questions between a job's steps, nothing left behind when it stops ----------


def test_a_flood_of_questions_does_not_keep_a_job_from_its_next_step() -> None:
    worker, begun, go, over = NetWorker(), threading.Event(), threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        assert go.wait(600)
        worker.between()
        over.set()

    def again() -> None:
        if not over.is_set():
            worker.ask(again)

    worker.add(job)
    assert begun.wait(600)
    worker.ask(again)
    go.set()
    assert over.wait(600)
    worker.close()


def test_an_error_belongs_to_whoever_asked() -> None:
    worker = NetWorker()
    with pytest.raises(ZeroDivisionError):
        worker.ask(lambda: 1 // 0).result(600)
    assert worker.ask(lambda: 2).result(600) == 2
    worker.close()


def test_closing_stops_a_job_between_its_steps_and_answers_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    worker, begun, go, stopped = NetWorker(), threading.Event(), threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        assert go.wait(600)
        try:
            worker.between()
        except Cancelled:
            stopped.set()

    worker.add(job)
    assert begun.wait(600)
    answer = worker.ask(lambda: 1)
    worker.close(seconds=0)
    go.set()
    assert stopped.wait(600)
    with pytest.raises(CancelledError):
        answer.result(600)
    with pytest.raises(Busy, match="stopping"):
        worker.ask(lambda: 1)


def test_there_is_a_most_of_waiting_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "MOST_QUESTIONS", 2)
    worker, begun, go = NetWorker(), threading.Event(), threading.Event()
    worker.add(lambda: (begun.set(), go.wait(600), None)[2])
    assert begun.wait(600)
    answers = [worker.ask(lambda: 1), worker.ask(lambda: 1)]
    with pytest.raises(Busy, match="busy"):
        worker.ask(lambda: 1)
    go.set()
    assert [answer.result(600) for answer in answers] == [1, 1]
    worker.close()


LEFT_OPEN = """
import threading
from proofmap.app.jobs import Cancelled, NetWorker

worker, begun = NetWorker(), threading.Event()

def job():
    try:
        while True:
            begun.set()
            worker.between()
    except Cancelled:
        print("stopped between two steps")

worker.add(job)
begun.wait()
"""


def test_a_program_that_ends_waits_for_the_step_that_is_running() -> None:
    """Python ends threads wherever they are; inside torch that is an abort."""
    done = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "stopped between two steps\n"), done.stderr
