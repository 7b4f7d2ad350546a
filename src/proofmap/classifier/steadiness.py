"""Whether a net is one function: an image gets the same outputs in every call, whatever other images are beside it.

Two looks at the same images are compared by the largest difference between outputs, relative to 1 + the largest output.
The same call, made twice, may differ by 1e-4 (half precision: .02); other images in the batch, or another order, by .01.
Rounding stays below: other batches and numbers of threads move the logits of EfficientNet-Lite0 by 1.4e-6, those of CIFAR's ResNets and ViT by
4e-7, and those of EfficientNet-Lite0 in bfloat16 by 3e-5. Reduced precision inside a net (TF32, autocast) depends on the batch, so that the second
limit is wider.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from proofmap.classifier.outputs import Outputs
from proofmap.core.errors import ModelError
from proofmap.core.inputs import Inputs
from proofmap.core.tensors import private_copy
from proofmap.plugins.failures import exit_as_error, reason_of

if TYPE_CHECKING:
    from proofmap.classifier import Classifier

_SAME_CALL, _SAME_CALL_IN_HALF, _OTHER_COMPANY = 1e-4, 0.02, 0.01
_LOOKED_AT = 2  # images


class UnsteadyNet(ModelError):
    """The net is no function of the image: its outputs moved between two calls, or depend on the other images."""


def check_repeated(logits: Callable[[Tensor], Tensor], x: Tensor, first: Tensor, dtype: torch.dtype) -> None:
    """Refuse a net that gives other outputs than ``first`` for the same batch ``x``; says whether it draws random numbers."""
    moved = _moved(logits(x), first)
    if moved <= _limit(dtype):
        return
    if _moved(_seeded(logits, x), _seeded(logits, x)) <= _limit(dtype):
        cause = "It draws random numbers: look for a dropout that stays on in evaluation mode"
    else:
        cause = "It has a state that changes with every call (a counter, a running mean, a cache), or random numbers of its own"
    raise UnsteadyNet(
        f"two calls of the net on the same image give outputs that differ by {_size(moved, first)}, so f(x, a) is not defined. "
        f"{cause}. Make it a function of its input alone."
    )


def check_company(among: Tensor, alone: Tensor) -> None:
    """Refuse a net whose outputs for images ``among`` others are not those that they have ``alone``."""
    moved = _moved(among, alone)
    if moved > _OTHER_COMPANY:
        raise UnsteadyNet(
            f"the net's output for an image depends on the other images of its batch: it moves by {_size(moved, alone)}, so "
            "f(x, a) is not defined. Look for a batch-norm in training mode or without running statistics "
            "(track_running_stats=False)."
        )


def count_labels(
    logits: Callable[[Tensor], Tensor],
    inputs: Inputs,
    device: torch.device,
    outputs: Outputs,
    dtype: torch.dtype,
) -> int:
    """How many labels a net has, seen on two inputs. Refuses one that fails on them, gives other outputs in another call, or
    whose images look at each other."""

    @exit_as_error()
    def look(x: Tensor) -> Tensor:
        return comparable(logits(x), outputs)

    with torch.no_grad():
        try:
            ramp = inputs.probe().to(device)
            pair = look(torch.cat([inputs.blank(1).to(device), ramp]))
            alone = look(ramp)
            check_repeated(look, ramp, alone, dtype)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(
                f"the net fails on two {inputs.noun} of shape ({', '.join(map(str, inputs.shape))}): "
                f"{reason_of(error)}. {inputs.shape_hint()}"
            ) from error
    check_company(pair[1:], alone)
    return pair.shape[1]


def outputs_on_noise(
    net: Callable[[Tensor], Tensor], inputs: Inputs, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """What a net returns for four inputs of loud noise, with its graph."""
    noise = torch.randn(4, *inputs.shape, generator=torch.Generator().manual_seed(0))
    with torch.enable_grad():
        x = (10 * noise).to(device, dtype).requires_grad_(True)
        return net(x.clone()).float()  # a net may work on its input in place, which a leaf does not allow


class FirstLook:
    """The net's outputs for a few images before the work, to compare with its outputs for them after each part of it."""

    def __init__(self, classifier: Classifier, images: Tensor) -> None:
        self.classifier, self.images = classifier, private_copy(images[:_LOOKED_AT])
        self._before = self._outputs(self.images)

    def check(self, during: str) -> None:
        """Look again: at the same images, and at them in the other order behind another one. Refuse a net that changed ``during``
        the work, with the size of the difference: what was measured is no property of one net."""
        moved = _moved(self._outputs(self.images), self._before)
        if moved > _limit(self.classifier.dtype):
            raise UnsteadyNet(
                f"the net's outputs for the same images moved by {_size(moved, self._before)} {during}, so what was measured there "
                "does not belong to one net. It has a state that changes with its calls, draws random numbers, or was trained in "
                "between. Make it a function of its input alone."
            )
        mixed = torch.cat([self.classifier.blank(1), self.images.flip(0)])
        check_company(self._outputs(mixed)[1:].flip(0), self._before)

    def _outputs(self, images: Tensor) -> Tensor:
        return comparable(self.classifier.logits(images), self.classifier.outputs)


def comparable(logits: Tensor, outputs: str) -> Tensor:
    """Logits, or probabilities if the net returns these: a probability near 0 or 1 has a logit that rounding moves."""
    if outputs == "sigmoid-probabilities":
        return logits.sigmoid()
    return logits.exp() if outputs == "probabilities" else logits


def _moved(one: Tensor, other: Tensor) -> float:
    """The largest difference, relative to 1 + the largest output; infinite where one of them is not a number."""
    found = (one - other).abs().max() / (1 + other.abs().max())
    return float(found.nan_to_num(torch.inf))


def _size(moved: float, outputs: Tensor) -> str:
    largest = float(outputs.abs().max())
    return f"{moved * (1 + largest):.3g} (the largest output is {largest:.3g})"


def _limit(dtype: torch.dtype) -> float:
    return _SAME_CALL if dtype in (torch.float32, torch.float64) else _SAME_CALL_IN_HALF


def _seeded(logits: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The outputs where torch's generators begin at the same place; afterwards they are as they were."""
    devices = [x.device] if x.device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices):
        torch.default_generator.manual_seed(0)
        for device in devices:
            with torch.cuda.device(device):
                torch.cuda.manual_seed(0)
        return logits(x)
