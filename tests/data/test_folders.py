"""Photos in folders and tables: which are found, in what order, with which labels; and the paper's corners."""

from __future__ import annotations

import csv
import json
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from proofmap.core.errors import InputError
from proofmap.data import Dataset, load_blocks, load_dataset, rebuild_dataset, true_outputs
from proofmap.data.folders import files_below, image_folder
from proofmap.data.imagenet_folders import (
    IMAGENETTE,
    Corners,
    imagenet,
    imagenet_real,
    imagenette,
    imagenette_corner,
)
from proofmap.data.photos import find_photos
from proofmap.data.tables import image_csv, pascal_voc
from proofmap.models import load_classifier
from proofmap.models.names import label_names
from proofmap.study import Run, Study, run_study
from tests.data.made_up import imagenette_at, noise, save, saved
from tests.study.studies import net_file


def labelled(dataset: Dataset) -> dict[str, str | None]:
    """Each picture's name, and the name of its label."""
    labels = [dataset.truth(i) for i in range(len(dataset))]
    names = [None if label is None else dataset.label_names[label] for label in labels]
    return dict(zip(dataset.names, names, strict=True))


# ---- folders --------------------------------------------------------------------------------------------------


def test_sub_folders_are_labels_in_alphabetical_order(tmp_path: Path) -> None:
    photos = image_folder(saved(tmp_path, "dog/b.png", "dog/a/c.png", "cat/x.jpg", "Bat/1.png"))
    assert list(photos.label_names) == ["Bat", "cat", "dog"]
    assert labelled(photos) == {
        "Bat/1.png": "Bat",
        "cat/x.jpg": "cat",
        "dog/a/c.png": "dog",
        "dog/b.png": "dog",
    }


def test_what_looks_like_a_picture_and_is_not_read_is_counted_and_named(tmp_path: Path) -> None:
    """Photos of a telephone are HEIC, and nobody sees that a folder was judged without them."""
    saved(tmp_path, "a.png", "notes/b.jpg")
    (tmp_path / "notes" / "IMG_1.HEIC").write_bytes(b"ftypheic")
    (tmp_path / "notes" / "read.me").write_text("no picture")
    with pytest.warns(UserWarning, match=r"^1 picture in .* not read, .*: notes/IMG_1.HEIC; convert to"):
        assert files_below(tmp_path) == ["a.png", "notes/b.jpg"]
    for k in range(4):
        (tmp_path / f"{k}.dng").touch()
    told = r"5 pictures in .* not read, because of the format: 0.dng, 1.dng, 2.dng, ...; convert"
    with pytest.warns(UserWarning, match=told):
        find_photos([tmp_path])
    with pytest.warns(UserWarning, match=told), pytest.warns(UserWarning, match="beside its sub-folders"):
        image_folder(tmp_path)
    for name in ("a.png", "notes/b.jpg"):
        (tmp_path / name).unlink()
    with pytest.warns(UserWarning, match="5 pictures"), pytest.raises(InputError, match="holds no images"):
        image_folder(tmp_path)


def test_one_picture_beside_the_folders_of_labels_is_named(tmp_path: Path) -> None:
    saved(tmp_path, "cat/b.png", "dog/c.png", "stray.png")
    with pytest.warns(
        UserWarning, match="holds stray.png beside its sub-folders, so .* no true label is known"
    ):
        photos = image_folder(tmp_path)
    assert list(photos.label_names) == []


def test_only_pictures_count(tmp_path: Path) -> None:
    saved(tmp_path, "a.png", ".hidden.png", "._a.png", ".cache/b.png")
    (tmp_path / "notes.txt").write_text("no picture")
    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")  # opening it would wait forever
    assert list(image_folder(tmp_path).names) == ["a.png"]


def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    saved(tmp_path / "elsewhere", "x.png")
    saved(tmp_path / "photos", "cat/a.png")
    (tmp_path / "photos" / "dog").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "photos" / "cat" / "back").symlink_to(tmp_path / "photos")
    (tmp_path / "photos" / "self").symlink_to(tmp_path / "photos")
    assert files_below(tmp_path / "photos") == ["cat/a.png", "dog/x.png"]


def test_names_that_are_no_text_can_be_stored(tmp_path: Path) -> None:
    path = os.path.join(os.fsencode(tmp_path), b"caf\xe9.png")
    try:
        Path(os.fsdecode(path)).write_bytes(save(tmp_path, "a.png").read_bytes())
    except OSError:
        pytest.skip("this file system takes only UTF-8")
    photos = image_folder(tmp_path)
    assert list(photos.names) == ["a.png", r"caf\xe9.png"]
    assert "\n".join(photos.names).encode()
    assert photos.read(1).size == (8, 8) and photos.digest(1) == photos.digest(0)
    path_of_é = save(tmp_path / "accents", "é.png")
    assert list(image_folder(path_of_é.parent).names) == ["é.png"]


@pytest.mark.parametrize("make", [lambda p: None, lambda p: p.mkdir(), lambda p: p.write_text("a")])
def test_a_folder_without_pictures_says_so(tmp_path: Path, make: object) -> None:
    make(tmp_path / "x")  # type: ignore[operator]
    with pytest.raises(InputError, match=r"no folder .*x|x holds no images \(\.bmp.*write KIND:PLACE"):
        image_folder(tmp_path / "x")


# ---- tables ---------------------------------------------------------------------------------------------------


def table(folder: Path, text: str, *, name: str = "list.csv", encoding: str = "utf-8") -> Path:
    (folder / name).write_text(text, encoding=encoding, newline="")
    return folder / name


@pytest.mark.parametrize(
    "text",
    [
        "file,label\nb/2.png,dog\n1.png,cat\nb/3.png,\n",
        "label;path\r\ndog;b/2.png\r\ncat;1.png\r\n;b/3.png\r\n",
        "FileName\tClass\nb/2.png\tdog\n\n1.png\tcat\nb/3.png\t \n",
        '"label","extra","image"\n"dog","a, b","b/2.png"\n"cat","two\nlines","1.png"\n"","","b/3.png"',
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_table_names_files_and_labels(tmp_path: Path, text: str, encoding: str) -> None:
    saved(tmp_path, "1.png", "b/2.png", "b/3.png")
    photos = image_csv(table(tmp_path, text, encoding=encoding))
    assert labelled(photos) == {"b/2.png": "dog", "1.png": "cat", "b/3.png": None}
    assert list(photos.label_names) == ["cat", "dog"]
    np.testing.assert_array_equal(np.asarray(photos.read(0)), noise(1))


@pytest.mark.parametrize(
    "text",
    [
        "file,label\n1.png,Dog\n2.png,\n1.png,cat\n3.png,cat\n",
        "file,label\n1.png,Dog; cat\n2.png,\n3.png,cat\n",
        "file;label\n1.png;Dog|cat\n2.png;\n3.png;cat\n",
        'file;label\n1.png;"Dog;cat"\n2.png;\n3.png;cat\n',
        "file,Dog,cat\n1.png,1,1\n2.png,0,0\n3.png,0,1\n",
    ],
)
def test_a_picture_may_have_several_labels(tmp_path: Path, text: str) -> None:
    photos = image_csv(table(tmp_path, text))
    assert list(photos.names) == ["1.png", "2.png", "3.png"] and list(photos.label_names) == ["Dog", "cat"]
    assert [photos.true_labels(i) for i in range(3)] == [(0, 1), (), (1,)]
    assert [photos.truth(i) for i in range(3)] == [None, None, 1], (
        "one true label, or none that is the only one"
    )
    assert true_outputs(photos, ["CAT", "dog", "cup"]) == [(1, 0), (), (0,)]


def test_numbers_may_be_several_and_names_may_have_commas(tmp_path: Path) -> None:
    photos = image_csv(table(tmp_path, "file,class_index\n1.png,907;3\n2.png,4\n"))
    assert [photos.true_labels(i) for i in range(2)] == [(907, 3), (4,)]
    photos = image_csv(table(tmp_path, 'file,label\n1.png,"tench, Tinca tinca;cat"\n'))
    assert list(photos.label_names) == ["cat", "tench, Tinca tinca"] and photos.true_labels(0) == (1, 0)


def test_columns_of_other_numbers_are_not_labels(tmp_path: Path) -> None:
    photos = image_csv(table(tmp_path, "file,width,fold\n1.png,640,0\n2.png,480,1\n"))
    assert [photos.true_labels(i) for i in range(2)] == [(), ()]


@pytest.mark.parametrize(
    "text",
    [
        "file,label\n1.png,cat\n1.png,dgo\n",
        "file,label\n1.png,cat|dgo\n",
        "file,cat,dgo\n0.png,1,0\n1.png,1,1\n",
    ],
)
def test_a_label_that_the_net_does_not_have_is_named(tmp_path: Path, text: str) -> None:
    photos = image_csv(table(tmp_path, text))
    with pytest.raises(
        InputError, match=r"1.png in list.csv has the label 'dgo', which .* Did you mean 'dog'\?"
    ):
        true_outputs(photos, ["cat", "dog"], strict=True)
    assert true_outputs(photos, ["cat", "dog"])[-1] == (0,)


@pytest.mark.parametrize("column", ["class_index", "label"])
def test_numbers_stay_as_they_are(tmp_path: Path, column: str) -> None:
    photos = image_csv(table(tmp_path, f"file,{column}\na.png,907\nb.png,\nc.png,3\n"))
    assert [photos.truth(i) for i in range(3)] == [907, None, 3]
    assert list(photos.label_names) == []


def test_a_table_may_have_the_boxes_of_each_files_label(tmp_path: Path) -> None:
    rows = ['a.png,7,"[[1, 2, 3.5, 4], [5, 6, 7, 8]]"', "b.png,7,"]
    photos = image_csv(table(tmp_path, "file,class_index,boxes_xyxy\n" + "\n".join(rows)))
    assert photos.objects(0) == {7: [(1, 2, 3.5, 4), (5, 6, 7, 8)]}
    assert photos.objects(1) == {} == image_folder(saved(tmp_path, "a.png")).objects(0)


@pytest.mark.parametrize(
    "text, told",
    [
        ("", "no column of files"),
        ("a,b\n", "no column of files.*first row must name one file, path"),
        ("a.png,cat\n", "no column of files.*and is 'a.png, cat'"),
        ("file,label\n", "names no image"),
        ("file,label\na.png,cat\nb.png\n", "line 3 of .* has 1 fields, but 2 columns"),
        ('file,label,boxes\na.png,cat,"[[1, 2]]"', "line 2 of .* expected four numbers"),
        ("file,label,boxes\na.png,cat,nonsense", "line 2 of .* expected four numbers"),
        ('file,label,boxes\na.png,cat,"[[9, 2, 3, 4]]"', "line 2 of .* expected four numbers"),
        (
            'file,label,boxes\na.png,cat|dog,[]\nb.png,cat|dog,"[[0, 0, 1, 1]]"',
            "line 3 of .* boxes and 2 labels",
        ),
        ("file,cat,dog\na.png,1,0\nb.png,2,1\n", "line 3 of .* has '2' in the column 'cat', expected 0 or 1"),
        (
            "file,sex,cat,dog\na.png,F,0,1\n",
            "line 2 of .* has 'F' in the column 'sex'.*remove columns that are not",
        ),
        ("file,label\n,cat\n", "line 2 of .* names no file"),
        ("file,label\na.png,cat\nb.png,3\n", r"mixes numbers \('3'\) and names \('cat'\)"),
        ('file,label\n"a.png"x,cat\n', "line 2 of .* cannot be read"),
    ],
)
def test_a_bad_table_names_the_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        image_csv(table(tmp_path, text))


def test_a_table_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\xff\xfe\0\0file")
    with pytest.raises(InputError, match=r"a\.csv cannot be read as text"):
        image_csv(tmp_path / "a.csv")
    with pytest.raises(InputError, match=r"there is no file .*b\.csv"):
        image_csv(tmp_path / "b.csv")


# ---- Imagenette -----------------------------------------------------------------------------------------------


def test_imagenettes_folders_are_imagenets_labels(tmp_path: Path) -> None:
    photos = imagenette(imagenette_at(tmp_path))
    assert [photos.truth(i) for i in range(6)] == [0, 0, 217, 217, 701, 701]
    assert set(labelled(photos).values()) == {"tench", "English springer", "parachute"}
    ten = imagenette(tmp_path, labels="imagenette")
    assert [ten.truth(i) for i in range(6)] == [0, 0, 1, 1, 9, 9]
    assert labelled(ten) == labelled(photos)
    assert len(ten.label_names) == 10


def test_either_split_is_found_from_above_and_from_inside(tmp_path: Path) -> None:
    imagenette_at(tmp_path)
    val, train = imagenette(tmp_path), imagenette(tmp_path, split="train")
    assert (val.title, train.title) == ("imagenette[val]", "imagenette[train]")
    assert val.digest(0) != train.digest(0)
    assert imagenette(tmp_path / "val").digest(0) == val.digest(0)
    assert imagenette(tmp_path / "train", split="train").digest(0) == train.digest(0)
    with pytest.raises(InputError, match=r"has no folder val, only train: write \[train\]"):
        imagenette(tmp_path / "train")
    with pytest.raises(InputError, match="no split 'test'; choose val or train"):
        imagenette(tmp_path, split="test")
    with pytest.raises(InputError, match="'imagenet' \\(1000\\) or 'imagenette' \\(10\\), not '10'"):
        imagenette(tmp_path, labels="10")


@pytest.mark.parametrize("name", ["cat/a.png", "a.png", "n99999999/a.png"])
def test_another_folder_is_not_imagenette(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"is not Imagenette: it has '(cat|a.png|n99999999)'; expected"):
        imagenette(saved(tmp_path, name))


# ---- corners --------------------------------------------------------------------------------------------------


def place_in(height: int, width: int) -> np.ndarray:
    """A photo that tells places: red is x and green is y, in steps of the whole range."""
    y, x = np.mgrid[0.5:height, 0.5:width]
    place = np.stack([x / width, y / height, np.full_like(x, 0.5)], axis=2)
    return (place * 255).round().astype(np.uint8)


def corners_of(folder: Path, size: tuple[int, int], n: int, *, seed: int = 0) -> Corners:
    """``n`` photos of one class, equal to the eye but different in content."""
    for i in range(n):
        photo = place_in(*size)
        photo[0, 0, 2], photo[0, 1, 2] = divmod(i, 256)
        save(folder, f"val/n01440764/{i:03d}.png", photo)
    return imagenette_corner(folder, seed=seed)


@pytest.mark.parametrize("size", [(512, 512), (300, 400), (400, 256), (100, 150)])
def test_a_corner_is_180_of_256_pixels_of_the_shorter_side(tmp_path: Path, size: tuple[int, int]) -> None:
    pictures = corners_of(tmp_path, size, 8)
    height, width = (round(length * 256 / min(size)) for length in size)
    for i in range(8):
        cut = np.asarray(pictures.read(i)).astype(float) / 255
        assert cut.shape == (224, 224, 3)
        right, bottom = pictures.corner(i) % 2, pictures.corner(i) // 2
        left_edge, top_edge = right * (width - 180) / width, bottom * (height - 180) / height
        red, green = cut[112, :, 0], cut[:, 112, 1]
        assert (red[0], red[-1]) == pytest.approx((left_edge, left_edge + 180 / width), abs=0.02)
        assert (green[0], green[-1]) == pytest.approx((top_edge, top_edge + 180 / height), abs=0.02)


def test_the_corner_depends_on_seed_and_content_and_on_nothing_else(tmp_path: Path) -> None:
    pictures = corners_of(tmp_path, (6, 6), 40)
    by_content = {pictures.pictures.digest(i): pictures.corner(i) for i in range(40)}
    for i, name in enumerate(reversed(pictures.names)):  # another order, other names, fewer photos
        if i % 3:
            path = tmp_path / "other" / "val" / "n03888257" / f"{i:03d}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((tmp_path / "val" / name).read_bytes())
    other = imagenette_corner(tmp_path / "other")
    assert len(other) == 26
    assert all(by_content[other.pictures.digest(i)] == other.corner(i) for i in range(26))
    reseeded = imagenette_corner(tmp_path, seed=1)
    same = sum(reseeded.corner(i) == pictures.corner(i) for i in range(40))
    assert 1 <= same <= 25  # a quarter is expected


# ---- ImageNet -------------------------------------------------------------------------------------------------


def test_photos_without_labels_are_refused(tmp_path: Path) -> None:
    (tmp_path / "val").mkdir()
    for names in ((), ("ILSVRC2012_val_00000001.png",), ("n01443537/b.png",)):
        saved(tmp_path / "val", *names)
        with pytest.raises(
            InputError, match=r"labels of .* are not known: .*file,class_index.*folder per class"
        ):
            imagenet(tmp_path)


def test_a_thousand_folders_are_the_usual_outputs(tmp_path: Path) -> None:
    for k in range(1000):
        folder = tmp_path / f"n{k * 7919:08d}"
        folder.mkdir()
        (folder / "a.jpg").touch()
    photos = imagenet(tmp_path)
    assert [photos.truth(i) for i in range(1000)] == list(range(1000))
    assert tuple(photos.label_names) == label_names("imagenet")


def test_imagenettes_folders_are_known_without_a_list(tmp_path: Path) -> None:
    assert labelled(imagenet(imagenette_at(tmp_path))) == labelled(imagenette(tmp_path))


def test_a_table_gives_imagenets_indices(tmp_path: Path) -> None:
    saved(tmp_path, "a.png", "b.png")
    table(tmp_path, "file,class_index,boxes_xyxy\na.png,340,\nb.png,,\n", name="labels.csv")
    for path in (tmp_path, tmp_path / "labels.csv"):
        photos = imagenet(path)
        assert labelled(photos) == {"a.png": "zebra", "b.png": None}
    for wrong in ("1000", "'zebra'", "'-1'"):
        table(tmp_path, "file,class_index\na.png," + wrong.strip("'") + "\n", name="labels.csv")
        with pytest.raises(InputError, match=rf"numbers 0 to 999 in a column class_index, not {wrong}"):
            imagenet(tmp_path)


# ---- real data ------------------------------------------------------------------------------------------------


def test_the_real_imagenette_is_what_its_folders_say(data: Path) -> None:
    published = {
        wnid: int(k) for k, (wnid, _) in json.loads((data / "imagenet_classes.json").read_text()).items()
    }
    assert {wnid: published[wnid] for wnid in IMAGENETTE} == IMAGENETTE
    for split, count in (("val", 1000), ("train", 1489)):
        photos = imagenette(data / "imagenette", split=split)
        assert len(photos) == count
        wnids = [name.partition("/")[0] for name in photos.names]
        assert [photos.truth(i) for i in range(count)] == [published[wnid] for wnid in wnids]


def test_the_real_imagenet_photos_have_their_labels_and_boxes(data: Path) -> None:
    photos = imagenet(data / "imagenet_val")
    with open(data / "imagenet_val" / "labels.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(photos.names) == [row["file"] for row in rows]
    assert [photos.truth(i) for i in range(1000)] == [int(row["class_index"]) for row in rows]
    for i in (0, 340, 999):
        assert [list(box) for box in photos.objects(i)[int(rows[i]["class_index"])]] == json.loads(
            rows[i]["boxes_xyxy"]
        )
        assert photos.read(i).size == (int(rows[i]["width"]), int(rows[i]["height"]))


def test_real_corners_are_even_and_cut_out_of_the_photo(data: Path) -> None:
    pictures = load_dataset(f"imagenette-corner:{data / 'imagenette'}")
    times = Counter(pictures.corner(i) for i in range(1000))
    assert all(abs(times[corner] - 250) < 4 * np.sqrt(1000 * 3 / 16) for corner in range(4))
    for i in (3, 500, 997):  # shorter side 256 already: the corner is in the file as it is
        photo = Image.open(data / "imagenette" / "val" / pictures.names[i]).convert("RGB")
        assert min(photo.size) == 256
        x, y = (
            (photo.width - 180) * (pictures.corner(i) % 2),
            (photo.height - 180) * (pictures.corner(i) // 2),
        )
        expected = photo.crop((x, y, x + 180, y + 180)).resize((224, 224), Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(np.asarray(pictures.read(i)), np.asarray(expected))


# ---- ImageNet with several labels --------------------------------------------------------------------------------


def test_relabelled_imagenet_has_the_labels_of_each_photo_by_its_number(tmp_path: Path) -> None:
    for number in (1, 3, 4):
        save(tmp_path, f"val/n0/ILSVRC2012_val_{number:08d}.JPEG", noise(number, 8, 8))
    (tmp_path / "real.json").write_text("[[65, 795], [1], [], [7]]")
    every = imagenet_real(tmp_path / "val")  # the table of the folder above
    assert [every.true_labels(i) for i in range(3)] == [(65, 795), (), (7,)]
    two = imagenet_real(tmp_path / "val", table=str(tmp_path / "real.json"), count=2)
    assert len(two) == 1 and two.names[0].endswith("00000001.JPEG")
    assert rebuild_dataset(two.settings()).names == two.names
    with pytest.raises(InputError, match=r"no photo of .* has 5 labels"):
        imagenet_real(tmp_path / "val", count=5)
    (tmp_path / "real.json").write_text("[[65, 1000]]")
    with pytest.raises(InputError, match=r"real.json must be a JSON list .* numbers 0 to 999"):
        imagenet_real(tmp_path / "val")
    (tmp_path / "real.json").write_text("[[65]]")
    with pytest.raises(InputError, match=r"has no labels in real\.json: .* numbered 1 to 1"):
        imagenet_real(tmp_path / "val")
    (tmp_path / "real.json").unlink()
    with pytest.raises(InputError, match=r"there is no file .*real\.json"):
        imagenet_real(tmp_path / "val")


# ---- photos with things of several labels ----

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
