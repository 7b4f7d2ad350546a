"""Nets that state their size, normalisation and names; batches that are normalised already."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import proofmap as pm
from proofmap.core.inputs import Pictures
from tests.lazily import Lazily
from tests.toys import conv_net, pixels

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SCALE = torch.tensor(MEAN).view(-1, 1, 1), torch.tensor(STD).view(-1, 1, 1)
PIXELS = pixels(4, 8)
PHOTO = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8))
tokenizers = Lazily("tokenizers")
X = (PIXELS - SCALE[0]) / SCALE[1]


class Mode(Enum):
    BICUBIC = "bicubic"


def preset() -> SimpleNamespace:
    """What ``weights.transforms()`` of torchvision states."""
    return SimpleNamespace(crop_size=[8], resize_size=[10], mean=MEAN, std=STD, interpolation=Mode.BICUBIC)


def test_transforms_state_size_and_normalisation() -> None:
    net = pm.Classifier(conv_net(), transforms=preset())
    assert net.inputs == Pictures(size=8, mean=MEAN, std=STD, resize=10, interpolation="bicubic")  # type: ignore[arg-type]
    with pytest.raises(
        pm.InputError, match=r"transforms must be those of torchvision's weights.*not function"
    ):
        pm.Classifier(conv_net(), transforms=lambda x: x)


def test_a_net_of_timm_states_all(timm: ModuleType) -> None:
    net = pm.Classifier(timm.create_model("test_vit.r160_in1k", pretrained=False))
    loaded = pm.load_classifier("timm:test_vit.r160_in1k?pretrained=false")
    assert net.inputs == loaded.inputs and net.names[:3] == loaded.names[:3]
    bare = timm.create_model("test_vit.r160_in1k", pretrained=False, num_classes=3)
    assert pm.Classifier(bare, size=160).names == ("0", "1", "2")


def test_normalised_batches_give_the_numbers_of_pixels() -> None:
    net = pm.Classifier(conv_net(), size=8, mean=MEAN, std=STD, normalised=True)
    of_pixels = pm.Classifier(conv_net(), size=8, mean=MEAN, std=STD)
    assert torch.allclose(net.probabilities(X), of_pixels.probabilities(PIXELS), atol=1e-5)
    how = {"methods": "gradient,occlusion:window=4,stride=4", "labels": "top2", "metrics": "soundness"}
    found, expected = pm.evaluate(net, X, **how), pm.evaluate(of_pixels, PIXELS, **how)
    assert found.to_dict() == pytest.approx(expected.to_dict(), abs=1e-3)
    assert net.gray.tolist() == [0, 0, 0]
    assert Pictures.from_record(net.inputs.record()) == net.inputs


def test_pictures_have_their_colours_and_photos_are_read(tmp_path: Path) -> None:
    net = pm.Classifier(conv_net(), size=8, mean=MEAN, std=STD, normalised=True)
    of_pixels = pm.Classifier(conv_net(), size=8, mean=MEAN, std=STD)
    assert np.array_equal(net.inputs.picture(X[0]), of_pixels.inputs.picture(PIXELS[0]))
    Image.fromarray((PIXELS[0].movedim(0, -1).numpy() * 255).round().astype(np.uint8)).save(
        tmp_path / "a.png"
    )
    read = pm.load_images([tmp_path / "a.png"], net)
    assert torch.allclose(read, X[:1], atol=1e-5)


def test_pixels_are_refused_where_normalised_ones_were_announced() -> None:
    net = pm.Classifier(conv_net(), size=8, mean=MEAN, std=STD, normalised=True)
    with pytest.raises(
        pm.InputError,
        match=r"the images lie in \[0.*, 1\], as pixels do, but .* values down to -2\.12; normalise them",
    ):
        pm.explain(net, PIXELS)


def test_what_is_given_takes_precedence(timm: ModuleType) -> None:
    timm_net = timm.create_model("test_vit.r160_in1k", pretrained=False)
    assert pm.Classifier(timm_net, mean=(0, 0, 0), std=(1, 1, 1)).mean == (0, 0, 0)
    assert pm.Classifier(conv_net(), transforms=preset(), size=12).size == (12, 12)
    timm_net.reset_classifier(5)
    assert pm.Classifier(timm_net).names == ("0", "1", "2", "3", "4")  # it got another head


def test_transforms_of_torchvision(torchvision: ModuleType) -> None:
    weights = torchvision.models.ResNet18_Weights.DEFAULT
    m = torchvision.models.resnet18(weights=None)
    f = pm.Classifier(m, transforms=weights.transforms())
    x = weights.transforms()(PHOTO) * SCALE[1] + SCALE[0]
    torch.testing.assert_close(f.inputs.prepare(PHOTO), x, atol=0.02, rtol=0)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"transforms": 1, "processor": 2}, "give transforms= or processor=, not both"),
        ({"processor": 2}, "processor= is for models of Hugging Face; for a Sequential write transforms="),
    ],
)
def test_a_processor_elsewhere_is_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(pm.InputError, match=message):
        pm.Classifier(conv_net(), **arguments)


# ---- Hugging Face -----------------------------------------------------------------------------------------------------------


def vit(transformers: Any, **config: Any) -> nn.Module:
    torch.manual_seed(0)
    names = dict(enumerate(["cat", "dog", "cup"]))
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(image_size=32, patch_size=8, id2label=names, **small, **config)
    )


def test_a_model_of_hugging_face_with_its_processor(transformers: Any) -> None:
    hf_model = vit(transformers).train()
    p = transformers.ViTImageProcessorPil(size={"height": 32, "width": 32}, image_mean=MEAN, image_std=STD)
    f = pm.Classifier(hf_model, processor=p)
    assert f.names == ("cat", "dog", "cup") and f.size == (32, 32) and f.inputs.fit == "squash"
    assert f.mean == pytest.approx(MEAN, abs=1e-4) and f.std == pytest.approx(STD, abs=1e-4)
    with torch.no_grad():
        given = p(images=PHOTO, return_tensors="pt")
        expected = vit(transformers).eval()(**given).logits.softmax(dim=1)
    x = f.inputs.prepare(PHOTO)[None]
    torch.testing.assert_close(f.probabilities(x), expected, atol=1e-3, rtol=0)
    assert hf_model.training
    assert pm.explain(f, x, labels="top1", method="gradient").maps.shape == (1, 1, 32, 32)
    assert pm.Classifier(
        vit(transformers, problem_type="multi_label_classification"), processor=p
    ).independent


def test_a_model_of_texts_with_its_tokenizer(transformers: Any) -> None:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "good", "bad", "film", "this", "is"]
    made = tokenizers.Tokenizer(
        tokenizers.models.WordPiece({w: k for k, w in enumerate(words)}, unk_token="[UNK]")
    )
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {f"{w[1:-1].lower()}_token": w for w in words[:5]}
    p = transformers.PreTrainedTokenizerFast(tokenizer_object=made, **special)
    torch.manual_seed(0)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(
        vocab_size=len(words), max_position_embeddings=20, id2label={0: "bad", 1: "good"}, **small
    )
    hf_model = transformers.BertForSequenceClassification(config).train()
    f = pm.Classifier(hf_model, processor=p)
    texts = ["this is a good film", "bad"]
    assert f.names == ("bad", "good") and f.differentiable and hf_model.training
    with torch.no_grad():
        hf_model.eval()
        expected = torch.cat([hf_model(**p(t, return_tensors="pt")).logits for t in texts]).softmax(dim=1)
    torch.testing.assert_close(f.probabilities(f.inputs.encode(texts)), expected, atol=1e-4, rtol=0)
    found = pm.evaluate(f, texts, methods="gradient-x-input", labels="all", metrics="soundness")
    assert len(found.images) == 2
    with pytest.raises(
        pm.ProofmapError, match=r"explained with its tokenizer: pm\.Classifier\(model, processor="
    ):
        pm.Classifier(hf_model)
