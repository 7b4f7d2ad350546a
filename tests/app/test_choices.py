"""What visitors may ask for: the command line's specs, without files and code."""

from __future__ import annotations

from pathlib import Path

import pytest

from proofmap.app.choices import Choices
from proofmap.core.errors import InputError
from proofmap.methods import make_method


@pytest.mark.parametrize(
    "spec",
    [
        "belief-mask:passes=60,fills=gray+blur(sigma=3)",
        "top-label:grad-cam:layer=features.3",
        "learned-mask:fill=images(source=samples,size=64)",
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
        "blurred:belief-masker:weights=x",
        "captum:IntegratedGradients",
        "top-label:torch-cam:GradCAM",
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


def test_what_the_command_line_names_is_offered_under_its_title(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text("def bright(classifier, images, labels): return images.mean(1)[:, None]\n")
    choices = Choices(["mine.py:bright", "phang-masker:weights=m.safetensors"])
    assert [about.name for about in choices.methods_about][:2] == [
        "bright",
        "phang-masker:weights=m.safetensors",
    ]
    assert choices.written(choices.method("bright")) == "mine.py:bright"
    assert choices.method("phang-masker:weights=m.safetensors").settings()["weights"] == "m.safetensors"
    with pytest.raises(InputError, match="whoever starts the server"):
        choices.method("phang-masker:weights=other.safetensors")
