"""What all perturbation methods do alike: any number of channels, half precision, other labels, fills and quantities."""

from __future__ import annotations

import pytest
import torch

from proofmap.classifier import Classifier
from proofmap.methods import METHODS, make_method
from proofmap.methods.perturbation.regions import PerturbationMethod
from tests.toys import Counted, conv_net, pixels

SMALL = {
    "occlusion": "occlusion:window=3",
    "rise": "rise:masks=20,grid=3",
    "shapley": "shapley:orders=2,regions=6",
    "kernel-shap": "kernel-shap:samples=20,regions=6",
    "greedy-insertion": "greedy-insertion:regions=4",
    "belief-order": "belief-order:regions=4",
}
SPECS = pytest.mark.parametrize("spec", SMALL.values(), ids=SMALL)
OF_VALUES = pytest.mark.parametrize("spec", [spec for name, spec in SMALL.items() if name != "belief-order"])
"""Without belief orders, which compare probabilities with f alone: there is no other quantity, and those below 1e-7 are equal."""
LABELS = torch.tensor([[0, 2], [1, 0]])


def test_these_are_all() -> None:
    ours = {name for name in METHODS if issubclass(METHODS[name], PerturbationMethod)}
    assert set(SMALL) == ours - {"shap"}  # which has a file of its own


@SPECS
def test_labels_may_be_independent_and_few(spec: str) -> None:
    f = Classifier(conv_net(), size=6, outputs="sigmoid", batch_size=64)
    maps = make_method(spec)(f, pixels(1, 6), LABELS[:1])
    few = Classifier(conv_net(), size=6, batch_size=64).restricted([0, 2])
    assert maps.shape == make_method(spec)(few, pixels(1, 6), LABELS[:1]).shape


@OF_VALUES
@pytest.mark.parametrize("quantity", ["probability", "log-probability", "logit"])
def test_a_place_without_a_label_is_zero_where_the_first_label_does_not_count(
    spec: str, quantity: str
) -> None:
    f = Classifier(conv_net(), size=6, batch_size=64, label_set=[1, 2, 3])
    method = make_method(f"{spec},quantity={quantity}")
    maps = method(f, pixels(2, 6), torch.tensor([[2, 3], [1, -1]]))
    assert bool((maps[1, 1] == 0).all()) and bool((maps[1, 0] != 0).any())


@OF_VALUES
def test_maps_of_a_label_that_the_net_finds_nearly_impossible_keep_their_order(spec: str) -> None:
    def unlikely(x: torch.Tensor) -> torch.Tensor:
        """f of the first label is 10^-16 times that of the third; both depend on the input alike."""
        seen = (x[:, :, :3, :3].mean(dim=(1, 2, 3)) + 0.3 * x[:, :, 3:, 3:].mean(dim=(1, 2, 3)))[:, None]
        return seen + torch.tensor([-36.84, 0.0, 0.0]) - torch.tensor([0.0, 2.0, 0.0]) * seen

    f, images = Classifier(unlikely, size=6, batch_size=64), 0.5 + pixels(1, 6) / 2
    rare, likely = make_method(f"{spec},quantity=probability")(f, images, LABELS[:1])[0].flatten(1)
    both = torch.stack([rare / rare.abs().max(), likely / likely.abs().max()])
    assert torch.corrcoef(both)[0, 1] > 0.9


class Small(Counted):
    """A net that runs out of memory with more than eight images."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) > 8:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return super().forward(x)


@pytest.mark.parametrize("spec", [SMALL["rise"], SMALL["greedy-insertion"]])
def test_running_out_of_memory_halves_the_batch_and_changes_nothing(spec: str) -> None:
    small, large = (Classifier(kind(conv_net()), size=6, batch_size=16) for kind in (Small, Counted))
    with pytest.warns(UserWarning, match="out of memory"):
        maps = make_method(spec)(small, pixels(2, 6), LABELS)
    torch.testing.assert_close(maps, make_method(spec)(large, pixels(2, 6), LABELS))
