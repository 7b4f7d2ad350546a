"""What holds for every dataset, how labels find their outputs, and which pictures a selection takes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from proofmap.core.errors import InputError
from proofmap.core.files import digest_of
from proofmap.data import (
    ArrayImages,
    TensorData,
    list_datasets,
    load_dataset,
    random_choice,
    rebuild_dataset,
    true_outputs,
)
from proofmap.data.dataset import DatasetInfo, match_labels
from proofmap.data.folders import ImageFiles
from proofmap.data.imagenet_folders import Corners
from proofmap.models.names import label_names
from proofmap.study.survey import choose_names
from tests import texts
from tests.data.made_up import cifar_batch, imagenet_at, imagenette_at, noise, saved

# ---- every dataset --------------------------------------------------------------------------------------------


def test_parts_of_a_digest_are_told_apart() -> None:
    assert len({digest_of("ab", "c"), digest_of("a", "bc"), digest_of("abc"), digest_of("abc", "")}) == 4


# ---- labels ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels, outputs, expected",
    [
        (["cat", "dog"], ["dog", "cat"], (1, 0)),  # by name, though there are as many
        (["Cat", "sea_lion"], ["sea lion", "cup", "cat"], (2, 0)),
        (["cat", "bat"], ["dog", "cat", "cup"], (1, None)),
        (["cat", "dog"], ["0", "1"], (0, 1)),  # numbered outputs
        (["tench", "banana"], ["banana", "tench, Tinca tinca"], (1, 0)),  # one of several names
        (["banana", "tench, Tinca tinca"], ["Tench", "cup", "banana"], (2, 0)),
        (["shark"], ["great white shark, shark", "cup", "tiger shark, shark"], (None,)),
        (["cats", "dogs"], ["dog", "cat"], (None, None)),  # an order says nothing
        (["effusion", "nodule", "normal"], ["NORM", "NOD", "EFF"], (None, None, None)),
        (
            ["bird", "cat", "motorbike", "plane"],
            ["bird", "cat", "airplane", "motorcycle"],
            (0, 1, None, None),
        ),
        (["1", "2", "3"], ["1", "2", "3"], (0, 1, 2)),  # numbers that are names
        (["0", "1", "10", "2"], ["a", "b", "c"], (0, 1, None, 2)),  # numbers are indices
        (["1", "0"], ["0", "1"], (1, 0)),
        (["1.0"], ["0", "1"], (1,)),  # pandas reads whole numbers so if one is missing
        (["1", "2"], ["1.0", "2.0"], (0, 1)),
        (["00", "01", "10"], [str(k) for k in range(11)], (0, 1, 10)),  # zeros that keep folders in order
        (["crane"], ["crane", "cup", "crane"], (None,)),  # which of the two is not told
        ([], ["cat"], ()),
    ],
)
def test_labels_find_their_outputs(
    labels: list[str], outputs: list[str], expected: tuple[int | None, ...]
) -> None:
    assert match_labels(labels, outputs) == expected


@pytest.mark.parametrize("labels", [["1", "2"], ["-1", "1"]])
def test_numbers_that_are_no_indices_of_the_outputs_are_refused(labels: list[str]) -> None:
    """Taken as indices, the others would be wrong too: a net of the labels 1 and 2 has the label 1 at output 0."""
    data = TensorData(torch.zeros(2, 3, 4, 4), [0, 1], kind="pictures", label_names=labels)
    with pytest.raises(
        InputError, match=r"the net has outputs 0 to 1 \('0', '1'\); name the outputs as the data"
    ):
        true_outputs(data, ["0", "1"])
    assert true_outputs(data, labels) == [(0,), (1,)]


def test_ten_of_imagenets_names_find_their_outputs() -> None:
    names = label_names("imagenet")
    chosen = [0, 217, 482, 491, 497, 566, 569, 571, 574, 701]
    assert match_labels([names[i] for i in chosen], names) == tuple(chosen)
    assert match_labels(names, names) == tuple(range(1000))


def test_imagenets_other_vocabularies_are_the_same_list() -> None:
    """timm and Hugging Face add synonyms to every name; torchvision words a few differently."""
    ours = label_names("imagenet")
    longer = [f"{name}, Latin name {k}" for k, name in enumerate(ours)]
    worded = [f"another word {k}" if k % 40 == 0 else name for k, name in enumerate(ours)]
    for theirs in (longer, worded):
        assert match_labels(ours, theirs) == match_labels(theirs, ours) == tuple(range(1000))
    assert match_labels(ours, [*worded[500:], *worded[:500]]).count(None) == 25
    halves = [f"another word {k}" if k % 2 == 0 else name for k, name in enumerate(ours)]
    assert match_labels(ours, halves).count(None) == 500


def test_two_names_that_changed_places_are_found_in_a_list_that_agrees_otherwise() -> None:
    names = label_names("imagenet")
    swapped = [names[1], names[0], "another word", *names[3:]]
    assert match_labels(names, swapped) == (1, 0, None, *range(3, 1000))


def test_folders_in_other_words_than_the_nets_are_refused_with_both_lists(tmp_path: Path) -> None:
    photos = load_dataset(saved(tmp_path, "effusion/1.png", "nodule/1.png", "normal/1.png"))
    with pytest.raises(
        InputError, match=r"'effusion', 'nodule', 'normal'.*'NORM', 'NOD', 'EFF'.*file and class_index"
    ):
        true_outputs(photos, ["NORM", "NOD", "EFF"])
    assert true_outputs(photos, ["0", "1", "2"]) == [(0,), (1,), (2,)]


def test_truths_are_outputs_of_the_net(tmp_path: Path) -> None:
    photos = load_dataset(saved(tmp_path, "dog/1.png", "cat/1.png", "cat/2.png", "yeti/1.png"))
    assert true_outputs(photos, ["cup", "dog", "cat"]) == [(2,), (2,), (1,), ()]
    assert true_outputs(photos, ["cup", "dog", "cat"], [2, 0]) == [(1,), (2,)]


def test_bare_numbers_are_outputs_as_they_are() -> None:
    pictures = ArrayImages(np.zeros((3, 4, 4, 3), dtype=np.uint8), [4, -1, 0])
    assert true_outputs(pictures, list("abcde")) == [(4,), (), (0,)]
    with pytest.raises(InputError, match="the label 4, but the net has outputs 0 to 3"):
        true_outputs(pictures, list("abcd"))


def test_labels_that_the_net_does_not_have_are_an_error(tmp_path: Path) -> None:
    photos = load_dataset(saved(tmp_path, "n01440764/1.png", "n02102040/1.png"))
    with pytest.raises(
        InputError, match=r"none of the labels .*'n01440764'.* is an output.*imagenette:FOLDER"
    ):
        true_outputs(photos, label_names("imagenet"))


def test_nothing_known_is_nothing_claimed(tmp_path: Path) -> None:
    assert true_outputs(load_dataset(saved(tmp_path, "a.png", "b.png")), ["cat"]) == [(), ()]


# ---- selections -----------------------------------------------------------------------------------------------

_names = st.lists(st.text(texts.ANY, max_size=6), unique=True, min_size=1, max_size=30)


@given(_names, st.data(), st.integers(0, 5))
def test_a_random_choice_does_not_depend_on_the_order(
    names: list[str], draw: st.DataObject, seed: int
) -> None:
    n = draw.draw(st.integers(0, len(names)))
    shuffled = draw.draw(st.permutations(names))
    chosen = [names[i] for i in random_choice(names, n, seed=seed)]
    assert chosen == [shuffled[i] for i in random_choice(shuffled, n, seed=seed)]
    assert len(set(chosen)) == n


@given(_names, st.integers(0, 5))
def test_a_larger_choice_starts_with_the_smaller(names: list[str], seed: int) -> None:
    everything = random_choice(names, len(names), seed=seed)
    for n in range(len(names)):
        assert random_choice(names, n, seed=seed) == everything[:n]


def test_every_picture_is_chosen_equally_often() -> None:
    names = [f"{i}.jpg" for i in range(10)]
    times = Counter(i for seed in range(2000) for i in random_choice(names, 3, seed=seed))
    # 600 each expected, with a standard deviation of sqrt(2000 * .3 * .7) = 20.5
    assert set(times) == set(range(10))
    assert all(abs(count - 600) < 4 * 20.5 for count in times.values())


def test_more_than_there_are_cannot_be_chosen() -> None:
    with pytest.raises(InputError, match="3 items were requested, but there are only 2"):
        random_choice(["a", "b"], 3)


def test_pictures_are_chosen_by_name_in_the_order_wanted() -> None:
    assert choose_names(["a", "b", "c"], ["c", "a"]) == [2, 0]
    with pytest.raises(InputError, match=r"'cat-01\.png'\. Did you mean 'cat-1\.png'"):
        choose_names(["cat-1.png", "dog.png"], ["cat-01.png"])


# ---- Datasets as strings: what is written is what is opened, and what cannot be opened says how to write it -----------


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with something of every kind, and the current one."""
    saved(tmp_path / "photos", "cat/a.png", "dog/b.png")
    (tmp_path / "photos" / "list.csv").write_text("file,label\ncat/a.png,cat\n")
    (tmp_path / "list.TSV").write_text("file\tlabel\nphotos/cat/a.png\tcat\n")
    np.savez(tmp_path / "a.npz", images=noise(0, 3, 9)[None], labels=[7])
    np.save(tmp_path / "a.npy", noise(0)[None])
    imagenette_at(tmp_path / "nette")
    imagenet_at(tmp_path / "imagenet")
    cifar_batch(tmp_path / "c10" / "test_batch", 2)
    cifar_batch(tmp_path / "c10" / "data_batch_1", 3)
    cifar_batch(tmp_path / "c100" / "test", 2, key="fine_labels")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "spec, title, count, kind",
    [
        ("photos", "photos", 2, ImageFiles),
        ("photos/", "photos", 2, ImageFiles),
        ("./photos/cat", "cat", 1, ImageFiles),
        (" photos ", "photos", 2, ImageFiles),
        ("folder:photos", "photos", 2, ImageFiles),
        ("photos/list.csv", "list.csv", 1, ImageFiles),
        ("csv:photos/list.csv", "list.csv", 1, ImageFiles),
        ("list.TSV", "list.TSV", 1, ImageFiles),
        ("a.npz?layout=nhwc", "a.npz", 1, ArrayImages),
        ("npz:a.npz?layout=nchw", "a.npz", 1, ArrayImages),
        ("a.npy", "a.npy", 1, ArrayImages),
        ("npz:a.npy", "a.npy", 1, ArrayImages),
        ("imagenette:nette", "imagenette[val]", 6, ImageFiles),
        ("imagenette:nette/[train]", "imagenette[train]", 6, ImageFiles),
        ("imagenette:nette?labels=imagenette", "imagenette[val]", 6, ImageFiles),
        ("imagenette:nette?split=train&labels=imagenette", "imagenette[train]", 6, ImageFiles),
        ("imagenette-corner:nette[train]?seed=3", "imagenette-corner[train]", 6, Corners),
        ("imagenet:imagenet", "imagenet[val]", 4, ImageFiles),
        ("cifar10:c10", "cifar10[test]", 2, ArrayImages),
        ("cifar10:c10[train]", "cifar10[train]", 3, ArrayImages),
        ("cifar100:c100[test]", "cifar100[test]", 2, ArrayImages),
    ],
)
def test_what_is_written_is_what_is_opened(
    place: Path, spec: str, title: str, count: int, kind: type
) -> None:
    dataset = load_dataset(spec)
    assert (dataset.title, len(dataset), type(dataset)) == (title, count, kind)
    assert list(rebuild_dataset(dataset.settings()).names) == list(dataset.names)


def test_settings_reach_the_dataset(place: Path) -> None:
    corners = load_dataset("imagenette-corner:nette?seed=3")
    assert isinstance(corners, Corners) and corners.seed == 3
    assert load_dataset("imagenette-corner:nette", seed=3).settings() == corners.settings()
    assert load_dataset("imagenette:nette", split="train").title == "imagenette[train]"
    assert load_dataset("imagenette:nette[train]", split="train").title == "imagenette[train]"
    assert load_dataset(Path("photos")).title == "photos"
    assert load_dataset("npz:a.npz?layout=nchw").read(0).size == (3, 9)


@pytest.mark.parametrize("name", ["a[val]", "what?", "folder:odd", "x[1]?y=2", "imagenette:here"])
def test_a_place_that_exists_as_written_is_taken_as_written(place: Path, name: str) -> None:
    saved(place / name, "a.png", "b.png")
    assert load_dataset(name).title == name
    assert load_dataset(f"folder:{name}").title == name
    assert load_dataset(str(place / name)).title == name


@pytest.mark.parametrize(
    "spec, told",
    [
        ("", "no dataset was named"),
        ("photoz", "no file or folder photoz.*Other datasets are written KIND:PLACE.*cifar100"),
        ("C:\\photos", r"no file or folder C:\\photos"),  # a drive letter is no kind
        ("cifar:c10", "no kind of dataset 'cifar'. Did you mean 'cifar10' or 'cifar100'"),
        ("imagenete:nette", "Did you mean 'imagenette'"),
        ("photos/cat/a.png", "is not a dataset: expected a folder, or a .csv"),
        ("cifar10:nowhere", "there is no folder nowhere"),
        ("csv:nowhere.csv", "there is no file .*nowhere.csv"),
        ("npz:nowhere.npz", "there is no file .*nowhere.npz"),
        ("imagenette:photos", "is not Imagenette"),
        ("imagenette:nette[test]", "no split 'test'; choose val or train"),
        ("cifar10:c10[val]", "no split 'val'; choose test or train"),
        ("cifar10:c10?seed=1", "cifar10 has no setting 'seed'; it has split. Write it as cifar10:FOLDER"),
        ("photos[train]", "folder has no setting 'split'; it has none"),
        ("imagenette-corner:nette?seed=x", "needs a whole number as seed, not 'x'"),
        ("imagenette:nette?labels", "setting 'labels' .* must be written KEY=VALUE"),
        ("imagenette:[val]", "cannot be read; write KIND:PLACE"),
        ("samples:x", "write only samples"),
        ("c10", "holds no images .*cifar10:FOLDER"),
    ],
)
def test_what_cannot_be_opened_says_how_to_write_it(place: Path, spec: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        load_dataset(spec)


def test_settings_of_nothing_we_know_are_refused() -> None:
    with pytest.raises(InputError, match="no kind of dataset 'mnist'"):
        rebuild_dataset({"dataset": "mnist", "path": "x"})
    with pytest.raises(InputError, match="no kind of dataset 'None'"):
        rebuild_dataset({})


def test_every_kind_is_listed_once_with_how_to_write_it() -> None:
    listed = list_datasets()
    assert all(isinstance(info, DatasetInfo) and info.description for info in listed)
    names = [info.name for info in listed]
    assert len(set(names)) == len(names)
    assert {"folder", "csv", "npz", "imagenette", "imagenette-corner", "imagenet"} < set(names)
    assert {"cifar10", "cifar100", "hf", "samples"} < set(names)
    for info in listed:
        assert info.form in ("FOLDER", "PHOTO PHOTO ...", "samples") or info.form.startswith(f"{info.name}:")
