"""A series and a row of a table are drawn like a photo: what is shown belongs to its position, in its own words."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.ranking import keep_top, rank
from proofmap.report import figures, page_pictures, pictures, sheets
from proofmap.report.choice import Choice
from proofmap.report.figures.drawing import draw
from proofmap.report.figures.masks import desk_of
from proofmap.report.html import write_report
from proofmap.results.compare import compare
from proofmap.results.verdict import verdict
from tests.report.other_inputs import ROWS, SERIES, evaluated
from tests.report.pages import PageParts

pytestmark = pytest.mark.usefixtures("drawn_figures")

KINDS = pytest.mark.parametrize("inputs", [SERIES, ROWS], ids=["series", "rows"])


@pytest.fixture(scope="module")
def found() -> dict[Inputs, pm.Evaluation]:
    return {inputs: evaluated(inputs) for inputs in (SERIES, ROWS)}


@KINDS
def test_the_kept_picture_shows_the_bands_of_the_top_positions(
    inputs: Inputs, found: dict[Inputs, pm.Evaluation]
) -> None:
    evaluation = found[inputs]
    image, heat = evaluation.image_of(0), evaluation.map_of(evaluation.results[0], 0, 0)
    shown = np.asarray(pictures.masked_photo(image, heat, inputs, 0.4))
    keep = keep_top(heat[None], 0.4)[0].numpy()
    wide = shown.shape[1] // inputs.count
    whole = np.asarray(pictures.photo(image, inputs))
    for position in range(inputs.count):
        band = slice(position * wide, (position + 1) * wide)
        assert (shown[:, band] == (whole[:, band] if keep[position] else 219)).all()


@KINDS
def test_the_heat_of_a_position_colours_its_whole_band(
    inputs: Inputs, found: dict[Inputs, pm.Evaluation]
) -> None:
    evaluation = found[inputs]
    image, heat = inputs.blank(1)[0], evaluation.map_of(evaluation.results[0], 0, 0)
    paper = np.asarray(pictures.overlay(image, heat, inputs))[2].astype(float)  # above the line in the middle
    colours = 0.35 * 250 + 0.65 * pictures.heat_colours(pictures.displayed(heat))
    expected = np.repeat(colours, paper.shape[0] // inputs.count, axis=0)
    assert np.abs(paper - expected).max() <= 0.5


@KINDS
def test_the_page_carries_the_level_of_each_pixels_position(
    inputs: Inputs, found: dict[Inputs, pm.Evaluation], tmp_path: Path
) -> None:
    evaluation = found[inputs]
    page = PageParts(write_report(evaluation, tmp_path / "r.html"))
    shown = page.record["pictured"][0]
    assert (shown["height"], shown["width"]) == inputs.picture_size()
    assert page.record["counts"] == list(range(inputs.count + 1))
    maps = evaluation.results[0].maps[0]
    levels = page_pictures.levels_of(rank(maps), page.record["counts"])
    wide = shown["width"] // inputs.count
    for k in range(len(maps)):
        assert (page.levels(0)[k] == np.repeat(levels[k], wide)[None]).all()


FOREIGN = r"\b(?:pixel|image|photo)s?\b(?!-)"
"""Words for pictures, which pages about other inputs must not use."""


@KINDS
def test_the_page_speaks_of_positions_by_their_name_and_shows_the_drawing_itself(
    inputs: Inputs, found: dict[Inputs, pm.Evaluation], tmp_path: Path
) -> None:
    page = PageParts(write_report(found[inputs], tmp_path / "r.html"))
    assert page.record["positions"] == inputs.position_noun
    assert f"the map's {inputs.position_noun}, best first" in page.text
    assert f"{inputs.position_noun.capitalize()} shown" in page.text
    evaluation = found[inputs]
    before_settings = page.text.partition("How this was made")[0]
    comparison = compare(evaluation, baseline="random")
    words = [before_settings, str(verdict(evaluation)), str(comparison), evaluation.table()]
    words += sheets.sheet_notes(evaluation, 0)
    assert not [word for text in words for word in re.findall(FOREIGN, text, re.IGNORECASE)]
    assert f"{inputs.singular.capitalize()} by {inputs.singular}" in page.text
    (source, *_) = (str(a["src"]) for t, a in page.elements if t == "img" and "photo" in str(a.get("class")))
    assert source.startswith("data:image/png;base64,")
    with Image.open(io.BytesIO(base64.b64decode(source.partition(",")[2]))) as picture:
        assert (np.asarray(picture) == inputs.picture(found[inputs].image_of(0))).all()


@KINDS
def test_every_figure_of_an_evaluation_is_drawn_and_captioned_in_the_inputs_words(
    inputs: Inputs, found: dict[Inputs, pm.Evaluation], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    made = [figures.make_figure(name, evaluation=found[inputs]) for name in figures.figures_of(found[inputs])]
    assert {figure.name for figure in made} == {"curves", "scatter", "mask-grid", "mask-grid-wrong"}
    for figure in [*made, desk_of(found[inputs])]:
        caption = figure.caption().lower()
        assert not re.search(FOREIGN, caption)
        assert figure.name == "scatter" or inputs.position_noun in caption
        draw(figure, tmp_path / f"{figure.name}.svg")
    text = (tmp_path / "mask-grid.svg").read_text()
    assert f"<!-- {inputs.singular} -->" in text


@KINDS
def test_maps_are_saved_in_their_own_shape(
    inputs: Inputs, found: dict[Inputs, pm.Evaluation], tmp_path: Path
) -> None:
    several = pm.Proof(found[inputs])
    proof = several[several.methods[0]]
    assert proof.maps.shape == (2, 3, *inputs.positions)
    proof.save(tmp_path)
    assert torch.equal(load_file(tmp_path / "maps.safetensors")["maps"], proof.maps)


def test_a_rule_of_choice_names_what_was_kept(found: dict[Inputs, pm.Evaluation]) -> None:
    choice = Choice.of(found[SERIES], among=[1])
    assert choice.rule == "Shown in full: the 1 of 2 series whose time steps and maps were kept."


def test_series_of_another_length_do_not_compare(found: dict[Inputs, pm.Evaluation]) -> None:
    ours = found[SERIES]
    other = replace(ours, settings={**ours.settings, "length": 25})
    with pytest.raises(InputError, match="length is 25 and 24"):
        compare({"a": ours, "b": other})
