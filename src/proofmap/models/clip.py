"""Zero-shot classifiers: the net compares a picture with a sentence about each label.

    logit_a(x) = scale * cos(image features of x, text features of "a photo of a LABEL.")

as in Radford et al., *Learning transferable visual models from natural language supervision* (ICML 2021). Any checkpoint of Hugging
Face with the two towers of CLIP (an image encoder and a text encoder) works, from a folder or a repository. Checkpoints of SigLIP (Zhai et
al. 2023) also have a bias, and their labels are independent: ``outputs="sigmoid"``. The sentences are encoded once. The net that is
explained is the image encoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.core.errors import InputError, ModelError

TEMPLATE = "a photo of a {}."


class ZeroShot(nn.Module):
    """The image encoder of a CLIP-like model with fixed features of sentences. It maps normalised images ``(N, 3, H, W)`` to the logits
    ``scale * cosine + bias``, ``(N, labels)``.
    """

    sentences: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, model: nn.Module, sentences: Tensor, scale: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("sentences", sentences)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        image: Any = self.model
        features = F.normalize(features_of(image.get_image_features(pixel_values=x)), dim=-1)
        return self.scale * features @ self.sentences.T + self.bias


def features_of(output: Any) -> Tensor:
    """The features that an encoder returned. Newer versions of transformers return them inside an output object, which is unpacked."""
    features: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return features


def zero_shot(name: str, labels: Sequence[str], template: str, transformers: Any, **where: Any) -> ZeroShot:
    """The zero-shot net for the checkpoint ``name`` and ``labels``. ``where`` has further arguments of ``from_pretrained``."""
    model = transformers.AutoModel.from_pretrained(name, **where).float().eval()
    if not all(hasattr(model, part) for part in ("get_image_features", "get_text_features", "logit_scale")):
        raise ModelError(
            f"clip:{name} is a {type(model).__name__}, which does not compare pictures with sentences; "
            "a CLIP-like checkpoint is needed"
        )
    tokenizer = transformers.AutoTokenizer.from_pretrained(name, **where)
    bias = getattr(model, "logit_bias", None)
    padding = True if bias is None else "max_length"  # as SigLIP was trained
    words = [template.replace("{}", label) for label in labels]
    tokens = tokenizer(words, padding=padding, truncation=True, return_tensors="pt")
    with torch.no_grad():
        sentences = F.normalize(features_of(model.get_text_features(**tokens)), dim=-1)
    if hasattr(model, "text_model"):
        model.text_model = nn.Identity()  # half of the weights, no longer needed
    scale = model.logit_scale.detach().exp()
    bias = torch.zeros_like(scale) if bias is None else bias.detach()
    return ZeroShot(model.requires_grad_(False), sentences, scale, bias)


def read_labels(labels: str) -> tuple[str, ...]:
    """Label names, separated by commas or from a text file with one name per line.

    >>> read_labels("cat, tabby cat,dog")
    ('cat', 'tabby cat', 'dog')
    """
    if Path(labels).suffix == ".txt":
        try:
            lines = Path(labels).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"the labels file {labels!r} cannot be read: {error}") from None
    else:
        lines = labels.split(",")
    names = tuple(line.strip() for line in lines if line.strip())
    if len(names) < 2 or len({name.lower() for name in names}) < len(names):
        raise InputError(
            "a zero-shot classifier needs at least two different labels: clip:DIR?labels=cat,dog or "
            f"clip:DIR?labels=FILE.txt with one in a line; given are {', '.join(names) or 'none'}"
        )
    return names
