"""The hubs: their nets come with their own preprocessing and names; they are asked once, and their failures are told."""

from __future__ import annotations

import os
import pickle
import threading
import urllib.error
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from proofmap.classifier import stated
from proofmap.core.errors import MissingExtra, ModelError
from proofmap.data.photos import load_images
from proofmap.models import hubs, load_classifier
from tests.data.made_up import Trap

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    image = Image.fromarray(pixels).resize((320, 240), Image.Resampling.BICUBIC)
    image.save(tmp_path / "photo.png")
    return tmp_path / "photo.png"


# ---- torchvision -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tag, resize", [("", 232), (".IMAGENET1K_V1", 256), (".imagenet1k_v2", 232)])
def test_torchvision_prepares_images_as_the_chosen_weights_want(
    torchvision: ModuleType, tag: str, resize: int
) -> None:
    f = load_classifier(f"torchvision:mobilenet_v2{tag}?pretrained=false", batch_size=1)
    assert (f.size, f.inputs.resize, f.inputs.interpolation, (f.mean, f.std)) == (
        (224, 224),
        resize,
        "bilinear",
        IMAGENET,
    )
    assert (f.names[0], f.names[264], f.names[474]) == ("tench", "Cardigan (264)", "cardigan (474)")


def test_a_photo_reaches_the_net_as_torchvision_itself_prepares_it(
    torchvision: ModuleType, photo: Path
) -> None:
    f = load_classifier("torchvision:squeezenet1_1?pretrained=false", batch_size=1)
    preset = torchvision.models.SqueezeNet1_1_Weights.DEFAULT.transforms()
    mean, std = torch.tensor(f.mean).view(3, 1, 1), torch.tensor(f.std).view(3, 1, 1)
    ours = (load_images(photo, f)[0] - mean) / std
    theirs = preset(Image.open(photo).convert("RGB"))
    torch.testing.assert_close(
        ours, theirs, rtol=0, atol=0.02
    )  # a pixel is rounded to 1/255, 0.017 normalised


def test_torchvision_weights_may_come_from_a_file(torchvision: ModuleType, tmp_path: Path) -> None:
    net = torchvision.models.squeezenet1_1(weights=None)
    torch.save(net.state_dict(), tmp_path / "w.pth")
    f = load_classifier(f"torchvision:squeezenet1_1@{tmp_path / 'w.pth'}", batch_size=1)
    x = torch.rand(1, 3, 224, 224)
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in IMAGENET)
    with torch.no_grad():
        torch.testing.assert_close(f.logits(x), net.eval()((x - mean) / std))


@pytest.mark.parametrize(
    "name, told",
    [
        ("resnet51", "no classifier 'resnet51'. Did you mean 'resnet50'"),
        ("fasterrcnn_resnet50_fpn", "no classifier"),
        ("resnet50.V9", "no weights 'V9'; it has IMAGENET1K_V1, IMAGENET1K_V2"),
    ],
)
def test_torchvision_names_that_are_not_there(torchvision: ModuleType, name: str, told: str) -> None:
    with pytest.raises(ModelError, match=told):
        load_classifier(f"torchvision:{name}")


def test_a_failed_download_says_so(torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", offline)
    with pytest.raises(
        ModelError, match=r"could not be downloaded.*no route.*torchvision:squeezenet1_1@FILE"
    ):
        load_classifier("torchvision:squeezenet1_1")


def test_a_downloaded_checkpoint_can_run_no_code(
    torchvision: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "w.pth").write_bytes(pickle.dumps(Trap(tmp_path / "executed")))

    def downloaded(*_: object, **__: object) -> Any:
        return torch.load(tmp_path / "w.pth", weights_only=False)  # as torch.hub does

    monkeypatch.setattr("torchvision.models._api.load_state_dict_from_url", downloaded)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.raises(ModelError, match="could not be downloaded or read"):
        load_classifier("torchvision:squeezenet1_1")
    assert not (tmp_path / "executed").exists()
    assert os.environ["TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"] == "1"
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


# ---- timm --------------------------------------------------------------------------------------------------


def test_a_photo_reaches_the_net_as_timm_itself_prepares_it(timm: ModuleType, photo: Path) -> None:
    f = load_classifier("timm:test_vit.r160_in1k?pretrained=false", batch_size=1)
    net = timm.create_model("test_vit.r160_in1k", pretrained=False)
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(net))
    ours = (load_images(photo, f)[0] - 0.5) / 0.5
    torch.testing.assert_close(ours, transform(Image.open(photo).convert("RGB")), rtol=0, atol=0.02)


@pytest.mark.parametrize("crop_pct", [1.0, 0.875])
def test_a_photo_is_squashed_where_timm_squashes_it(
    timm: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crop_pct: float
) -> None:
    resolve = timm.data.resolve_model_data_config
    squash = {"crop_mode": "squash", "crop_pct": crop_pct}
    monkeypatch.setattr(timm.data, "resolve_model_data_config", lambda net: {**resolve(net), **squash})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        f = load_classifier("timm:lcnet_035?pretrained=false", batch_size=1)
    assert f.inputs.fit == "squash"
    if crop_pct < 1:
        assert "squashed to 256 pixels, of which the middle 224 were cut out" in str(caught[-1].message)
        return
    assert not caught
    pixels = np.random.default_rng(0).integers(0, 256, (5, 12, 3), dtype=np.uint8)
    oblong = Image.fromarray(pixels).resize((480, 200), Image.Resampling.BICUBIC)
    oblong.save(tmp_path / "oblong.png")
    config = {**resolve(timm.create_model("lcnet_035")), **squash}
    theirs = timm.data.create_transform(**config)(oblong)
    (ours,) = load_images(tmp_path / "oblong.png", f)
    mean, std = (torch.tensor(config[key]).view(3, 1, 1) for key in ("mean", "std"))
    torch.testing.assert_close((ours - mean) / std, theirs, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "size, crop_pct, fit",
    [
        ({"shortest_edge": 256}, None, {"resize": 256}),
        ({"shortest_edge": 224}, 0.875, {"resize": 256}),
        ({"shortest_edge": 384}, 0.875, {"fit": "squash"}),  # ConvNeXT's processor does not crop from 384 on
        ({"height": 224, "width": 224}, None, {"fit": "squash"}),
    ],
)
def test_processors_of_hugging_face_crop_or_squash(
    size: dict[str, int], crop_pct: float | None, fit: dict[str, object]
) -> None:
    side = 384 if size.get("shortest_edge") == 384 else 224
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert stated._fit(SimpleNamespace(size=size, crop_pct=crop_pct), side, "hf:org/net") == fit


def test_timm_names_that_are_not_there(timm: ModuleType) -> None:
    with pytest.raises(ModelError, match=r"timm has no model 'resnet81'\. Did you mean 'resnet18'"):
        load_classifier("timm:resnet81?pretrained=false")


# ---- Hugging Face ------------------------------------------------------------------------------------------


@pytest.fixture
def saved(transformers: ModuleType, tmp_path: Path) -> Any:
    """A function that saves a tiny net with a processor of the given kind and settings."""

    def save(processor: str, **settings: Any) -> tuple[Path, Any, Any]:
        config = transformers.ResNetConfig(
            embedding_size=8, hidden_sizes=[8, 8], depths=[1, 1], id2label={0: "cat", 1: "dog", 2: "cup"}
        )
        net = transformers.ResNetForImageClassification(config).eval()
        made = getattr(transformers, processor)(**settings)
        folder = tmp_path / "hub"
        net.save_pretrained(folder)
        made.save_pretrained(folder)
        return folder, net, made

    return save


CROPPING = {"size": {"shortest_edge": 72}, "crop_size": {"height": 64, "width": 64}}


@pytest.mark.parametrize(
    "processor, settings, resize",
    [
        ("CLIPImageProcessor", CROPPING, 72),
        ("ConvNextImageProcessor", {"size": {"shortest_edge": 56}, "crop_pct": 0.875}, 64),
        ("MobileViTImageProcessor", CROPPING, 72),  # blue comes first, and nothing is normalised
    ],
)
def test_a_photo_gives_the_logits_of_the_hubs_own_pipeline(
    saved: Any, photo: Path, processor: str, settings: dict[str, Any], resize: int
) -> None:
    folder, net, made = saved(processor, **settings)
    f = load_classifier(f"hf:{folder}", batch_size=1)
    assert (f.inputs.resize, f.names) == (resize, ("cat", "dog", "cup"))
    with torch.no_grad():
        theirs = net(**made(images=Image.open(photo), return_tensors="pt")).logits
    torch.testing.assert_close(f.logits(load_images(photo, f)), theirs, rtol=0, atol=5e-3)


@pytest.mark.parametrize(
    "processor, settings",
    [
        ("ViTImageProcessor", {"size": {"height": 64, "width": 64}}),
        (
            "ConvNextImageProcessor",
            {"size": {"shortest_edge": 384}, "crop_pct": 0.875},
        ),  # no crop from 384 on
    ],
)
def test_a_hub_that_squashes_gets_its_own_picture_without_a_warning(
    saved: Any, tmp_path: Path, processor: str, settings: dict[str, Any]
) -> None:
    oblong = tmp_path / "oblong.png"
    pixels = np.random.default_rng(0).integers(0, 256, (5, 12, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((480, 200), Image.Resampling.BICUBIC).save(oblong)
    folder, net, made = saved(processor, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        f = load_classifier(f"hf:{folder}", batch_size=1)
        images = load_images(oblong, f)
    assert f.inputs.fit == "squash"
    with torch.no_grad():
        theirs = net(**made(images=Image.open(oblong), return_tensors="pt")).logits
    torch.testing.assert_close(f.logits(images), theirs, rtol=0, atol=5e-3)
    cropped = f.fitting("crop")
    assert not torch.allclose(f.logits(load_images(oblong, cropped)), theirs, rtol=0, atol=5e-3)


def test_normalisation_is_measured_whatever_the_processor_does(saved: Any) -> None:
    square = {"height": 72, "width": 72}
    folder, _, _ = saved(
        "EfficientNetImageProcessor", size=square, crop_size={"height": 64, "width": 64}, do_center_crop=True
    )  # normalises twice
    with pytest.warns(UserWarning, match="squashed to 72 pixels, of which the middle 64 were cut out"):
        f = load_classifier(f"hf:{folder}?pretrained=false")
    assert (f.size, f.mean, f.std) == ((64, 64), (0.5,) * 3, (0.25,) * 3)


def test_a_repository_that_cannot_be_reached_is_told(
    transformers: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*_: object, **__: object) -> None:
        raise ConnectionError("no route to host")

    monkeypatch.setattr(hubs, "_folder_or_repository", lambda scheme, name: {})
    monkeypatch.setattr(transformers.AutoModelForImageClassification, "from_pretrained", offline)
    with pytest.raises(ModelError, match=r"hf:org/net cannot be loaded.*downloaded.*no route to host"):
        load_classifier("hf:org/net")


# ---- all ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "hub, package", [("torchvision", "torchvision"), ("timm", "timm"), ("hf", "transformers")]
)
def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch, hub: str, package: str) -> None:
    def absent(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr("importlib.import_module", absent)
    with pytest.raises(MissingExtra, match=rf"needs the package '{package}'.*proofmap\[{hub}\]"):
        load_classifier(f"{hub}:anything")


# ---- what a hub is asked -------------------------------------------------------------------------------------


hub: Any = pytest.importorskip("huggingface_hub")
CONFIG = "config.json"


class Server:
    """A server on this machine that counts what it is asked, and answers everything with one status."""

    def __init__(self, status: int) -> None:
        asked = self.asked = list[str]()

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                asked.append(self.path)
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


@pytest.fixture
def server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    server = Server(request.param)
    address = hub.hf_hub_url
    monkeypatch.setattr(hub, "hf_hub_url", lambda *given: address(*given, endpoint=server.address))
    yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put_into(cache: Path, repository: str, file: str) -> None:
    folder = cache / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("0" * 40)
    (folder / "snapshots" / ("0" * 40)).mkdir(parents=True)
    (folder / "snapshots" / ("0" * 40) / file).write_text("{}")


@pytest.mark.parametrize("server", [503, 429, 500], indirect=True)
def test_a_hub_that_fails_is_asked_once(server: Server, cache: Path) -> None:
    with pytest.raises(
        ModelError,
        match=r"cannot be reached .*asked once, for at most 5 s\), and the net is not in the local cache",
    ):
        hubs._ask_hugging_face("org/net", [CONFIG], extra="hf")
    assert server.asked == [f"/org/net/resolve/main/{CONFIG}"]


@pytest.mark.parametrize("server", [503], indirect=True)
def test_without_the_hub_the_cache_is_enough(server: Server, cache: Path) -> None:
    put_into(cache, "org/net", CONFIG)
    assert not hubs._ask_hugging_face("org/net", ["other.json", CONFIG], extra="hf")
    assert hubs._folder_or_repository("hf", "org/net") == {"local_files_only": True}


@pytest.fixture
def transformers_that_load_nothing(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is asked of transformers, which raises in place of loading; it need not be installed."""
    asked: list[Any] = []

    def from_pretrained(name: str, **settings: Any) -> None:
        asked.append((name, settings))
        raise OSError("nothing is loaded here")

    auto = SimpleNamespace(from_pretrained=from_pretrained)
    fake = SimpleNamespace(AutoModelForImageClassification=auto, AutoConfig=auto, AutoModel=auto)
    require = hubs.require
    monkeypatch.setattr(
        hubs,
        "require",
        lambda module, **settings: fake if module == "transformers" else require(module, **settings),
    )
    return asked


@dataclass
class Asked:
    """What the hub was asked, in place of which it raises an error."""

    error: Exception = field(default_factory=lambda: ConnectionError("no route to host"))
    questions: list[tuple[str, Any]] = field(default_factory=list)

    def __call__(self, url: str, **settings: Any) -> None:
        self.questions.append((url.partition("/resolve/")[0].partition(".co/")[2], settings))
        raise self.error


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, cache: Path) -> Asked:
    monkeypatch.setattr(hub, "get_hf_file_metadata", found := Asked())
    return found


LIMIT = {"timeout": 5.0}


@pytest.mark.parametrize("spec", ["hf:vitt", "hf:vitt?pretrained=false", "clip:vitt?labels=cat,dog"])
def test_a_folder_that_is_not_there_is_named_before_the_hub(
    spec: str,
    transformers_that_load_nothing: list[Any],
    asked: Asked,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vit").mkdir()
    told = (
        rf"^{spec.partition(':')[0]}:vitt cannot be loaded: there is no folder 'vitt', and Hugging.*"
        r"no route to host; asked once, for at most 5 s.*Did you mean 'vit'\?$"
    )
    with pytest.raises(ModelError, match=told):
        load_classifier(spec)
    assert asked.questions == [("vitt", LIMIT)], "asked once, for a short time"
    assert transformers_that_load_nothing == [], "which would try again and again"


def test_a_repository_that_is_not_there_is_told(
    asked: Asked, transformers_that_load_nothing: list[Any]
) -> None:
    missing = hub.errors.RepositoryNotFoundError
    asked.error = missing.__new__(missing)
    with pytest.raises(
        ModelError, match="there is no folder 'org/net', and Hugging Face's hub has no repository 'org/net'"
    ):
        load_classifier("hf:org/net")


def test_timm_asks_once_before_it_downloads(
    timm: ModuleType, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timm, "create_model", lambda *_, **__: pytest.fail("began a download"))
    with pytest.raises(ModelError, match=r"hub cannot be reached .*no route to host.*not in the local cache"):
        load_classifier("timm:resnet18.a1_in1k")
    assert asked.questions == [("timm/resnet18.a1_in1k", LIMIT)]
