"""Series of .ts, CSV, NumPy and WAV files: the values as written, labels, and what is refused."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

from proofmap.core.errors import InputError
from proofmap.data import load_dataset
from proofmap.data.series_files import series_file


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
