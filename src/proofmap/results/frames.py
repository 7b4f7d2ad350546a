"""The numbers of an evaluation as long tables of plain records, and as a pandas DataFrame."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from proofmap.core.errors import InputError, require
from proofmap.core.labels import NO_LABEL
from proofmap.results.evaluation import Evaluation

if TYPE_CHECKING:
    import pandas as pd

TABLES = ("scores", "per_image", "per_label")


def score_records(evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """One record per method and score: the mean with its interval, direction and settings (as JSON)."""
    for result in evaluation.results:
        for score in result.scores:
            record = score.record()
            yield {"method": result.name, **record, "settings": json.dumps(record["settings"], default=str)}


def image_records(evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """One record per method, metric and image; the value is NaN where the image does not count."""
    for result in evaluation.results:
        for metric, values in result.values.items():
            for image, value in zip(evaluation.image_names, values.tolist(), strict=True):
                yield {"method": result.name, "metric": metric, "image": image, "value": value}


def label_records(evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """One record per method, metric, image and label, with f, the net's probability of the label."""
    names = evaluation.label_names
    believed, table = evaluation.f.tolist(), evaluation.labels.tolist()
    for result in evaluation.results:
        for metric, values in result.pairs.items():
            rows = zip(evaluation.image_names, table, believed, values.tolist(), strict=True)
            for image, labels, f, found in rows:
                for k, label in enumerate(labels):
                    if label != NO_LABEL:
                        place = {"image": image, "label": label, "label_name": names[label], "f": f[k]}
                        yield {"method": result.name, "metric": metric, **place, "value": found[k]}


def dataframe(evaluation: Evaluation, table: str = "scores") -> pd.DataFrame:
    """One of the three tables as a pandas DataFrame; a value that does not count is NaN."""
    if table not in TABLES:
        raise InputError(f"there is no table {table!r}; there are {', '.join(TABLES)}")
    pandas = require("pandas", extra="pandas", purpose="to_dataframe()")
    records = {"scores": score_records, "per_image": image_records, "per_label": label_records}[table]
    frame: pd.DataFrame = pandas.DataFrame.from_records(list(records(evaluation)))
    return frame
