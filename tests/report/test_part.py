"""Some images of an evaluation alone: the same as judging them alone."""

from __future__ import annotations

import pytest
import torch

import proofmap as pm
from tests.toys import linear_classifier, pixels

NAMES = ["a", "b", "c"]


def judged(*places: int) -> pm.Evaluation:
    f = linear_classifier((5, 6), 4, strength=0.2)
    images = pixels(3, (5, 6))[list(places)]
    return pm.evaluate(
        f, images, methods=["gradient", "random"], labels="top2", names=[NAMES[k] for k in places]
    )


def test_some_images_alone_are_what_judging_them_alone_gives() -> None:
    part, alone = judged(0, 1, 2).select_images([2, 0]), judged(2, 0)
    assert part.table() == alone.table() and part.image_names == alone.image_names == ("c", "a")
    assert part.pictured == alone.pictured
    for mine, other in zip(part.results, alone.results, strict=True):
        assert str(mine.rows) == str(other.rows)  # NaN is not equal to itself
        assert mine.scores == other.scores
        for name in ("labels", "f", "probabilities", "auc", "error", "matrix"):
            torch.testing.assert_close(getattr(mine.insertion, name), getattr(other.insertion, name))
        torch.testing.assert_close(mine.maps, other.maps)
    for name in ("images", "labels", "f"):
        torch.testing.assert_close(getattr(part, name), getattr(alone, name))


@pytest.mark.parametrize("places", [[], [3], [-1]])
def test_images_that_are_not_there_are_refused(places: list[int]) -> None:
    with pytest.raises(pm.InputError, match="0 to 2"):
        judged(0, 1, 2).select_images(places)
