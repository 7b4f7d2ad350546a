"""EfficientNet-Lite as published: padding, widths, depths, weights, probabilities."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from proofmap.core.errors import MissingExtra, ModelError
from proofmap.data.photos import load_images
from proofmap.models import efficientnet_lite, load_classifier
from proofmap.models.efficientnet_lite import (
    VARIANTS,
    EfficientNetLite,
    LiteVariant,
    _read,
    renamed_key,
)


def lively(net: nn.Module) -> nn.Module:
    """The net with batch-norm statistics that do something, in evaluation mode."""
    generator = torch.Generator().manual_seed(0)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1, generator=generator)
            module.running_var.uniform_(0.5, 1.5, generator=generator)
    return net.eval()


@pytest.mark.parametrize("number, parameters", [(0, 4_652_008), (1, 5_416_680), (2, 6_092_072)])
def test_the_sizes_are_the_published_ones(number: int, parameters: int) -> None:
    with torch.device("meta"):
        net = EfficientNetLite(VARIANTS[number])
    assert sum(weight.numel() for weight in net.parameters()) == parameters


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("number, side", [(0, 64), (1, 97), (2, 66)])
def test_the_net_agrees_with_timm(timm: ModuleType, number: int, side: int) -> None:
    ours = lively(EfficientNetLite(VARIANTS[number]))
    theirs = timm.create_model(f"tf_efficientnet_lite{number}", pretrained=False).eval()
    pairs = zip(
        ours.state_dict().values(), theirs.state_dict(), strict=True
    )  # both in the order of the forward pass
    theirs.load_state_dict({key: value for value, key in pairs})
    x = torch.randn(2, 3, side, side)
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), rtol=1e-4, atol=1e-5)


def test_the_packaged_weights_fill_the_net_strictly(packaged_variant: LiteVariant) -> None:
    path = efficientnet_lite.packaged_file(packaged_variant)
    assert path.name == f"efficientnet-lite{packaged_variant.number}-{packaged_variant.sha256[:8]}.pth"
    state = _read(path, packaged_variant.sha256)
    with torch.device("meta"):
        net = EfficientNetLite(packaged_variant)
    assert state.keys() == net.state_dict().keys()
    assert {renamed_key(key) for key in state} == state.keys(), "a file saved from our net loads as well"


@pytest.mark.parametrize("packaged_variant", [0], indirect=True)
def test_two_known_photos_get_their_known_probabilities(packaged_variant: LiteVariant) -> None:
    skimage = pytest.importorskip("skimage")
    f = load_classifier("efficientnet-lite0", batch_size=2)
    folder = Path(skimage.__file__).parent / "data"
    probabilities = f.probabilities(load_images([folder / "chelsea.png", folder / "rocket.jpg"], f))

    def told(row: Tensor, *names: str) -> list[float]:
        return [row[f.names.index(name)].item() for name in names]

    cat = told(probabilities[0], "tiger cat", "Egyptian cat", "tabby", "lynx")
    rocket = told(probabilities[1], "missile", "projectile", "space shuttle")
    assert cat == pytest.approx([0.386, 0.356, 0.169, 0.019], abs=0.01)
    assert rocket == pytest.approx([0.272, 0.189, 0.058], abs=0.01)


def test_photos_of_imagenet_are_mostly_recognised(packaged_variant: LiteVariant, data: Path) -> None:
    f = load_classifier(f"efficientnet-lite{packaged_variant.number}", batch_size=10)
    labels = torch.arange(0, 1000, 200)  # photo NNNN.jpg shows class NNNN
    photos = load_images([data / "imagenet_val" / f"{label:04d}.jpg" for label in labels], f)
    assert (f.top(photos, 5).cpu() == labels[:, None]).any(dim=1).float().mean() >= 0.8


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'proofmap\[demo\]'"):
        load_classifier("efficientnet-lite0")


def test_a_package_with_another_file_is_refused_and_its_code_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / VARIANTS[2].package
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").write_text("raise SystemExit('the package was run')")
    torch.save(EfficientNetLite(VARIANTS[2]).state_dict(), package / "models" / "weights.pth")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModelError, match="SHA-256"):
        load_classifier("efficientnet-lite2")
