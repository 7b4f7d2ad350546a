"""Attention rollout, Chefer's relevance and attention LRP, against plain loops over matrices that the nets themselves give."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.methods import make_method
from proofmap.methods.attention import AttentionRollout, Chefer, find_tokens
from proofmap.methods.gradients.plain import input_gradients
from proofmap.methods.probe import AttentionMaps, Grid
from proofmap.methods.propagation.attention_lrp import LinearOperations
from tests.toys import PatchNet, conv_net, drawn, normal, pixels

SIZE, LABELS = (8, 10), torch.tensor([[2, 0, 1], [1, 3, 0]])
METHODS = [AttentionRollout(), Chefer()]


class Written(nn.Module):
    """A transformer that keeps its attention, written with a plain softmax: what the recorder is compared with."""

    def __init__(self, pool: str = "class") -> None:
        super().__init__()
        self.patches, self.qkv = (
            nn.Conv2d(3, 8, 2, stride=2),
            nn.ModuleList(nn.Linear(8, 24) for _ in range(3)),
        )
        self.class_token, self.head, self.pool = nn.Parameter(torch.zeros(1, 1, 8)), nn.Linear(8, 4), pool

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.explained(x)
        return out

    def explained(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        tokens, kept = self.patches(x).flatten(2).transpose(1, 2), []
        if self.pool == "class":
            tokens = torch.cat([self.class_token.expand(len(x), -1, -1), tokens], dim=1)
        for layer in self.qkv:
            q, k, v = (t.unflatten(2, (2, 4)).transpose(1, 2) for t in layer(tokens).chunk(3, dim=2))
            attention = self.attend(q, k)
            kept.append(attention)
            tokens = tokens + (attention @ v).transpose(1, 2).flatten(2)
        out: Tensor = self.head(tokens[:, 0] if self.pool == "class" else tokens.mean(dim=1))
        return out, kept

    def attend(self, q: Tensor, k: Tensor) -> Tensor:
        return (q @ k.transpose(2, 3) / 2).softmax(dim=-1)


def rollout(attention: list[Tensor], rows: list[int]) -> Tensor:
    """Of one image: the product of whole matrices, as printed."""
    joined = torch.eye(attention[0].shape[-1])
    for layer in attention:
        joined = (0.5 * layer.mean(dim=0) + 0.5 * torch.eye(len(joined))) @ joined
    return joined[rows].mean(dim=0)


def chefer(attention: list[Tensor], gradients: list[Tensor], rows: list[int]) -> Tensor:
    relevance = torch.eye(attention[0].shape[-1])
    for layer, gradient in zip(attention, gradients, strict=True):
        relevance = relevance + (gradient * layer).clamp(min=0).mean(dim=0) @ relevance
    return (relevance - torch.eye(len(relevance)))[rows].mean(dim=0)


@pytest.mark.parametrize("pool", ["class", "mean"])
def test_the_maps_are_those_of_a_plain_loop(pool: str) -> None:
    net = drawn(Written(pool))
    f, images = Classifier(net, size=SIZE, batch_size=4), pixels(2, SIZE)
    first = 1 if pool == "class" else 0
    rows = [0] if pool == "class" else list(range(20))
    assert find_tokens(f).grid == Grid((4, 5), first)
    assert list(find_tokens(f).read) == rows
    found = [method(f, images, LABELS) for method in METHODS]
    for i in range(2):
        for j, label in enumerate(LABELS[i]):
            logits, attention = net.explained(images[i : i + 1])
            gradients = [g[0] for g in torch.autograd.grad(logits[0, label], attention)]
            plain = [a[0].detach() for a in attention]
            expected = [rollout(plain, rows), chefer(plain, gradients, rows)]
            for maps, tokens in zip(found, expected, strict=True):
                low = tokens[first:].view(1, 1, 4, 5)
                large = F.interpolate(low, SIZE, mode="bilinear", align_corners=False)[0, 0]
                torch.testing.assert_close(maps[i, j], large, rtol=1e-3, atol=1e-6)


class Fused(Written):
    """The same by torch's fused kernel."""

    def explained(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), tokens], dim=1)
        for layer in self.qkv:
            q, k, v = (t.unflatten(2, (2, 4)).transpose(1, 2) for t in layer(tokens).chunk(3, dim=2))
            tokens = tokens + F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
        out: Tensor = self.head(tokens[:, 0])
        return out, []


class Multihead(nn.Module):
    """The same by ``nn.MultiheadAttention``, which may be asked for its weights besides."""

    def __init__(self, written: Written, need_weights: bool) -> None:
        super().__init__()
        self.patches, self.class_token, self.head = written.patches, written.class_token, written.head
        self.layers, self.need_weights = nn.ModuleList(), need_weights
        for layer in written.qkv:
            attention = nn.MultiheadAttention(8, 2, batch_first=True)
            with torch.no_grad():
                attention.in_proj_weight.copy_(layer.weight)
                attention.in_proj_bias.copy_(layer.bias)
                attention.out_proj.weight.copy_(torch.eye(8))
            self.layers.append(attention)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(x), -1, -1), tokens], dim=1)
        for layer in self.layers:
            tokens = tokens + layer(tokens, tokens, tokens, need_weights=self.need_weights)[0]
        return self.head(tokens[:, 0])


def fused(written: Written) -> Fused:
    net = Fused()
    net.load_state_dict(written.state_dict())
    return net


@pytest.mark.parametrize(
    "made",
    [fused, lambda net: Multihead(net, False), lambda net: Multihead(net, True)],
    ids=["fused", "multihead", "multihead with weights"],
)
@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_however_attention_is_written_the_maps_are_the_same(
    made: Callable[[Written], nn.Module], method: Any
) -> None:
    images, written = pixels(2, SIZE), drawn(Written())
    expected = method(Classifier(written, size=SIZE, batch_size=4), images, LABELS)
    maps = method(Classifier(made(written), size=SIZE, batch_size=4), images, LABELS)
    torch.testing.assert_close(maps, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("masked", ["causal", "boolean", "added", "grouped"])
def test_fused_attention_with_a_mask_is_answered_as_torch_defines_it(masked: str) -> None:
    q, k, v = torch.randn(3, 2, 4, 5, 8, generator=torch.Generator().manual_seed(0))
    keep = torch.rand(5, 5, generator=torch.Generator().manual_seed(1)) > 0.4
    keep.fill_diagonal_(True)
    options: dict[str, Any] = {
        "causal": {"is_causal": True},
        "boolean": {"attn_mask": keep},
        "added": {"attn_mask": keep.float(), "scale": 0.3},
        "grouped": {"enable_gqa": True},
    }[masked]
    if masked == "grouped":
        if "enable_gqa" not in str(F.scaled_dot_product_attention.__doc__):
            pytest.skip("torch 2.4 has no grouped attention")
        k, v = k[:, :2], v[:, :2]
    expected = F.scaled_dot_product_attention(q, k, v, **options)
    with AttentionMaps() as recorded:
        found = F.scaled_dot_product_attention(q, k, v, **options)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert len(recorded.maps) == 1


def test_multihead_attention_with_padding_is_recorded() -> None:
    attention, x = drawn(nn.MultiheadAttention(8, 2, batch_first=True)), torch.ones(1, 3, 8)
    hidden = torch.tensor([[False, False, True]])
    expected, weights = attention(x, x, x, key_padding_mask=hidden)
    with AttentionMaps() as recorded:
        found, _ = attention(x, x, x, key_padding_mask=hidden)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(recorded.maps[0].mean(dim=1), weights)


def test_multihead_attention_with_a_mask_runs_as_it_is() -> None:
    attention, x = drawn(nn.MultiheadAttention(8, 2, batch_first=True)), torch.ones(1, 3, 8)
    hidden = torch.ones(3, 3).triu(1).bool()
    expected, _ = attention(x, x, x, attn_mask=hidden)
    with AttentionMaps() as recorded:
        found, _ = attention(x, x, x, attn_mask=hidden)
    torch.testing.assert_close(found, expected)
    assert not recorded.maps


# ---- nets of others ----------------------------------------------------------------------------------------

VIT = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 2, "num_heads": 2, "num_classes": 4}


def assert_maps_do_not_depend_on_the_kernel(make: Callable[[bool], nn.Module]) -> None:
    """Fused or not, the maps are the same, and the net's own switch stays as it was."""
    images = pixels(2, 32)
    fused, plain = make(True), make(False)
    plain.load_state_dict(fused.state_dict())
    for method in METHODS:
        both = [method(Classifier(net, size=32, batch_size=4), images, LABELS) for net in (fused, plain)]
        assert float(both[0].flatten(2).std(dim=2).min()) > 0
        torch.testing.assert_close(*both, rtol=1e-3, atol=1e-6)


def test_nets_of_timm(timm: ModuleType) -> None:
    def make(fused: bool) -> nn.Module:
        timm.layers.set_fused_attn(fused)
        try:
            with torch.random.fork_rng(devices=[]):
                net: nn.Module = timm.create_model("vit_tiny_patch16_224", **VIT, reg_tokens=2)
        finally:
            timm.layers.set_fused_attn(True)
        assert net.get_submodule("blocks.0.attn").fused_attn == fused
        return net.eval()

    assert_maps_do_not_depend_on_the_kernel(make)


def test_nets_of_hugging_face(transformers: ModuleType) -> None:
    from proofmap.classifier.stated import LogitsOf

    small = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}

    def make(fused: bool) -> nn.Module:
        config = transformers.ViTConfig(**small, image_size=32, patch_size=8, num_labels=4)
        config._attn_implementation = "sdpa" if fused else "eager"
        with torch.random.fork_rng(devices=[]):
            return LogitsOf(transformers.ViTForImageClassification(config)).eval()

    assert_maps_do_not_depend_on_the_kernel(make)


# ---- what is refused ---------------------------------------------------------------------------------------


class Windows(PatchNet):
    """Attention within two halves of the tokens."""

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        halves = self.encoder(tokens.unflatten(1, (2, 10)).flatten(0, 1))
        return self.head(halves.unflatten(0, (-1, 2)).mean(dim=(1, 2)))


class Reduced(PatchNet):
    """First the tokens attend to every second one."""

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        tokens = tokens + F.scaled_dot_product_attention(tokens, tokens[:, ::2], tokens[:, ::2])
        return self.head(self.encoder(tokens).mean(dim=1))


@pytest.mark.parametrize("method", ["attention-rollout", "chefer"])
@pytest.mark.parametrize(
    "net, told",
    [
        (conv_net(), "Sequential has no attention; use a class activation map"),
        (drawn(Windows(SIZE)), "the attention of Windows works in windows"),
        (drawn(Reduced(SIZE)), "the attention of Reduced works .* or its number of tokens changes"),
        (lambda x: conv_net()(x), "a map of attention needs a torch module"),
    ],
    ids=["no attention", "windows", "reduced", "function"],
)
def test_nets_without_attention_of_the_whole_image_are_refused(method: str, net: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        make_method(method)(Classifier(net, size=SIZE), pixels(1, SIZE), torch.tensor([[0]]))


# ---- attention LRP -------------------------------------------------------------------------------------------


class Small(nn.Module):
    """A transformer without biases, on tokens ``(N, T, 8)``."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, bias=False, batch_first=True)
        self.norm = nn.LayerNorm(8, elementwise_affine=False)
        self.layers = nn.Sequential(
            nn.Linear(8, 12, bias=False), nn.GELU(), nn.Linear(12, 8, bias=False), nn.Tanh()
        )
        self.head = nn.Linear(8, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x + self.attention(x, x, x)[0])
        return self.head((x + self.layers(x)).mean(dim=1))


def test_relevances_add_up_to_the_logit_if_attention_is_constant() -> None:
    net, x, labels = drawn(Small()), normal(2, 5, 8, seed=3), torch.tensor([[0, 1, 2]] * 2)

    def linear(given: Tensor) -> Tensor:
        with LinearOperations("constant"):
            return net(given)

    assert torch.allclose(linear(x), net(x), atol=1e-5)
    relevance = input_gradients(linear, x, labels) * x[:, None]
    assert torch.allclose(relevance.sum(dim=(2, 3)), net(x), atol=1e-4)
    plain = input_gradients(net, x, labels) * x[:, None]
    assert not torch.allclose(plain.sum(dim=(2, 3)), net(x), atol=1e-2)


def test_attention_shares_relevance_between_values_queries_and_keys() -> None:
    weights = [normal(4, 4, seed=k) for k in range(3)]
    x, out = normal(1, 5, 4, seed=5), normal(4, seed=6)

    def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q @ weights[0], k @ weights[1], v @ weights[2]) @ out

    def logits(given: Tensor) -> Tensor:
        with LinearOperations("halved"):
            return attended(given, given, given).sum(dim=1, keepdim=True)

    found = input_gradients(logits, x, torch.zeros(1, 1, dtype=torch.long))[0, 0]
    copies = [x.clone().requires_grad_() for _ in range(3)]
    gradients = torch.autograd.grad(attended(*copies).sum(), copies)
    expected = gradients[0] / 4 + gradients[1] / 4 + gradients[2] / 2
    assert torch.allclose(found, expected[0], atol=1e-5)
