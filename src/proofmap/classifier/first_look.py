"""The first look at a net: it runs on the inputs that were declared, and is a function of each image alone."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from proofmap.classifier.outputs import Outputs
from proofmap.classifier.steadiness import check_company, check_repeated, comparable
from proofmap.core.errors import ModelError
from proofmap.core.inputs import Inputs
from proofmap.plugins.failures import exit_as_error, reason_of


def labels_of(
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


def on_noise(
    net: Callable[[Tensor], Tensor], inputs: Inputs, device: torch.device, dtype: torch.dtype
) -> Tensor:
    """What a net returns for four inputs of loud noise, with its graph."""
    noise = torch.randn(4, *inputs.shape, generator=torch.Generator().manual_seed(0))
    with torch.enable_grad():
        x = (10 * noise).to(device, dtype).requires_grad_(True)
        return net(x.clone()).float()  # a net may work on its input in place, which a leaf does not allow
