"""Modules, functions and fitted models as they are, and what a net or its library states of itself."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import proofmap as pm
from proofmap.classifier.raw import as_classifier
from proofmap.core.inputs import Pictures, Rows, Series
from tests.lazily import Lazily
from tests.toys import PICTURES, SERIES, conv_net, normal, pixels, values

X = normal(5, 3, 8, 10)
NET = conv_net()


def quiet(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def test_a_module_is_judged_like_its_classifier_in_the_units_of_the_net() -> None:
    with pytest.warns(
        UserWarning, match=r"inputs \(3 x 8 x 10\) as the net takes them; hidden pixels show 0"
    ) as said:
        found = pm.evaluate(NET, X, methods="gradient,grad-cam", labels="top2")
    assert len(said) == 1 and "outputs are logits" in str(said[0].message)
    assert str(said[0].message) in str(found)  # the table says it too
    own = pm.Classifier(NET, inputs=Pictures(size=(8, 10), unlimited=True))
    assert str(pm.evaluate(own, X, methods="gradient,grad-cam", labels="top2").to_dict()) == str(
        found.to_dict()
    )


def test_gray_is_zero() -> None:
    net = quiet(lambda: as_classifier(NET, X))
    assert net.gray.tolist() == [0, 0, 0] and net.names == ("0", "1", "2", "3")
    low = net.probabilities(-5 * torch.ones(1, 3, 8, 10))
    assert torch.allclose(low, NET(-5 * torch.ones(1, 3, 8, 10)).softmax(1))


@pytest.mark.parametrize(
    "method",
    [
        "belief-mask:passes=4,grid=4",
        "learned-mask:steps=2,fill=noise",
        "occlusion:window=4,stride=4,fill=images",
    ],
)
@pytest.mark.parametrize("n", [1, 5])
def test_methods_with_random_fills_get_images_in_the_units_of_the_net(method: str, n: int) -> None:
    assert quiet(lambda: pm.explain(NET, X[:n], labels="top1", method=method)).maps.isfinite().all()


def test_pictures_of_any_values_are_drawn() -> None:
    drawn = Pictures(size=(8, 10), unlimited=True).picture(X[0])
    assert drawn.min() == 0 and drawn.max() == 255
    record = Pictures(size=(8, 10), unlimited=True).record()
    assert Pictures.from_record(record) == Pictures(size=(8, 10), unlimited=True)
    assert "unlimited" not in PICTURES.record()


@pytest.mark.parametrize(
    "last, outputs",
    [
        (nn.Identity(), "logits"),
        (nn.Softmax(dim=1), "probabilities"),
        (nn.Sigmoid(), "sigmoid-probabilities"),
    ],
)
@pytest.mark.parametrize("labels", [4, 1])
def test_the_kind_of_outputs_is_found(last: nn.Module, outputs: str, labels: int) -> None:
    if labels == 1 and outputs == "probabilities":
        return
    expected = "sigmoid" if labels == 1 and outputs == "logits" else outputs
    for net in (nn.Sequential(conv_net(labels), last), lambda x: last(conv_net(labels)(x))):
        assert quiet(lambda net=net: as_classifier(net, X)).outputs == expected


@pytest.mark.parametrize(
    "x, kind",
    [
        (X, Pictures),
        (X.numpy(), Pictures),
        (np.random.default_rng(0).random((4, 8, 10, 3), dtype=np.float32), Pictures),
        (values(SERIES, 4), Series),
        (normal(4, 7), Rows),
        ([(X, torch.zeros(5).long())], Pictures),
        (
            torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(X, torch.zeros(5).long()), batch_size=2
            ),
            Pictures,
        ),
        (torch.utils.data.TensorDataset(X, torch.zeros(5).long()), Pictures),
    ],
    ids=["tensor", "array", "channels last", "series", "rows", "batches", "loader", "dataset"],
)
def test_the_kind_of_input_is_that_of_the_images(x: Any, kind: type) -> None:
    flat = nn.Sequential(nn.Flatten(), nn.LazyLinear(3))
    shapes = {Pictures: (1, 3, 8, 10), Series: (1, 2, 12), Rows: (1, 7)}
    flat(torch.zeros(shapes[kind]))
    found = quiet(lambda: pm.evaluate(flat, x, methods="gradient", labels="top1", metrics="insertion"))
    assert isinstance(found.inputs, kind)


def test_a_function_without_gradients() -> None:
    def net(x: Tensor) -> Tensor:
        return NET(x.detach())

    assert quiet(
        lambda: pm.explain(net, X, labels="top1", method="occlusion:window=4,stride=4")
    ).maps.shape == (5, 1, 8, 10)


def test_a_fitted_model_and_a_function_of_rows_learn_their_columns_from_the_rows() -> None:
    sklearn = pytest.importorskip("sklearn.linear_model")
    rows = normal(40, 3).numpy()
    model = sklearn.LogisticRegression().fit(rows, (rows[:, 0] > 0).astype(int))
    expected = pm.explain(pm.Classifier(model, data=rows), rows[:4])
    assert pm.explain(model, rows).labels[:4].tolist() == expected.labels.tolist()
    assert pm.explain(model.predict_proba, rows).labels[:4].tolist() == expected.labels.tolist()


def test_images_between_0_and_1_are_doubted() -> None:
    with pytest.warns(
        UserWarning,
        match=r"The images lie between 0\.\d+ and [01]\.?\d*: if the net was trained on normalised ones",
    ):
        as_classifier(NET, 0.01 + 0.9 * pixels(3, (8, 10)))


def test_normalised_images_are_refused_where_pixels_are_declared() -> None:
    with pytest.raises(
        pm.InputError,
        match=r"images must lie in \[0, 1\] \(the classifier normalises them itself\), got \[-\d",
    ):
        pm.explain(pm.Classifier(NET, size=(8, 10)), X)


@pytest.mark.parametrize(
    "net, x, message",
    [
        ("resnet18", X, r"write pm\.load_classifier\('resnet18'\)"),
        (3, X, "the first argument must be a Classifier, a module, a function or a fitted model, not int"),
        (
            NET,
            ["cat.jpg"],
            r"how str reaches the net is not known.*pm\.Classifier\(net, size=224.*transforms=weights",
        ),
        (
            NET,
            torch.zeros(2, 5, dtype=torch.long),
            r"whole numbers, such as tokens, need pm\.Classifier\(net, inputs=\.\.\.\)",
        ),
        (NET, torch.zeros(2, 1, 4, 4, 4, 4), r"inputs of this shape need pm\.Classifier"),
    ],
)
def test_what_cannot_be_taken_as_it_is(net: Any, x: Any, message: str) -> None:
    with pytest.raises(pm.InputError, match=message):
        pm.explain(net, x)


def test_a_judge_of_a_module_follows_its_training() -> None:
    net = conv_net()
    judge = pm.Judge(net, methods=["gradient"], labels="top1")
    with pytest.raises(pm.InputError, match="call update with some first"):
        judge.compute()
    y = torch.zeros(5, dtype=torch.long)
    with pytest.warns(UserWarning, match="as the net takes them"):
        judge.update(X, y)
    first = judge.compute().to_dict()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.1)
    net.train()
    nn.functional.cross_entropy(net(X), y).backward()
    optimiser.step()
    judge.reset()
    judge.update(X, y)  # the same classifier: nothing is said again
    second = judge.compute().to_dict()
    assert net.training and first != second
    assert all(type(value) is float for value in second.values())


# ---- what a net or its library states ------------------------------------------------------------------------


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SCALE = torch.tensor(MEAN).view(-1, 1, 1), torch.tensor(STD).view(-1, 1, 1)
PIXELS = pixels(4, 8)
PHOTO = Image.fromarray(np.random.default_rng(0).integers(0, 256, (40, 30, 3), dtype=np.uint8))
tokenizers = Lazily("tokenizers")
NORMALISED = (PIXELS - SCALE[0]) / SCALE[1]


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
    assert torch.allclose(net.probabilities(NORMALISED), of_pixels.probabilities(PIXELS), atol=1e-5)
    how = {"methods": "gradient,occlusion:window=4,stride=4", "labels": "top2", "metrics": "soundness"}
    found, expected = pm.evaluate(net, NORMALISED, **how), pm.evaluate(of_pixels, PIXELS, **how)
    assert found.to_dict() == pytest.approx(expected.to_dict(), abs=1e-3)
    assert net.gray.tolist() == [0, 0, 0]
    assert Pictures.from_record(net.inputs.record()) == net.inputs


def test_pictures_have_their_colours_and_photos_are_read(tmp_path: Path) -> None:
    net = pm.Classifier(conv_net(), size=8, mean=MEAN, std=STD, normalised=True)
    of_pixels = pm.Classifier(conv_net(), size=8, mean=MEAN, std=STD)
    assert np.array_equal(net.inputs.picture(NORMALISED[0]), of_pixels.inputs.picture(PIXELS[0]))
    Image.fromarray((PIXELS[0].movedim(0, -1).numpy() * 255).round().astype(np.uint8)).save(
        tmp_path / "a.png"
    )
    read = pm.load_images([tmp_path / "a.png"], net)
    assert torch.allclose(read, NORMALISED[:1], atol=1e-5)


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
