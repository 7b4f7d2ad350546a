"""The images of a run with their maps: the maps are stored in the run, the pixels are read again from the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from proofmap.core.errors import ProofmapError
from proofmap.core.inputs import inputs_of
from proofmap.data.dataset import Dataset
from proofmap.data.loader import load_listed
from proofmap.data.specs import rebuild_dataset
from proofmap.results.evaluation import Evaluation
from proofmap.study.manifest import Manifest
from proofmap.study.store.database import Store
from proofmap.study.store.maps import read_maps
from proofmap.study.store.records import ImageRow, Registered


@dataclass(frozen=True)
class RunPictures:
    """Reads the pixels and maps of a run's ``images``. A place is an index into ``images``."""

    folder: Path
    manifest: Manifest
    store: Store
    images: Sequence[ImageRow]

    def added_to(
        self,
        bare: Evaluation,
        methods: Mapping[str, Registered],
        places: Sequence[int],
        dataset: Dataset | None,
    ) -> Evaluation:
        """The evaluation ``bare`` with pixels and maps added for the images at ``places``.

        An image is left out if its pixels cannot be read or a method has no maps of it.
        """
        rows = [self.images[place] for place in places]
        maps = {result.name: self.maps(methods[result.name], rows) for result in bare.results}
        names = {place: self.images[place].name for place in places}
        shown = [place for place in places if all(names[place] in found for found in maps.values())]
        pixels = self.pixels(shown, dataset)
        shown = [place for place in shown if place in pixels]
        if not shown:
            return bare
        wide = bare.labels.shape[1]
        results = []
        for result in bare.results:
            wanted = [maps[result.name][names[place]] for place in shown]
            stack = [_padded(one, 1 if result.label_free else wide) for one in wanted]
            results.append(replace(result, maps=torch.stack(stack)))
        images = torch.stack([pixels[place] for place in shown])
        return replace(bare, results=tuple(results), images=images, pictured=tuple(shown))

    def maps(self, method: Registered, images: Sequence[ImageRow]) -> dict[str, Tensor]:
        """One method's maps of these images, by image name. If several files have maps of an image, the newest file counts."""
        found: dict[str, Tensor] = {}
        for block in dict.fromkeys(image.block for image in images):
            files = self.store.rows(
                "SELECT maps FROM units WHERE method = ? AND block = ? AND maps IS NOT NULL ORDER BY id DESC",
                method.id,
                block,
            )
            names = [image.name for image in images if image.block == block]
            for (name,) in files:
                lacking = [image for image in names if image not in found]
                if lacking:
                    found |= read_maps(self.folder, name, lacking)
        return found

    def pixels(self, places: Sequence[int], dataset: Dataset | None) -> dict[int, Tensor]:
        """The pixels of the images at ``places``, by place, read from the data again. Images that are missing or have changed are left out."""
        if not places:
            return {}
        settings: Any = self.manifest.study
        try:
            dataset = dataset or rebuild_dataset(settings["dataset"])
        except ProofmapError:
            return {}
        index = {name: i for i, name in enumerate(dataset.names)}
        there = [place for place in places if _same_picture(self.images[place], dataset, index)]
        indices = {index[self.images[place].name]: place for place in there}
        (block,) = load_listed(dataset, inputs_of(self.manifest.identity), [list(indices)], ahead=0)
        return {indices[i]: block.images[k].cpu() for k, i in enumerate(block.indices)}


def _same_picture(image: ImageRow, dataset: Dataset, index: Mapping[str, int]) -> bool:
    try:
        return image.name in index and dataset.digest(index[image.name]) == image.digest
    except ProofmapError:
        return False


def _padded(maps: Tensor, wide: int) -> Tensor:
    """Pad maps ``(L, *positions)`` with zeros, or cut them, to ``(wide, *positions)``. Stored blocks may differ in the number of labels."""
    if len(maps) >= wide:
        return maps[:wide]
    return torch.cat([maps, maps.new_zeros(wide - len(maps), *maps.shape[1:])])
