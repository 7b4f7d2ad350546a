"""Nets of a server: which are offered and how they are called; pools of random images as ``explain`` has them."""

from __future__ import annotations

import re
import sys
from dataclasses import MISSING
from pathlib import Path
from typing import Any

import pytest
import torch
from starlette.testclient import TestClient

import proofmap as pm
from proofmap.app import nets as module
from proofmap.app.choices import RECOMMENDED, Choices
from proofmap.app.nets import Nets, Offer, offers
from proofmap.app.server import Server
from proofmap.core.errors import InputError
from proofmap.core.inputs import Series
from proofmap.fills import FILLS
from proofmap.methods import METHODS, make_method
from proofmap.methods.masks.method import MaskMethod
from proofmap.models import ModelInfo
from proofmap.plugins.settings import Plugin, Setting, settings_of
from tests.app.lists import rows_model
from tests.app.served import Slow, begun, net, uploaded, with_slow, worked_off

INSTALLED = [ModelInfo(name, 224, "", f"about {name}") for name in ("small", "efficientnet-lite0")]


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "installed_models", lambda: INSTALLED)


def test_installed_nets_are_offered_the_usual_one_first() -> None:
    assert [offer.name for offer in offers([], None, "cpu")] == ["efficientnet-lite0", "small"]


def test_nets_of_the_command_line_come_first_and_tell_no_folder() -> None:
    weights = Path("/secret/place/w.safetensors")
    found = offers(["/secret/place/net.py:make", "hf:/secret/place/vit", "small"], None, "cpu")
    assert [offer.name for offer in found] == ["net.py:make", "hf:vit", "small", "efficientnet-lite0"]
    (first, *_) = offers(["cifar10-resnet20"], weights, "cpu")
    assert first.name == "cifar10-resnet20@w.safetensors"
    assert first.options == ("--model", "cifar10-resnet20", "--weights", str(weights))
    again = offers(["small"], weights, "cpu")
    assert [offer.name for offer in again] == ["small@w.safetensors", "small", "efficientnet-lite0"]


def test_a_server_needs_a_net_of_a_kind_that_the_page_shows() -> None:
    class Tides(Series):
        noun, singular = "tides", "tide"

    with pytest.raises(InputError, match="--model"):
        Nets([])
    tides = pm.Classifier(
        torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(8, 2)),
        inputs=Tides(length=8, mean=(0.0,), std=(1.0,)),
    )
    with pytest.raises(InputError, match="shows photos, rows, series, texts, but tides takes tides"):
        Nets([Offer("tides", "", lambda: tides)]).classifier("tides")


def test_random_images_are_those_that_explain_takes(client: TestClient, server: Server) -> None:
    photo = uploaded(client)
    job = begun(client, photo, ["gradient"], fill="images:size=16", seed=0)
    worked_off(server)
    image = server.nets.seen(server.items[photo], "toy")
    found = pm.evaluate(
        net(), image, methods=["gradient"], labels=[1, 3], metrics=["insertion:fill=images(size=16)"]
    )
    areas = [client.get(f"/api/jobs/{job}/maps/0/{label}").json()["proof"] for label in (1, 3)]
    assert areas == pytest.approx(found.results[0].insertion.auc[0].tolist(), abs=1e-5)


def test_a_net_or_a_method_that_exits_ends_nothing_else(
    client: TestClient, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leave(*_: object, **__: object) -> Any:
        sys.exit(3)

    server.nets.offered["leaving"] = Offer("leaving", "", leave)
    with pytest.raises(SystemExit):
        server.worker.ask(lambda: server.nets.facts("leaving")).result(600)
    with_slow(server)
    monkeypatch.setattr(Slow, "maps", leave)
    photo = uploaded(client)
    jobs = [begun(client, photo, [method]) for method in ("slow", "gradient")]
    worked_off(server)
    answers = [client.get(f"/api/jobs/{job}").json() for job in jobs]
    assert [answer["state"] for answer in answers] == ["failed", "done"]
    assert answers[0]["message"] == "SystemExit: 3"


# ---- What visitors may ask for: the command line's specs, without files and code --------------------------------------


@pytest.mark.parametrize(
    "spec",
    [
        "belief-mask:passes=60,fills=gray+blur(sigma=3)",
        "top-label:grad-cam:layer=features.3",
        "learned-mask:fill=images(source=samples,size=64)",
        "learned-mask:steps=20000",
        "fong-vedaldi:steps=30",  # its default fill has a kernel of 81
        "occlusion:window=9,stride=3",
        "random:seed_offset=99999999",
        "igos++",
    ],
)
def test_settings_are_those_of_the_command_line(spec: str) -> None:
    assert Choices().method(spec) == make_method(spec)


@pytest.mark.parametrize(
    "spec",
    [
        "mine.py:evil",
        "MINE.PY:evil",
        "top-label:mine.py:evil",
        "top-label:of=mine.py:evil",
        "occlusion:fill=mine.py:evil",
        "belief-mask:fills=gray+mine.py:evil",
        "learned-mask:fill=images(source=photos)",
        "learned-mask:fill=images:photos",
        "inverse:learned-mask:fill=images(source=photos)",
        "phang-masker:weights=masker.safetensors",
        "blurred:phang-masker:weights=x",
        "captum:IntegratedGradients",
        "top-label:captum:Saliency",
        "blurred(of=pytorch-grad-cam(of=GradCAM))",
        "learned-mask:fill=images:/etc",
        "grad-cam:layer=../x",
        "grad-cam:layer=a\x00b",
        "rise:masks=1000000000",
        "learned-mask:fill=images(size=100000)",
        "fong-vedaldi:fill=blur(kernel=100001)",
    ],
)
def test_files_code_and_floods_are_not_for_visitors(
    spec: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("open('ran', 'w')\ndef evil(classifier, images, labels): return None\n")
    Path("photos").mkdir()
    with pytest.raises(InputError):
        Choices().method(spec)
    assert not Path("ran").exists()


@pytest.mark.parametrize(
    "spec", ["images:photos", "images:cifar10:photos", "mine.py:Fill", "road", "blur:kernel=9999"]
)
def test_so_it_is_with_fills(spec: str) -> None:
    with pytest.raises(InputError):
        Choices().fill(spec)


NUMBERS = [
    (plugins[name], info)
    for plugins in (METHODS, FILLS)
    for name in plugins
    for info in settings_of(plugins[name])
    if plugins[name].__dict__.get("family") != "adapter"
    and isinstance(info.default, (int, float))
    and not isinstance(info.default, bool)
    and info.name not in ("seed", "seed_offset")
    and not (info.name in ("steps", "passes", "iterations") and issubclass(plugins[name], MaskMethod))
]


@pytest.mark.parametrize("kind, info", NUMBERS, ids=[f"{kind.name}-{info.name}" for kind, info in NUMBERS])
def test_every_number_that_decides_what_a_step_takes_is_bounded(kind: type[Plugin], info: Setting) -> None:
    """Whatever is registered, also later: ten times its default, or a thousand and more, is not for visitors."""
    choose = Choices().method if kind.noun == "method" else Choices().fill
    value = 10 * info.default + 1 if info.default else 1001
    if info.most is not None and value > info.most:
        return  # it has a bound for everybody
    required = {i.name: "gradient" for i in settings_of(kind) if i.default is MISSING}
    text = ",".join(f"{name}={given}" for name, given in {**required, info.name: value}.items())
    with pytest.raises(InputError, match=rf"{info.name} of {re.escape(kind.name)} may be at most"):
        choose(f"{kind.name}:{text}")


@pytest.mark.parametrize(
    "spec, told",
    [
        (
            "images:size=257",
            "size of images may be at most 256 here, not 257; for more, use the command line",
        ),
        ("median:kernel=23", "kernel of median may be at most 22 here"),
    ],
)
def test_what_cannot_be_interrupted_is_bounded_tightly(spec: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        Choices().fill(spec)
    with pytest.raises(InputError, match=told):
        Choices().method(f"occlusion:fill={spec.replace(':', '(')})")


def test_a_fine_grid_is_as_dear_as_a_large_number() -> None:
    with pytest.raises(
        InputError, match=r"step of extremal-perturbation must be at least 1\.75 here, not 0\.1"
    ):
        Choices().method("extremal-perturbation:step=0.1")
    with pytest.raises(InputError, match="areas of extremal-perturbation has 17 values; at most 16"):
        Choices().method("extremal-perturbation:areas=" + ":".join(f"{k / 100}" for k in range(1, 18)))


def test_what_the_command_line_names_is_offered_under_its_title(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("def bright(classifier, images, labels): return images.mean(1)[:, None]\n")
    choices = Choices(["mine.py:bright", "phang-masker:weights=m.safetensors"])
    assert [about["name"] for about in choices.methods_about][:2] == [
        "bright",
        "phang-masker:weights=m.safetensors",
    ]
    assert choices.written(choices.method("bright")) == "mine.py:bright"
    assert choices.method("phang-masker:weights=m.safetensors").settings()["weights"] == "m.safetensors"
    with pytest.raises(InputError, match="whoever starts the server"):
        choices.method("phang-masker:weights=other.safetensors")


def test_every_field_of_every_method_makes_a_spec_that_is_accepted() -> None:
    """The form offers what the server takes: each choice and each default."""
    choices = Choices()
    about = choices.methods_about
    assert [method["name"] for method in about if method["recommended"]] == [*RECOMMENDED]
    assert [method["name"] for method in about[: len(RECOMMENDED)]] == [*RECOMMENDED]
    tried = 0
    for method in about:
        needed = [f"{field['name']}={field['default']}" for field in method["settings"] if field["required"]]
        for field in method["settings"]:
            for value in field["choices"] or [field["default"]]:
                others = [text for text in needed if not text.startswith(f"{field['name']}=")]
                settings = ",".join([*others, *([f"{field['name']}={value}"] if value else [])])
                spec = f"{method['base']}:{settings}" if settings else method["base"]
                made = choices.method(spec)
                assert made.name == method["base"] and field["help"]
                tried += 1
    assert tried > 300


def test_fields_are_generated_from_the_settings() -> None:
    (rise,) = [method for method in Choices().methods_about if method["name"] == "rise"]
    fields = {field["name"]: field for field in rise["settings"]}
    infos = {info.name: info for info in settings_of(METHODS["rise"])}
    assert [*fields] == ["preset", *infos] and fields["preset"]["choices"][0] == ""
    assert all(fields[name]["help"] == info.help for name, info in infos.items())
    assert (fields["masks"]["default"], fields["masks"]["choices"]) == ("4000", [])
    assert fields["coverage"]["choices"] == ["true", "false"] and "none" in fields["fill"]["choices"]
    (masker,) = [method for method in Choices().methods_about if method["base"] == "phang-masker"]
    assert "weights" not in {field["name"] for field in masker["settings"]}, (
        "files are for whoever starts the server"
    )


def test_only_methods_that_fit_the_net_are_offered() -> None:
    """A linear net has no layer of maps and no attention."""
    choices, toy = Choices(["gradient"]), net()
    fitting = choices.fitting("toy", toy)
    assert "gradient" in fitting and "occlusion" in fitting and "belief-mask" in fitting
    assert not {"grad-cam", "score-cam", "attention-rollout", "chefer"} & {*fitting}


def test_settings_that_mean_nothing_for_rows_are_left_out() -> None:
    choices = Choices()
    photos = _settings_of(choices)
    choices = Choices()
    choices.suit(rows_model())
    rows = _settings_of(choices)
    assert photos["kernel-shap"] - rows["kernel-shap"] == {"superpixels", "compactness", "regions"}
    assert photos["occlusion"] - rows["occlusion"] == {"window", "stride"}


def _settings_of(choices: Choices) -> dict[str, set[str]]:
    return {
        method["name"]: {field["name"] for field in method["settings"]} for method in choices.methods_about
    }
