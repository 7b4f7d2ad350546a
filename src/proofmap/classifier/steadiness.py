"""Checks that a net is a function: the outputs for an image are the same in every call and in every batch.

Two outputs are compared by their largest difference, relative to 1 + the largest output. Repeated calls may differ by 1e-4 (.02 in half
precision). Calls with other images in the batch, or in another order, may differ by .01. Rounding errors are smaller: another batch or
number of threads changes the logits of EfficientNet-Lite0 by 1.4e-6 (3e-5 in bfloat16), and those of CIFAR's ResNets and ViT by 4e-7. The
limit for other batches is wider because the effect of reduced precision inside a net (TF32, autocast) depends on the batch.

These looks use two images. Once per evaluation, a whole batch of masked images is compared too (:meth:`FirstLook.difference_between_batches`). Its limits
are wider, because the net of a study may be quantized in steps that depend on the batch: then the size of the difference is reported.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from proofmap.classifier.kernels import steady_kernels
from proofmap.core.batching import in_batches
from proofmap.core.errors import ModelError
from proofmap.core.inputs import Inputs, Rows
from proofmap.core.tensors import private_copy
from proofmap.plugins.failures import reason_of

if TYPE_CHECKING:
    from proofmap.classifier import Classifier

_SAME_CALL, _SAME_CALL_IN_HALF, _OTHER_COMPANY = 1e-4, 0.02, 0.01
_LOOKED_AT = 2  # images
_MASKED_OUTPUT, _MASKED_F = 0.1, 0.2  # of the largest output, and of f


class UnsteadyNet(ModelError):
    """The net is not a function of the image: its outputs differ between two calls, or depend on the other images."""


def _check_company(among: Tensor, alone: Tensor, inputs: Inputs) -> None:
    """Raise if a net's outputs for the same inputs differ between a batch with other inputs (``among``) and one without (``alone``)."""
    if (moved := _largest_change(among, alone)) > _OTHER_COMPANY:
        advice = "a batch-norm in training mode or without running statistics (track_running_stats=False)."
        if isinstance(inputs, Rows):
            advice = "a step that ranks or centers the rows that it is given, in place of values found when it was fitted."
        raise UnsteadyNet(
            f"the net's output for one {inputs.singular} depends on the other {inputs.noun} of its batch: it moves by {_size(moved, alone)}, so "
            f"f(x, a) is not defined. Look for {advice}"
        )


class FirstLook:
    """Stores the net's outputs for a few images before the work starts, and compares later outputs with them."""

    def __init__(self, classifier: Classifier, images: Tensor) -> None:
        self.classifier, self.images = classifier, private_copy(images[:_LOOKED_AT])
        self._before = self._outputs(self.images)

    @staticmethod
    def count_labels(classifier: Classifier) -> int:
        """The number of labels of a net, found by a pass of two test inputs. Raises an error if the net fails on these inputs, if two calls give
        different outputs, or if the outputs for an input depend on the other inputs of the batch.
        """
        inputs = classifier.inputs

        @torch.no_grad()
        def look(x: Tensor) -> Tensor:
            return _comparable(classifier(x), classifier.outputs)

        try:
            ramp = inputs.probe().to(classifier.device)
            pair, alone, again = look(torch.cat([classifier.blank(1), ramp])), look(ramp), look(ramp)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(
                f"the net fails on two {inputs.noun} of shape ({', '.join(map(str, inputs.shape))}): "
                f"{reason_of(error)}. {inputs.shape_hint}"
            ) from error
        if (moved := _largest_change(again, alone)) > _limit(classifier.dtype):
            raise UnsteadyNet(
                f"two calls of the net on the same {inputs.singular} give outputs that differ by {_size(moved, alone)}, so f(x, a) is not defined. Make it "
                "a function of its input alone: look for a dropout that stays on in evaluation mode, other random numbers, or a state that changes with "
                "every call (a counter, a running mean, a cache)."
            )
        _check_company(pair[1:], alone, inputs)
        return pair.shape[1]

    def check(self, during: str) -> None:
        """Refuse a net whose outputs have changed ``during`` the work, or depend on the other images of a batch or their order."""
        moved = _largest_change(self._outputs(self.images), self._before)
        if moved > _limit(self.classifier.dtype):
            raise UnsteadyNet(
                f"the net's outputs for the same {self.classifier.inputs.noun} moved by {_size(moved, self._before)} {during}, so the results do not "
                "belong to one function. The net has a state that changes with its calls, draws random numbers, or was trained in "
                "between. Make it a function of its input alone; after training, call reset() of a Judge before update()."
            )
        mixed = torch.cat([self.classifier.blank(1), self.images.flip(0)])
        _check_company(self._outputs(mixed)[1:].flip(0), self._before, self.classifier.inputs)

    @staticmethod
    @torch.no_grad()
    def difference_between_batches(classifier: Classifier, x: Tensor) -> float:
        """The largest difference of f(x, a) between one batch with all inputs ``x`` and smaller batches, in which each input has another index
        and other company. Raises an UnsteadyNet if f moves by more than .2, or an output by more than .1 of the largest output.

        This takes two passes per input. 0 if an output is NaN.
        """
        with steady_kernels(tf32=False):
            whole = torch.cat(
                in_batches(
                    lambda a, b: classifier(x[a:b]), len(x), classifier.batches[0], item="masked image"
                )
            )
            # batches of 1, 2, 4, ...: no input keeps its index
            cuts = [0, *(2**k - 1 for k in range(1, len(x).bit_length())), len(x)]
            parts = torch.cat([classifier(x[a:b]) for a, b in pairwise(cuts) if b > a])
        if not bool(whole.isfinite().all() and parts.isfinite().all()):
            return 0.0  # the game says so, with the inputs
        one, other = (_comparable(each, classifier.outputs) for each in (whole, parts))
        size, largest = float((one - other).abs().max()), float(torch.maximum(one.abs(), other.abs()).max())
        moved = float((classifier.log_f(whole).exp() - classifier.log_f(parts).exp()).abs().max())
        if size > _MASKED_OUTPUT * largest or moved > _MASKED_F:
            item = classifier.inputs.singular
            raise UnsteadyNet(
                f"the net's output for a masked {item} depends on its batch, or differs from call to call: between a batch of {len(x)} and smaller ones an "
                f"output moves by {size:.3g} (the largest output is {largest:.3g}), and f by {moved:.2g}, so f(x, a) is not defined. Make the net a "
                f"function of each {item} alone: look for random numbers, and for steps that use the number or the order of the {classifier.inputs.noun}"
            )
        return moved

    def _outputs(self, images: Tensor) -> Tensor:
        return _comparable(self.classifier.logits(images), self.classifier.outputs)


def _comparable(logits: Tensor, outputs: str) -> Tensor:
    """The net's outputs in a form that can be compared: logits, or probabilities if the net returns probabilities, because rounding changes
    the logit of a probability near 0 or 1.
    """
    if outputs == "sigmoid-probabilities":
        return logits.sigmoid()
    return logits.exp() if outputs == "probabilities" else logits


def _largest_change(one: Tensor, other: Tensor) -> float:
    """The largest difference of two outputs, relative to 1 + the largest value of ``other``; infinite if an output is NaN."""
    found = (one - other).abs().max() / (1 + other.abs().max())
    return float(found.nan_to_num(torch.inf))


def _size(moved: float, outputs: Tensor) -> str:
    largest = float(outputs.abs().max())
    return f"{moved * (1 + largest):.3g} (the largest output is {largest:.3g})"


def _limit(dtype: torch.dtype) -> float:
    return _SAME_CALL if dtype in (torch.float32, torch.float64) else _SAME_CALL_IN_HALF
