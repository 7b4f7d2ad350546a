"""The nets of a server, loaded when they are first needed, at most two kept; and photos as a net sees them."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from proofmap.app.answers import NetAbout
from proofmap.app.photos import NotFound, Photo
from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.files import distinct_names
from proofmap.core.inputs import Inputs, Pictures
from proofmap.core.labels import canonical_name, close_names
from proofmap.core.text import one_line
from proofmap.data.distractors import from_images
from proofmap.fills import Fill, Images, Pools, ReadyFill
from proofmap.models import DEFAULT_MODEL, ModelSpec, load_classifier
from proofmap.models.registry import installed_models
from proofmap.results.sharing import without_folders

MOST_NETS = 2
MOST_FOUND = 20
_SEEN, _FILLS = 32, 8
"""Prepared photos (and what nets believe about photos), and fills of photos, that are kept."""
_GRADIENT_BATCH = 24
"""Passes with gradient at once on a CPU: enough to learn, and to show, all labels of a job side by side."""


@dataclass(frozen=True)
class Offer:
    """A net that visitors may choose."""

    name: str
    about: str
    load: Callable[[], Classifier]
    options: tuple[str, ...] = ()
    """The options of a command line that name it."""


@dataclass(frozen=True)
class Facts:
    """What is known about a net after it was first loaded, even if it is no longer kept."""

    names: tuple[str, ...]
    """Names of the labels, each in one line, without control and direction characters."""
    label_set: tuple[int, ...]
    inputs: Pictures


def offers(models: Sequence[str], weights: Path | None, device: str) -> list[Offer]:
    """The nets of the command line, then those whose weights are on this machine."""
    found = []
    for place, spec in enumerate(models):
        file = weights if place == 0 else None
        parsed = ModelSpec.parse(spec)
        title = parsed.with_arguments(weights=file, pretrained=True).title
        shown = (
            f"{Path(parsed.name).name}:{parsed.function}"
            if parsed.scheme == "file"
            else without_folders(title)
        )
        options = ("--model", spec, *(() if file is None else ("--weights", str(file))))
        load = partial(load_classifier, spec, weights=file, device=device)
        found.append(Offer(shown, "named on the command line", load, options))
    for info in installed_models():
        if info.name not in models or weights is not None:
            load = partial(load_classifier, info.name, device=device)
            found.append(Offer(info.name, info.description, load, ("--model", info.name)))
    found.sort(key=lambda offer: bool(not models and offer.name != DEFAULT_MODEL))
    names = distinct_names([offer.name for offer in found])
    return [Offer(name, o.about, o.load, o.options) for name, o in zip(names, found, strict=True)]


class Nets:
    """The nets that are offered. Only the worker's thread may ask for a classifier."""

    def __init__(self, offered: Sequence[Offer]) -> None:
        if not offered:
            raise InputError(
                "there is no net to serve: name one with --model, or pip install 'proofmap[demo]', which contains one"
            )
        self.offered = {offer.name: offer for offer in offered}
        self._facts: dict[str, Facts] = {}
        self._kept: OrderedDict[str, Classifier] = OrderedDict()
        self._seen: OrderedDict[tuple[str, str], Tensor] = OrderedDict()
        self._fills: OrderedDict[tuple[str, str, Fill], ReadyFill] = OrderedDict()
        self._beliefs: OrderedDict[tuple[str, str], Tensor] = OrderedDict()
        self._lock = threading.Lock()
        self._pooling = threading.Lock()

    @property
    def first(self) -> str:
        return next(iter(self.offered))

    def offer(self, name: str) -> Offer:
        if name not in self.offered:
            raise NotFound(f"no net here has that name; there are {', '.join(self.offered)}")
        return self.offered[name]

    def about(self) -> list[NetAbout]:
        found = []
        for name, offer in self.offered.items():
            facts = self._facts.get(name)
            labels, size = (None, None) if facts is None else (len(facts.label_set), facts.inputs.size)
            found.append(
                NetAbout(name=name, labels=labels, size=size, about=offer.about, ready=name in self._kept)
            )
        return found

    def known(self, name: str) -> Facts | None:
        """What is known about a net; None if it was never loaded."""
        self.offer(name)
        return self._facts.get(name)

    # ---- in the worker's thread -----------------------------------------------------------------------------

    def classifier(self, name: str) -> Classifier:
        """The net, loaded if necessary; the least recently used one beyond ``MOST_NETS`` is dropped."""
        offer = self.offer(name)
        if name not in self._kept:
            self._kept[name] = self._load(offer)
            while len(self._kept) > MOST_NETS:
                gone, _ = self._kept.popitem(last=False)
                self._fills = OrderedDict((k, v) for k, v in self._fills.items() if k[1] != gone)
        self._kept.move_to_end(name)
        return self._kept[name]

    def _load(self, offer: Offer) -> Classifier:
        classifier = offer.load()
        inputs = classifier.inputs
        if not isinstance(inputs, Pictures):
            raise InputError(f"the page shows photos, but {offer.name} takes {inputs.noun}")
        inputs.check_readable()
        if classifier.device.type == "cpu":
            forward = classifier.frozen().batches[0].size
            classifier.fix_batches(forward, _GRADIENT_BATCH)
        classifier.frozen().probabilities(classifier.blank(1))  # so that the first photo need not wait for it
        names = tuple(map(one_line, classifier.names))
        self._facts[offer.name] = Facts(names, tuple(classifier.label_set), inputs)
        return classifier

    def facts(self, name: str) -> Facts:
        """What is known about a net, which is loaded first if necessary."""
        if self.known(name) is None:
            self.classifier(name)
        return self._facts[name]

    def fill(self, name: str, photo: Photo, fill: Fill) -> ReadyFill:
        """A fill, prepared for a net and a photo; random images come from the pool that ``explain`` would use."""
        key = (photo.id, name, fill)
        if key not in self._fills:
            self._fills[key] = self.judging_fill(fill, photo, name).prepare(self.classifier(name))
            while len(self._fills) > _FILLS:
                self._fills.popitem(last=False)
        self._fills.move_to_end(key)
        return self._fills[key]

    def beliefs(self, photo: Photo, name: str, image: Tensor) -> Tensor:
        """f of all labels ``(A,)`` for a photo, which the net sees as ``image``; computed once."""
        key = (photo.id, name)
        if key not in self._beliefs:
            self._beliefs[key] = self.classifier(name).frozen().probabilities(image)[0].cpu()
            while len(self._beliefs) > _SEEN:
                self._beliefs.popitem(last=False)
        self._beliefs.move_to_end(key)
        return self._beliefs[key]

    # ---- in any thread --------------------------------------------------------------------------------------

    def seen(self, photo: Photo, name: str) -> Tensor:
        """The photo ``(1, C, H, W)`` as a net sees it, on the CPU. The net must have been loaded before."""
        known = self.seen_before(photo, name)
        if known is not None:
            return known
        with photo.opened() as picture:
            return self._keep_seen(photo, picture, name)

    def seen_before(self, photo: Photo, name: str) -> Tensor | None:
        """The same if it is kept; None if the photo would have to be decoded."""
        key = (photo.id, name)
        with self._lock:
            if key in self._seen:
                self._seen.move_to_end(key)
            return self._seen.get(key)

    def look(self, photo: Photo, picture: Image.Image) -> None:
        """Prepare a new photo for the first net while it is decoded. Errors are raised when the photo is first used."""
        if self.first in self._facts:
            with suppress(InputError):
                self._keep_seen(photo, picture, self.first)

    def _keep_seen(self, photo: Photo, picture: Image.Image, name: str) -> Tensor:
        key, made = (photo.id, name), self._facts[name].inputs.prepare(picture)[None]
        with self._lock:
            self._seen[key] = made
            while len(self._seen) > _SEEN:
                self._seen.popitem(last=False)
        return made

    def judging_fill(self, fill: Fill, photo: Photo, name: str) -> Fill:
        """A fill with the pool of random images on which ``explain`` would judge maps of this photo."""
        pools = Pools(lambda: from_images(self.seen(photo, name), self._facts[name].inputs))
        return pools.bind(fill, "judge")

    def warm(self, photo: Photo | None, name: str) -> None:
        """Make the usual pool of random images for a photo, which takes a second or two, before it is needed.

        Without a photo, the pool for all photos but the samples, which are themselves in the pool.
        """
        with self._pooling:  # a job that needs the pool waits for it and does not make it again
            with suppress(InputError):  # raised again when the pool is needed
                inputs, usual = self._facts[name].inputs, Images()
                image = _in_colour(inputs) if photo is None else self.seen(photo, name)
                if (source := from_images(image, inputs)) is not None:
                    source.pool(inputs, size=usual.size, crop=usual.crop, seed=usual.seed, part="learn")

    def warm_soon(self, photo: Photo | None, name: str) -> None:
        """:meth:`warm` in another thread, unless one is already running. A program that ends waits for it: see :data:`worker.AT_EXIT`."""
        if name in self._facts and not self._pooling.locked():
            threading.Thread(target=self.warm, args=(photo, name)).start()

    def search(self, facts: Facts, text: str) -> list[int]:
        """Labels whose name contains a text, or whose index it is; if there are none, labels with a similar spelling.

        Exact matches come first, then names that begin with the text, then names with a word that begins with it.
        """
        wanted = canonical_name(text)
        if not wanted:
            return list(facts.label_set[:MOST_FOUND])
        found: list[tuple[int, int]] = []
        for label in facts.label_set:
            name = canonical_name(facts.names[label])
            if wanted == str(label):
                found.append((0, label))
            elif wanted in name:
                ranks = (name == wanted, name.startswith(wanted), f" {wanted}" in name, True)
                found.append((ranks.index(True), label))
        if not found:
            similar = close_names(wanted, [canonical_name(facts.names[label]) for label in facts.label_set])
            return [facts.label_set[place] for place in similar]
        return [label for _, label in sorted(found)[:MOST_FOUND]]


def check_known(labels: Sequence[int], facts: Facts) -> None:
    """Refuse labels that the net does not have."""
    unknown = sorted({*labels} - {*facts.label_set})
    if unknown:
        raise InputError(f"the net has no label {unknown[0]}; it has {len(facts.label_set)}, see /api/labels")


def _in_colour(inputs: Inputs) -> Tensor:
    """A red picture ``(1, C, H, W)``: it stands for a photo in colour that is not in the pool."""
    picture = inputs.blank(1)
    picture[:, 0] = 1.0
    return picture


def draw_key(image: Tensor, seed: int, draw: int = 0) -> Tensor:
    """The stream key ``(1,)`` of one draw of a random fill, as the curves of this seed use it."""
    return streams.image_keys(image, seed, "curve fill", draw)


def hidden_by(ready: ReadyFill, image: Tensor, seed: int) -> Tensor:
    """What hidden pixels show ``(1, C, H, W)``; the first draw of a random fill."""
    with torch.no_grad():
        return ready(image, draw_key(image, seed))
