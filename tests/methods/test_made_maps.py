"""``top-label:METHOD``, and every other wrapper, takes the maps that METHOD is judged by: no pass is spent twice, and the bits do not change."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import proofmap as pm
from proofmap.methods import make_method
from proofmap.methods.controls import Wrapper
from proofmap.session import Session
from proofmap.study import run_study
from proofmap.study.run import preview
from tests.study.studies import facts, toy_study
from tests.toys import conv_classifier, counted_classifier, pixels

SIZE, N, L = 8, 3, 3
MASK = "learned-mask:steps=5,fill=gray"
TOP = f"top-label:{MASK}"


def passes(*methods: str, labels: object = "top3") -> int:
    f, tally = counted_classifier(size=SIZE)
    pm.evaluate(f, pixels(N, SIZE), methods=methods, labels=labels)  # type: ignore[arg-type]
    return tally.images


@pytest.mark.parametrize("methods", [(MASK, TOP), (TOP, MASK), (MASK, "random", TOP)])
def test_no_map_is_learned_twice(methods: tuple[str, ...]) -> None:
    alone = passes(*(method for method in methods if method != TOP))
    nothing, game = passes("random"), passes("random", "random:seed_offset=1")
    assert passes(*methods) == alone + (game - nothing) + N  # its game, and the top labels


def test_the_maps_are_those_of_the_method_and_close_to_those_made_alone() -> None:
    f = conv_classifier(SIZE)
    found = pm.evaluate(f, pixels(N, SIZE), methods=[MASK, TOP], labels="top3", keep_maps=None)
    mask, top = found.results
    assert torch.equal(mask.maps[:, :1], top.maps)  # top3 begins with the top label
    alone = pm.evaluate(f, pixels(N, SIZE), methods=[TOP], labels="top3", keep_maps=None)
    torch.testing.assert_close(alone.results[0].maps, top.maps)


def test_a_top_label_that_is_not_judged_is_made_for_itself() -> None:
    f, images = conv_classifier(SIZE), pixels(N, SIZE)
    top = f.top(images, 1)
    labels = torch.cat([(top + 1) % 4, (top + 2) % 4], dim=1)
    labels[0, 1] = top[0, 0]  # one of three has it
    mask, wrapped = (make_method(spec) for spec in (MASK, TOP))
    session = Session(f, shared=frozenset({mask}))
    torch.testing.assert_close(session.maps(wrapped, images, labels), wrapped(f, images, labels))


@pytest.mark.parametrize("wrapper", ["inverse", "blurred"])
def test_other_wrappers_take_maps_too(wrapper: str) -> None:
    f, tally = counted_classifier(size=SIZE)
    images, labels = pixels(N, SIZE), torch.tensor([[0, 1, 2]]).expand(N, -1)
    mask, wrapped = (make_method(spec) for spec in (MASK, f"{wrapper}:{MASK}"))
    session = Session(f, shared=frozenset({mask}))
    session.shared_maps(mask, images, labels)
    tally.reset()
    taken = session.maps(wrapped, images, labels)
    assert tally.images == 0 and isinstance(wrapped, Wrapper) and wrapped.own_cost.passes == 0
    torch.testing.assert_close(taken, wrapped(f, images, labels))


def test_a_study_learns_each_map_once_and_a_stopped_one_ends_with_the_same_bits(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 4, methods=[TOP, "gradient", MASK])
    plan = preview(study, tmp_path / "none", threads=1)
    cost = {method.name: method.cost for method in plan.methods}
    assert cost[TOP] is not None and cost[TOP].gradient == 0

    seen: list[str] = []

    class Stop(BaseException):
        pass

    class Watcher:
        def __call__(self, status: object) -> None:
            seen.append(str(status))
            if stop and len(seen) > 4:
                raise Stop

    stop = True
    with pytest.raises(Stop):
        run_study(study, tmp_path / "stopped", threads=1, watchers=[Watcher()])
    stop = False
    outcome = run_study(study, tmp_path / "stopped", threads=1)
    assert 0 < outcome.units < outcome.plan.units, "it was stopped on the way"
    run_study(study, tmp_path / "whole", threads=1)
    stopped, whole = facts(tmp_path / "stopped"), facts(tmp_path / "whole")
    for table in ("per_image", "per_label", "curves", "maps"):
        assert stopped[table] == whole[table]


def units_of(tmp_path: Path, methods: list[str]) -> list[tuple[str, bool]]:
    """The units of a study in the order in which they are handed out, and whether each stays with the one before it."""
    from proofmap.study.executor import LocalExecutor
    from proofmap.study.planning import Unit

    handed: list[Unit] = []

    class Noting(LocalExecutor):
        def run(self, make_worker, units):  # type: ignore[no-untyped-def]
            def noted():  # type: ignore[no-untyped-def]
                for unit in units:
                    handed.append(unit)
                    yield unit

            return super().run(make_worker, noted())

    run_study(toy_study(tmp_path, 4, methods=methods), tmp_path / "run", executor=Noting(), threads=1)
    return [(unit.method, unit.together) for unit in handed]


def test_the_unit_that_takes_maps_follows_the_one_that_makes_them(tmp_path: Path) -> None:
    found = units_of(tmp_path, [TOP, "random", MASK])
    assert found == 2 * [("random", False), (MASK, False), (TOP, True)]


def test_wrappers_around_one_method_stay_together(tmp_path: Path) -> None:
    first, last = f"inverse:{TOP}", f"blurred:{MASK}"
    found = units_of(tmp_path, [first, MASK, TOP, last])
    assert found == 2 * [(MASK, False), (first, True), (TOP, True), (last, True)]


def test_on_a_cluster_it_goes_to_the_same_worker() -> None:
    from proofmap.study.executor import _groups
    from proofmap.study.planning import Unit

    units = [Unit(name, 0, (), (), together=name == TOP) for name in (MASK, TOP, "random")]
    assert [[unit.method for unit in group] for group in _groups(units)] == [[MASK, TOP], ["random"]]
