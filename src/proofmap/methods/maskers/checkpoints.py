"""Maskers that other authors published, read from their own checkpoints as tensors only (``weights_only``).

Dabkowski and Gal 2017 (PiotrDabkowski/pytorch-saliency, ``model-1.ckpt``): a table of modules, each a table of tensors. ``up2``,
``up1`` and ``up0`` are the steps up, ``to_saliency_chans`` makes the two channels of the mask, and ``selector_module`` has a row
for each label. The encoder is not in the file: it is torchvision's ResNet-50. The input of this encoder is 4 x - 2 for pixels x in
[0, 1], which is close to the usual normalisation. Proofmap uses the same input. The authors' mask is enlarged by ``F.upsample``,
which aligned corners in the torch of its time; here corners are not aligned, as in any torch since.

Phang et al. 2020 (zphang/saliency_investigation, ``ca.chk`` and ``fix.chk``): ``state_dict_masker`` has ``final``, and
``conv1x1_K`` for each stage K = 1 to 4 of a ResNet-50 that the masker reads (the published ones read 3 and 4);
``state_dict_classifier`` is the ResNet-50 itself, which CA trained further. The masker reads the features of that net, or of the
net that is explained (``encoder``).

Neither file says which net it belongs to: both were trained for torchvision's ResNet-50, weights ``IMAGENET1K_V1``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.classifier.view import copy_net
from proofmap.core.errors import InputError, ModelError
from proofmap.methods.maskers.nets import Encoder, PhangNet, RealTimeNet, Scale, find_scales
from proofmap.methods.probe import module_of
from proofmap.models.weights import load_checkpoint, load_into

State = dict[str, Tensor]

_STEP_UP = {
    "upsampler.0.0": "larger.0",
    "upsampler.0.1": "larger.1",
    "follow_up.conv1": "mix.0",
    "follow_up.bn1": "mix.1",
    "follow_up.conv2": "mix.3",
    "follow_up.bn2": "mix.4",
    "follow_up.conv3": "mix.6",
    "follow_up.bn3": "mix.7",
    "follow_up.residual_transformer": "past",
}
"""The parts of a step up: the authors' names, and Proofmap's."""
_EPS = 1e-5


def read_dabkowski(path: Path, classifier: Classifier) -> tuple[RealTimeNet, Encoder]:
    """Dabkowski and Gal's masker from a checkpoint, and the encoder that computes the features of the classifier that the masker
    reads.
    """
    content = _tables(path, "Dabkowski and Gal's masker")
    state = {f"{name}.{key}": tensor for name, part in content.items() for key, tensor in part.items()}
    tops = sorted((name for name in content if name.removeprefix("up").isdigit()), reverse=True)
    try:
        labels, top = state["selector_module.weight"].shape
        widths = [state[f"{name}.upsampler.0.0.weight"].shape[0] // 4 for name in tops]
        inner = [state[f"{name}.follow_up.conv1.weight"].shape[1] for name in tops]
    except KeyError as error:
        raise _unlike(path, "Dabkowski and Gal's masker", error) from None
    channels = [top, *(count - width for count, width in zip(inner, widths, strict=True))]
    if labels != len(classifier.names):
        raise InputError(
            f"{path} has masks for {labels} labels, and {classifier.name} has {len(classifier.names)}: it belongs to another net"
        )
    encoder = Encoder(classifier, _scales(path, classifier, channels), stretched=True)
    net = _built(RealTimeNet, channels, labels, widths[-1])
    renamed = {
        "selector.weight": state["selector_module.weight"],
        **{f"saliency.{key}": tensor for key, tensor in content.get("to_saliency_chans", {}).items()},
    }
    for k, name in enumerate(tops):
        for key, tensor in content[name].items():
            part, _, last = key.rpartition(".")
            renamed[f"up.{k}.{_STEP_UP.get(part, part)}.{last}"] = tensor
    for k, count in enumerate(channels):  # theirs does not standardise features
        renamed |= {
            f"norms.{k}.running_mean": torch.zeros(count),
            f"norms.{k}.running_var": torch.full((count,), 1 - _EPS),
        }
    _load(net, renamed, path)
    return net, encoder


def read_phang(path: Path, classifier: Classifier, features: str) -> tuple[PhangNet, Encoder]:
    """The masker of Phang et al. from a checkpoint, and the encoder that computes the features that it reads. ``features`` chooses
    the features of the net in the checkpoint (``own``) or of the classifier (``net``).
    """
    content = _tables(path, "the masker of Phang et al.")
    try:
        state = content.get("state_dict_masker") or content["state_dict_decoder"]
        stages = sorted(
            (
                int(key[len("conv1x1_")])
                for key in state
                if key.startswith("conv1x1_") and key.endswith(".0.weight")
            ),
            reverse=True,
        )
        kernels = [state[f"conv1x1_{stage}.0.weight"] for stage in stages]
        final = state["final.0.weight"]
    except KeyError as error:
        raise _unlike(path, "the masker of Phang et al.", error) from None
    if not stages or 0 in stages or final.shape[1] != sum(len(kernel) for kernel in kernels):
        raise InputError(
            f"{path} also reads the stem of its net, or labels; only maskers of the stages 1 to 4 can be used"
        )
    reader = classifier
    if features == "own":
        reader = _with_weights(classifier, content.get("state_dict_classifier"), path)
    scales = _scales(path, reader, [kernel.shape[1] for kernel in kernels])
    larger = 2 ** (stages[0] - 1)
    width = len(kernels[0])
    grid = scales[0].size[0] * larger, scales[0].size[1] * larger
    net = _built(PhangNet, [scale.channels for scale in scales], grid, width)
    renamed = {
        "mask.weight": torch.cat(final.split(width, dim=1)[::-1], dim=1),  # theirs has the finest stage first
        **{f"mask.{key}": state[f"final.0.{key}"] for key in ("bias",) if f"final.0.{key}" in state},
    }
    for k, stage in enumerate(stages):
        part = f"conv1x1_{stage}."
        renamed |= {
            f"reduce.{k}.{key[len(part) :]}": tensor for key, tensor in state.items() if key.startswith(part)
        }
    _load(net, renamed, path)
    return net, Encoder(reader, scales)


def _tables(path: Path, what: str) -> dict[str, State]:
    """The tables of tensors in a checkpoint, by name; other entries, such as settings and optimisers, are left out."""
    if not path.is_file():
        raise InputError(f"there is no masker {str(path)!r}")
    content: Any = load_checkpoint(path)
    if isinstance(content, Mapping) and all(isinstance(value, Tensor) for value in content.values()):
        nested: dict[str, State] = {}
        # a whole model's weights: its modules are the first part of each name
        for key, tensor in content.items():
            name, _, rest = str(key).partition(".")
            nested.setdefault(name, {})[rest] = tensor
        content = nested
    if not isinstance(content, Mapping):
        raise InputError(f"{path} is not a checkpoint of {what}: it holds {type(content).__name__}")
    return {
        str(name): dict(part)
        for name, part in content.items()
        if isinstance(part, Mapping) and part and all(isinstance(value, Tensor) for value in part.values())
    }


def _unlike(path: Path, what: str, error: KeyError) -> InputError:
    return InputError(f"{path} is not a checkpoint of {what}: it has no {error.args[0]!r}")


def _scales(path: Path, classifier: Classifier, channels: Sequence[int]) -> tuple[Scale, ...]:
    """The coarsest feature maps of the net, as many as ``channels`` has entries. An error is raised if their numbers of channels
    differ.
    """
    scales = find_scales(classifier, most=len(channels))
    found = [scale.channels for scale in scales]
    if found != list(channels):
        raise InputError(
            f"{path} reads feature maps with {_listed(channels)} channels, as a ResNet-50 has, and those of {classifier.name} have "
            f"{_listed(found)}: it belongs to another net"
        )
    return scales


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts))


def _built(kind: Any, *arguments: Any) -> Any:
    with torch.random.fork_rng(devices=[]):  # first weights, which are replaced
        return kind(*arguments)


def _load(net: nn.Module, state: State, path: Path) -> None:
    try:
        load_into(
            net,
            {key: tensor.float() if tensor.is_floating_point() else tensor for key, tensor in state.items()},
            source=str(path),
        )
    except ModelError as error:
        raise InputError(str(error)) from None


def _with_weights(classifier: Classifier, state: State | None, path: Path) -> Classifier:
    """A copy of the classifier whose net has the weights ``state``."""
    if state is None:
        raise InputError(
            f"{path} has no state_dict_classifier; write encoder=net to read the features of {classifier.name}"
        )
    net = copy_net(module_of(classifier, "a masker"))
    try:
        load_into(net, state, source=f"state_dict_classifier of {path}")
    except ModelError as error:
        raise InputError(
            f"{error}; write encoder=net to read the features of {classifier.name} instead"
        ) from None
    return classifier.with_net(net)
