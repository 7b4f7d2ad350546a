"""Photos with labelled objects: annotations in Pascal VOC's XML format, one file per photo."""

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
    """Photos with boxes by label, in one of two layouts.

    Pascal VOC's
        ``JPEGImages/NAME.jpg`` with ``Annotations/NAME.xml``. ``split`` names a list of photos in
        ``ImageSets/Main/SPLIT.txt``, such as ``trainval``; all photos by default.
    A folder
        with an XML file next to each photo, as labelling tools write them.

    The corners of a box are pixels inside it, counted from 1: ``xmin, ymin, xmax, ymax`` becomes (xmin - 1, ymin - 1, xmax, ymax).
    The true labels of a photo are those of its objects.
    """
    root = existing_folder(path)
    photos = root / PHOTOS if (root / PHOTOS).is_dir() else root
    is_flat = photos == root
    files = files_below(photos)
    if split:
        listed = root / SPLITS / f"{split}.txt"
        stems = {line.split()[0] for line in text_of(listed).splitlines() if line.strip()}
        files = [file for file in files if Path(file).stem in stems]
        if missing := stems - {Path(file).stem for file in files}:
            raise InputError(f"{listed} names {min(missing)}, but there is no such photo in {photos}")
    if not files:
        raise InputError(f"the folder {photos} holds no images")
    xml = [
        (photos / file).with_suffix(".xml") if is_flat else root / ANNOTATIONS / f"{Path(file).stem}.xml"
        for file in files
    ]
    found = [read_annotation(file) if file.is_file() else {} for file in xml]
    if not any(found):
        where = "next to the photos" if is_flat else f"in {ANNOTATIONS}"
        raise InputError(
            f"no object is labelled in {root}: there must be XML files {where}, one for each photo"
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
    """Boxes by name from one file."""
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
