"""The border on the command line: maps in files, models in files, rows, one or several methods."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import proofmap as pm
from proofmap.core.ranking import as_maps
from proofmap.methods.given import GivenMaps
from proofmap.models import registry
from tests.command import run
from tests.docs.pages import tiny_model, write_photos
from tests.toys import normal

N, LABELS = 6, 12
EACH = normal(N, LABELS, 16, 16)
ONE = normal(N, 4, 4, seed=1)
ASKED = ("--data", "photos", "--metrics", "soundness", "--no-pictures", "-q")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_photos(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry._OWN, registry.DEFAULT_MODEL, tiny_model())
    np.savez("maps.npz", mine=EACH.numpy(), ig=EACH.flip(0).numpy())
    return tmp_path


def scores(folder: Path) -> dict[str, float]:
    with pm.Run(folder) as found:
        return found.evaluation().to_dict()


def test_numbers_are_those_of_python(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (
        "--maps",
        "maps.npz",
        "--labels",
        "top2+wrong",
        "--images-per-unit",
        "2",
        "--methods",
        "blurred:gradient",
    )
    assert run(monkeypatch, "evaluate", *ASKED, *words) == 0
    net = pm.load_classifier("efficientnet-lite0")
    photos = pm.load_images(["photos"], net)
    expected = pm.evaluate(
        net,
        photos,
        methods="blurred:gradient",
        maps={"mine": EACH, "ig": EACH.flip(0)},
        labels="top2+wrong",
        metrics="soundness",
    )
    found = scores(Path("evaluation"))
    assert list(found) == list(expected.to_dict())
    assert found == pytest.approx(expected.to_dict(), abs=1e-6)


def test_a_run_continues_with_the_same_file_and_refuses_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--maps", "maps.npz", "--labels", "top1", "--controls")
    assert run(monkeypatch, "evaluate", *ASKED, *words, "--number", "3") == 0
    assert run(monkeypatch, "evaluate", *ASKED, *words, "--number", "6") == 0
    assert {"mine/soundness", "blurred:mine/soundness"} <= {*scores(Path("evaluation"))}
    capsys.readouterr()
    assert (
        run(monkeypatch, "compare", "evaluation", "--baseline", "ig", "--method", "mine", "--format", "latex")
        == 0
    )
    assert r"\begin{tabular}" in capsys.readouterr().out
    np.savez("maps.npz", mine=EACH.flip(1).numpy(), ig=EACH.numpy())
    assert run(monkeypatch, "evaluate", *ASKED, *words) == 2
    assert "digest" in capsys.readouterr().err


def test_every_kind_of_file(folder: Path) -> None:
    several = Path("several")
    several.mkdir()
    np.save(several / "a.npy", ONE.numpy())
    save_file({"b": ONE, "c": EACH}, several / "more.safetensors")
    np.savez(several / "z.npz", d=ONE.numpy())
    found = GivenMaps.in_files("several")
    assert [method.array for method in found] == ["a", "b", "c", "d"]
    for method, own in zip(found, (ONE, ONE, EACH, ONE), strict=True):
        assert torch.equal(as_maps(method.load(), "maps"), own)
    assert isinstance(found[0].load(), np.memmap)  # read from disk when it is needed
    assert [method.array for method in GivenMaps.in_files("ours=several/a.npy")] == ["ours"]
    assert [method.array for method in GivenMaps.in_files("ours=maps.npz")] == ["ours-mine", "ours-ig"]


@pytest.mark.parametrize(
    "words, told",
    [
        (
            ("--maps", "gone.npz"),
            "there are no maps at gone.npz: give a file (.npy, .npz, .safetensors) or a folder of such files.",
        ),
        (("--maps", "photos"), "there are no maps at photos"),
        (("--maps", "broken.npz"), "broken.npz cannot be read as maps"),
        (("--maps", "pickled.npy"), "pickled.npy cannot be read as maps"),
        (
            ("--maps", "few.npy", "--labels", "top1"),
            "maps['few'] have the shape (4, 16, 16), but there are 6 images",
        ),
        (("--maps", "one.npy"), "say which label it is of, as in labels=y"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    folder: Path,
    words: tuple[str, ...],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("broken.npz").write_text("no archive")
    np.save("pickled.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save("few.npy", EACH[:4, 0].numpy())
    np.save("one.npy", EACH[:, 0].numpy())
    assert run(monkeypatch, "evaluate", *ASKED, *words) == 2
    assert told in " ".join(capsys.readouterr().err.split())
    assert not Path("evaluation").exists()


# ---- models and rows -----------------------------------------------------------------------------------------


NETS = """
import torch
import proofmap as pm

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(6, 2))
beats = pm.Classifier(net, inputs=pm.Series(length=6, mean=(0.0,), std=(1.0,)), names=["slow", "fast"])
"""


@pytest.fixture
def beats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = [f"{('slow', 'fast')[k % 2]},{','.join(str(0.1 * k * t) for t in range(6))}" for k in range(6)]
    (tmp_path / "beats.csv").write_text("\n".join(["label,a,b,c,d,e,f", *rows]) + "\n")
    (tmp_path / "nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_model_in_a_file_may_be_a_classifier_and_rows_a_range(
    beats: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "--model",
        "nets.py:beats",
        "--target",
        "label",
        "--labels",
        "all",
        "--method",
        "occlusion",
        "-q",
    )
    assert run(monkeypatch, "explain", "beats.csv", *words, "--rows", "1-3,5") == 0
    shown = capsys.readouterr().out
    assert [k for k in range(6) if f"series-0000{k}" in shown] == [1, 2, 3, 5]
    for wrong in ("3-1", "4-9"):
        assert run(monkeypatch, "explain", "beats.csv", *words, "--rows", wrong) == 2
        assert f"--rows names '{wrong}'" in capsys.readouterr().err
    assert pm.load_classifier("nets.py:beats", batch_size=2).names == ("slow", "fast")


def test_one_or_several_methods_are_written_in_either_way(
    beats: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("--model", "nets.py:beats", "--target", "label", "--labels", "all", "-q")
    for method, fill in (("--method", "--fill"), ("--methods", "--fills")):
        assert run(monkeypatch, "explain", "beats.csv", *words, method, "occlusion", fill, "gray") == 0
        judged = ("--data", "beats.csv", *words, "--methods", "occlusion", fill, "gray", "--no-pictures")
        assert run(monkeypatch, "evaluate", *judged) == 0
