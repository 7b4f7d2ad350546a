"""What someone tries who has read the README's *In Python* alone."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import proofmap as pm
from tests.toys import conv_net, normal

MODULE = conv_net()
X, Y, A = normal(6, 3, 8, 8), torch.tensor([0, 1, 2, 3, 0, 1]), normal(6, 8, 8, seed=1)
LOADER = DataLoader(TensorDataset(X, Y), batch_size=2)


def mine(net: Any, images: Tensor, labels: Tensor) -> Tensor:
    return images.abs().sum(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)


def in_a_loop() -> Any:
    judge = pm.Judge(MODULE, methods="gradient", labels="true", metrics=["soundness"])
    for images, labels in LOADER:
        judge.update(images, labels)
    return judge.compute().to_dict()["gradient/soundness"]


CALLS = {
    "a module and a batch": lambda: pm.evaluate(MODULE, X, methods=["grad-cam"], labels="top2").table(),
    "a module and one picture": lambda: pm.explain(MODULE, X[0], labels="top2", method="gradient").table(),
    "maps of a picture": lambda: pm.evaluate(MODULE, X[0], maps=A[0], labels=3)["maps"].scores,
    "arrays of maps": lambda: pm.evaluate(MODULE, X, maps={"mine": A.numpy()}, labels=Y)["mine"].scores,
    "a loader": lambda: pm.evaluate(MODULE, LOADER, methods=["gradient"], labels="top2").methods,
    "a judge": in_a_loop,
    "named methods": lambda: pm.evaluate(MODULE, X, methods={"a": "grad-cam", "b": mine}, labels="top2")["b"],
    "maps of our method": lambda: pm.make_method("belief-mask:passes=4")(MODULE, X, target=3),
    "a score": lambda: pm.soundness(MODULE, X, A, Y),
    "files of results": lambda: pm.explain(MODULE, X[:1], labels="top1", method="gradient").save("out"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.filterwarnings("ignore:.*as the net takes them")
def test_a_first_call(call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(str(call())) > 4


def test_photos_reach_a_net_of_timm_as_it_states(
    timm: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    photo = Image.fromarray(np.random.default_rng(0).integers(0, 256, (170, 180, 3), dtype=np.uint8))
    photo.save("cat.png")
    net = timm.create_model("test_resnet.r160_in1k", pretrained=False)
    images = pm.load_images("cat.png", net)
    how: Any = {"method": "gradient", "labels": "top1"}
    expected = pm.explain(pm.Classifier(net), images, **how)
    for given in ("cat.png", photo, [photo], np.asarray(photo), images[0].numpy()):
        net_or = pm.Classifier(net) if isinstance(given, np.ndarray) else net
        assert torch.equal(pm.explain(net_or, given, **how).maps, expected.maps)
    with pytest.raises(pm.InputError, match="how PosixPath reaches the net is not known"):
        pm.load_images([Path("cat.png")], MODULE)


def test_a_text_for_a_pipeline_of_texts() -> None:
    pytest.importorskip("sklearn")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    net = make_pipeline(CountVectorizer(), LogisticRegression()).fit(["a good film", "a bad film"], [1, 0])
    proof = pm.explain(net, "a good film", labels="top1")
    assert proof.labels.tolist() == [[1]] and len(proof.maps) == 1


@pytest.mark.parametrize("library", ["narwhals", "pyarrow", "datasets"])
def test_a_frame_of_another_library(library: str) -> None:
    """Arrow, narwhals and Hugging Face have ``to_pandas`` in common."""
    pd, module = pytest.importorskip("pandas"), pytest.importorskip(library)
    linear = pytest.importorskip("sklearn.linear_model")
    frame = pd.DataFrame({"age": np.arange(30.0) % 7, "income": np.arange(30) % 4})
    model = linear.LogisticRegression().fit(frame, frame["age"] > 3)
    convert = {
        "narwhals": lambda: module.from_native(frame),
        "pyarrow": lambda: module.Table.from_pandas(frame, preserve_index=False),
        "datasets": lambda: module.Dataset.from_pandas(frame),
    }
    given = convert[library]()
    found = pm.explain(pm.Classifier(model, data=given), given, labels="top1", method="belief-order")
    expected = pm.explain(pm.Classifier(model, data=frame), frame, labels="top1", method="belief-order")
    assert torch.equal(found.maps, expected.maps) and torch.equal(found.labels, expected.labels)
    assert torch.equal(pm.explain(model, given, labels="top1", method="belief-order").maps, expected.maps)
    values = pd.DataFrame({"income": frame["income"] * 1.0, "age": frame["age"]})
    as_maps = pm.evaluate(model, frame, maps=values, target=0)["maps"].maps
    assert as_maps[3].tolist() == [[3.0, 3.0]] and as_maps[8].tolist() == [[1.0, 0.0]]
