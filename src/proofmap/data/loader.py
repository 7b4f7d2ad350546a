"""The loader: blocks of prepared images, decoded in advance by background threads."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Box, Inputs
from proofmap.data.dataset import Dataset, match_labels
from proofmap.plugins.failures import reason_of

_Objects = Mapping[int, Sequence[Box]]


@dataclass(frozen=True)
class ImageBlock:
    """A block of pictures. Each requested picture is either in ``images`` or in ``failures``, in the requested order.

    Attributes:
        indices: the pictures that could be read.
        images: these pictures, ``(n, C, H, W)`` in [0, 1] on the classifier's device; n may be 0.
        failures: the names of the pictures that could not be read, and why.
        objects: for each picture that could be read, the boxes of its objects by output of the net, in pixels of the net's input. Objects that the net has no
            output for are left out.
    """

    indices: tuple[int, ...]
    images: Tensor
    failures: Mapping[str, str]
    objects: tuple[_Objects, ...] = ()


def load_blocks(
    dataset: Dataset,
    classifier: Classifier,
    indices: Sequence[int] | None = None,
    *,
    block_size: int = 32,
    ahead: int = 2,
) -> Generator[ImageBlock, None, None]:
    """Blocks of ``block_size`` pictures, prepared for the classifier, in the order of ``indices``.

    Threads (one per core, at most 8) decode up to ``ahead`` blocks in advance. A picture that cannot be
    read is a failure of its block and does not stop the others. No thread is left when the iteration ends.
    """
    chosen = list(range(len(dataset)) if indices is None else map(int, indices))
    if block_size < 1:
        raise InputError(f"block_size must be at least 1, got {block_size}")
    blocks = [chosen[start : start + block_size] for start in range(0, len(chosen), block_size)]
    return load_listed(
        dataset,
        classifier.inputs,
        blocks,
        outputs=classifier.names,
        device=classifier.device,
        ahead=ahead,
    )


def load_listed(
    dataset: Dataset,
    inputs: Inputs,
    blocks: Sequence[Sequence[int]],
    *,
    outputs: Sequence[str] = (),
    device: torch.device | str = "cpu",
    ahead: int = 2,
) -> Generator[ImageBlock, None, None]:
    """Like :func:`load_blocks`, but each block is a list of indices. Without the names of the net's ``outputs``, objects are by the dataset's
    label."""
    outside = [i for members in blocks for i in members if not 0 <= i < len(dataset)]
    if outside:
        raise InputError(f"there is no item {outside[0]}: {dataset.title} has 0 to {len(dataset) - 1}")
    if not inputs.reads(dataset.kind):
        raise InputError(
            f"{dataset.title} holds {dataset.kind}, but the classifier takes {inputs.kind}; name a model that takes {dataset.kind} "
            f"(--model), or data that holds {inputs.kind}"
        )
    inputs.check_readable()
    places = match_labels(dataset.label_names, outputs) if outputs and dataset.label_names else None
    device, threads = torch.device(device), 1 if dataset.sequential else _cores()

    def in_background() -> Generator[ImageBlock, None, None]:
        pool = ThreadPoolExecutor(threads, thread_name_prefix="proofmap-loader")
        started: deque[tuple[Sequence[int], Tensor, list[Future[_Objects | str]]]] = deque()
        try:
            for members in blocks:
                images = torch.empty((len(members), *inputs.shape), pin_memory=device.type == "cuda")
                tasks = [
                    pool.submit(_read, dataset, inputs, places, *at)
                    for at in zip(members, images.numpy(), strict=True)
                ]
                started.append((members, images, tasks))
                del images, tasks  # a block belongs to its receiver alone
                if len(started) > ahead:
                    yield _finished(dataset, *started.popleft(), device)
            while started:
                yield _finished(dataset, *started.popleft(), device)
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    return in_background()


def _read(
    dataset: Dataset,
    inputs: Inputs,
    outputs: Sequence[int | None] | None,
    index: int,
    place: NDArray[np.float32],
) -> _Objects | str:
    """Write the values of item ``index`` to ``place``. Returns the item's boxes by label, or by the output that ``outputs`` has for each
    label, or the reason why it could not be read."""
    try:
        item, cropped, objects = dataset.read(index), dataset.cropped, dataset.objects(index)
        # copied by NumPy, as torch would start several threads in each of ours
        np.copyto(place, inputs.prepare(item, cropped=cropped).numpy())
        moved = {label: inputs.moved_boxes(boxes, item, cropped=cropped) for label, boxes in objects.items()}
        by_output = {label if outputs is None else outputs[label]: boxes for label, boxes in moved.items()}
        return {at: boxes for at, boxes in by_output.items() if boxes and at is not None}
    except Exception as error:
        return reason_of(error)


def _finished(
    dataset: Dataset,
    members: Sequence[int],
    images: Tensor,
    tasks: list[Future[_Objects | str]],
    device: torch.device,
) -> ImageBlock:
    """Wait until all items of a block are read, and return the block."""
    outcomes = [task.result() for task in tasks]
    failures = {
        dataset.names[i]: why for i, why in zip(members, outcomes, strict=True) if isinstance(why, str)
    }
    read = {k: found for k, found in enumerate(outcomes) if not isinstance(found, str)}
    if failures:
        images = images[list(read)]
    indices = tuple(members[k] for k in read)
    return ImageBlock(indices, images.to(device, non_blocking=True), failures, tuple(read.values()))


def _cores() -> int:
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(8, usable)
