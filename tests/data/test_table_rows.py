"""Rows of CSV and Parquet files: names, true labels, missing values, and what is refused."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import proofmap as pm
from proofmap.core.errors import InputError, MissingExtra
from proofmap.core.inputs import Rows
from proofmap.data import TableData, load_blocks, load_dataset, open_data
from proofmap.data.series_files import series_file
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


# ---- Series of .ts, CSV, NumPy and WAV files: the values as written, labels, and what is refused ----------------------


def test_a_ts_file_has_channels_and_labels(tmp_path: Path) -> None:
    text = "#comment\n@problemName beats\n@timeStamps false\n@classLabel true ill well\n@data\n1,2,3:4,5,6:well\n7,8,9:0,0,1:ill\n"
    (tmp_path / "beats.ts").write_text(text)
    data = load_dataset(f"series:{tmp_path / 'beats.ts'}")
    assert data.read(0).tolist() == [[1, 2, 3], [4, 5, 6]] and data.read(1).tolist() == [[7, 8, 9], [0, 0, 1]]
    assert data.label_names == ("ill", "well") and [data.truth(i) for i in (0, 1)] == [1, 0]


def test_a_csv_file_has_a_series_in_each_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("label,t0,t1\nup,1,2\ndown,4,3\n,0,0\n")
    data = series_file(tmp_path / "a.csv", target="label")
    assert data.read(1).tolist() == [[4, 3]] and data.label_names == ("down", "up")
    assert data.truth(0) == 1 and data.truth(2) is None


@pytest.mark.parametrize("shape", [(3, 5), (3, 2, 5)])
def test_an_npz_file_has_series_and_labels(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(0).normal(size=shape)
    np.savez(tmp_path / "a.npz", series=values, labels=np.array(["x", "y", "x"]))
    data = series_file(tmp_path / "a.npz")
    assert np.allclose(data.read(2), values[2].reshape(-1, 5)) and data.truth(1) == 1


def sound(path: Path, samples: np.ndarray, width: int, rate: int = 8000, channels: int = 1) -> None:
    """Write samples from -1 to 1, ``(T, channels)``."""
    path.parent.mkdir(exist_ok=True)
    whole = (samples.reshape(-1) * (2 ** (8 * width - 1) - 1)).round().astype(np.int64)
    whole = whole + 128 if width == 1 else whole
    content = b"".join(int(v).to_bytes(width, "little", signed=width > 1) for v in whole)
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(content)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_a_wav_file_has_its_samples_and_rate(tmp_path: Path, width: int) -> None:
    samples = np.linspace(-0.9, 0.9, 24).reshape(12, 2)
    sound(tmp_path / "a.wav", samples, width, channels=2)
    data = series_file(tmp_path / "a.wav")
    assert data.read(0).shape == (2, 12)
    np.testing.assert_allclose(data.read(0), samples.T, atol=0.02 if width == 1 else 1e-4)


def test_a_wav_file_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    """Its first part says that it is longer than the file."""
    head = b"RIFF\x24\x00\x00\x00WAVE" + b"junk\xff\xff\xff\x00" + b"\x00" * 20
    (tmp_path / "a.wav").write_bytes(head)
    with pytest.raises(
        InputError, match="cannot be read as a WAV file of whole numbers: it is cut off or damaged"
    ):
        series_file(tmp_path / "a.wav")


def test_a_folder_of_sounds_has_its_sub_folders_as_labels(tmp_path: Path) -> None:
    for name in ("dog/1.wav", "cat/1.wav"):
        sound(tmp_path / name, np.zeros(5), 2)
    data = load_dataset(f"series:{tmp_path}")
    assert list(data.names) == ["cat/1.wav", "dog/1.wav"] and data.label_names == ("cat", "dog")
    sound(tmp_path / "dog/2.wav", np.zeros(6), 2)
    with pytest.raises(InputError, match=r"dog/2.wav of .* has channels of 6 time steps, but series 0 has 5"):
        series_file(tmp_path)
    sound(tmp_path / "dog/2.wav", np.zeros(5), 2, rate=16000)
    with pytest.raises(InputError, match="different sampling rates"):
        series_file(tmp_path)


@pytest.mark.parametrize(
    "name, text, target, told",
    [
        ("a.ts", "1,2:a\n", "", "has no line @data"),
        ("a.ts", "@timeStamps true\n@data\n1,2\n", "", "has time stamps"),
        ("a.ts", "@data\n1,?,2\n", "", "line 2 of .* has no value at time step 1"),
        ("a.ts", "@data\n1,x\n", "", "is not a series of numbers"),
        ("a.ts", "@data\n1,2\n1,2,3\n", "", "series 1 of .* has channels of 3 time steps"),
        ("a.ts", "@data\n", "", "has no series"),
        ("a.ts", "@data\n1,2\n", "y", "target names a column of a CSV file"),
        ("a.csv", "t0,t1\n1,2\n", "y", "target is 'y', but .* has no such column; it has t0, t1"),
        ("a.csv", "t0,t1\n1\n", "", "line 2 of .* has 1 fields, but 2 columns"),
        ("a.csv", "t0\n", "", "no series below its first row"),
        ("a.wav", "RIFF", "", "cannot be read as a WAV file"),
        ("a.mp3", "", "", "is not a file of series"),
    ],
)
def test_files_that_cannot_be_used_are_refused(
    tmp_path: Path, name: str, text: str, target: str, told: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=told):
        series_file(tmp_path / name, target=target)


def test_sensor_files_are_one_series_with_a_channel_in_each_column(tmp_path: Path) -> None:
    for place, label, first in (("walk/a.csv", "walk", 0.0), ("run/b.csv", "run", 5.0)):
        file = tmp_path / place
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"time,x,y,label\n00:01,{first},1,{label}\n00:02,2,3,{label}\n00:03,4,5,{label}\n")
    one = series_file(tmp_path / "walk" / "a.csv", target="label")
    assert one.read(0).tolist() == [[0, 2, 4], [1, 3, 5]] and one.names == ["a.csv"]
    assert one.label_names == ("walk",)
    several = series_file(tmp_path, target="label")
    assert several.names == ["run/b.csv", "walk/a.csv"] and several.label_names == ("run", "walk")
    assert several.read(0).tolist()[0] == [5, 2, 4]
    (tmp_path / "c.csv").write_text("t,x\n0,1\n1,\n")
    with pytest.raises(InputError, match=r"the column 'x' of .*c\.csv has no value at time step 1"):
        series_file(tmp_path / "c.csv")
    (tmp_path / "d.csv").write_text("time,x,label\n0,1,a\n1,2,b\n")
    with pytest.raises(
        InputError, match=r"one series, as its first column is 'time', but the column 'label' has 2"
    ):
        series_file(tmp_path / "d.csv", target="label")
