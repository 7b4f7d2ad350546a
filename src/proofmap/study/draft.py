"""Writes a first study file for the data in a folder, with a comment for every setting. Used by ``proofmap evaluate --write-study``."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from proofmap.core.errors import InputError
from proofmap.core.files import suggest_path
from proofmap.core.inputs.frames import PARQUET
from proofmap.core.pictures import SUFFIXES
from proofmap.core.text import counted, one_line
from proofmap.data.folders import files_below, image_folder
from proofmap.data.texts import text_file
from proofmap.models import DEFAULT_MODEL

SAMPLE_ABOVE = 200
"""If there are more images than this, the draft judges a random sample of this size."""
_TABLES = (".csv", ".tsv", *PARQUET)
_SERIES = (".ts",)
_TEXTS = (".txt", ".jsonl")
_MODELS = {".onnx": "onnx", ".skops": "sklearn"}


@dataclass(frozen=True)
class FoundData:
    """Data that a study can judge.

    Attributes:
        kind: photos, table, series or texts.
        place: the file or folder of the data.
        words: a description for a comment in the study file, such as "12 photos in FOLDER".
        number: number of images, rows, series or texts; None if everything would have to be read to count them.
        target: for a table or texts, the column with the true labels.
        column: for texts, the column with the text.
        labelled: whether true labels are known.
        model: for a table, a model file in the same folder.
    """

    kind: str
    place: Path
    words: str
    number: int | None = None
    target: str = ""
    column: str = ""
    labelled: bool = False
    model: Path | None = None


def find_data(place: str | Path, target: str = "", column: str = "") -> list[FoundData]:
    """Find the data in a folder or in one file. Photos come first, then series, then tables.

    Args:
        place: the folder or file.
        target: the column of a table or of texts that has the true labels. For a table the default is the last column.
        column: the column that has the texts, for a file of texts.
    """
    place = Path(place)
    if not place.exists():
        raise InputError(f"there is no file or folder {place}.{suggest_path(place)}")
    if column or place.suffix.lower() in _TEXTS:
        return [_texts(place, target, column)]
    files = sorted(path for path in place.iterdir() if path.is_file()) if place.is_dir() else [place]

    def by_suffix(suffixes: Iterable[str]) -> list[Path]:
        return [path for path in files if path.suffix.lower() in tuple(suffixes)]

    found = list(_photos(place))
    found += [
        FoundData("series", path, f"the series of {path.name}", labelled=True) for path in by_suffix(_SERIES)
    ]
    models = by_suffix(_MODELS)
    found += [_table(path, target, models[0] if models else None) for path in by_suffix(_TABLES)]
    if target and not any(one.kind == "table" for one in found):
        raise InputError(f"--target names a column of a table, and {place} has none (.csv, .tsv or .parquet)")
    if not found:
        raise InputError(
            f"{place} has no photos, no table (.csv, .tsv, .parquet) and no series (.ts). Name the folder or file of your data: "
            "--data photos/, --data texts.txt. Other data is listed by: proofmap list datasets"
        )
    return found


def _texts(path: Path, target: str, column: str) -> FoundData:
    """Describe the texts of a file. The file is read, to count the texts and to report mistakes."""
    texts = text_file(path, column=column, target=target)
    words = f"{counted(len(texts), 'text')} of {path.name}"
    return FoundData("texts", path, words, len(texts), target, column, labelled=bool(target))


def _photos(place: Path) -> Iterable[FoundData]:
    """Describe the photos below a folder, or one photo. Yields nothing if there are no photos."""
    if place.is_file():
        if place.suffix.lower() in SUFFIXES:
            yield FoundData("photos", place, "one photo", 1)
        return
    if files_below(place):
        photos = image_folder(place)
        words = f"{counted(len(photos), 'photo')} in {place}"
        if photos.label_names:
            words += f", in a sub-folder for each of {counted(len(photos.label_names), 'label')}"
        yield FoundData("photos", place, words, len(photos), labelled=bool(photos.label_names))


def _table(path: Path, target: str, model: Path | None) -> FoundData:
    """Describe a table. A table with a column ``file`` lists photos; any other has one input per row."""
    if path.suffix.lower() in PARQUET:
        return FoundData(
            "table", path, f"the rows of {path.name}", target=target, labelled=bool(target), model=model
        )
    try:
        with path.open(encoding="utf-8-sig", newline="") as opened:
            rows = csv.reader(opened, delimiter="\t" if path.suffix.lower() == ".tsv" else ",")
            columns = next(rows, [])
            number = sum(1 for row in rows if row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read as a table: {error}") from None
    if "file" in columns:
        return FoundData("photos", path, f"{counted(number, 'photo')} of {path.name}", number, labelled=True)
    if not columns:
        raise InputError(f"{path} is empty; a table has the names of its columns in the first line")
    if target and target not in columns:
        raise InputError(f"{path} has no column {target!r}; it has {', '.join(columns)}")
    words = f"{counted(number, 'row')} of {path.name}"
    return FoundData("table", path, words, number, target or columns[-1], labelled=True, model=model)


def draft(found: FoundData, file: Path, others: Sequence[FoundData] = ()) -> str:
    """The text of a study file for the data ``found``, to be written to ``file``. Other data is named in a comment."""
    methods, labels = {
        "photos": (("belief-mask", "grad-cam", "random"), "top5+wrong"),
        "series": (("belief-order", "gradient-x-input", "occlusion", "random"), "all"),
        "table": (("belief-order", "kernel-shap", "random"), "all"),
        "texts": (("belief-order", "kernel-shap", "random"), "all"),
    }[found.kind]
    also = [f"# Also found: {_quoted(_data(other, file))}, {other.words}." for other in others]
    sample = found.number is not None and found.number > SAMPLE_ABOVE
    lines = [
        f"# A study of {one_line(found.words)}. Look at its plan, then run it:",
        f"#     proofmap evaluate {file.name} --dry-run",
        f"#     proofmap evaluate {file.name}",
        "",
        *_model(found, file),
        "",
        *_data_comment(found),
        f"data = {_quoted(_data(found, file))}",
        *also,
        "",
        "# The labels that get a map. top5+wrong: the five most probable, and two that the model does not believe, to test soundness.",
        '# Also: "all", "top3", "p>=0.01" (a probability), "true" (the true labels), or names: ["tabby", "tiger cat"].',
        f"labels = {_quoted(labels)}",
        "",
        "# What is judged: proofmap list methods. Settings follow a colon: belief-mask:preset=thorough. Keep random, for comparison.",
        f"methods = [{', '.join(map(_quoted, methods))}]",
        "",
        "# By what: proofmap list metrics. If left out: completeness, soundness, best effort, insertion and deletion.",
        '# metrics = ["completeness", "soundness", "best-effort"]',
        "",
        "# What hidden positions show: proofmap list fills. Each metric is computed with each of them.",
        f"# fills = [{', '.join(map(_quoted, _FILLS[found.kind]))}]",
        "",
        "# Also judge noise, and every method's maps blurred and shown for every label.",
        "# controls = true",
        "",
        "# The same seed gives the same numbers.",
        "seed = 0",
        "",
        "[images]",
        "# A random sample of this size; everything if left out. A larger number continues the same sample.",
        f"{'' if sample else '# '}number = {SAMPLE_ABOVE if sample else 100}",
        *(["# Only what the model classifies correctly.", "# correct = true"] if found.labelled else []),
        "# Only if the second label has at least this probability: there, maps of several labels can be compared.",
        "# min_second_probability = 0.01",
    ]
    return "\n".join(lines) + "\n"


_FILLS = {
    "photos": ("gray", "blur"),
    "series": ("gray", "time-shift"),
    "table": ("gray", "near-rows"),
    "texts": ("gray", "images"),
}


def has_model(found: FoundData) -> bool:
    """Whether the drafted study file names a model that exists. If not, the user must name one before running the study."""
    return found.kind == "photos" or found.model is not None


def _model(found: FoundData, file: Path) -> list[str]:
    if found.kind == "photos":
        return [
            "# The net: a name (proofmap list models), timm:NAME, hf:NAME, or FILE.py:FUNCTION that returns a pm.Classifier.",
            f"model = {_quoted(DEFAULT_MODEL)}",
        ]
    place = _relative(found.place, file)
    if found.kind == "series":
        return [
            "# The net: a function of yours that returns a pm.Classifier with inputs=Series(...). Write it before you run the study.",
            'model = "model.py:make"',
        ]
    if found.kind == "texts":
        return [
            "# The model: hf-text:FOLDER, minilm-zero-shot?labels=A,B, or a function of yours. Write it before you run the study:",
            "#     def make():",
            "#         return pm.Classifier(MODEL, data=TEXTS)  # a function of a list of strings, or anything with predict_proba",
            'model = "model.py:make"',
        ]
    if found.model is not None:
        scheme = _MODELS[found.model.suffix.lower()]
        written = f"{scheme}:{_relative(found.model, file)}?data={place}" + (
            f"&target={found.target}" if found.target else ""
        )
        return [
            f"# The model: {found.model.name}, with columns as in the table.",
            f"model = {_quoted(written)}",
        ]
    return [
        "# The model: onnx:FILE, sklearn:FILE, xgboost:FILE or lightgbm:FILE, or a function of yours. Write it before you run the study:",
        "#     def make():",
        "#         return pm.Classifier(MODEL, data=FRAME)  # anything with predict_proba, and rows like those that it was fitted on",
        'model = "model.py:make"',
    ]


def _data_comment(found: FoundData) -> list[str]:
    if found.kind != "table":
        return [f"# {one_line(found.words).capitalize()}. Other data: proofmap list datasets."]
    return [
        "# The column after target= has the true labels and is not shown to the model. Change it if it is another one."
    ]


def _data(found: FoundData, file: Path) -> str:
    place = _relative(found.place, file)
    if found.kind == "series":
        return f"series:{place}"
    columns = [
        f"{key}={column}" for key, column in (("column", found.column), ("target", found.target)) if column
    ]
    return f"{place}?{'&'.join(columns)}" if found.kind in ("table", "texts") and columns else place


def _relative(place: Path, file: Path) -> str:
    """The path ``place`` as written in the study file: relative to the folder of ``file`` if that needs at most one "..", else absolute."""
    text = os.path.relpath(place, file.parent)
    return place.absolute().as_posix() if text.startswith(f"..{os.sep}..") else Path(text).as_posix()


def _quoted(text: str) -> str:
    """The text as a TOML string. A JSON string is also a valid TOML string."""
    return json.dumps(text, ensure_ascii=False)
