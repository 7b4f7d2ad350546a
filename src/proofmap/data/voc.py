"""Photos with several labelled things: annotations in Pascal VOC's XML, one file for each photo."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

from proofmap.core.errors import InputError
from proofmap.core.inputs import Box
from proofmap.core.pictures import files_below
from proofmap.data.folders import ImageFiles, existing_folder
from proofmap.data.tables import labelled_objects, text_of

PHOTOS, ANNOTATIONS, SPLITS = "JPEGImages", "Annotations", "ImageSets/Main"


def pascal_voc(path: str | Path, *, split: str = "") -> ImageFiles:
    """Photos with boxes for each of their labels, in either of two layouts.

    Pascal VOC's
        ``JPEGImages/NAME.jpg`` with ``Annotations/NAME.xml``. ``split`` names a list of photos,
        ``ImageSets/Main/SPLIT.txt``, such as ``trainval``; without it, all photos count.
    A folder
        with an XML file beside each photo, as tools for labelling write them.

    A box's corners are pixels that belong to it, counted from 1: ``xmin, ymin, xmax, ymax`` is (xmin - 1, ymin - 1, xmax, ymax)
    here. A photo without an annotation, or one in which nothing is labelled, has no boxes. The label of a photo is that of its things
    where they all have the same; else there is no one true label.
    """
    root = existing_folder(path)
    photos = root / PHOTOS if (root / PHOTOS).is_dir() else root
    beside = photos == root
    files = files_below(photos)
    if split:
        listed = root / SPLITS / f"{split}.txt"
        stems = {line.split()[0] for line in text_of(listed).splitlines() if line.strip()}
        files = [file for file in files if Path(file).stem in stems]
        if missing := stems - {Path(file).stem for file in files}:
            raise InputError(f"{listed} names {min(missing)}, of which there is no photo in {photos}")
    if not files:
        raise InputError(f"the folder {photos} holds no images")
    xml = [
        (photos / file).with_suffix(".xml") if beside else root / ANNOTATIONS / f"{Path(file).stem}.xml"
        for file in files
    ]
    found = [read_annotation(file) if file.is_file() else {} for file in xml]
    if not any(found):
        where = "beside the photos" if beside else f"in {ANNOTATIONS}"
        raise InputError(
            f"no thing is labelled in {root}: there must be XML files {where}, one for each photo"
        )
    labels, label_names, objects = labelled_objects(found, root)
    return ImageFiles(
        photos,
        files,
        title=f"{root.name}[{split}]" if split else root.name,
        settings={"dataset": "voc", "path": str(root), "split": split},
        labels=labels,
        label_names=label_names,
        objects=objects,
    )


def read_annotation(path: Path) -> Mapping[str, list[Box]]:
    """The boxes of each name in one file."""
    try:
        root = ElementTree.fromstring(text_of(path))
    except ElementTree.ParseError as error:
        raise InputError(f"{path} cannot be read as XML: {error}") from None
    boxes: dict[str, list[Box]] = {}
    for thing in root.iter("object"):
        name = (thing.findtext("name") or "").strip()
        corners = [thing.findtext(f"bndbox/{side}") for side in ("xmin", "ymin", "xmax", "ymax")]
        try:
            x0, y0, x1, y1 = (float(corner or "") for corner in corners)
        except ValueError:
            raise InputError(
                f"an object of {path} has the corners {corners}, expected four numbers"
            ) from None
        if not name:
            raise InputError(f"an object of {path} has no name")
        boxes.setdefault(name, []).append((x0 - 1, y0 - 1, x1, y1))
    return boxes
