"""The first look at a net: it runs on the inputs that were declared, and says of each what it says of it alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from proofmap.classifier.outputs import Outputs
from proofmap.core.errors import ModelError
from proofmap.core.inputs import Inputs
from proofmap.plugins.failures import reason_of


def labels_of(
    logits: Callable[[Tensor], Tensor], inputs: Inputs, device: torch.device, outputs: Outputs
) -> int:
    """How many labels a net has, seen on two inputs; refuses one that fails on them, or whose images look at each other."""
    with torch.no_grad():
        try:
            ramp = inputs.probe().to(device)
            pair = logits(torch.cat([inputs.blank(1).to(device), ramp]))
            alone = logits(ramp)
        except ModelError:
            raise
        except Exception as error:
            raise ModelError(
                f"the net fails on two {inputs.noun} of shape ({', '.join(map(str, inputs.shape))}): "
                f"{reason_of(error)}. {inputs.shape_hint()}"
            ) from error
    if outputs == "sigmoid-probabilities":  # a probability near 1 has a logit that rounding moves
        pair, alone = pair.sigmoid(), alone.sigmoid()
    if bool((pair[1:] - alone).abs().max() > 0.01 * (1 + alone.abs().max())):
        raise ModelError(
            "the net's output for an image depends on the other images of its batch, so f(x, a) is not defined. "
            "Look for a batch-norm without running statistics (track_running_stats=False)."
        )
    return pair.shape[1]


def on_noise(
    net: Callable[[Tensor], Tensor], inputs: Inputs, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """What a net returns for four inputs of loud noise, with its graph."""
    noise = torch.randn(4, *inputs.shape, generator=torch.Generator().manual_seed(0))
    with torch.enable_grad():
        x = (10 * noise).to(device, dtype).requires_grad_(True)
        return net(x.clone()).float()  # a net may work on its input in place, which a leaf does not allow
