"""Zero-shot classifiers: logits against transformers' own, labels from a file or the string, and refusals."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
import torch

from proofmap.core.errors import InputError, ModelError
from proofmap.models import load_classifier
from proofmap.models.spec import ModelSpec

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
TOWER = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
WORDS = [
    "a",
    "photo",
    "of",
    ".",
    "cat",
    "dog",
    "cup",
    "painting",
    "<|startoftext|>",
    "<|endoftext|>",
    "[UNK]",
]


def save_words(transformers: ModuleType, folder: Path) -> None:
    """A tokenizer of whole words."""
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    words.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|startoftext|> $A <|endoftext|>",
        special_tokens=[("<|startoftext|>", 8), ("<|endoftext|>", 9)],
    )
    special = {"pad_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "bos_token": "<|startoftext|>"}
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, unk_token="[UNK]", model_max_length=16, **special
    ).save_pretrained(folder)


def save_processor(folder: Path, kind: str, size: dict[str, int]) -> None:
    steps = ("do_resize", "do_normalize", "do_rescale", "do_convert_rgb")
    processor = {
        "image_processor_type": kind,
        "size": size,
        "crop_size": {"height": 32, "width": 32},
        "do_center_crop": kind == "CLIPImageProcessor",
        "image_mean": [0.5, 0.4, 0.3],
        "image_std": [0.25, 0.2, 0.3],
        **dict.fromkeys(steps, True),
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))


def save_model(transformers: ModuleType, folder: Path, kind: str) -> None:
    text = {**TOWER, "vocab_size": len(WORDS), "max_position_embeddings": 16}
    tokens = {"eos_token_id": 9, "bos_token_id": 8, "pad_token_id": 9}
    config = getattr(transformers, f"{kind}Config")(
        text_config={**text, **tokens}, vision_config={**TOWER, "image_size": 32, "patch_size": 8}
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        getattr(transformers, f"{kind}Model")(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def checkpoint(transformers: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as Hugging Face has it: a tiny CLIP with random weights, its tokenizer and its processor."""
    folder = tmp_path_factory.mktemp("clip")
    save_words(transformers, folder)
    save_model(transformers, folder, "CLIP")
    save_processor(folder, "CLIPImageProcessor", {"shortest_edge": 32})
    return folder


@pytest.mark.parametrize("kind", ["CLIP", "Siglip"])
def test_the_logits_are_those_of_the_whole_model(
    kind: str, checkpoint: Path, transformers: ModuleType, tmp_path: Path
) -> None:
    """The labels of SigLIP do not exclude each other."""
    folder, padding = checkpoint, True
    if kind == "Siglip":
        folder, padding = tmp_path, "max_length"
        save_words(transformers, folder)
        save_model(transformers, folder, kind)
        save_processor(folder, "SiglipImageProcessor", {"height": 32, "width": 32})
    f = load_classifier(f"clip:{folder}?labels=cat,dog,cup", batch_size=4)
    assert (f.names, f.size, f.mean, f.std) == (
        ("cat", "dog", "cup"),
        (32, 32),
        (0.5, 0.4, 0.3),
        (0.25, 0.2, 0.3),
    )
    images = torch.rand(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    tokens = transformers.AutoTokenizer.from_pretrained(folder)(
        [f"a photo of a {name}." for name in f.names], padding=padding, return_tensors="pt"
    )
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (f.mean, f.std))
    with torch.no_grad():
        model = getattr(transformers, f"{kind}Model").from_pretrained(folder).eval()
        given = {"input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"]}
        expected = model(pixel_values=(images - mean) / std, **given).logits_per_image
    torch.testing.assert_close(f.logits(images), expected, rtol=1e-4, atol=1e-4)
    assert float(expected.std()) > 0.01 and f.independent == (kind == "Siglip")
    probabilities = expected.sigmoid() if f.independent else expected.softmax(dim=1)
    torch.testing.assert_close(f.probabilities(images), probabilities, rtol=1e-4, atol=1e-5)


def test_labels_may_come_from_a_file_and_the_sentence_may_be_another(
    checkpoint: Path, tmp_path: Path
) -> None:
    (tmp_path / "labels.txt").write_text("cat\n\n dog \n")
    photo = load_classifier(f"clip:{checkpoint}?labels={tmp_path / 'labels.txt'}", batch_size=4)
    painting = load_classifier(
        f"clip:{checkpoint}?labels=cat,dog&template=a painting of a {{}}.", batch_size=4
    )
    assert photo.names == painting.names == ("cat", "dog")
    x = torch.rand(1, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    assert not torch.allclose(photo.logits(x), painting.logits(x), atol=1e-3)


@pytest.mark.parametrize(
    "options, told",
    [
        ("", r"needs labels: write clip:.*\?labels=FILE.txt"),
        ("?labels=cat", "at least two different labels, not cat"),
        ("?labels=cat,cat", "at least two different labels"),
        ("?labels=missing.txt", "labels file 'missing.txt' cannot be read"),
        ("?labels=cat,dog&template=a photo", r"has no \{\}, which marks the place of the label"),
        ("?labels=cat,dog&pretrained=false", "leave out weights and pretrained"),
    ],
)
def test_what_it_cannot_be_made_of_is_told(options: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        load_classifier(f"clip:nowhere{options}")


def test_another_kind_of_checkpoint_is_told(transformers: ModuleType, tmp_path: Path) -> None:
    config = transformers.ViTConfig(**TOWER, image_size=16, patch_size=8)
    transformers.ViTModel(config).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="a ViTModel, which does not compare pictures with sentences"):
        load_classifier(f"clip:{tmp_path}?labels=cat,dog")


@pytest.mark.parametrize(
    "text", ["clip:x?labels=", "clip:x?label=a,b", "timm:x?labels=a,b", "timm:x?pretrained=no"]
)
def test_options_that_a_scheme_does_not_have_cannot_be_read(text: str) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        ModelSpec.parse(text)
