"""The photographs inside scikit-image: all there, all readable, and missed with a helpful word."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from proofmap.core.errors import InputError, MissingExtra
from proofmap.data.samples import SAMPLES, load_sample, sample_path


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_a_photograph(name: str) -> None:
    pytest.importorskip("skimage")
    photo = load_sample(name)
    assert photo.mode == "RGB"
    assert min(photo.size) >= 150
    assert len(np.unique(np.asarray(photo.resize((32, 32))))) > 10  # not one colour


def test_no_photograph_has_two_names() -> None:
    assert len(set(SAMPLES.values())) == len(SAMPLES)


def test_an_unknown_sample_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InputError, match="no sample is named 'zebra'; known are astronaut, brick"):
        sample_path("zebra")


def test_without_scikit_image_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'proofmap\[demo\]'"):
        load_sample("cat")


def test_a_file_that_a_later_scikit_image_no_longer_ships_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    skimage = pytest.importorskip("skimage")
    monkeypatch.setattr(skimage, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(InputError, match=r"its file chelsea\.png is not"):
        sample_path("cat")
