"""Every registered method, in the variants that differ, keeps the contract of methods."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.maskers.train import train_masker
from proofmap.core.progress import Progress, ProgressTask
from proofmap.methods import METHODS, Method, make_method
from proofmap.testing import check_method
from tests.toys import PICTURES, classifier_of, values

MASKERS = "MASKERS"
"""Stands for the folder of maskers that were trained on the contract's net."""
LEARNED = "learned-mask:steps=3,scale=2,fill=noise"
SECOND = [
    "smooth-grad:preset=captum,samples=2",
    "lrp:preset=epsilon-plus",
    "contrastive-lrp:dual=negated",
    "deep-lift:baseline=noise",
    "score-cam:preset=released",
    "attention-lrp:attention=constant",
    "top-label:random:per_label=true",
    f"{LEARNED},masks=2,objective=nll",
    "belief-mask:passes=20,grid=4",
    "belief-mask:passes=2,grid=4,fills=blur,target=strongest",
    "iba:steps=2,samples=2",
    "fong-vedaldi:preset=pytorch,steps=2,grid=4",
    f"real-time-saliency:preset=released,weights={MASKERS}/dabkowski.safetensors",
    f"phang-masker:variant=fix,weights={MASKERS}/phang-fix.safetensors",
    "top-label:" + LEARNED,
]
"""Other settings of methods that are below. ``make test-all`` runs these, too; the numbers of each have oracles of their own."""
VARIANTS = [
    "random",
    "random:per_label=true",
    "centered-gaussian",
    "edges",
    "gradient",
    "gradient-x-input",
    "smooth-grad:samples=2",
    "integrated-gradients:steps=24",
    "guided-backprop",
    "rect-grad",
    "lrp",
    "contrastive-lrp",
    "deep-lift",
    "grad-cam",
    "grad-cam++",
    "layer-cam",
    "score-cam",
    "attention-rollout",
    "attention-lrp",
    "chefer",
    "top-label:gradient-x-input",
    "blurred:gradient",
    "inverse:gradient-x-input",
    LEARNED,
    "learned-mask:steps=3,scale=2",
    "belief-mask:passes=4,grid=4,fills=gray+noise",
    "occlusion:window=4,stride=3,fill=noise,quantity=logit",
    "rise:masks=12,grid=3,fill=none",
    "shapley:orders=2,regions=4,fill=noise,superpixels=grid",
    "kernel-shap:samples=10,regions=4,superpixels=grid",
    "greedy-insertion:regions=4,candidates=2,fill=noise,superpixels=grid",
    "belief-order:regions=6,budget=64,draws=2,patience=1,fill=noise,superpixels=grid",
    "first-words",
    "diffmask:steps=2,grid=4,dual_start=5,fill=noise",
    "extremal-perturbation:steps=2,areas=0.1:0.3,step=60,sigma=60",
    "fong-vedaldi:steps=2,grid=8,mask_blur=1,l1=0",
    "iba:steps=2,samples=2,fill=noise,pool=8",
    "rate-distortion:steps=2,grid=4",
    "igos++:iterations=2,integration=2,grid=8,l1=0,tv=0.1,momentum=true",
    f"real-time-saliency:weights={MASKERS}/dabkowski.safetensors",
    f"phang-masker:weights={MASKERS}/phang-ca.safetensors",
    *(pytest.param(spec, marks=pytest.mark.slow) for spec in SECOND),
]
ADAPTED = {
    "captum:NoiseTunnel(attribution_method=InputXGradient,nt_samples=2)": "captum",
    "pytorch-grad-cam:GradCAM": "pytorch_grad_cam",
    "shap:KernelExplainer(nsamples=6),regions=4,superpixels=grid": "shap",
    "lime-tabular:samples=12,discretizer=none,rows=images(source=samples,size=16)": "lime",
}
"""Methods of other libraries, and the fixture that imports each library."""


@pytest.fixture(scope="session")
def maskers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One masker of each kind, after two steps."""
    folder = tmp_path_factory.mktemp("maskers")
    f, x = classifier_of(PICTURES), values(PICTURES, 6)
    truth = torch.arange(len(x)) % len(f.names)  # every label occurs
    for kind in ("dabkowski", "phang-fix", "phang-ca"):
        train_masker(kind, f, x, truth, out=folder / f"{kind}.safetensors", steps=2, batch=4, width=4)
    return folder


class Counted(Progress):
    """Counts the passes that a method announces and those that it reports as done."""

    def __init__(self) -> None:
        self.announced, self.done = 0, list[int]()

    def task(self, what: str, passes: int) -> ProgressTask:
        self.announced += passes
        return ProgressTask(self.done.append)


def keeps_the_contract(method: Method) -> None:
    check_method(method)
    f, progress = classifier_of(PICTURES, batch_size=2, attention="attention" in method.needs), Counted()
    method(f, values(PICTURES, 2), torch.tensor([[0], [1]]), progress=progress)
    assert sum(progress.done) == progress.announced


@pytest.mark.parametrize("spec", VARIANTS)
def test_method(spec: str, request: pytest.FixtureRequest) -> None:
    if MASKERS in spec:
        spec = spec.replace(MASKERS, str(request.getfixturevalue("maskers")))
    keeps_the_contract(make_method(spec))


@pytest.mark.parametrize("spec", ADAPTED)
def test_method_of_another_library(spec: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(ADAPTED[spec])
    keeps_the_contract(make_method(spec))


def test_every_registered_method_is_among_them() -> None:
    assert {spec.partition(":")[0] for spec in (*VARIANTS, *ADAPTED) if isinstance(spec, str)} == set(METHODS)
