"""A study's settings: from a file, from a table, from Python; and what is said where they are wrong."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proofmap.core.errors import InputError
from proofmap.methods import LearnedMask
from proofmap.methods.controls import Random
from proofmap.metrics import Insertion
from proofmap.metrics.proof_scores import Soundness
from proofmap.models import DEFAULT_MODEL
from proofmap.study import Selection, Study, run_study
from tests.docs.pages import PAGES, ROOT, blocks
from tests.study.studies import METHODS, net_file, photos

EVERYTHING = """
model = "net.py:make"
weights = "net.safetensors"
data = ["photos", "other/one.png"]
labels = ["cat", 2]
label_set = ["cat", "dog", 2]
renormalise = false
metrics = ["insertion", {metric = "soundness", e2 = 0.5, name = "loose"}]
maps = "keep"
images_per_unit = 3
seed = 7

[images]
number = 5
seed = 3
correct = true
min_second_probability = 0.01

[[methods]]
method = "learned-mask"
steps = 4
tv = 0.2
fill = "gray"
name = "smooth mask"

[[methods]]
method = "random:seed_offset=2"
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


# ---- what a file says -----------------------------------------------------------------------------------------


def test_a_file_may_set_everything(tmp_path: Path) -> None:
    net_file(tmp_path)
    photos(tmp_path / "photos", 1)
    (tmp_path / "net.safetensors").touch()
    study = Study.from_toml(written(tmp_path, EVERYTHING))
    assert study.model == f"{tmp_path / 'net.py'}:make" and study.weights == str(tmp_path / "net.safetensors")
    assert study.data == (str(tmp_path / "photos"), "other/one.png"), (
        "only what is there is taken to be there"
    )
    assert (study.labels, study.label_set, study.renormalise) == (("cat", 2), ("cat", "dog", 2), False)
    assert (study.maps, study.images_per_unit, study.seed) == ("float16", 3, 7)
    assert study.images == Selection(number=5, seed=3, correct=True, min_second_probability=0.01)
    assert study.named_methods() == {
        "smooth mask": LearnedMask(steps=4, tv=0.2, fill="gray"),
        "random:seed_offset=2": Random(seed_offset=2),
    }
    metrics = study.named_metrics()
    assert list(metrics) == ["insertion", "loose"] and isinstance(metrics["loose"], Soundness)
    assert metrics["loose"].settings()["e2"] == 0.5


def test_what_is_left_out_has_its_usual_value(tmp_path: Path) -> None:
    study = Study.from_toml(written(tmp_path, 'data = "photos"\nmethods = "random"'))
    assert study == Study(data=("photos",), methods=("random",))
    assert (study.model, study.labels, study.maps, study.seed) == (DEFAULT_MODEL, "top5+wrong", "float16", 0)
    assert study.images == Selection(number=None, correct=False, min_second_probability=None, names=())
    assert list(study.named_metrics()) == [
        "completeness",
        "soundness",
        "best-effort",
        "insertion",
        "deletion",
    ]


def test_thresholds_and_curve_are_those_of_the_usual_metrics() -> None:
    study = Study(data="x", methods="random", thresholds="released", curve="released")
    settings = {name: metric.settings() for name, metric in study.named_metrics().items()}
    assert settings["completeness"]["e1"] == 0.1 and settings["deletion"]["points"] == 28


@pytest.mark.parametrize(
    "place, found",
    [
        ("photos", "{here}/photos"),
        ("npz:a.npz?layout=nchw", "npz:{here}/a.npz?layout=nchw"),
        ("imagenette:photos[val]", "imagenette:{here}/photos[val]"),
        ("odd[1]", "{here}/odd[1]"),
        ("folder:odd[1]", "folder:{here}/odd[1]"),
        ("elsewhere", "elsewhere"),
        ("cifar10:elsewhere[test]", "cifar10:elsewhere[test]"),
        ("/absolute/photos", "/absolute/photos"),
        ("samples", "samples"),
    ],
)
def test_places_are_relative_to_the_file(place: str, found: str, tmp_path: Path) -> None:
    for folder in ("photos", "odd[1]"):
        (tmp_path / folder).mkdir()
    (tmp_path / "a.npz").touch()
    study = Study.from_toml(written(tmp_path, f'data = "{place}"'))
    assert study.data == (found.format(here=tmp_path),)


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_bytes(b'\xef\xbb\xbfdata = "x"')
    assert Study.from_toml(tmp_path / "study.toml").data == ("x",)


# ---- what Python says -----------------------------------------------------------------------------------------


def test_one_thing_stands_for_a_list_of_one() -> None:
    def mine(classifier: Any, images: Any, labels: Any) -> Any:
        return images[:, :1]

    study = Study(data=Path("a"), methods=mine, metrics=Insertion(), label_set="cat")
    assert (study.data, study.methods, study.label_set) == ((Path("a"),), (mine,), ("cat",))
    assert next(iter(study.named_methods())).endswith("mine")
    assert Study(methods={"method": "random"}).named_methods() == {"random": Random()}


def test_methods_and_metrics_keep_their_names_apart() -> None:
    metrics = ["insertion", "insertion:points=8"]
    study = Study(methods=["random", "random", {"method": "random", "name": "noise"}], metrics=metrics)
    assert list(study.named_methods()) == ["random", "random-2", "noise"]
    assert list(study.named_metrics()) == ["insertion", "insertion-2"]
    with pytest.raises(InputError, match="none of the metrics has a fill: roughness; leave fills out"):
        Study(metrics=["roughness"], fills=["blur"]).named_metrics()


# ---- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, told",
    [
        ("methds = ['random']", "a study has no setting 'methds'. Did you mean 'methods'?"),
        ("zzz = 1", "a study has no setting 'zzz'. Its settings are: model, weights, data"),
        ("[images]\nnumbr = 3", "images has no setting 'numbr'. Did you mean 'number'?"),
        ("[imagse]\nnumber = 3", "Did you mean 'images'?"),
        ("methods = 3", "methods must be a list of methods: names.*, not 3"),
        ("methods = [3]", "methods must be a list of methods.*, and 3 is not one of them"),
        ("methods = [['random']]", r"methods must be .*, and \['random'\] is not one of them"),
        ("metrics = true", "metrics must be a list of metrics.*, not True"),
        ("data = 5", "data must be a list of places.*, not 5"),
        ("data = [1]", "data must be a list of places.*, and 1 is not one of them"),
        ("[data]\npath = 'x'", "data must be a list of places"),
        ("labels = 5.5", "labels must be a list of names or indices, or a rule such as top5, not 5.5"),
        ("labels = true", "labels must be a list of .*, and True is not one of them"),
        ("labels = [1.5]", "labels must be .*, and 1.5 is not one of them"),
        ("labels = [true]", "labels must be .*, and True is not one of them"),
        ("[labels]\nrule = 'top5'", "labels must be a list"),
        (
            "label_set = [2.5]",
            "label_set must be a list of names or indices of labels, and 2.5 is not one of them",
        ),
        ("label_set = 1.5", "label_set must be a list"),
        ("renormalise = 'no'", "renormalise must be true or false or none, not 'no'"),
        ("model = 5", "model must be a text, not 5"),
        ("weights = []", r"weights must be a text or none, not \[\]"),
        ("thresholds = 0.1", "thresholds must be a text, not 0.1"),
        ("curve = 3", "curve must be a text, not 3"),
        ("seed = 1.5", "seed must be a whole number, not 1.5"),
        ("seed = true", "seed must be a whole number, not True"),
        ("seed = 'x'", "seed must be a whole number, not 'x'"),
        ("images_per_unit = 0", "images_per_unit must be a whole number of at least 1, not 0"),
        ("images_per_unit = '4'", "images_per_unit must be a whole number or none, not '4'"),
        ("images_per_unit = true", "images_per_unit must be a whole number"),
        ("maps = 'all'", "maps must be one of none, keep, float16, float32, not 'all'"),
        ("maps = 16", "maps must be one of none"),
        ("images = 5", r"images must be a table: \[images\] with number"),
        ("[images]\nnumber = 0", "images.number must be a whole number of at least 1, not 0"),
        ("[images]\nnumber = 1.5", "images.number must be a whole number"),
        ("[images]\nnumber = true", "images.number must be a whole number"),
        ("[images]\nseed = 'x'", "images.seed must be a whole number, not 'x'"),
        ("[images]\ncorrect = 'yes'", "images.correct must be true or false, not 'yes'"),
        (
            "[images]\nmin_second_probability = '0.1'",
            "images.min_second_probability must be a number or none, not '0.1'",
        ),
        (
            "[images]\nmin_second_probability = 1.5",
            "images.min_second_probability must lie between 0 and 1, not 1.5",
        ),
        ("[images]\nmin_second_probability = nan", "images.min_second_probability must lie between 0 and 1"),
        ("[images]\nmin_second_probability = true", "images.min_second_probability must be a number"),
        ("[images]\nnames = 5", "images.names must be a list of names of pictures, not 5"),
        ("[images]\nnames = [5]", "images.names must be .*, and 5 is not one of them"),
        ("seed = ", "is not TOML"),
        ("a = 1\na = 2", "is not TOML"),
    ],
)
def test_a_mistake_is_named_with_the_file_and_the_fix(text: str, told: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=told) as caught:
        Study.from_toml(path)
    assert str(caught.value).startswith(str(path))


def test_one_label_is_a_list_of_one() -> None:
    assert [Study(labels=given).labels for given in (5, [np.int64(5), "cat"])] == [(5,), (5, "cat")]


@pytest.mark.parametrize(
    "text, told",
    [
        ("[[methods]]\nmethod = 'learned-mask'\ntvv = 1", "no setting 'tvv'. Did you mean 'tv'"),
        ("[[methods]]\nmethod = 'lerned-mask'", "Did you mean 'learned-mask'"),
        ("[[methods]]\ntv = 1", 'a method\'s table needs method = "NAME"; there is only tv'),
        ("[[methods]]\nname = 'x'", "there is only nothing"),
        ("[[methods]]\nmethod = 3\ntv = 1", "the method is given by its name"),
        ("[[methods]]\nmethod = 3", "a method is a name"),
        ("[[methods]]\nmethod = 'random'\nname = 'x'\n" * 2, "two methods are named 'x'"),
        ("[[methods]]\nmethod = 'learned-mask'\nsteps = 'many'", "learned-mask.*many|steps"),
        ("metrics = ['insertoin']", "Did you mean 'insertion'"),
        ("metrics = [{e1 = 0.1}]", 'a metric\'s table needs metric = "NAME"; there is only e1'),
        ("metrics = [{metric = 'insertion', pionts = 3}]", "no setting 'pionts'. Did you mean 'points'"),
        ("metrics = [{metric = 3, points = 3}]", "the metric is given by its name"),
        ("metrics = [{metric = {}}]", "a metric is a name, a Metric or a function, not dict"),
    ],
)
def test_a_mistake_in_a_method_or_metric_is_named(text: str, told: str, tmp_path: Path) -> None:
    study = Study.from_toml(written(tmp_path, text))
    with pytest.raises(InputError, match=told):
        study.named_methods() if "method" in text else study.named_metrics()


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no study file .*none\.toml"):
        Study.from_toml(tmp_path / "none.toml")
    with pytest.raises(InputError, match="is a folder, not a study file"):
        Study.from_toml(tmp_path)
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"x\.toml cannot be read"):
        Study.from_toml(tmp_path / "x.toml")


@pytest.mark.parametrize(
    "changes, told",
    [
        ({"data": ()}, "no data was named"),
        ({"data": "nowhere"}, "there is no file or folder nowhere"),
        ({"methods": ()}, "names no methods; see: proofmap list methods"),
        ({"labels": "topp"}, "topp"),
        ({"labels": ("cow",)}, "cow"),
        ({"label_set": ("cow",)}, "cow"),
        ({"thresholds": "papr"}, "papr"),
        ({"curve": "papr"}, "papr"),
        ({"images": Selection(names=("zz.png",))}, "nothing in the data is named 'zz.png'"),
        ({"images": Selection(correct=True)}, "images.correct needs true labels"),
        ({"images": Selection(min_second_probability=1.0)}, "no image is left to study: 2 were looked at"),
    ],
)
def test_a_study_that_cannot_be_done_says_why(changes: dict[str, Any], told: str, tmp_path: Path) -> None:
    settings = {
        "model": net_file(tmp_path),
        "data": str(photos(tmp_path / "photos", 2)),
        "methods": METHODS[:2],
    }
    with pytest.raises(InputError, match=told):
        run_study(Study(**{**settings, **changes}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


SHOWN = [b for page in PAGES for b in blocks(page) if b.language == "toml" and b.title]


def test_every_study_file_of_the_repository_names_known_settings() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks" / "studies").glob("*.toml")]
    texts += [block.code for block in SHOWN]
    assert len(texts) > 4
    for text in texts:
        assert Study.from_table(tomllib.loads(text))
