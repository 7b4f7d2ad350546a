"""LeGrad: how sensitive the label's logit is to the attention that each patch gets, at every layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.methods.attention.attention import AttentionMethod, Tokens, by_head, find_tokens
from proofmap.methods.attention_maps import AttentionMaps
from proofmap.methods.method import METHODS, Cost, ReadyMethod
from proofmap.methods.probe import module_of
from proofmap.plugins.settings import setting


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class LeGrad(AttentionMethod):
    """LeGrad (Bousselham et al. 2024): the mean over layers l of the mean over heads and rows of relu(d s_l / d A_l).

    s_l is the logit of label a that the net's head reads from the tokens of layer l: the net runs once, and once more
    for each layer with the tokens of the last one replaced. With ``score="net"`` it is the net's own logit at every
    layer, from one forward pass; at the last layer both are the same.
    """

    name: ClassVar[str] = "legrad"
    reference: ClassVar[str] = "Bousselham et al. 2024"
    description: ClassVar[str] = "positive gradient of the logit to the attention, over all layers"
    layers: int | None = setting(None, "so many of the last layers; none means all", least=1)
    score: Literal["layer", "net"] = setting(
        "layer", "the logit read from each layer's own tokens, or the net's at every layer"
    )

    def relevance(self, attention: Sequence[Tensor], gradients: Sequence[Tensor], read: Tensor) -> Tensor:
        chosen = gradients[-(self.layers or len(gradients)) :]
        return torch.stack([gradient.relu().mean(dim=(1, 2)) for gradient in chosen]).mean(dim=0)

    def state_for(self, classifier: Classifier) -> Tokens:
        tokens = find_tokens(classifier)
        if self.score == "layer" and None in tokens.blocks:
            raise InputError(
                f"the layers of {classifier.name} are not modules of their own, so no logit can be read from each; "
                "use legrad:score=net"
            )
        return tokens

    def cost(self, labels: int) -> Cost | None:
        return super().cost(labels) if self.score == "net" else None

    def cost_on(self, ready: ReadyMethod, labels: int) -> Cost | None:
        if self.score == "net":
            return self.cost(labels)
        return Cost(forward=len(self._layers(ready.state)), gradient=labels)

    def _layers(self, tokens: Tokens) -> range:
        """The layers that count."""
        every = len(tokens.blocks)
        return range(every - min(self.layers or every, every), every)

    def token_relevance(self, ready: ReadyMethod, images: Tensor, labels: Tensor) -> Tensor:
        if self.score == "net":
            return super().token_relevance(ready, images, labels)
        net, n = module_of(ready.classifier, "LeGrad"), len(images)
        blocks = [net.get_submodule(str(name)) for name in ready.state.blocks]
        with torch.enable_grad():
            with AttentionMaps(differentiable=True) as recorded, kept(blocks) as tokens:
                ready.classifier(images)
            layers = []
            for layer in self._layers(ready.state):
                with replaced(blocks[-1], tokens[layer]):
                    chosen = ready.classifier(images).gather(1, labels.clamp_min(0))
                rows = [
                    torch.autograd.grad(chosen[:, j].sum(), recorded.maps[layer], retain_graph=True)[0]
                    for j in range(labels.shape[1])
                ]
                layers.append(torch.stack([by_head(row, n).relu().mean(dim=(1, 2)) for row in rows], dim=1))
        return torch.stack(layers).mean(dim=0)


@contextmanager
def kept(blocks: Sequence[nn.Module]) -> Iterator[list[Tensor]]:
    """Keep what each block gives, and cut the next one off from it, so that each has a graph of its own."""
    tokens: list[Tensor] = []

    def hook(module: nn.Module, inputs: object, output: Tensor) -> Tensor:
        tokens.append(output)
        return output.detach().clone()  # what follows may work in place

    handles = [block.register_forward_hook(hook) for block in blocks]
    try:
        yield tokens
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def replaced(block: nn.Module, tokens: Tensor) -> Iterator[None]:
    """Let a block give these tokens, whatever it is given."""
    handle = block.register_forward_hook(lambda module, inputs, output: tokens)
    try:
        yield
    finally:
        handle.remove()
