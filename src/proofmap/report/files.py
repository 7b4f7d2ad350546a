"""What ``save`` writes: tables, a full record, maps and pictures; all files, whole, or none."""

from __future__ import annotations

import json
import platform
from pathlib import Path

import torch
from PIL import Image
from safetensors.torch import save

from proofmap.core.errors import MissingExtra
from proofmap.core.files import atomic_write, distinct_names, file_name, write_text, written_together
from proofmap.core.pictures import SUFFIXES, own_mark
from proofmap.report import figures
from proofmap.report.pictures import comparison_sheet, explained_sheet, pictured_images
from proofmap.results import tables
from proofmap.results.evaluation import Evaluation
from proofmap.results.fill_alone import fill_records
from proofmap.results.sharing import shared


def evaluation_record(evaluation: Evaluation) -> dict[str, object]:
    """Everything but tensors, as plain data: settings, versions, scores, rows."""
    return {
        "proofmap": evaluation.settings.get("proofmap", ""),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": evaluation.settings.get("device", ""),
        "settings": dict(evaluation.settings),
        "images": list(evaluation.image_names),
        "methods": [
            {
                "name": r.name,
                "settings": dict(r.settings),
                "label_free": r.label_free,
                "signed": r.signed,
                "seconds": round(r.seconds, 2),
                "scores": [s.record() for s in r.scores],
                "values": {k: v.tolist() for k, v in r.values.items()},
                "pairs": [dict(row) for row in r.rows],
                "given_by_fill": fill_records(r),
            }
            for r in evaluation.results
        ],
    }


def evaluation_json(evaluation: Evaluation) -> str:
    """The record as JSON text; NaN becomes null, and a setting that JSON does not know becomes its text."""
    return tables.json_text(evaluation_record(evaluation))


def save_evaluation(evaluation: Evaluation, folder: str | Path, *, pictures: bool = True) -> list[Path]:
    """``scores.csv``, ``pairs.csv``, ``evaluation.json``, and when asked a sheet for each of the first images and
    the charts; returns what was written.
    """
    evaluation = shared(evaluation)
    with written_together(folder) as out:
        written = _save_numbers(evaluation, out)
        if pictures:
            written += save_pictures(evaluation, out)
    return [Path(folder, path.name) for path in written]


def save_pictures(evaluation: Evaluation, out: Path) -> list[Path]:
    """A sheet for each of the first pictured images, and the charts where matplotlib is there."""
    sheets = zip(pictured_images(evaluation), _sheet_names(evaluation), strict=True)
    written = [_save_picture(comparison_sheet(evaluation, i), out / name) for i, name in sheets]
    try:
        written.append(figures.draw_curves(evaluation, out / "curves.png"))
        if figures.scatter_panels(evaluation):
            written.append(figures.draw_scatter(evaluation, out / "completeness-soundness.png"))
    except MissingExtra:
        pass  # charts are a bonus of the extra; the command line says so
    return written


def save_proof(evaluation: Evaluation, folder: str | Path) -> list[Path]:
    """A sheet for each of the first images, ``maps.safetensors``, and the numbers; returns what was written.

    The maps are called ``maps``, or ``maps.METHOD`` where there are several methods.
    """
    with written_together(folder) as out:
        written = _save_proof(shared(evaluation), out)
    return [Path(folder, path.name) for path in written]


def _save_proof(evaluation: Evaluation, out: Path) -> list[Path]:
    written = _save_numbers(evaluation, out)
    several = len(evaluation.results) > 1
    tensors = {
        f"maps.{result.name}" if several else "maps": evaluation.maps_of(result).contiguous()
        for result in evaluation.results
    }
    tensors["labels"] = evaluation.labels.cpu().contiguous()
    with atomic_write(out / "maps.safetensors") as part:
        part.write_bytes(save(tensors, metadata={"images": json.dumps(list(evaluation.image_names))}))
    written.append(out / "maps.safetensors")
    sheets = zip(pictured_images(evaluation), _sheet_names(evaluation), strict=True)
    for i, name in sheets:
        written.append(_save_picture(explained_sheet(evaluation, i), out / name))
    return written


def _sheet_names(evaluation: Evaluation) -> list[str]:
    """``IMAGE.METHOD.png`` for each pictured image, ``IMAGE.compared.png`` where there are several methods, each different
    from the others; IMAGE is the image's name without the suffix of its file."""
    shown = evaluation.results[0].name if len(evaluation.results) == 1 else "compared"
    images = [Path(evaluation.image_names[i]) for i in pictured_images(evaluation)]
    bare = [image.with_suffix("") if image.suffix.lower() in SUFFIXES else image for image in images]
    return [
        f"{file_name(name, shown)}.png" for name in distinct_names([file_name(str(name)) for name in bare])
    ]


def _save_numbers(evaluation: Evaluation, out: Path) -> list[Path]:
    for name, text in (
        ("scores.csv", tables.scores_csv(evaluation)),
        ("pairs.csv", tables.pairs_csv(evaluation)),
        ("evaluation.json", evaluation_json(evaluation) + "\n"),
    ):
        write_text(out / name, text)
    return [out / "scores.csv", out / "pairs.csv", out / "evaluation.json"]


def _save_picture(picture: Image.Image, path: Path) -> Path:
    with atomic_write(path) as part:
        picture.save(part, optimize=True, pnginfo=own_mark())
    return path
