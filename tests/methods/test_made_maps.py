"""Controls and wrappers, and maps that wrappers take from the method that they wrap: no pass is spent twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.methods import make_method
from proofmap.methods.controls import Blurred, CenteredGaussian, Edges, Inverse, Random, TopLabel, Wrapper
from proofmap.methods.gradients.plain import GradientInput
from proofmap.session import Session
from proofmap.study import run_study
from proofmap.study.run import preview
from tests.study.studies import facts, toy_study
from tests.toys import (
    ROWS,
    SERIES,
    classifier_of,
    conv_classifier,
    counted_classifier,
    linear_classifier,
    pixels,
    values,
)

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


# ---- controls and wrappers -----------------------------------------------------------------------------------


SIDE = 8
LABELS = torch.tensor([[0, 2, 1], [1, 3, 0], [3, 2, 1]])


@pytest.fixture(scope="module")
def images() -> Tensor:
    return pixels(3, SIDE)


# ---- random ------------------------------------------------------------------------------------------------


def test_random_maps_are_standard_normal() -> None:
    maps = Random()(linear_classifier(64, 2), pixels(2, 64), torch.tensor([[0], [0]]))
    for map_ in maps[:, 0]:
        assert scipy.stats.kstest(map_.flatten().numpy(), "norm").pvalue > 0.01
    assert abs(np.corrcoef(maps.flatten(1).numpy())[0, 1]) < 0.05


# ---- centred Gaussian --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(8, 8), (7, 9), (32, 32), (12, 5), (224, 224)])
@pytest.mark.parametrize("sigma", [0.1, 0.25, 2.0])
def test_the_order_of_the_bump_is_the_distance_to_the_centre(size: tuple[int, int], sigma: float) -> None:
    f = linear_classifier(size, 2)
    map_ = CenteredGaussian(sigma=sigma)(f, pixels(1, size), torch.tensor([[0]]))[0, 0].double().numpy()
    rows, columns = np.indices(size)
    distance = (rows - (size[0] - 1) / 2) ** 2 + (columns - (size[1] - 1) / 2) ** 2
    _, ranks_of_distance = np.unique(distance, return_inverse=True)
    _, ranks_of_map = np.unique(-map_, return_inverse=True)
    assert np.array_equal(ranks_of_distance.ravel(), ranks_of_map.ravel())


# ---- edges -------------------------------------------------------------------------------------------------


def test_edges_are_scipys_sobel_over_all_channels() -> None:
    f, images = conv_classifier((9, 12)), pixels(2, (9, 12))
    maps = Edges()(f, images, LABELS[:2])
    for i in range(2):
        total = np.zeros((9, 12))
        for c in range(3):
            x = images[i, c].double().numpy() / f.std[c]
            total += sum((scipy.ndimage.sobel(x, axis, mode="nearest") / 8) ** 2 for axis in (0, 1))
        np.testing.assert_allclose(maps[i, 0].numpy(), np.sqrt(total), rtol=1e-3, atol=1e-4)


def test_edges_of_a_series_are_its_steps_and_rows_have_none() -> None:
    f, x = classifier_of(SERIES), values(SERIES, 1)
    maps = Edges()(f, x, torch.tensor([[0]]))[0, 0]
    scaled = x[0] / torch.tensor(SERIES.std)[:, None]
    step = (scaled[:, 2:] - scaled[:, :-2]).square().sum(dim=0).sqrt() / 2
    torch.testing.assert_close(maps[1:-1], step)
    with pytest.raises(InputError, match="edges has no meaning for rows: their columns have no neighbours"):
        Edges()(classifier_of(ROWS), values(ROWS, 1), torch.tensor([[0]]))


# ---- blurred and inverse -----------------------------------------------------------------------------------


def test_blurred_is_scipys_gaussian_filter_with_a_border_that_weighs_nothing(images: Tensor) -> None:
    f = conv_classifier(SIDE)
    maps = Blurred(of="gradient-x-input", sigma=0.2)(f, images, LABELS)
    plain = GradientInput()(f, images, LABELS).double().numpy()
    ones = scipy.ndimage.gaussian_filter(np.ones((SIDE, SIDE)), 0.2 * SIDE, mode="constant")
    for i in range(3):
        for j in range(3):
            expected = scipy.ndimage.gaussian_filter(plain[i, j], 0.2 * SIDE, mode="constant") / ones
            np.testing.assert_allclose(maps[i, j].numpy(), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("spec", ["gradient", "gradient-x-input", "grad-cam"])
def test_inverse_turns_the_order_round(spec: str, images: Tensor) -> None:
    f = conv_classifier(SIDE)
    plain, turned = (make_method(s)(f, images, LABELS) for s in (spec, f"inverse:{spec}"))
    total = plain + turned  # zero, or the largest value of each map
    torch.testing.assert_close(total, total[..., :1, :1].expand_as(total))
    assert plain.flatten(2).argmax(dim=2).equal(turned.flatten(2).argmin(dim=2))
    if not make_method(spec).signed:
        assert turned.min() >= 0


def test_wrappers_are_what_they_wrap() -> None:
    for kind in (Blurred, Inverse):
        for spec in ("gradient", "gradient-x-input", "random", "random:per_label=true"):
            inner, outer = make_method(spec), kind(of=spec)
            for fact in ("label_free", "stochastic", "signed"):
                assert getattr(outer, fact) == getattr(inner, fact), (spec, fact)
            assert outer.cost(5) == inner.cost(5)
    assert make_method("blurred:of=grad-cam,sigma=0.1") == Blurred(of="grad-cam", sigma=0.1)
    assert make_method("inverse:top-label:gradient").title() == "inverse:top-label:gradient"


# ---- the top label's map -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec",
    ["gradient", "gradient-x-input", "grad-cam", "random:per_label=true", "learned-mask:steps=3,fill=gray"],
)
def test_cheating_shows_the_top_labels_map_for_every_label(spec: str, images: Tensor) -> None:
    f = conv_classifier(SIDE, 4, batch_size=16)
    top = f.probabilities(images).argmax(dim=1, keepdim=True)
    expected = make_method(spec)(f, images, top)
    maps = make_method(f"top-label:{spec}")(f, images, LABELS)
    torch.testing.assert_close(maps, expected.expand(-1, 3, -1, -1))


def test_the_top_label_is_that_of_the_label_set(images: Tensor) -> None:
    f = conv_classifier(SIDE, 4)
    top = int(f.probabilities(images[:1]).argmax())
    rest = [a for a in range(4) if a != top]
    second = f.probabilities(images[:1])[0, rest].argmax()
    maps = TopLabel(of=GradientInput())(f.restricted(rest), images[:1], torch.tensor([[rest[0]]]))
    torch.testing.assert_close(maps, GradientInput()(f, images[:1], torch.tensor([[rest[int(second)]]])))
