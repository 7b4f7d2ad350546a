"""Photos named one by one: what --data and explain take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from proofmap.core.errors import InputError
from proofmap.data import open_data, rebuild_dataset
from proofmap.data.specs import photographs


def photo(path: Path, value: int = 0) -> Path:
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(np.full((8, 8, 3), value, dtype=np.uint8)).save(path)
    return path


def test_photos_folders_and_samples_come_in_the_order_named(tmp_path: Path) -> None:
    one, two = photo(tmp_path / "b.png", 1), photo(tmp_path / "more" / "b.png", 2)
    found = photographs([str(one), "sample:cat", str(tmp_path / "more")])
    assert list(found.names) == ["b.png", "cat", "b.png-2"]
    assert found.path(2) == two
    again = rebuild_dataset(found.settings())
    assert list(again.names) == list(found.names) and again.digest(2) == found.digest(2)


def test_one_string_is_a_dataset_unless_it_is_a_photo(tmp_path: Path) -> None:
    one = photo(tmp_path / "photos" / "a.png")
    assert open_data([str(one)]).title == "photos"
    assert open_data(str(tmp_path / "photos")).title == "photos"  # the folder's own name
    assert open_data(["samples"]).title == "samples"
    table = tmp_path / "photos" / "labels.csv"
    table.write_text("file,class_index\na.png,3\n")
    assert open_data([str(table)]).truth(0) == 3
    with pytest.raises(InputError, match="no data was named"):
        open_data([])
    with pytest.raises(InputError, match="no file or folder"):
        open_data([str(one), str(tmp_path / "gone.png")])


def test_a_stamp_changes_with_the_file_and_only_then(tmp_path: Path) -> None:
    one = photo(tmp_path / "a.png")
    found = photographs([one])
    before = found.stamp(0)
    assert before and found.stamp(0) == before
    photo(one, 9)
    assert found.stamp(0) != before
    one.unlink()
    assert found.stamp(0) == ""
