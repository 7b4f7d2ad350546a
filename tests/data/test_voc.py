"""Photos with things of several labels: Pascal VOC's XML, tables with a line for each thing, and what metrics make of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from proofmap.core.errors import InputError
from proofmap.data import load_blocks, load_dataset
from proofmap.data.tables import image_csv, pascal_voc
from proofmap.models import load_classifier
from proofmap.study import Run, Study, run_study
from tests.data.made_up import noise, save, saved
from tests.study.studies import net_file

CAT, DOG = "<name>cat</name>", "<name>dog</name>"


def thing(name: str, x0: float, y0: float, x1: float, y1: float) -> str:
    corners = f"<xmin>{x0}</xmin><ymin>{y0}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax>"
    return f"<object>{name}<difficult>0</difficult><bndbox>{corners}</bndbox></object>"


def annotation(*things: str) -> str:
    return f"<annotation><filename>any.jpg</filename><name>no thing</name>{''.join(things)}</annotation>"


@pytest.fixture
def voc(tmp_path: Path) -> Path:
    """Four photos: two things of one label and one of another; one label alone; nothing; no annotation."""
    saved(tmp_path, *(f"JPEGImages/{name}.png" for name in "abcd"))
    files = {
        "Annotations/a.xml": annotation(
            thing(DOG, 1, 1, 4, 8), thing(CAT, 5, 1, 8, 4), thing(DOG, 5, 5, 8, 8)
        ),
        "Annotations/b.xml": annotation(thing(CAT, 2, 3, 5, 6)),
        "Annotations/c.xml": annotation(),
        "ImageSets/Main/val.txt": "b  1\na -1\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_a_photo_has_the_boxes_of_each_of_its_labels(voc: Path) -> None:
    photos = pascal_voc(voc)
    assert list(photos.names) == ["a.png", "b.png", "c.png", "d.png"]
    assert list(photos.label_names) == ["cat", "dog"]
    assert photos.objects(0) == {
        1: [(0, 0, 4, 8), (4, 4, 8, 8)],
        0: [(4, 0, 8, 4)],
    }  # pixels are counted from 1
    assert photos.objects(1) == {0: [(1, 2, 5, 6)]}
    assert photos.objects(2) == photos.objects(3) == {}
    assert [photos.truth(i) for i in range(4)] == [None, 0, None, None]


def test_a_split_names_its_photos(voc: Path) -> None:
    assert list(load_dataset(f"voc:{voc}[val]").names) == ["a.png", "b.png"]
    with pytest.raises(InputError, match=r"there is no file .*train\.txt"):
        pascal_voc(voc, split="train")
    (voc / "ImageSets/Main/val.txt").write_text("a\nz\n")
    with pytest.raises(InputError, match="names z, but there is no such photo"):
        pascal_voc(voc, split="val")


def test_annotations_may_lie_beside_the_photos(tmp_path: Path) -> None:
    saved(tmp_path, "x/a.png", "b.png")
    (tmp_path / "x/a.xml").write_text(annotation(thing(CAT, 1, 1, 2, 2)))
    photos = pascal_voc(tmp_path)
    assert [photos.objects(i) for i in range(2)] == [{}, {0: [(0, 0, 2, 2)]}]


@pytest.mark.parametrize(
    "text, told",
    [
        ("<annotation>", "cannot be read as XML"),
        (annotation(thing("", 1, 1, 2, 2)), "has no name"),
        (annotation(f"<object>{CAT}</object>"), "expected four numbers"),
        (annotation(thing(CAT, 5, 1, 2, 4)), "left <= right"),
        (annotation(), "no object is labelled"),
    ],
)
def test_a_faulty_annotation_is_named(tmp_path: Path, text: str, told: str) -> None:
    save(tmp_path, "a.png")
    (tmp_path / "a.xml").write_text(text)
    with pytest.raises(InputError, match=told):
        pascal_voc(tmp_path)


# ---- tables -------------------------------------------------------------------------------------------------------


def test_a_table_may_have_a_line_for_each_thing(tmp_path: Path) -> None:
    rows = ["a.png,dog,0,0,4,8", "b.png,cat,1,2,5,6", "a.png,cat,4,0,8,4", "c.png,,,,,", "a.png,dog,4,4,8,8"]
    (tmp_path / "things.csv").write_text("\n".join(["file,label,xmin,ymin,xmax,ymax", *rows]))
    photos = image_csv(tmp_path / "things.csv")
    assert list(photos.names) == ["a.png", "b.png", "c.png"] and list(photos.label_names) == ["cat", "dog"]
    assert photos.objects(0) == {1: [(0, 0, 4, 8), (4, 4, 8, 8)], 0: [(4, 0, 8, 4)]}
    assert [photos.truth(i) for i in range(3)] == [None, 0, None]
    (tmp_path / "numbers.tsv").write_text("x0\ty0\tx1\ty1\tclass_index\tfile\n0\t0\t2\t2\t340\ta.png\n")
    assert image_csv(tmp_path / "numbers.tsv").objects(0) == {340: [(0, 0, 2, 2)]}


@pytest.mark.parametrize(
    "text, told",
    [
        ("file,x0,y0,x1,y1\na.png,0,0,1,1", "line 2 .* has boxes and 0 labels"),
        ("file,label,x0,y0,x1,y1\na.png,cat,0,0,1,", "line 2 .* expected four numbers"),
        (
            "file,label,x0,y0,x1,y1\na.png,cat,30,20,10,40",
            "line 2 .* left <= right and top <= bottom .*width",
        ),
        ("file,label,x0,y0,x1,y1\na.png,,0,0,1,1", "line 2 .* has boxes and 0 labels"),
        ("file,label,x0,y0,x1,y1\n,cat,0,0,1,1", "line 2 .* names no file"),
        ("file,label,x0,y0,x1,y1\n", "names no image"),
    ],
)
def test_a_faulty_line_is_named(tmp_path: Path, text: str, told: str) -> None:
    (tmp_path / "things.csv").write_text(text)
    with pytest.raises(InputError, match=told):
        image_csv(tmp_path / "things.csv")


# ---- used ---------------------------------------------------------------------------------------------------------


def test_boxes_come_in_the_positions_that_the_net_sees(voc: Path, tmp_path: Path) -> None:
    save(voc / "JPEGImages", "a.png", noise(0, 16, 16))  # the net takes 8 x 8 pixels
    (block,) = load_blocks(pascal_voc(voc), load_classifier(net_file(tmp_path)))
    assert block.objects[0] == {1: ((0, 0, 2, 4), (2, 2, 4, 4)), 0: ((2, 0, 4, 2),)}
    assert block.objects[1] == {0: ((1, 2, 5, 6),)} and block.objects[2] == {}


def test_a_study_judges_each_label_by_its_own_boxes(voc: Path, tmp_path: Path) -> None:
    study = Study(
        model=net_file(tmp_path),
        data=f"voc:{voc}",
        methods=("centered-gaussian", "gradient"),
        labels=("dog", "cat"),
        metrics=("two-objects", "energy-inside"),
        maps="none",
    )
    run_study(study, tmp_path / "run", threads=1)
    with Run(tmp_path / "run") as run:
        found = run.evaluation()
    one, gradient = (result.values["two-objects"] for result in found.results)
    assert (
        float(one[0]) == pytest.approx(0.5) and one[1:].isnan().all()
    )  # one map for both labels; one photo with both
    assert 0 <= float(gradient[0]) <= 1
    energy = found.results[0].pairs["energy-inside"]
    assert energy.isnan().tolist() == [[False, False], [True, False], [True, True], [True, True]]
    assert float(energy[0].sum()) == pytest.approx(1.0)  # the three boxes tile the photo
