"""ProofBench: tasks stay as they are, runs resume, and records that are not what they say are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from proofmap.bench import nets, task
from proofmap.bench.leaderboard import PROVED, Board, Leaderboard
from proofmap.bench.record import Record
from proofmap.bench.running import files_of, passes_of, run_task
from proofmap.bench.submission import check_record, chosen_images, submit
from proofmap.bench.task import Task
from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.data.specs import open_data
from proofmap.methods import make_method
from proofmap.results.compare import compare
from proofmap.session import Session
from proofmap.study import Run
from tests.bench.small_task import PACKAGE, first_images, write_tasks
from tests.browser import serious
from tests.command import run as run_command
from tests.docs.pages import few_distractors, few_draws

ROOT = Path(__file__).parents[2]
NO_DATA = Path("no-data")
MINE = """
import torch

SCALE = 2.0

def mine(classifier, images, labels):
    f = classifier.probabilities(images).gather(1, labels)
    return SCALE * images.mean(dim=1)[:, None] * f[:, :, None, None]
"""


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        few_draws(patch)
        few_distractors(patch)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the tasks with one more: ``mini``, four pictures of smoke and two fills."""
    place = tmp_path_factory.mktemp("bench")
    write_tasks(place)
    return place


@pytest.fixture(autouse=True)
def with_mini(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_folder", lambda: folder / "tasks")


@pytest.fixture(scope="module")
def made(folder: Path) -> Mapping[str, Record]:
    """Records of three methods on ``mini``, from one run directory."""
    before, task._folder = task._folder, lambda: folder / "tasks"
    (folder / "mine.py").write_text(MINE)
    try:
        specs = {"gradient": "gradient", "random": "random", "mine": f"{folder / 'mine.py'}:mine"}
        return {
            name: run_task(Task.named("mini"), spec, folder / "run", data=NO_DATA, name=name)
            for name, spec in specs.items()
        }
    finally:
        task._folder = before


# ---- tasks ------------------------------------------------------------------------------------------------------


def test_tasks_never_change() -> None:
    """Numbers of one version of the benchmark are comparable: a changed task needs a new version."""
    kept = json.loads((Path(__file__).parent / "tasks.json").read_text())
    assert {name: Task.named(name).digest for name in Task.names() if name != "mini"} == kept


def test_a_task_states_what_it_needs_and_refuses_other_data(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(InputError, match=r"(?s)imagenet_val.*--data"):
        Task.named("photos").check_needs(tmp_path)
    with pytest.raises(InputError, match="Did you mean 'smoke'"):
        Task.named("smok")
    other = replace(Task.named("mini"), data_digest="0")
    with pytest.raises(InputError, match="not those of the task mini"):
        run_task(other, "random", tmp_path / "run", data=NO_DATA)


def test_images_of_tasks_are_those_of_their_rule() -> None:
    digest = Record.images_digest(first_images(10))
    assert digest == Task.named("smoke").data_digest


def test_the_net_and_the_texts_of_the_task_of_texts_are_those_that_it_states(tmp_path: Path) -> None:
    pytest.importorskip("py3langid", reason="the task text needs the package py3langid")
    from proofmap.bench import running
    from proofmap.data.dataset import random_choice

    text, classifier = Task.named("text"), nets.text()
    running.check_net(text, classifier)
    data = open_data(f"text:{PACKAGE / 'tasks' / 'text.csv'}?column=text")
    f = classifier.probabilities(classifier.inputs.encode([data.read(i) for i in range(len(data))]))
    fitting = f.sort(dim=1, descending=True).values[:, 1] >= 0.1
    assert fitting.all()
    chosen = [
        {"name": data.names[i], "digest": data.digest(i)} for i in random_choice(data.names, 40, seed=1)
    ]
    assert Record.images_digest(chosen) == text.data_digest
    with pytest.raises(InputError, match=r"the net found is not that of the task text.*proofmap\[theory\]"):
        running.check_net(replace(text, net_digest="0"), classifier)


# ---- records ----------------------------------------------------------------------------------------------------


def test_a_record_has_the_values_of_the_run(made: Mapping[str, Record], folder: Path) -> None:
    record = made["gradient"]
    assert {*record.values} == {f"{kind} ({fill})" for kind in task.METRICS for fill in ("gray", "images")}
    with Run(folder / "run") as run:
        result = run.evaluation()["gradient"]
        assert [image["digest"] for image in record.images] == [row.digest for row in run.images]
    for name, values in record.values.items():
        assert np.allclose(record.array(name), result.values[name].double(), atol=1e-6, equal_nan=True), name
        assert len(values) == 4
    assert record.passes == 4  # a gradient for each label
    assert made["mine"].passes == 1 and "SCALE" in made["mine"].method["files"]["mine.py"]
    assert str(folder) not in made["mine"].text()


def test_a_record_is_read_as_it_was_written_and_not_if_it_was_edited(
    made: Mapping[str, Record], tmp_path: Path
) -> None:
    path = made["random"].write(tmp_path / "random.json")
    assert Record.read(path) == made["random"]
    path.write_text(path.read_text().replace('"passes": 0', '"passes": 7'))
    with pytest.raises(InputError, match="was edited after it was written"):
        Record.read(path)
    path.write_text('{"digest": 3}')
    with pytest.raises(InputError, match="is not a record"):
        Record.read(path)
    with pytest.raises(InputError, match="is not a record"):
        Record.read(tmp_path / "gone.json")


def test_a_second_run_computes_nothing_and_gives_the_same_record(
    made: Mapping[str, Record], folder: Path
) -> None:
    with Run(folder / "run") as run:
        before = run.store.rows("SELECT count(*) FROM units")
    again = run_task(Task.named("mini"), "gradient", folder / "run", data=NO_DATA)
    with Run(folder / "run") as run:
        assert run.store.rows("SELECT count(*) FROM units") == before
    assert again == made["gradient"]


def test_maps_beside_a_record_are_the_methods_in_the_order_of_its_images(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = ("bench", "run", "mini", "--method", "gradient", "--out", "out", "--maps", "-q")
    assert run_command(monkeypatch, *asked) == 0
    (file,) = Path("out/records").glob("*.safetensors")
    record = Record.read(file.with_suffix(".json"))
    with safe_open(file, "pt") as opened:
        (name,), about = opened.keys(), opened.metadata()
        maps = opened.get_tensor(name)
    assert name == record.name and about["record"] == record.digest
    assert json.loads(about["images"]) == [image["name"] for image in record.images]
    classifier, data = nets.smoke(), open_data(f"npz:{PACKAGE / 'tasks' / 'smoke.npz'}")
    last = record.images[-1]
    image = torch.from_numpy(np.array(data.read(data.names.index(last["name"]))))
    image = image.permute(2, 0, 1)[None].float() / 255
    expected = make_method("gradient")(classifier, image, torch.tensor([last["labels"]]))
    torch.testing.assert_close(maps[-1:].float(), expected, rtol=2e-3, atol=1e-6)


def test_passes_are_counted_in_the_net_and_its_copies() -> None:
    from proofmap.bench import nets

    classifier, image, labels = nets.smoke(), torch.rand(1, 3, 32, 32), torch.tensor([[0, 1]])

    def three(f: Classifier, images: Tensor, labels: Tensor) -> Tensor:
        f.probabilities(images.repeat(2, 1, 1, 1))
        f.as_module()(images)
        return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)

    assert passes_of(Session(classifier), make_method(three), image, labels) == 3


# ---- submissions ------------------------------------------------------------------------------------------------


def test_a_good_record_enters_the_leaderboard_once(made: Mapping[str, Record], tmp_path: Path) -> None:
    path = submit(made["gradient"], tmp_path, data=NO_DATA)
    record = Record.read(path)
    assert path == tmp_path / "mini" / "gradient.json"
    names = [record.images[k]["name"] for k in chosen_images(made["gradient"])]
    assert record.check["images"] == names and len(names) == 1
    assert record.check["largest_difference"] <= 1e-4
    with pytest.raises(InputError, match="is there already"):
        submit(made["gradient"], tmp_path, data=NO_DATA)


def test_a_row_of_which_less_than_a_tenth_was_recomputed_is_marked(
    made: Mapping[str, Record], tmp_path: Path
) -> None:
    none = {"recomputed": "0 of 4", "images": []}
    replace(made["gradient"], check=none).write(tmp_path / "mini" / "gradient.json")
    board = Leaderboard(tmp_path).board("mini")
    (row,) = board.rows()
    assert row.hardly_checked and row.recomputed == "0 of 4" and row.checked == "no value was computed again"
    assert "gradient?" in board.table() and "not recomputed" in board.table()
    assert ">not recomputed</span>" in Leaderboard(tmp_path).write_page(tmp_path / "page.html").read_text()


def test_code_of_others_runs_only_if_it_is_allowed(made: Mapping[str, Record], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"brings the code of its method \(mine.py\).*--allow-code"):
        check_record(made["mine"], data=NO_DATA)
    assert check_record(made["mine"], data=NO_DATA, allow_code=True).check["images"]
    method = {**made["mine"].method, "files": {"../outside.py": MINE}}
    with pytest.raises(InputError, match="outside its folder"):
        check_record(replace(made["mine"], method=method), data=NO_DATA, allow_code=True)


def raised(record: Record, by: float = 0.02) -> Record:
    """All insertion areas a little higher, with a digest that fits."""
    score = "insertion (gray)"
    values = [value + by for value in record.values[score] if value is not None]
    return replace(record, values={**record.values, score: values})


def other_images(record: Record) -> Record:
    return replace(record, images=[*record.images[:-1], {**record.images[-1], "digest": "0" * 32}])


def easier_beliefs(record: Record) -> Record:
    """The images have other probabilities."""
    return replace(record, images=[{**image, "f": image["f"][::-1]} for image in record.images])


def metric_settings(record: Record) -> Record:
    score = "soundness (gray)"
    about = record.metrics[score]
    changed = {**about, "settings": {**about["settings"], "e2": 0.5}}
    return replace(record, metrics={**record.metrics, score: changed})


def with_about(record: Record, **facts: Any) -> Record:
    score = "completeness (gray)"
    return replace(record, metrics={**record.metrics, score: {**record.metrics[score], **facts}})


def named(record: Record, name: str) -> Record:
    return replace(record, method={**record.method, "name": name})


def uncounted(record: Record) -> Record:
    return replace(record, values={**record.values, "soundness (gray)": [None] * len(record.images)})


FRAUDS: Mapping[str, tuple[Callable[[Record], Record], str]] = {
    "edited numbers": (raised, "the numbers are not those that the method gives: insertion"),
    "values left out": (uncounted, "soundness .gray.: an image counts in one and not in the other"),
    "another direction": (lambda r: with_about(r, better="lower"), "completeness .gray.: better"),
    "wider limits": (lambda r: with_about(r, limits=[0.0, 10.0]), "completeness .gray.: limits"),
    "one map for all labels": (
        lambda r: replace(r, method={**r.method, "label_free": True}),
        "was of another gradient, with other settings or code: label_free",
    ),
    "other images": (other_images, "has other pictures than the task mini"),
    "other probabilities": (easier_beliefs, "other labels or probabilities"),
    "no labels": (
        lambda r: replace(r, images=[{**image, "labels": [], "f": []} for image in r.images]),
        "other labels or probabilities",
    ),
    "other task settings": (
        lambda r: replace(r, task_digest="0"),
        "made with other settings than the task mini",
    ),
    "other metric settings": (
        metric_settings,
        "judged with other settings of soundness .gray.: settings.*e2",
    ),
    "another version": (lambda r: replace(r, bench="proofbench-0"), "belongs to proofbench-0"),
    "another net": (lambda r: replace(r, net="0"), "about another net"),
    "other settings of the method": (
        lambda r: replace(r, method={**r.method, "settings": {**r.method["settings"], "channels": "sum"}}),
        "other settings or code: settings.*channels",
    ),
    "the name of another method": (
        lambda r: named(r, "belief-mask"),
        "name of a method of Proofmap, and this one is gradient",
    ),
    "a name that cannot be shown": (lambda r: named(r, "best\u202e"), "characters that can be printed"),
    "no name": (lambda r: named(r, " "), "characters that can be printed"),
    "a file of the checking machine": (
        lambda r: replace(r, method={**r.method, "spec": f"{__file__}:mine"}),
        "which the record does not bring",
    ),
    "fewer passes": (lambda r: replace(r, passes=1), "takes 1 passes for an image; counted here: 4"),
}


@pytest.mark.parametrize("fraud", FRAUDS)
def test_a_record_that_is_not_what_it_says_is_refused(
    fraud: str, made: Mapping[str, Record], tmp_path: Path
) -> None:
    change, message = FRAUDS[fraud]
    path = change(made["gradient"]).write(tmp_path / "record.json")
    with pytest.raises(InputError, match=message):
        submit(Record.read(path), tmp_path / "board", data=NO_DATA)
    assert not (tmp_path / "board").exists()


def test_maps_that_saw_the_judges_pool_are_refused(made: Mapping[str, Record], tmp_path: Path) -> None:
    spec = "learned-mask:steps=1,distractors=1,fill=images(part=judge)"
    record = run_task(Task.named("mini"), spec, tmp_path / "run", data=NO_DATA, name="peeks")
    with pytest.raises(InputError, match=r"saw the judge's pool.*part=learn"):
        check_record(record, data=NO_DATA)
    fair = spec.replace("part=judge", "part=learn")
    record = run_task(Task.named("mini"), fair, tmp_path / "run", data=NO_DATA, name="fair")
    assert check_record(record, data=NO_DATA).check["images"]


def test_a_name_with_markup_stays_text_on_the_page(made: Mapping[str, Record], tmp_path: Path) -> None:
    named(made["random"], "<script>alert(1)</script>").write(tmp_path / "mini" / "x.json")
    made["gradient"].write(tmp_path / "mini" / "gradient.json")
    assert "<script>alert" not in Leaderboard(tmp_path).write_page(tmp_path / "page.html").read_text()


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 500 + "1" + "}" * 500])
def test_a_record_of_lists_inside_lists_is_no_record(text: str, tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    with pytest.raises(
        InputError, match=r"is not a record .* more than 64 lists or objects inside one another"
    ):
        Record.read(path)


def test_a_record_with_entries_of_other_types_is_no_record(
    made: Mapping[str, Record], tmp_path: Path
) -> None:
    for change in (
        {"passes": "1"},
        {"seconds": -1.0},
        {"method": {**made["random"].method, "files": {"a.py": 3}}},
        {"machine": {}},
    ):
        path = replace(made["random"], **change).write(tmp_path / "record.json")
        with pytest.raises(InputError, match="is not a record"):
            Record.read(path)


def test_passes_of_a_model_without_gradients_are_counted() -> None:
    classifier = Classifier(lambda rows: np.full((len(rows), 2), 0.5), data=np.eye(9, 3))

    def four(f: Classifier, rows: Tensor, labels: Tensor) -> Tensor:
        f.probabilities(rows.repeat(4, 1))
        return rows[:, None].expand(-1, labels.shape[1], -1)

    assert passes_of(Session(classifier), make_method(four), torch.rand(1, 3), torch.tensor([[0, 1]])) == 4


def elsewhere(record: Record) -> Record:
    return replace(record, machine={**record.machine, "device": "cuda", "device_name": "a GPU"})


@pytest.mark.parametrize("by, here, there", [(0.004, True, True), (0.02, False, True), (0.2, False, False)])
def test_raised_means_are_refused_within_the_stated_tolerance(
    by: float, here: bool, there: bool, made: Mapping[str, Record]
) -> None:
    record = raised(made["gradient"], by)
    for one, accepted in ((record, here), (elsewhere(record), there)):
        if accepted:
            check = check_record(one, data=NO_DATA).check
            assert check["largest_mean_difference"] == pytest.approx(by, abs=1e-3)
        else:
            with pytest.raises(
                InputError, match=r"insertion .gray.: over 1 image its mean differs by 0\.\d+"
            ):
                check_record(one, data=NO_DATA)


def test_means_of_a_learned_mask_may_differ_more_on_the_same_device(tmp_path: Path) -> None:
    record = run_task(Task.named("mini"), "learned-mask:steps=2", tmp_path / "run", data=NO_DATA)
    assert check_record(raised(record, 0.02), data=NO_DATA).check["largest_mean_difference"] > 0.015
    with pytest.raises(InputError, match=r"more than 0\.1"):
        check_record(raised(record, 0.2), data=NO_DATA)


def test_a_package_adds_a_task_by_an_entry_point(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Point:
        """An entry point as an installed package has it."""

        name = "theirs"

        def load(self) -> Path:
            return tmp_path / "theirs.toml"

    text = (folder / "tasks" / "mini.toml").read_text().replace("{tasks}", str(folder / "tasks"))
    (tmp_path / "theirs.toml").write_text(text)
    monkeypatch.setattr(task, "entry_points", lambda group: [Point()] * (group == "proofmap.tasks"))
    found = Task.named("theirs")
    assert "theirs" in Task.names() and found.folder == str(tmp_path)
    assert run_task(found, "random", tmp_path / "run", data=NO_DATA).task == "theirs"
    (tmp_path / "theirs.toml").write_text("title = 3")
    with pytest.raises(InputError, match="the task theirs does not state"):
        Task.named("theirs")


# ---- the leaderboard --------------------------------------------------------------------------------------------


def test_the_leaderboard_has_the_means_over_images_and_the_verdicts_of_compare(
    made: Mapping[str, Record], folder: Path
) -> None:
    board = Board(Task.named("mini"), (made["gradient"], made["random"]))
    rows = {row.name: row for row in board.rows()}
    for name, row in rows.items():
        for kind in ("completeness", "soundness", "reach"):
            both = [made[name].values[f"{kind} ({fill})"] for fill in ("gray", "images")]
            means = [sum(pair) / 2 for pair in zip(*both, strict=True)]  # type: ignore[arg-type]
            assert row.scores[kind].value == pytest.approx(sum(means) / 4), kind
    assert [row.name for row in board.rows()] == sorted(rows, key=lambda name: -rows[name].lesser)
    twelve = [made["gradient"].images[0]] * 12
    gray = replace(Task.named("mini"), unseen=())
    noise = torch.Generator().manual_seed(0)
    for gap in (0.0, 0.1, 1.0):  # equal, uncertain and clear
        a, b = (torch.rand(12, generator=noise) for _ in range(2))
        pair = [_with_column(made["gradient"], twelve, a), _with_column(made["random"], twelve, b + gap)]
        with Run(folder / "run") as run:
            found = run.evaluation(methods=["gradient", "random"]).select_images([0] * 12)
        results = tuple(
            replace(r, values={"soundness (gray)": v}, scores=(r.score("soundness (gray)"),))
            for r, v in zip(found.results, (a, b + gap), strict=True)
        )
        verdict = (
            compare(replace(found, results=results)).find("soundness (gray)", "random", "gradient").verdict
        )
        row = next(row for row in Board(gray, tuple(pair)).rows() if row.name == "random")
        decided = (row.better_than["soundness"], row.worse_than["soundness"])
        words = {(("gradient",), ()): "better", ((), ("gradient",)): "worse", ((), ()): "undecided"}
        assert words[decided] == verdict
    assert verdict == "better"


def _with_column(record: Record, images: Any, values: Tensor) -> Record:
    return replace(record, images=images, values=dict.fromkeys(record.values, values.tolist()))


def test_the_records_of_this_repository_belong_to_their_tasks_and_were_checked() -> None:
    boards = Leaderboard(ROOT / "leaderboard").boards
    assert "smoke" in boards
    for name, board in boards.items():
        for record in board.records:
            assert Record.images_digest(record.images) == Task.named(name).data_digest
            names, n = record.check["images"], len(record.images)
            assert {*names} <= {image["name"] for image in record.images}, record.name
            assert len(names) >= n / 10 or record.check["recomputed"] == f"{len(names)} of {n}", record.name


def with_proofs(record: Record, name: str, *fills: tuple[str, list[float | None]]) -> Record:
    """The record with these values of the worst label, complete and sound alike, under each fill."""
    columns = {f"{kind} ({fill})": values for fill, values in fills for kind in ("completeness", "soundness")}
    return replace(named(record, name), values={**record.values, **columns})


def test_an_image_is_fully_proved_if_its_worst_label_reaches_the_bar_in_both(
    made: Mapping[str, Record],
) -> None:
    halves = ("gray", [0.8, 1.0, 0.79, 0.0]), ("images", [0.0, 0.9, 0.0, 0.0])
    best = with_proofs(made["gradient"], "best", *halves)
    unsound = replace(
        best, values={**best.values, "soundness (gray)": [0.0] * 4, "soundness (images)": [0.0] * 4}
    )
    other = replace(named(unsound, "other"), method={**made["random"].method, "name": "other"})
    board = Board(Task.named("mini"), (other, best))
    rows = {row.name: row for row in board.rows()}
    assert rows["best"].scores[PROVED].value == (2 / 4 + 1 / 4) / 2
    assert rows["other"].scores[PROVED].value == 0
    assert board.finding(board.rows()) == (
        "best fully proves 38 % of the pictures; the best other method, other, 0 %.",
        "It fully proves 2 of the 4 pictures with the fill gray, 1 with images.",
    )
    nothing = with_proofs(made["gradient"], "no image counts", *((fill, [None] * 4) for fill, _ in halves))
    (row,) = Board(board.task, (nothing,)).rows()
    assert row.scores[PROVED].n == 0


def test_a_finding_does_not_compare_a_method_with_its_own_presets(made: Mapping[str, Record]) -> None:
    board = Board(
        Task.named("mini"), (made["gradient"], named(made["gradient"], "gradient of another preset"))
    )
    assert "other method" not in "".join(board.finding(board.rows()))


def test_rows_over_the_budget_or_learned_on_unseen_fills_are_marked(made: Mapping[str, Record]) -> None:
    settings = {"fills": [{"fill": "gray"}, {"fill": "images", "part": "learn"}]}
    learned = replace(
        made["random"],
        method={**made["random"].method, "name": "learned", "settings": settings},
        passes=9_999,
    )
    board = Board(Task.named("mini"), (learned, made["gradient"]))
    marked = {row.name: (row.over_budget, row.learned_on) for row in board.rows()}
    assert marked == {"learned": (True, ("images",)), "gradient": (False, ())}
    assert "learned*!" in board.table() and "!: over the budget of 5,000 passes" in board.table()
    inside = replace(made["gradient"], method={"settings": {"of": {"fill": {"fill": "blur"}}}})
    assert inside.settings_named("fill") == {"blur"}


def test_the_page_is_one_file_with_all_rows_and_nothing_to_fetch(
    made: Mapping[str, Record], tmp_path: Path
) -> None:
    for name in ("gradient", "random"):
        made[name].write(tmp_path / "board" / "mini" / f"{name}.json")
    page = Leaderboard(tmp_path / "board").write_page(tmp_path / "page.html").read_text()
    assert page.count('<tbody data-method="gradient"') == 1 and page.count('role="tab"') == 1
    assert "://" not in page.replace("http://www.w3.org", "") and 'src="' not in page
    assert page == Leaderboard(tmp_path / "board").write_page(tmp_path / "again.html").read_text()
    with pytest.raises(InputError, match="has no record"):
        Leaderboard(tmp_path).write_page(tmp_path / "none.html")


def test_a_tab_shows_its_task_and_a_mark_opens_its_row(
    browser: Any, made: Mapping[str, Record], tmp_path: Path
) -> None:
    for name in ("gradient", "random"):
        made[name].write(tmp_path / "board" / "mini" / f"{name}.json")
    shutil.copytree(ROOT / "leaderboard" / "text", tmp_path / "board" / "text")
    written = Leaderboard(tmp_path / "board").write_page(tmp_path / "page.html")
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.goto(written.as_uri())
    assert page.locator("#text").is_visible() and not page.locator("#mini").is_visible()
    page.get_by_role("tab").first.press("ArrowRight")
    assert page.locator("#mini").is_visible() and not page.locator("#text").is_visible()
    row = page.locator('#mini tbody[data-method="gradient"]')
    assert not row.locator(".more").is_visible()
    page.locator('#mini .point[data-method="gradient"]').dispatch_event("click")
    assert "computed again" in row.locator(".more").inner_text()
    row.locator("th > button").first.focus()
    assert "chosen" in page.locator('#mini .point[data-method="gradient"]').get_attribute("class")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    assert serious(page) == []


# ---- the command ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("bench", "run", "mini"), "no method was named"),
        (("bench", "run"), "no task was named"),
        (("bench", "submit", "gone.json"), "is not a record of proofmap bench run"),
        (("bench", "table"), "there is no folder leaderboard of records"),
        (("bench", "tables"), "Did you mean 'table'?"),
    ],
)
def test_what_the_command_cannot_do_is_one_sentence(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_command(monkeypatch, *arguments) == 2
    assert message in " ".join(capsys.readouterr().err.replace("\u2502", " ").split())
    assert not list(tmp_path.iterdir())


def test_the_files_of_a_method_travel_with_the_modules_next_to_it(tmp_path: Path) -> None:
    (tmp_path / "near.py").write_text("X = 1\n")
    (tmp_path / "method.py").write_text("from near import X\n")
    assert files_of(f"top-label:{tmp_path}/method.py:m") == {
        "method.py": "from near import X\n",
        "near.py": "X = 1\n",
    }
    assert files_of("grad-cam:layer=x") == {}
