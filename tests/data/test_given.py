"""Whatever is given as images reaches the net with the same bits, and a loader's images are never held whole."""

from __future__ import annotations

import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torch.utils import data as torch_data

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.core.inputs import Rows
from proofmap.core.labels import LabelRule
from proofmap.core.tensors import NamedImages
from proofmap.data import Dataset, load_blocks, true_outputs
from proofmap.data.given import as_dataset, as_subjects, is_in_memory, label_rows
from proofmap.testing import check_dataset
from tests.data.made_up import noise, save, saved
from tests.toys import conv_classifier

CLASSIFIER = conv_classifier()
INPUTS = CLASSIFIER.inputs
N = 10
IMAGES = torch.rand(N, *INPUTS.shape, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(N) % 3


def values(dataset: Dataset, block_size: int = 4) -> Tensor:
    blocks = list(load_blocks(dataset, CLASSIFIER, block_size=block_size))
    assert not any(block.failures for block in blocks), blocks[0].failures
    return torch.cat([block.images for block in blocks])


def border(
    given: Any, names: list[str] | None = None, classifier: pm.Classifier = CLASSIFIER
) -> tuple[Tensor, list[str]]:
    """The images and their names as they are judged."""
    rule = LabelRule.parse("top1", classifier.names)
    blocks = list(as_subjects(given, classifier, rule, names=names, block_size=4))
    return torch.cat([block.images for block in blocks]), [name for block in blocks for name in block.names]


def photos(n: int = 3) -> list[Image.Image]:
    return [Image.fromarray(noise(i, 9, 14)) for i in range(n)]


def most_alive(alive: weakref.WeakSet[Any], before: int) -> int:
    """How many tensors were alive at most, with one that is made now; garbage is collected only before a new maximum."""
    if alive and len(alive) + 1 > before:
        gc.collect()
    return max(before, len(alive) + 1)


class Samples(torch_data.Dataset[tuple[Tensor, int]]):
    """Images with labels, that knows which of the tensors it made are alive."""

    def __init__(self) -> None:
        self.reads, self.alive, self.most_alive = 0, weakref.WeakSet[Any](), 0

    def __len__(self) -> int:
        return N

    def __getitem__(self, i: int) -> tuple[Tensor, int]:
        self.reads, self.most_alive = self.reads + 1, most_alive(self.alive, self.most_alive)
        image = IMAGES[i].clone()
        self.alive.add(image)
        return image, int(LABELS[i])


class Batches:
    """Batches of 4, 4 and 2 images, made anew in each iteration."""

    def __init__(self, labels: bool = True) -> None:
        self.labels, self.passes, self.most_alive = labels, 0, 0
        self.alive = weakref.WeakSet[Any]()

    def __iter__(self) -> Iterator[Any]:
        self.passes += 1
        for start in range(0, N, 4):
            self.most_alive = most_alive(self.alive, self.most_alive)
            yield self.batch(slice(start, start + 4))

    def batch(self, part: slice) -> Any:
        images = IMAGES[part].clone()
        self.alive.add(images)
        return (images, LABELS[part]) if self.labels else images


class Numbers(torch_data.IterableDataset[tuple[Tensor, int]]):
    def __iter__(self) -> Iterator[tuple[Tensor, int]]:
        return zip(IMAGES, LABELS.tolist(), strict=True)


# ---- values ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        IMAGES,
        IMAGES.double(),
        IMAGES.clone().requires_grad_(),
        IMAGES.numpy(),
        IMAGES.permute(0, 2, 3, 1).numpy(),
        list(IMAGES),
        list(IMAGES.numpy()),
        list(IMAGES.split(3)),
        [IMAGES[:4], (IMAGES[4:], LABELS[4:])],
        torch_data.DataLoader(torch_data.TensorDataset(IMAGES), batch_size=3, shuffle=True),
        torch_data.DataLoader(Samples(), batch_size=4, shuffle=True, drop_last=True),
        torch_data.DataLoader(Samples(), batch_size=None),
        torch_data.DataLoader(Numbers(), batch_size=3),
        torch_data.DataLoader(IMAGES.split(4), batch_size=None),  # type: ignore[arg-type]
        Samples(),
        Numbers(),
        Batches(),
        Batches(labels=False),
    ],
    ids=lambda given: type(given).__name__,
)
def test_the_net_gets_the_same_bits_in_the_same_order(given: Any) -> None:
    images, names = border(given)
    assert torch.equal(images, IMAGES)
    assert names == [f"image-{i}" for i in range(N)]
    if not is_in_memory(given, INPUTS):
        check_dataset(as_dataset(given, INPUTS))


def test_bytes_and_a_single_array_are_images_too() -> None:
    pixels = (IMAGES * 255).byte()
    assert torch.equal(border(pixels.numpy())[0], pixels.float() / 255)
    assert torch.equal(border(IMAGES[0].numpy())[0], IMAGES[:1])


@pytest.mark.parametrize("given", [photos(), photos(1)[0], tuple(photos())], ids=["list", "one", "tuple"])
def test_pictures_of_pillow_are_prepared_as_files_are(given: Any) -> None:
    expected = [INPUTS.prepare(photo) for photo in (given if isinstance(given, (list, tuple)) else [given])]
    assert torch.equal(border(given)[0], torch.stack(expected))


def test_pictures_of_pillow_are_turned_upright_as_files_are(tmp_path: Path) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    photos()[0].save(tmp_path / "phone.png", exif=turned)
    expected = values(as_dataset([tmp_path / "phone.png"], INPUTS))
    with Image.open(tmp_path / "phone.png") as opened:
        for given in (opened, [opened], [(opened, 1)]):
            assert torch.equal(border(given)[0], expected)
        assert not torch.equal(INPUTS.prepare(opened)[None], expected)


def test_files_folders_and_datasets(tmp_path: Path) -> None:
    folder = saved(tmp_path, "cat/a.png", "dog/b.png")
    data = as_dataset(folder, INPUTS)
    assert list(data.names) == ["cat/a.png", "dog/b.png"] and data.true_labels(1) == (1,)
    assert as_dataset(data, INPUTS) is data
    named = as_dataset(
        [str(save(tmp_path, "c.png", 3)), folder / "cat" / "a.png"],
        INPUTS,
        truth=[2, None],
        outputs=CLASSIFIER.names,
    )
    assert list(named.names) == ["c.png", "a.png"]
    assert [named.true_labels(i) for i in (0, 1)] == [(2,), ()] and torch.equal(
        values(named)[1], values(data)[0]
    )


def test_torch_datasets_of_pillow_pictures_need_no_collate_function() -> None:
    pairs = [(photo, k) for k, photo in enumerate(photos())]

    class Photos(torch_data.Dataset[Any]):
        def __len__(self) -> int:
            return len(pairs)

        def __getitem__(self, i: int) -> Any:
            return pairs[i]

    for given in (Photos(), pairs):
        dataset = as_dataset(given, INPUTS)
        assert torch.equal(values(dataset), values(as_dataset(photos(), INPUTS)))
        assert [dataset.truth(i) for i in range(3)] == [0, 1, 2]


def test_the_caller_may_change_a_tensor_afterwards() -> None:
    mine = IMAGES.clone()
    (subjects,) = as_subjects(mine, CLASSIFIER, LabelRule.parse("top1", CLASSIFIER.names))
    mine.zero_()
    assert torch.equal(subjects.images, IMAGES)


def test_rows_and_their_labels_have_one_axis_each() -> None:
    rows = Rows(columns=4, mean=(0.0,) * 4, std=(1.0,) * 4)
    table = torch.rand(4, 4)
    dataset = as_dataset([(table, torch.tensor([2, 1, -1, 0]))], rows)
    assert torch.equal(torch.stack([dataset.read(i) for i in range(4)]), table)
    assert [dataset.truth(i) for i in range(4)] == [2, 1, None, 0]


# ---- names and labels -------------------------------------------------------------------------------------------


def test_names_are_those_of_files_or_given_and_always_distinct() -> None:
    named = NamedImages.of(IMAGES[:3], ["cat", "dog", "cat"])
    assert border(named)[1] == ["cat", "dog", "cat-2"]
    for given in (named, [IMAGES[:2], IMAGES[2:3]]):
        assert border(given, ["a", "b", "a"])[1] == ["a", "b", "a-2"]
        with pytest.raises(InputError, match="2 names were given for 3 images"):
            border(given, ["a", "b"])


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch_data.DataLoader(Samples(), batch_size=3, shuffle=True),
        lambda: torch_data.DataLoader(Numbers(), batch_size=3),
        Batches,
        Samples,
    ],
)
def test_labels_of_batches_are_outputs_unless_others_are_given(make: Callable[[], Any]) -> None:
    outputs = ["cat", "dog", "cup"]
    assert true_outputs(as_dataset(make(), INPUTS), outputs) == [(k,) for k in LABELS.tolist()]
    truth: Any = ["cup", None, ["dog", 0, "dog"], *[-1] * (N - 3)]
    data = as_dataset(make(), INPUTS, truth=truth, outputs=outputs)
    assert true_outputs(data, outputs)[:4] == [(2,), (), (1, 0), ()]
    with pytest.raises(InputError, match="3 true labels were given for 10 images"):
        as_dataset(make(), INPUTS, truth=[0, 1, 2])
    with pytest.raises(InputError, match="cow"):
        as_dataset(make(), INPUTS, truth=["cow"] * N, outputs=outputs)


class Classes(Samples):
    """A dataset that names its labels, as torchvision's do."""

    def __init__(self, *classes: str | tuple[str, ...], target_transform: Any = None) -> None:
        super().__init__()
        self.classes, self.target_transform = list(classes), target_transform


@pytest.mark.parametrize(
    "classes, outputs, expected",
    [
        (("ant", "bee", "cow"), ("cow", "ant", "bee"), [1, 2, 0]),  # sorted otherwise
        (("ant", "bee", "cow"), ("dog", "cow", "ant", "bee"), [2, 3, 1]),
        (("ant", "bee", "cow"), ("0", "1", "2"), [0, 1, 2]),
        (("airplane", "car", "cow"), ("plane", "car", "ox"), [0, 1, 2]),  # other words, nothing contradicts
        ((("tench", "Tinca tinca"), ("cow",), ("ox",)), ("ox", "cow", "tench, Tinca tinca"), [2, 1, 0]),
    ],
)
def test_labels_of_a_dataset_with_classes_are_found_by_name(
    classes: Any, outputs: tuple[str, ...], expected: list[int]
) -> None:
    named = Classes(*classes)
    for given, labels in (
        (named, LABELS),
        (torch_data.DataLoader(named, batch_size=4), LABELS),
        (torch_data.Subset(named, [4, 2]), LABELS[[4, 2]]),
    ):
        data = as_dataset(given, INPUTS, outputs=outputs)
        assert true_outputs(data, outputs) == [(expected[k],) for k in labels.tolist()]


def test_labels_of_classes_that_the_net_does_not_have_are_refused() -> None:
    wordnet, outputs = Classes("n01", "n02", "n03"), ("tench", "goldfish", "shark", "ray")
    with pytest.raises(InputError, match=r"class 'n01' is not an output of the net .*has 4; pass truth="):
        as_dataset(wordnet, INPUTS, outputs=outputs)
    with pytest.raises(InputError, match="class 'bee' is not an output"):
        as_dataset(Classes("ant", "bee", "cow"), INPUTS, outputs=("cow", "ant", "dog"))
    known = as_dataset(wordnet, INPUTS, truth=LABELS, outputs=outputs)
    assert true_outputs(known, outputs) == [(k,) for k in LABELS.tolist()]
    own = as_dataset(Classes("n01", target_transform=int), INPUTS, outputs=outputs)
    assert true_outputs(own, outputs) == [(k,) for k in LABELS.tolist()]


@pytest.mark.parametrize("form", [Tensor.long, Tensor.float, Tensor.bool, Tensor.numpy, Tensor.tolist, list])
def test_true_labels_may_be_columns_of_0_and_1(form: Callable[[Tensor], Any]) -> None:
    columns = torch.tensor([[1, 1, 0, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 1]])
    assert label_rows(form(columns), "abcde", 3) == [(0, 1), (), (1, 4)]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_the_columns_of_a_frame_of_true_labels_are_found_by_name(library: str) -> None:
    frames = pytest.importorskip(library)
    frame = frames.DataFrame({"dog": [1, 0, 1], "Cat": [1, 0, 0]})
    assert label_rows(frame, ["cat", "cow", "dog"], 3) == [(0, 2), (), (2,)]
    assert label_rows(frames.DataFrame({"label": ["dog", "cow", "cat"]}), ["cat", "cow", "dog"], 3) == [
        (2,),
        (1,),
        (0,),
    ]
    with pytest.raises(InputError, match="column 'Cat' of 0 and 1, but the net has no output of this name"):
        label_rows(frame, ["ox", "cow", "dog"], 3)


def test_two_true_labels_are_columns_in_an_array_and_indices_in_a_list() -> None:
    assert label_rows([(0, 1), (1, 0)], "ab", 2) == [(0, 1), (1, 0)]
    assert label_rows(torch.tensor([[0, 1], [1, 0]]), "abc", 2) == [(0, 1), (1, 0)]
    assert label_rows(torch.tensor([[0, 1], [1, 0]]), "ab", 2) == [(1,), (0,)]


@pytest.mark.parametrize("rows, outputs", [([[1, 1, 0]], 4), ([[1, -1, 0], [0, 0, 1]], 3), ([[1, 1]], 9)])
def test_columns_that_do_not_fit_the_outputs_are_not_read_as_indices(
    rows: list[list[int]], outputs: int
) -> None:
    with pytest.raises(
        InputError, match=rf"truth has . columns of 0.*, and the net has {outputs} outputs; give"
    ):
        label_rows(torch.tensor(rows), [f"class {k}" for k in range(outputs)], len(rows))


def test_a_sampler_chooses_the_images_and_the_dataset_their_order() -> None:
    loader = torch_data.DataLoader(Samples(), sampler=torch_data.SubsetRandomSampler([7, 2, 5]))
    dataset = as_dataset(loader, INPUTS)
    assert list(dataset.names) == ["image-2", "image-5", "image-7"]
    assert torch.equal(values(dataset), IMAGES[[2, 5, 7]])
    by_batches = torch_data.DataLoader(Samples(), batch_sampler=[[3, 1], [0]])
    assert torch.equal(values(as_dataset(by_batches, INPUTS)), IMAGES[[0, 1, 3]])


# ---- memory -----------------------------------------------------------------------------------------------------


def test_one_batch_of_an_iterable_is_alive_at_a_time_and_reading_in_order_is_one_pass() -> None:
    batches = Batches()
    dataset = as_dataset(batches, INPUTS)
    assert batches.passes == 1
    for k in (2, 3):
        assert torch.equal(values(dataset, block_size=3), IMAGES)
        assert batches.passes == k
    assert batches.most_alive == 1


# ---- refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("once", [(b for b in Batches()), iter([IMAGES]), map(torch.clone, [IMAGES])])
def test_what_can_be_read_only_once_is_refused(once: Any) -> None:
    with pytest.raises(InputError, match=r"can be read only once.*a list of batches, a DataLoader"):
        as_dataset(once, INPUTS)


def test_batches_that_change_from_one_pass_to_the_next_are_refused() -> None:
    class Shuffled(Batches):
        def __iter__(self) -> Iterator[Any]:
            yield from list(super().__iter__())[:: -1 if self.passes > 1 else 1]

    class Shorter(Batches):
        def __iter__(self) -> Iterator[Any]:
            yield from list(super().__iter__())[: 1 if self.passes > 1 else None]

    dataset = as_dataset(Shuffled(), INPUTS)
    with pytest.raises(InputError, match=r"^image-0 has other values or another label.*turn off shuffling"):
        dataset.read(0)
    dataset = as_dataset(Shorter(), INPUTS)
    assert torch.equal(dataset.read(1), IMAGES[1])
    with pytest.raises(InputError, match=r"^image-9 is gone"):
        dataset.read(9)


@pytest.mark.parametrize(
    "given, message",
    [
        (IMAGES[0, :2], r"^images must be \(N, 3, "),
        (2 * IMAGES, r"^images must lie in \[0, 1\] \(the classifier normalises them itself\)"),
        ([IMAGES, 2 * IMAGES], r"^batch 1: images must lie in \[0, 1\]"),
        ([IMAGES[:, :2]], r"^batch 0: images must be \(N, 3, "),
        ([(IMAGES * 255).byte()], "^batch 0: images must be floats.*divide 8-bit pixels by 255"),
        ([{"image": IMAGES, "y": 1}], "^batch 0: a batch is a dict with the keys 'image', 'y'; .*collate_fn"),
        ([(IMAGES, LABELS[:3])], "^batch 0: labels must be 10 integers, one per item, got int64"),
        ([(IMAGES, LABELS.float())], "^batch 0: labels must be 10 integers"),
        ({"image": IMAGES}, r"^images must be a tensor \(N, channels, height, width\), not dict"),
        (3, r"^images must be a tensor \(N, channels, height, width\), not int; see load_images"),
    ],
)
def test_what_the_net_cannot_take_is_refused(given: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        border(given)


def test_a_sample_that_the_net_cannot_take_fails_alone() -> None:
    loader = torch_data.DataLoader(torch_data.TensorDataset(torch.stack([IMAGES[0], IMAGES[1] + 1])))
    (block,) = load_blocks(as_dataset(loader, INPUTS), CLASSIFIER)
    assert block.indices == (0,) and "images must lie in [0, 1]" in next(iter(block.failures.values()))


def test_a_copy_in_another_process_reads_the_same() -> None:
    for given in (
        list(IMAGES.split(4)),
        torch_data.DataLoader(Numbers(), batch_size=4),
        torch_data.DataLoader(torch_data.TensorDataset(IMAGES)),
    ):
        dataset = pickle.loads(pickle.dumps(as_dataset(given, INPUTS)))
        assert torch.equal(values(dataset), IMAGES)
    with pytest.raises(InputError, match=r"images exists only in the memory of this process"):
        dataset.settings()


def test_arrays_of_another_byte_order_are_converted() -> None:
    values = np.arange(6, dtype=">f4").reshape(2, 3) / 8
    rows = Rows(columns=3, mean=(0.0,) * 3, std=(1.0,) * 3)
    net = pm.Classifier(torch.nn.Linear(3, 2), inputs=rows)
    assert border(values, classifier=net)[0][1].tolist() == [0.375, 0.5, 0.625]
