"""Writes a first study file for the user's data, with a comment for every setting. Used by ``proofmap evaluate --write-study``."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.files import suggest_path
from proofmap.core.inputs.frames import PARQUET
from proofmap.core.text import one_line
from proofmap.data.folders import files_below
from proofmap.data.specs import open_data, read_for
from proofmap.models import DEFAULT_MODEL
from proofmap.study.study import Study

_KINDS = {
    **dict.fromkeys((".csv", ".tsv", *PARQUET), "table"),
    **dict.fromkeys((".txt", ".jsonl"), "texts"),
    ".ts": "series",
}
_METHODS = {
    "photos": ("belief-mask", "grad-cam", "random"),
    "series": ("belief-order", "gradient-x-input", "occlusion", "random"),
    "table": ("belief-order", "kernel-shap", "random"),
    "texts": ("belief-order", "kernel-shap", "random"),
}
_FILLS = {"photos": "blur", "series": "time-shift", "table": "near-rows", "texts": "images"}
_TEXT = """\
# A study of {words}. Look at its plan, then run it:
#     proofmap evaluate {file} --dry-run
#     proofmap evaluate {file}

# The net: a name (proofmap list models), a model file, timm:NAME, hf:NAME, or FILE.py:FUNCTION that returns a pm.Classifier. For data
# other than photos, write such a function before you run the study:
#     def make():
#         return pm.Classifier(MODEL, data=DATA)  # anything with predict_proba; for series: inputs=pm.Series(...)
model = {model}

# Other data: proofmap list datasets. The column after target= has the true labels and is not shown to the model.
data = {data}

# The labels that get a map. top5+wrong: the five most probable, and two that the model does not believe, to test soundness.
# Also: "all", "top3", "p>=0.01" (a probability), "true" (the true labels), or names: ["tabby", "tiger cat"].
labels = {labels}

# What is judged: proofmap list methods. Settings follow a colon: belief-mask:preset=thorough. Keep random, for comparison.
methods = {methods}

# By what: proofmap list metrics. If left out: completeness, soundness, best effort, insertion and deletion.
# metrics = ["completeness", "soundness", "best-effort"]

# What hidden positions show: proofmap list fills. Each metric is computed with each of them.
# fills = ["gray", {fill}]

# Also judge noise, and every method's maps blurred and shown for every label.
# controls = true

# The same seed gives the same numbers.
seed = 0

[images]
# A random sample of this size; everything if left out. A larger number continues the same sample.
# number = 200
# Only what the model classifies correctly, if the true labels are known.
# correct = true
# Only if the second label has at least this probability: there, maps of several labels can be compared.
# min_second_probability = 0.01
"""


def draft(
    data: str, file: Path, *, target: str = "", column: str = "", settings: Mapping[str, Any] | None = None
) -> str:
    """The text of a study file for the data in a folder or file, to be written to ``file``.

    ``target`` is the column of a table or of texts that has the true labels, ``column`` the one that has the texts.
    ``settings`` are written in place of those of the draft.
    """
    place = Path(data)
    if not place.exists():
        raise InputError(f"there is no file or folder {place}.{suggest_path(place)}")
    kind = "texts" if column else _KINDS.get(place.suffix.lower(), "photos")
    if place.is_dir() and not files_below(place):
        raise InputError(
            f"{place} has no photos. Name the file of your data, such as table.csv, series.ts or texts.txt"
        )
    if target and kind not in ("table", "texts"):
        raise InputError(f"--target names a column of a table or of texts, and {place} is neither")
    options = "&".join(f"{key}={name}" for key, name in (("column", column), ("target", target)) if name)
    prefix = "series:" if kind == "series" else ""
    suffix = f"?{options}" if options else ""
    if kind != "series":  # mistakes are reported now; series are read when their length is known
        open_data(read_for([f"{place}{suffix}"], {"table": "rows", "texts": "text"}.get(kind, "")))
    relative = os.path.relpath(place, file.parent)
    near = place.absolute().as_posix() if relative.startswith(f"..{os.sep}..") else Path(relative).as_posix()
    text = _TEXT.format(
        words=one_line(f"the {kind} of {place}"),
        file=file.name,
        model=json.dumps(DEFAULT_MODEL if kind == "photos" else "model.py:make"),
        data=json.dumps(f"{prefix}{near}{suffix}", ensure_ascii=False),
        labels=json.dumps("top5+wrong" if kind == "photos" else "all"),
        methods=json.dumps(_METHODS[kind]),
        fill=json.dumps(_FILLS[kind]),
    )
    for name, value in (settings or {}).items():
        line = f"{name} = {json.dumps(value, ensure_ascii=False)}"
        if re.search(rf"^(# )?{name} = ", text, re.MULTILINE):
            text = re.sub(rf"^(# )?{name} = .*", line.replace("\\", r"\\"), text, flags=re.MULTILINE)
        else:
            text = text.replace("\n[images]\n", f"{line}\n\n[images]\n")
    study = Study.from_table(tomllib.loads(text))
    study.named_methods()  # mistakes are reported now
    study.named_metrics()
    return text
