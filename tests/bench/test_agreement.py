"""When values computed again agree with a record: each value, or as a whole on another kind of device."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from proofmap.bench import Leaderboard, Record, Task, agreement, check_record, run_task, submit, task
from proofmap.bench.agreement import EACH, WHOLE, compare_as_a_whole, computed_again
from proofmap.bench.leaderboard import write_page
from proofmap.classifier.view import view_of
from proofmap.core.errors import InputError
from proofmap.study.session import open_session
from tests.bench.small_task import write_tasks
from tests.docs.pages import few_draws

NO_DATA = Path("no-data")
CHAOTIC = """
import torch

def chaotic(classifier, images, labels):
    '''Another order of pixels for each rounding of the net's outputs, as a learned mask amplifies roundings.'''
    maps = []
    for image, f in zip(images, classifier.probabilities(images).double()):
        bits = int(f.mul(2**40).sum().item()) % 2**31
        noise = torch.rand(images.shape[2:], generator=torch.Generator().manual_seed(bits)).to(images)
        maps.append(image.mean(dim=0) + 0.5 * noise)
    return torch.stack(maps)[:, None].expand(-1, labels.shape[1], -1, -1).clone()
"""
ELSEWHERE = {"device": "cuda", "device_name": "a GPU"}


def draws(n: int, scores: int, generator: torch.Generator) -> dict[str, Tensor]:
    """Values as those of learned masks differ between devices: most by little, some by up to .5."""
    rare = torch.rand(n, 1, generator=generator) < 0.2
    size = torch.where(rare, 0.5, 0.02) * torch.rand(n, scores, generator=generator)
    values = size * (torch.rand(n, 1, generator=generator) - 0.5).sign()
    return {f"score {s}": 0.5 + values[:, s] for s in range(scores)}


def share_refused(trials: int, change: Tensor | float = 0.0, noise: float = 0.0, n: int = 12) -> float:
    generator, refused = torch.Generator().manual_seed(0), 0
    for _ in range(trials):
        stated, *here = (draws(n, 6, generator) for _ in range(4))
        added = change + noise * torch.randn(n, generator=generator)
        stated["score 2"] = stated["score 2"] + added
        refused += compare_as_a_whole(stated, here).refused
    return refused / trials


@pytest.fixture
def fewer_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "EXCHANGES", 500)


@pytest.mark.usefixtures("fewer_exchanges")
def test_an_honest_record_is_refused_no_more_often_than_stated() -> None:
    assert (
        share_refused(400) <= 0.025
    )  # .01 is stated; 400 trials show more than .025 with a probability of .002


@pytest.mark.usefixtures("fewer_exchanges")
def test_a_forged_record_is_refused() -> None:
    assert share_refused(30, 0.1, n=20) >= 0.75
    assert share_refused(30, 0.2) >= 0.8
    assert share_refused(30, 0.1, noise=1.0) >= 0.9  # a shift hidden under noise is found by its spread
    assert share_refused(30, 0.01) <= 0.1  # a mean that is off by less than GAP is no reason


def test_p_is_the_share_of_exchanges_that_reach_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against a loop over all exchanges of three images and three values, in plain Python."""
    generator = torch.Generator().manual_seed(4)
    v = torch.rand(3, 3, 2, generator=generator).double()
    v[0, :, 1] += 0.3
    names = ["a", "b"]
    found = compare_as_a_whole(*_split(v, names))

    def a(i: int, k: int, s: int) -> float:
        others = [float(v[j, i, s]) for j in range(3) if j != k]
        return float(v[k, i, s]) - sum(others) / 2

    def clipped(x: float) -> float:
        return max(-agreement.CLIP, min(agreement.CLIP, x))

    def largest(chosen: tuple[int, ...], only: list[bool]) -> float:
        reached = []
        for part, s in product((0, 1), (0, 1)):
            table = [
                [clipped(a(i, k, s)) if part == 0 else abs(a(i, k, s)) for k in range(3)] for i in range(3)
            ]
            mean = sum(sum(row) / 3 for row in table)
            variance = sum(sum((x - sum(row) / 3) ** 2 for x in row) / 3 for row in table)
            z = (sum(row[k] for row, k in zip(table, chosen, strict=True)) - mean) / variance**0.5
            if only[2 * part + s]:
                reached.append(abs(z) if part == 0 else z)
        return max(reached)

    gaps = [abs(float((v[0, :, s] - v[1:, :, s].mean(dim=0)).mean())) > agreement.GAP for s in (0, 1)]
    away = [sum(abs(a(i, 0, s)) for i in range(3)) / 3 > agreement.GAP for s in (0, 1)]
    observed = largest((0, 0, 0), [*gaps, *away])
    every = [largest(chosen, [True] * 4) for chosen in product(range(3), repeat=3)]
    assert found.p == pytest.approx(sum(one >= observed - 1e-9 for one in every) / 27, abs=0.01)


def _split(v: Tensor, names: list[str]) -> tuple[dict[str, Tensor], list[dict[str, Tensor]]]:
    stated, *here = ({name: one[:, s] for s, name in enumerate(names)} for one in v)
    return stated, here


# ---- records ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def quick() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        few_draws(patch)
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("agreement")
    write_tasks(place)
    (place / "chaotic.py").write_text(CHAOTIC)
    return place


@pytest.fixture(autouse=True)
def with_mini(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task, "_folder", lambda: folder / "tasks")
    monkeypatch.setattr("proofmap.bench.submission.fresh_images", lambda session, record: [])


@pytest.fixture(scope="module")
def made(folder: Path) -> Mapping[str, Record]:
    """A record as it was made here; the same method as if made elsewhere, with other roundings; and gradients, as if made elsewhere."""
    before, task._folder = task._folder, lambda: folder / "tasks"
    mini, spec = Task.named("mini"), f"{folder / 'chaotic.py'}:chaotic"
    try:
        here = run_task(mini, spec, folder / "run", data=NO_DATA)
        gradient = run_task(mini, "gradient", folder / "run", data=NO_DATA)
        session = open_session(mini.study(spec, here.name, NO_DATA))
        other = computed_again(session, here, range(4), times=6)[-1]
    finally:
        task._folder = before
    values = {
        score: [
            None if old is None else round(new, 6)
            for old, new in zip(here.values[score], column.tolist(), strict=True)
        ]
        for score, column in other.items()
    }
    elsewhere = {**here.machine, **ELSEWHERE}
    return {
        "here": here,
        "elsewhere": replace(here, values=values, machine=elsewhere),
        "gradient": replace(gradient, machine=elsewhere),
    }


def raised(record: Record, by: float) -> Record:
    """Insertion areas, which have room to rise, with a digest that fits."""
    score = "insertion (gray)"
    return replace(record, values={**record.values, score: [(v or 0.0) + by for v in record.values[score]]})


def salt_of_a_whole_check(record: Record) -> str:
    """A salt by which the record is compared as a whole; another one may choose an image whose values agree."""
    for salt in "abcdefghijklmnop":
        if check_record(record, data=NO_DATA, allow_code=True, salt=salt).check["rule"] == WHOLE:
            return salt
    return ""


def test_a_method_that_amplifies_rounding_agrees_as_a_whole_on_another_device(
    made: Mapping[str, Record], tmp_path: Path
) -> None:
    salt = salt_of_a_whole_check(made["elsewhere"])
    path = submit(made["elsewhere"], tmp_path, data=NO_DATA, allow_code=True, salt=salt)
    check = Record.read(path).check
    assert check["rule"] == WHOLE and check["p"] >= agreement.LEVEL and check["largest_difference"] > 0.005
    assert check["recomputed"] == "4 of 4"  # a task with fewer images than NUMBER: all of them
    board = Leaderboard(tmp_path).board("mini")
    assert "chaotic~" in board.table() and "agrees as a whole" in board.table()
    page = write_page(Leaderboard(tmp_path), tmp_path / "page.html").read_text()
    assert ">as a whole</td>" in page and "refused below 0.01" in page


def test_it_is_refused_if_its_scores_were_raised_wherever_it_was_made(made: Mapping[str, Record]) -> None:
    with pytest.raises(
        InputError, match=r"insertion .gray.: over 4 images computed here 3 times, its mean is 0\.\d+ higher"
    ):
        check_record(raised(made["elsewhere"], 0.3), data=NO_DATA, allow_code=True)
    same = replace(made["elsewhere"], machine=made["here"].machine)
    assert salt_of_a_whole_check(same)  # batches differ too
    with pytest.raises(InputError, match="over 4 images computed here 3 times"):
        check_record(raised(same, 0.3), data=NO_DATA, allow_code=True)


def test_a_method_without_chance_must_agree_value_by_value_on_every_device(
    made: Mapping[str, Record],
) -> None:
    check = check_record(made["gradient"], data=NO_DATA).check
    assert check["rule"] == EACH and "p" not in check
    with pytest.raises(InputError, match=r"insertion .gray.: .* in the record and .* here"):
        check_record(raised(made["gradient"], 0.02), data=NO_DATA)


def test_one_map_for_all_labels_is_computed_again_as_any_other(made: Mapping[str, Record]) -> None:
    method = {**made["gradient"].method, "name": "top", "spec": "top-label:gradient"}
    record = replace(made["gradient"], method=method)
    session = open_session(Task.named("mini").study("top-label:gradient", "top", NO_DATA))
    first, second = computed_again(session, record, [1, 3], times=2)
    assert agreement.furthest(first, second) < 0.005 and len(first["insertion (gray)"]) == 2


def test_roundings_are_changed_where_the_net_runs_on_a_copy_of_the_weights(
    made: Mapping[str, Record], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU. There the weights that were changed were once replaced by the old ones, so that three computations were one."""

    def view_elsewhere(net: nn.Module, device: torch.device) -> nn.Module:
        view = view_of(net, device)
        for weight in view.parameters():
            weight.data = weight.data.clone()  # as Module.to does for another device
        return view

    monkeypatch.setattr("proofmap.classifier.classifier.view_of", view_elsewhere)
    session = open_session(Task.named("mini").study(f"{folder / 'chaotic.py'}:chaotic", "chaotic", NO_DATA))
    first, second, third = computed_again(session, made["here"], [0, 2])
    assert min(agreement.furthest(*two) for two in ((first, second), (first, third), (second, third))) > 0.005
