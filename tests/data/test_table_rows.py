"""Rows of CSV and Parquet files: names, true labels, missing values, and what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import proofmap as pm
from proofmap.core.errors import InputError, MissingExtra
from proofmap.core.inputs import Rows
from proofmap.data import TableData, load_blocks, load_dataset, open_data
from tests.lazily import Lazily
from tests.test_row_fills import classifier, people
from tests.toys import drawn

pd = Lazily("pandas")


def written(at: Path) -> tuple[Path, pd.DataFrame]:
    frame = people()
    left = np.where(frame["age"] > 50, "leaves", "stays")
    frame.assign(id=[f"customer {k}" for k in range(30)], left=left).to_csv(at / "customers.csv", index=False)
    return at / "customers.csv", frame


def test_a_csv_file_is_read_as_the_frame_it_was(tmp_path: Path) -> None:
    path, frame = written(tmp_path)
    data = load_dataset(f"{path}?target=left&name=id")
    assert load_dataset(f"{path}?name=id").names == data.names  # without labels it is a table too
    assert isinstance(data, TableData) and data.title == "customers.csv"
    pd.testing.assert_frame_equal(data.frame, frame)
    assert data.names[:2] == ["customer 0", "customer 1"] and data.label_names == ("leaves", "stays")
    f = classifier(Rows.of(frame))
    (block,) = load_blocks(data, f, block_size=30)
    assert torch.equal(block.images.nan_to_num(-1), f.inputs.encode(frame).nan_to_num(-1))
    study = pm.evaluate(f, data, methods=["occlusion"], labels="true", metrics=["insertion"])
    assert study.image_names[0] == "customer 0"
    assert study.labels[:, 0].tolist() == (frame["age"] > 50).astype(int).tolist()  # matched by name


def test_codes_are_those_of_the_net_and_not_those_of_the_file() -> None:
    frame = people()
    ulm = frame[frame["city"] == "Ulm"]
    data = TableData(ulm)  # here Ulm has the code 0
    f = classifier(Rows.of(frame))  # there 2
    (block,) = load_blocks(data, f, block_size=30)
    assert block.images[:, 2].unique().tolist() == [2.0]


def test_a_net_with_names_alone_takes_columns_of_numbers_by_name() -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    f = pm.Classifier(drawn(nn.Linear(2, 2)), inputs=Rows(mean=(0, 0), std=(1, 1), names=("a", "b")))
    (block,) = load_blocks(TableData(frame), f)
    assert block.images.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    (block,) = load_blocks(TableData(frame[["b", "a"]]), f)
    assert block.images.tolist() == [[1.0, 3.0], [2.0, 4.0]]


def test_a_study_of_a_table_runs_and_is_opened_again(tmp_path: Path) -> None:
    path, frame = written(tmp_path)
    data = open_data(f"{path}?target=left&name=id")
    study = pm.Study(methods=["occlusion", "random"], labels="all", metrics=["completeness", "soundness"])
    f = classifier(Rows.of(frame))
    assert pm.run_study(study, tmp_path / "run", classifier=f, dataset=data).complete
    with pm.Run(tmp_path / "run") as run:
        found = run.evaluation(pictured=2, dataset=data)
    assert found.inputs == f.inputs and found.image_names[0].startswith("customer")
    assert "30 rows" in found.table()


@pytest.mark.parametrize(
    "text, options, told",
    [
        ("a,b\n1,2\n", "target=c", "rows.csv has no column 'c'. It has a, b"),
        ("a,b\n1,2\n", "target=a&name=x", "rows.csv has no column 'x'"),
        ("a,day\n1,2024-05-31\n2,2024-06-01\n", "target=a", "'day' of .* holds dates such as '2024-05-31'"),
        ("a\n1\n", "target=a", "no columns for the model"),
        ("a,b\n1,2,3,4\n1\n", "target=a", "cannot be read as a table"),
        ("a,b\n", "target=a", "the table has no rows"),
        ("a,b\n1,\n", "target=a", "'b' has no values"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(tmp_path: Path, text: str, options: str, told: str) -> None:
    (tmp_path / "rows.csv").write_text(text)
    with pytest.raises(InputError, match=told):
        load_dataset(f"{tmp_path / 'rows.csv'}?{options}")


def test_a_parquet_file_needs_its_extra_or_is_read(tmp_path: Path) -> None:
    try:
        people().to_parquet(tmp_path / "rows.parquet")
    except ImportError:
        (tmp_path / "rows.parquet").write_bytes(b"PAR1")
        with pytest.raises(MissingExtra, match=r"proofmap\[parquet\]"):
            load_dataset(tmp_path / "rows.parquet")
    else:
        data = load_dataset(tmp_path / "rows.parquet")
        assert isinstance(data, TableData)
        pd.testing.assert_frame_equal(data.frame, people())


def test_a_table_of_files_says_how_to_read_rows(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"as in table:FILE\?target=COLUMN \(or --target COLUMN\)"):
        load_dataset(tmp_path / "rows.csv")
    assert isinstance(load_dataset(f"table:{tmp_path / 'rows.csv'}"), TableData)


def test_true_labels_in_another_order_than_the_rows_are_refused() -> None:
    frame = people()
    f, truth = classifier(Rows.of(frame)), (frame["age"] > 50).astype(int)
    shuffled = frame.iloc[::-1]
    with pytest.raises(InputError, match=r"in another order, by its index; write truth\.loc\[frame\.index\]"):
        pm.evaluate(f, shuffled, methods=["random"], labels="true", truth=truth)
    mixed = [*range(len(frame) - 1), "last"]  # not sortable
    with pytest.raises(InputError, match=r"in another order, by its index"):
        pm.evaluate(
            f, shuffled.set_axis(mixed[::-1]), methods=["random"], labels="true", truth=truth.set_axis(mixed)
        )
    found = pm.evaluate(f, shuffled, methods=["random"], labels="true", truth=truth.loc[shuffled.index])
    assert found.labels[:, 0].tolist() == truth.tolist()[::-1]


@pytest.mark.parametrize("spec", ["bare.csv?target=0.5", "series:bare.csv", "table:bare.csv"])
def test_a_first_line_of_numbers_is_not_taken_for_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    """It would be a row that is lost. A line of increasing numbers may name time steps."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bare.csv").write_text("2.5,-1,0.5\n1,2,3\n")
    with pytest.raises(InputError, match=r"first line of .*bare\.csv has numbers \(2\.5, -1"):
        load_dataset(spec)
    (tmp_path / "bare.csv").write_text("2,,1\n1,2,3\n")
    with pytest.raises(InputError, match=r"first line of .*bare\.csv has numbers \(2, 1\)"):
        load_dataset(spec)
    (tmp_path / "bare.csv").write_text("0,1,2\n1,2,3\n")
    assert len(load_dataset("series:bare.csv")) == 1
