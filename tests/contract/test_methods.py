"""Every registered method, metric, fill, game and kind of input, in the variants that differ, keeps the contract of its kind."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.maskers.train import train_masker
from proofmap.core.inputs import KINDS, Inputs, Pictures, Rows, Series, Text, Volumes
from proofmap.core.progress import Progress, ProgressTask
from proofmap.fills import FILLS, Fill, Images, make_fill
from proofmap.fills.infill import Infill
from proofmap.fills.rows import ClassMedian, NearRows
from proofmap.methods import METHODS, Method, make_method
from proofmap.metrics import GAMES, METRICS, make_game, make_metric
from proofmap.testing import check_fill, check_game, check_inputs, check_method, check_metric, inputs
from tests.core.test_columns import customers, one_hot
from tests.toys import PICTURES, ROWS, SERIES, TEXT, classifier_of, toy_tokens, values

MASKERS = "MASKERS"
"""Stands for the folder of maskers that were trained on the contract's net."""
LEARNED = "learned-mask:steps=3,scale=2,fill=noise"
SECOND = [
    "learned-mask:steps=3,scale=2",
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
    "belief-mask:passes=4,grid=4,fills=gray+noise",
    "occlusion:window=4,stride=3,fill=noise,quantity=logit",
    "rise:masks=12,grid=3,fill=none",
    "shapley:orders=2,regions=4,fill=noise,superpixels=grid",
    "kernel-shap:samples=10,regions=4,superpixels=grid",
    "greedy-insertion:regions=4,candidates=2,fill=noise,superpixels=grid",
    "belief-order:regions=6,budget=64,draws=2,patience=1,fill=noise,superpixels=grid",
    "first-words",
    "diffmask:steps=2,grid=4,dual_start=5,fill=noise",
    "fido:steps=2,grid=4,region=sdr,l1=0.1,fill=noise",
    "extremal-perturbation:steps=2,areas=0.1:0.3,step=60,sigma=60",
    "fong-vedaldi:steps=2,grid=8,mask_blur=1,l1=0",
    "iba:steps=2,samples=2,fill=noise,pool=8",
    "rate-distortion:steps=2,grid=4,samples=2",
    "igos++:iterations=2,integration=1,grid=8,l1=0,tv=0.1,momentum=true",
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


# ---- fills ---------------------------------------------------------------------------------------------------


FILL_VARIANTS: list[str | Fill] = [
    "gray",
    "gray:color=0:0.5:1",
    "gray:color=0.2:0.3",
    "blur",
    "blur:sigma=1,kernel=3",
    "blur:sigma=50,kernel=51,border=edge",
    "median",
    "median:kernel=3",
    "noise",
    "noise:sigma=0.5",
    "road",
    "time-reversal",
    "time-shift",
    "mask",
    "unknown",
    "delete",
    "closed",
    "zero",
    "mean-embedding",
    Infill(net=lambda images, holes: images * (1 - holes) + images.mean(dim=(2, 3), keepdim=True) * holes),
    Images(source=values(PICTURES, 5, seed=1), crop="none"),
    Images(source=values(PICTURES, 5, seed=1), size=8),
    Images(source=values(SERIES, 5, seed=1)),
    Images(source=values(TEXT, 5, seed=1)),
    NearRows(source=values(ROWS, 9, seed=1)),
    ClassMedian(source=values(ROWS, 9, seed=1)),
]


@pytest.fixture
def tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "TRIED", [*inputs.TRIED, toy_tokens(5)])


@pytest.mark.usefixtures("tokens")
@pytest.mark.parametrize(
    "spec", FILL_VARIANTS, ids=lambda spec: spec if isinstance(spec, str) else spec.title()
)
def test_fill(spec: str | Fill) -> None:
    check_fill(make_fill(spec))


def test_every_fill_of_ours_is_among_them() -> None:
    ours = {name for name in FILLS if FILLS[name].__module__.startswith("proofmap.")}
    assert {make_fill(spec).name for spec in FILL_VARIANTS} == ours


# ---- games ---------------------------------------------------------------------------------------------------


GAME_VARIANTS = [
    "insertion",
    "insertion:points=all,ties=center",
    "insertion:fill=noise,points=5,draws=3,ties=random",
    "insertion:curve=road",
    "kept:points=6",
    "deletion",
    "insertion:target=log-probability,points=6",
    "lerf",
    "soft-insertion",
    "blurred-insertion:blur=1",
    "soft-insertion:share=0.3,ties=random",
    *(
        pytest.param(spec, marks=pytest.mark.slow)
        for spec in (
            "insertion:curve=rise",
            "deletion:curve=released",
            "deletion:within=0.2:0.6,fill=gray(color=0:0.5:1)",
            "soft-insertion:fill=noise,draws=2",
        )
    ),
]


@pytest.mark.parametrize("spec", GAME_VARIANTS)
def test_game(spec: str) -> None:
    check_game(make_game(spec))


def test_every_game_of_ours_is_among_them() -> None:
    ours = {name for name in GAMES if GAMES[name].__module__.startswith("proofmap.")}
    assert {make_game(spec).name for spec in GAME_VARIANTS if isinstance(spec, str)} == ours


# ---- inputs --------------------------------------------------------------------------------------------------


INPUTS: dict[str, Inputs] = {
    "pictures": Pictures(size=(4, 5), mean=(0.5, 0.4, 0.3), std=(0.25, 0.2, 0.3)),
    "gray pictures": Pictures(size=(4, 5), mean=(0.5,), std=(0.25,)),
    "volumes": Volumes(size=(3, 4, 5), mean=(0.5,), std=(2.0,)),
    "series": Series(length=12, mean=(1.0, -2.0), std=(3.0, 0.5)),
    "series with segments": Series(
        length=10, mean=(1.0, -2.0), std=(3.0, 0.5), names=("left", "right"), rate=100.0, segments=4
    ),
    "rows": Rows(columns=3, mean=(0.0, 1.0, 2.0), std=(1.0, 2.0, 3.0), names=("a", "b", "c")),
    "a table": Rows.of(customers()),
    "a table with groups": Rows.of(one_hot(), groups={"city": ["city_Ulm", "city_Bonn", "city_Köln"]}),
    "text": Text(length=4, width=8),
    "tokens": toy_tokens(4),
}


@pytest.mark.parametrize("inputs", INPUTS.values(), ids=INPUTS)
def test_inputs(inputs: Inputs) -> None:
    check_inputs(inputs)


def test_every_kind_of_ours_is_among_them() -> None:
    ours = {name for name in KINDS if KINDS[name].__module__.startswith("proofmap.")}
    assert {inputs.kind for inputs in INPUTS.values()} == ours


# ---- metrics -------------------------------------------------------------------------------------------------


SECOND_OF_METRICS = [
    "completeness:thresholds=released,curve=restricted",
    "soundness:fill=noise,points=4,draws=2",
    "best-effort:e1=0.2,curve=rise,points=8",
    "insertion:points=all,ties=random",
    "deletion:curve=released",
    "insertion:target=margin,points=4",
    "two-objects:by=energy",
    "adversarial-soundness:passes=20,points=4,search=mask",
    "proof-size:fill=noise,points=4,draws=3",
    "completeness:top=2,points=8",
    "peak:q=0.9,points=8",
    "steadiness:factor=2,s0=0.3,points=4",
    "soundness:top=1,points=8",
    "sum-to-logit:quantity=probability",
    "randomisation:layers=last,similarity=ssim",
    "roughness:share=0.5",
]
"""Other settings of metrics that are below. ``make test-all`` runs these, too; the numbers of each have oracles of their own."""
METRIC_VARIANTS = [
    "completeness",
    "soundness:points=8",
    "best-effort:points=8",
    "insertion:points=8",
    "deletion:points=8",
    "completeness:base=lerf,target=decision,points=4",
    "morf:points=4",
    "lerf:points=4,fill=blur",
    "srg:points=4,target=logit",
    "average-drop:share=0.3,fill=noise,draws=2",
    "increase-in-confidence",
    "saliency-metric:delta=0.6,reading=value,piece=largest",
    "saliency-area",
    "saliency-confidence:empty=gray,delta=5",
    "pointing-game:tolerance=0",
    "energy-inside",
    "box-iou:hit=0.3,delta=1,reading=mean",
    "two-objects",
    "sufficient-region:points=4",
    "adversarial-soundness:passes=24,points=4,search=greedy",
    "proof-size",
    "class-sensitivity:points=8",
    "peak:points=4",
    "peak-soundness:points=4",
    "reach:points=4",
    "steadiness:points=4",
    "second-soundness:points=8",
    "li-completeness:levels=4",
    "li-soundness:points=6",
    "merlin-arthur-completeness",
    "merlin-arthur-soundness:share=0.5",
    "captum-infidelity:samples=3",
    "captum-sensitivity:samples=2",
    "sum-to-logit",
    "inter-method",
    "inter-rater",
    "internal-consistency",
    "randomisation:similarity=abs-rank,samples=2",
    "ranking-agreement",
    "roughness",
    "blur-survival:points=4",
    "outline:points=4,most=10",
    *(pytest.param(spec, marks=pytest.mark.slow) for spec in SECOND_OF_METRICS),
]


@pytest.mark.parametrize("spec", METRIC_VARIANTS)
def test_metric(spec: str) -> None:
    check_metric(make_metric(spec))


def test_every_metric_of_ours_is_among_them() -> None:
    ours = {name for name in METRICS if METRICS[name].__module__.startswith("proofmap.")}
    assert {make_metric(spec).name for spec in METRIC_VARIANTS if isinstance(spec, str)} == ours
