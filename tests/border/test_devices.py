"""GPUs other than CUDA's: which device is chosen, and that nothing asks it for float64."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import proofmap as pm
from proofmap.cli.options import check_device
from tests.small_device import small_device
from tests.toys import conv_net, drawn, normal, pixels

METHODS = (
    "gradient",
    "integrated-gradients:steps=50",
    "grad-cam",
    "lrp",
    "occlusion:window=3,stride=3",
    "kernel-shap:samples=20,regions=4",
    "belief-order:regions=4",
    "belief-mask:passes=3,grid=3",
    "learned-mask:steps=2,fill=noise,scale=2",
    "iba:steps=2",
)
METRICS = (
    *(
        "completeness",
        "soundness",
        "best-effort",
        "peak",
        "reach",
        "steadiness",
        "deletion",
        "li-completeness",
    ),
    *("randomisation:similarity=ssim", "sum-to-logit", "li-soundness"),
)


@pytest.mark.parametrize("there", ["cuda", "xpu", "mps"])
def test_a_gpu_is_chosen_if_torch_has_one(there: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, gpus in (("cuda", torch.cuda), ("xpu", torch.xpu), ("mps", torch.backends.mps)):
        monkeypatch.setattr(gpus, "is_available", lambda kind=kind: kind == there)
    assert check_device(None) == there


def test_the_processor_is_chosen_if_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    for gpus in (torch.cuda, torch.xpu, torch.backends.mps):
        monkeypatch.setattr(gpus, "is_available", lambda: False)
    assert check_device(None) == "cpu"
    with pytest.raises(pm.InputError, match="the device 'xpu' cannot be used here"):
        check_device("xpu")


def test_a_device_without_float64_gives_the_numbers_of_the_cpu() -> None:
    x, how = pixels(2, 6), {"labels": "top1+wrong", "truth": [0, 1]}
    methods, metrics = list(METHODS), list(METRICS)
    expected = pm.evaluate(
        pm.Classifier(conv_net(), size=6, batch_size=256), x, methods=methods, metrics=metrics, **how
    ).to_dict()
    with small_device() as device, pytest.raises(TypeError, match="no float64"):
        torch.zeros(2, device=device).double()
    with small_device() as device:
        net = pm.Classifier(conv_net(), size=6, batch_size=256, device=device)
        assert net.probabilities(x).device == device
        found = pm.evaluate(net, x, methods=methods, metrics=metrics, **how)
    assert found.to_dict() == pytest.approx(expected, rel=1e-3, abs=1e-3, nan_ok=True)


def test_rows_on_a_device_without_float64() -> None:
    x, module = normal(6, 4), drawn(nn.Linear(4, 3), 0)
    inputs = pm.Rows(columns=4, mean=(0.0,) * 4, std=(1.0,) * 4)
    ranges = {"data": x, "error": 1.0, "ranges": 2}
    with small_device() as device:
        net = pm.Classifier(module, inputs=inputs, device=device, batch_size=256)
        for fill in ("gray", "images"):
            found = pm.evaluate(net, x, methods="gradient-x-input", labels="all", fills=[fill])
            assert all(value == value for value in found.to_dict().values())
        numbers = pm.Classifier(nn.Linear(4, 1), inputs=inputs, device=device, batch_size=256, **ranges)
        assert numbers.probabilities(x).sum(dim=1).cpu().allclose(torch.ones(6))
