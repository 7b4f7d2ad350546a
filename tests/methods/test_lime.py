"""LIME against scikit-learn's ridge regression on the same samples, and against Captum's on the same net."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
import torch

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.methods import LIME, make_method
from proofmap.methods.perturbation.passes import region_means
from proofmap.methods.perturbation.regions import cut
from proofmap.testing.nets import PICTURES, classifier_of, values
from tests.toys import counted_classifier, linear_classifier, pixels

LABELS = torch.tensor([[0, 2, 1], [1, 3, 0]])


def test_it_is_a_weighted_ridge_regression_on_the_same_samples() -> None:
    f, images, n = classifier_of(PICTURES), values(PICTURES, 2), 60
    linear_model = pytest.importorskip("sklearn.linear_model")
    maps = LIME(samples=n, regions=6)(f, images, LABELS, seed=3)
    regions = cut(images, PICTURES, 6, "slic", 10.0)
    hidden = region_means(images, regions.index, PICTURES)
    for i in range(2):
        key = streams.image_keys(images[i : i + 1], 3, "lime")
        design, said = [], []
        for k in range(n):
            bits = streams.uniform(streams.step_keys(key, torch.tensor([k]), 1)[0, 0], regions.count) < 0.5
            bits = bits | (k == 0)
            keep = bits[regions.index[i]]
            design.append(bits.numpy().astype(float))
            said.append(f.probabilities(torch.where(keep, images[i], hidden[i])[None])[0].numpy())
        z = np.array(design)
        cosine = z.sum(1) / np.maximum(np.sqrt(z.sum(1) * z.shape[1]), 1e-12)
        weights = np.sqrt(np.exp(-((1 - cosine) ** 2) / 0.25**2))
        fitted = linear_model.Ridge(alpha=1.0).fit(z, np.array(said), sample_weight=weights)
        expected = fitted.coef_[LABELS[i].numpy()][:, regions.index[i].numpy()]
        np.testing.assert_allclose(maps[i].numpy(), expected, rtol=1e-3, atol=1e-6)


def test_it_agrees_with_captums_where_regions_do_not_interact(captum: ModuleType) -> None:
    """Captum draws other samples, and weighs them by other distances; a linear net has one answer."""
    f, images, label = linear_classifier(6, strength=0.1), pixels(1, 6), 2
    maps = make_method("lime:samples=300,regions=9,superpixels=grid,fill=gray,quantity=logit,ridge=1e-4")(
        f, images, torch.tensor([[label]])
    )
    regions = cut(images, f.inputs, 9, "grid", 10.0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        kernel = captum._core.lime.get_exp_kernel_similarity_function("euclidean", kernel_width=1000)
        expected = captum.Lime(lambda x: f(x), similarity_func=kernel).attribute(
            images,
            target=label,
            baselines=f.gray.view(1, 3, 1, 1).expand_as(images),
            feature_mask=regions.index[:, None],
            n_samples=150,
        )[0, 0]
    assert np.corrcoef(maps.flatten(), expected.flatten())[0, 1] > 0.999


def test_labels_share_the_samples() -> None:
    f, tally = counted_classifier(size=8)
    f.frozen()  # which looks at the net
    tally.reset()
    LIME(samples=20, regions=4)(f, pixels(1, 8), torch.tensor([[0, 1, 2, 3]]))
    assert tally.images == 20 == LIME(samples=20).cost(4).forward


def test_a_net_that_ignores_the_input_gets_zeros() -> None:
    f = Classifier(lambda x: torch.zeros(len(x), 3), size=8)
    assert LIME(samples=20, regions=4)(f, pixels(1, 8), torch.tensor([[1]])).abs().max() < 1e-6
