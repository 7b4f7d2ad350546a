"""Trackers: what the real packages hold after a study, read back with their own readers."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofmap.core.errors import InputError, MissingExtra
from proofmap.study.watchers.status import Status, Watcher, Watchers
from proofmap.study.watchers.trackers import RUN_IDS, TRACKERS, Tracker, make_tracker, safe_name
from tests import texts

SETTINGS = {"model": {"name": "tiny"}, "methods": ["grad-cam", "learned-mask:tv=0.1"], "workers": 1}
SURVEYING = Status(state="surveying")
AWKWARD = safe_name("learned-mask:tv=0.1")


def status(done: int, before: int = 0) -> Status:
    scores = {
        "grad-cam": {"soundness": done / 10, "insertion": float("nan")},
        "learned-mask:tv=0.1": {"soundness": 0.5},
    }
    return Status(
        state="running", units_total=4, units_done=done, units_before=before, scores=scores if done else {}
    )


def first_run(tracker: Watcher) -> None:
    """Two units of four, with passes reported inside them, then an interruption."""
    tracker.begin(SETTINGS, SURVEYING)
    for done in (0, 1, 1, 1, 2, 2):
        tracker.update(status(done))
    tracker.end(replace(status(2), state="interrupted"))


def second_run(tracker: Watcher, *files: Path) -> None:
    """The other two. Until the survey is over, nobody knows that two were done before."""
    tracker.begin({**SETTINGS, "workers": 2, "seed": 0}, SURVEYING)
    tracker.update(replace(SURVEYING, last="10 pictures looked at"))
    for done in (2, 3, 3, 4):
        tracker.update(status(done, before=2))
    tracker.end(replace(status(4, before=2), state="finished", files=files))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    folder = tmp_path / "made"
    folder.mkdir()
    (folder / "table.md").write_text("a table")
    (folder / "scores.csv").write_text("some scores")
    return sorted(folder.iterdir())


def needs(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"the package {package} is not installed")


# Names.


def test_ours_are_known_by_name() -> None:
    assert {"tensorboard", "mlflow", "wandb"} <= set(TRACKERS)


@pytest.mark.parametrize(
    "text, problem",
    [
        ("tensorbord:logs", "Did you mean 'tensorboard'"),
        ("", "no tracker is named ''"),
        ("mlflow:", "ends in a colon"),
    ],
)
def test_a_wrong_name_is_an_input_error(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        make_tracker(text)


@pytest.mark.parametrize("name", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_package_is_named_with_its_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match=re.escape(f"pip install 'proofmap[{name}]'")):
        make_tracker(name)


def test_trackers_of_others_are_made_from_the_same_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Paper:
        name = "paper"

        def __init__(self, where: str, folder: Path | None) -> None:
            self.where, self.folder = where, folder

    monkeypatch.setitem(TRACKERS._known, "paper", Paper)  # type: ignore[arg-type]
    made: Any = make_tracker("paper:http://host:80/a", tmp_path)
    assert (made.where, made.folder) == ("http://host:80/a", tmp_path)


@given(st.text(texts.ANY, max_size=300))
def test_a_safe_name_is_one_that_all_trackers_allow(name: str) -> None:
    made = safe_name(name)
    assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_. -]*", made) and len(made) <= 109
    assert safe_name(made) == made  # so a name is either kept or cannot be mistaken for a kept one


@given(st.sets(st.text(alphabet="ab:=/. _", max_size=6), max_size=50))
def test_two_names_never_become_one(names: set[str]) -> None:
    assert len({safe_name(name) for name in names}) == len(names)


# When a run is opened.


class Notebook(Tracker):
    """Writes down what a tracker is asked for."""

    name = "notebook"

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[object, ...]] = []

    def open(self, settings: Mapping[str, str], status: Status) -> None:
        self.lines.append(("open", settings["workers"], status.units_done))

    def write(self, values: Mapping[str, float], step: int) -> None:
        self.lines.append(("write", step))

    def close(self, status: Status) -> None:
        self.lines.append(("close", status.state))


def test_a_run_is_opened_when_it_is_known_how_many_units_were_done_before() -> None:
    tracker = Notebook()
    second_run(tracker)
    assert tracker.lines == [("open", "2", 2), ("write", 3), ("write", 4), ("close", "finished")]


def test_a_study_that_is_not_surveyed_opens_its_run_at_once() -> None:
    tracker = Notebook()
    tracker.begin(SETTINGS, status(2, before=2))
    assert tracker.lines == [("open", "1", 2)]


def test_a_study_that_fails_in_its_survey_is_opened_and_closed() -> None:
    tracker = Notebook()
    tracker.begin(SETTINGS, SURVEYING)
    tracker.update(SURVEYING)
    assert tracker.lines == []
    tracker.end(Status(state="failed"))
    assert tracker.lines == [("open", "1", 0), ("close", "failed")]


def test_a_run_that_cannot_be_opened_is_tried_once() -> None:
    tried: list[str] = []

    class Shut(Notebook):
        def open(self, settings: Mapping[str, str], status: Status) -> None:
            tried.append(status.state)
            raise OSError("no such server")

    watchers = Watchers(Shut())
    watchers.begin(SETTINGS, SURVEYING)
    with pytest.warns(RuntimeWarning, match="no such server"):
        watchers.update(status(0))
    assert tried == ["running"] and watchers.watchers == []


# TensorBoard.


def events(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    return EventAccumulator(str(folder)).Reload()


def test_tensorboard_shows_one_curve_over_both_runs(tmp_path: Path, files: list[Path]) -> None:
    needs("tensorboard")
    first_run(make_tracker(f"tensorboard:{tmp_path / 'logs'}"))
    second_run(make_tracker(f"tensorboard:{tmp_path / 'logs'}"), *files)
    found = events(tmp_path / "logs")
    assert sorted(found.Tags()["scalars"]) == ["grad-cam/soundness", f"{AWKWARD}/soundness"]
    curve = [(event.step, round(event.value, 6)) for event in found.Scalars("grad-cam/soundness")]
    assert curve == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]
    settings, end = (texts(found, name)[-1] for name in ("settings", "end"))
    assert "| methods | grad-cam, learned-mask:tv=0.1 |" in settings and "| workers | 2 |" in settings
    assert end.startswith("finished") and all(str(file) in end for file in files)


def texts(found: Any, name: str) -> list[str]:
    return [event.tensor_proto.string_val[0].decode() for event in found.Tensors(f"{name}/text_summary")]


def test_tensorboard_goes_to_the_folder_of_the_study_by_itself(tmp_path: Path) -> None:
    needs("tensorboard")
    first_run(make_tracker("tensorboard", tmp_path))
    assert events(tmp_path / "tensorboard").Scalars("grad-cam/soundness")[-1].step == 2


def test_a_resumed_study_keeps_its_curve_even_if_it_fails_in_its_survey(tmp_path: Path) -> None:
    needs("tensorboard")

    def curve() -> list[int]:
        return [event.step for event in events(tmp_path / "tensorboard").Scalars("grad-cam/soundness")]

    tracker = make_tracker("tensorboard", tmp_path)
    tracker.begin(SETTINGS, SURVEYING)
    for done in range(6):
        tracker.update(status(done))
    tracker.end(replace(status(5), state="interrupted"))
    failing = make_tracker("tensorboard", tmp_path)
    failing.begin(SETTINGS, SURVEYING)
    failing.end(Status(state="failed"))
    assert curve() == [1, 2, 3, 4, 5]
    resumed = make_tracker("tensorboard", tmp_path)
    resumed.begin(SETTINGS, SURVEYING)
    resumed.update(status(5, before=5))
    resumed.update(status(6, before=5))
    resumed.end(replace(status(6, before=5), state="finished"))
    assert curve() == [1, 2, 3, 4, 5, 6]
    assert len(texts(events(tmp_path / "tensorboard"), "settings")) == 3


def test_a_study_begun_anew_in_the_same_place_replaces_the_old_curve(tmp_path: Path) -> None:
    needs("tensorboard")
    second_run(make_tracker("tensorboard", tmp_path))
    first_run(make_tracker("tensorboard", tmp_path))
    assert [event.step for event in events(tmp_path / "tensorboard").Scalars("grad-cam/soundness")] == [1, 2]


# MLflow.


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package, with a store of the test's own: SQLite, or plain files where only mlflow-skinny is there."""
    needs("mlflow")
    monkeypatch.chdir(tmp_path)  # artifacts go to ./mlruns
    database = importlib.util.find_spec("sqlalchemy") is not None
    monkeypatch.setenv(
        "MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db" if database else f"file://{tmp_path}/runs"
    )
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    import mlflow

    return mlflow


@pytest.mark.filterwarnings("default")  # what MLflow deprecates is its own business
def test_mlflow_holds_one_run_of_both_parts(mlflow: Any, tmp_path: Path, files: list[Path]) -> None:
    first_run(make_tracker("mlflow:proofs", tmp_path))
    (run_id,) = json.loads((tmp_path / RUN_IDS).read_text()).values()
    client = mlflow.MlflowClient()
    assert client.get_run(run_id).info.status == "KILLED"
    second_run(make_tracker("mlflow:proofs", tmp_path), *files)
    experiment = client.get_experiment_by_name("proofs").experiment_id
    (run,) = client.search_runs([experiment])
    assert run.info.run_id == run_id and run.info.status == "FINISHED"
    assert run.data.params == {
        "model.name": "tiny",
        "methods": "grad-cam, learned-mask:tv=0.1",
        "workers": "1",  # MLflow never changes a parameter
        "seed": "0",
    }
    assert run.data.metrics == {"grad-cam/soundness": 0.4, f"{AWKWARD}/soundness": 0.5}
    history = [(m.step, m.value) for m in client.get_metric_history(run_id, "grad-cam/soundness")]
    assert sorted(history) == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]
    assert [artifact.path for artifact in client.list_artifacts(run_id)] == ["scores.csv", "table.md"]


@pytest.mark.filterwarnings("default")
def test_a_run_that_mlflow_has_lost_is_begun_anew_and_said(mlflow: Any, tmp_path: Path) -> None:
    (tmp_path / RUN_IDS).write_text(json.dumps({"mlflow:": "0123456789abcdef0123456789abcdef"}))
    with pytest.warns(UserWarning, match="0123456789abcdef cannot be continued, a new one is started"):
        second_run(make_tracker("mlflow", tmp_path))
    run_id = json.loads((tmp_path / RUN_IDS).read_text())["mlflow:"]
    assert mlflow.MlflowClient().get_run(run_id).info.status == "FINISHED"


@pytest.mark.filterwarnings("default")
def test_mlflow_takes_more_settings_than_fit_one_request(mlflow: Any, tmp_path: Path) -> None:
    tracker = make_tracker("mlflow", tmp_path)
    tracker.begin({f"setting {i}": "x" * 10_000 for i in range(250)}, status(0))
    tracker.end(status(0))
    (run_id,) = json.loads((tmp_path / RUN_IDS).read_text()).values()
    run = mlflow.MlflowClient().get_run(run_id)
    assert len(run.data.params) == 250 and run.info.status == "FAILED"


# Weights & Biases.


@pytest.mark.filterwarnings("default")  # what W&B deprecates is its own business
def test_wandb_keeps_one_run_id_and_all_values(
    tmp_path: Path, files: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    needs("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    for part in ("1", "2"):  # W&B names a folder by the second, and these may fall into one
        (tmp_path / part).mkdir()
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "1"))
    first_run(make_tracker("wandb:proofs", tmp_path))
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "2"))
    second_run(make_tracker("wandb:proofs", tmp_path), *files)
    (run_id,) = json.loads((tmp_path / RUN_IDS).read_text()).values()
    parts = sorted(tmp_path.glob(f"*/wandb/offline-run-*-{run_id}/run-{run_id}.wandb"))
    records = [record for part in parts for record in wandb_records(part)]
    curve = [
        (int(row["_step"]), row["grad-cam/soundness"])
        for row in (values_of(record.history.item) for record in records if record.HasField("history"))
    ]
    assert curve == [(1, 0.1), (2, 0.2), (3, 0.3), (4, 0.4)]
    runs = [record.run for record in records if record.HasField("run")]
    assert {run.run_id for run in runs} == {run_id} and runs[0].project == "proofs"
    assert values_of(runs[0].config.update)["methods"] == "grad-cam, learned-mask:tv=0.1"
    kept = {file.path for record in records for file in record.files.files}
    assert {"scores.csv", "table.md"} <= kept
    assert [record.exit.exit_code for record in records if record.HasField("exit")] == [1, 0]


def values_of(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def wandb_records(path: Path) -> Iterator[Any]:
    """What a run's own log holds: after 7 bytes, records with a header of checksum (4), length (2) and kind (1)."""
    from wandb.proto.wandb_internal_pb2 import Record

    data = path.read_bytes()[7:]
    assert len(data) < 32_000, "the log has several blocks, which this reader does not know"
    while data:
        end = 7 + int.from_bytes(data[4:6], "little")
        yield Record.FromString(data[7:end])
        data = data[end:]
