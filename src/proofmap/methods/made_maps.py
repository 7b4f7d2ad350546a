"""Maps that are made once for several methods: ``top-label:METHOD`` takes those that METHOD is judged by.

Who takes from whom depends on which methods are judged together, never on which of them comes first or where: whoever
needs maps that are not there makes them as METHOD does, for all labels of the block. So the bits are the same in a run
that was stopped, and on a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor

from proofmap.core import streams
from proofmap.core.progress import Progress
from proofmap.core.tensors import private_copy
from proofmap.methods.method import ReadyMethod


def taken_from(methods: Mapping[str, ReadyMethod]) -> dict[str, str]:
    """The methods that take the maps of another of these, and which one that is; by name."""
    names = {method: name for name, method in reversed(list(methods.items()))}
    sources = {name: method.made_from for name, method in methods.items()}
    return {name: names[source] for name, source in sources.items() if source is not None and source in names}


class MadeMaps:
    """Makes the maps of methods that are judged together; keeps those of the latest block that another one takes."""

    def __init__(self, methods: Iterable[ReadyMethod]) -> None:
        named = {str(k): method for k, method in enumerate(methods)}
        self._sources = {named[source] for source in taken_from(named).values()}
        self._block: object = None
        self._maps: dict[ReadyMethod, Tensor] = {}

    def __call__(
        self, method: ReadyMethod, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        """Maps ``(N, L, *positions)``, as the method gives them."""
        source = method.made_from
        if source is not None and source in self._sources:
            maps = self(source, images, labels, seed=seed, progress=progress)
            # copies, since the next method may take the same maps, and others read the images and labels
            own = (private_copy(x) for x in (maps, images, labels))
            return method.take(*own, seed=seed, progress=progress)
        if method not in self._sources:
            return method(images, labels, seed=seed, progress=progress)
        block = (streams.content_keys(images), labels.tolist(), seed)
        if block != self._block:
            self._block, self._maps = block, {}
        if method not in self._maps:
            self._maps[method] = method(images, labels, seed=seed, progress=progress)
        return self._maps[method]
