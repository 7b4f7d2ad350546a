"""The nets of a server, and photos, rows and texts as a net sees them. Nets are loaded when first needed; at most two are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from proofmap.app.items import Item, Kept, NotFound
from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.files import distinct_names
from proofmap.core.inputs import Inputs, Pictures
from proofmap.core.labels import canonical_name, close_names
from proofmap.core.text import one_line
from proofmap.data.dataset import Dataset
from proofmap.data.distractors import Distractors
from proofmap.fills import Fill, Images
from proofmap.models import DEFAULT_MODEL, load_classifier
from proofmap.models.registry import installed_models
from proofmap.models.spec import ModelSpec
from proofmap.results.sharing import without_folders
from proofmap.session import Session
from proofmap.study import Study
from proofmap.study.opened import open_net

PHOTO = "photo"
KINDS = (PHOTO, "row", "series", "text")
"""The kinds of input that the page can show."""
MOST_NETS = 2
MOST_FOUND = 20
_SEEN, _FILLS = 32, 8
"""Largest numbers of kept results: prepared photos (and probabilities of photos), and fills of photos."""
_GRADIENT_BATCH = 24
"""Batch size of passes with gradient on a CPU: enough to learn the masks of all labels of a job together."""


def plural(item: str) -> str:
    """The plural of the word for an input.

    >>> plural("row"), plural("series")
    ('rows', 'series')
    """
    return item if item.endswith("s") else f"{item}s"


@dataclass(frozen=True)
class Offer:
    """A net that visitors may choose. ``load`` loads it."""

    name: str
    about: str
    load: Callable[[], Classifier]
    options: tuple[str, ...] = ()
    """The options of a command line that name this net."""
    named: bool = True
    """Whether the command line of the server names this net. Other offered nets are installed nets that take photos."""


@dataclass(frozen=True)
class Facts:
    """Facts about a net, which stay known after it was loaded once, even if it is no longer in memory."""

    names: tuple[str, ...]
    """Names of the labels, each in one line, without control and direction characters."""
    label_set: tuple[int, ...]
    inputs: Inputs


def offers(
    models: Sequence[str], weights: Path | None, device: str, data: Dataset | None = None
) -> list[Offer]:
    """The nets named on the command line, then the installed ones. ``data`` describes the columns for models of tables."""
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
        load = partial(open_net, Study(model=spec, weights=file), None, device, data)
        found.append(Offer(shown, "named on the command line", load, options))
    for info in installed_models():
        if info.name not in models or weights is not None:
            load = partial(load_classifier, info.name, device=device)
            found.append(Offer(info.name, info.description, load, ("--model", info.name), named=False))
    found.sort(key=lambda offer: bool(not models and offer.name != DEFAULT_MODEL))
    names = distinct_names([offer.name for offer in found])
    return [replace(offer, name=name) for name, offer in zip(names, found, strict=True)]


class Nets:
    """The nets that the server offers. Only the worker's thread may request a classifier."""

    def __init__(self, offered: Sequence[Offer], data: Dataset | None = None) -> None:
        """``data`` is the data named on the command line, from which random rows and texts are drawn."""
        if not offered:
            raise InputError(
                "there is no net to serve: name one with --model, or pip install 'proofmap[demo]', which contains one"
            )
        self.offered = {offer.name: offer for offer in offered}
        self.singular: str | None = None
        """The word for an input of the nets: photo, row, series or text; None before the first net is loaded. All nets take the same kind."""
        self.data = data
        self._others: dict[str, Distractors | None] = {}
        self._facts: dict[str, Facts] = {}
        self._kept: OrderedDict[str, Classifier] = OrderedDict()
        self._seen: Kept[tuple[str, str], Tensor] = Kept(lambda kept: len(kept) > _SEEN)
        self._fills: Kept[tuple[str, str, Fill], tuple[Fill, Session]] = Kept(lambda kept: len(kept) > _FILLS)
        self._beliefs: Kept[tuple[str, str], Tensor] = Kept(lambda kept: len(kept) > _SEEN)

    @classmethod
    def named(
        cls, models: Sequence[str], weights: Path | None, device: str, data: Dataset | None = None
    ) -> Nets:
        """The nets named on the command line, then the installed ones. ``data`` describes the columns for models of tables."""
        return cls(offers(models, weights, device, data), data)

    @property
    def first(self) -> str:
        return next(iter(self.offered))

    @property
    def of_photos(self) -> bool:
        """Whether the page is about photos. This is assumed until the first net is loaded."""
        return self.singular in (None, PHOTO)

    @property
    def positions(self) -> str:
        """The word for the positions of an input: pixels, columns, words or time steps."""
        known = self._facts.get(self.first)
        return "pixels" if known is None else known.inputs.position_noun

    def settle(self) -> Classifier:
        """Load the first net now. If it takes no photos, the installed nets are not offered, because they take photos."""
        found = self.classifier(self.first)
        if not self.of_photos:
            self.offered = {name: offer for name, offer in self.offered.items() if offer.named}
        return found

    def offer(self, name: str) -> Offer:
        if name not in self.offered:
            raise NotFound(f"no net here has that name; there are {', '.join(self.offered)}")
        return self.offered[name]

    def about(self) -> list[dict[str, Any]]:
        """Every net: its number of labels and its size (None until it is loaded), and whether it is ready."""
        found = []
        for name, offer in self.offered.items():
            facts = self._facts.get(name)
            pictures = facts.inputs if facts is not None and isinstance(facts.inputs, Pictures) else None
            found.append(
                {
                    "name": name,
                    "labels": None if facts is None else len(facts.label_set),
                    "size": None if pictures is None else list(pictures.size),
                    "about": offer.about,
                    "ready": name in self._kept,
                }
            )
        return found

    def known(self, name: str) -> Facts | None:
        """The facts about a net; None if it was never loaded."""
        self.offer(name)
        return self._facts.get(name)

    # ---- in the worker's thread -----------------------------------------------------------------------------

    def classifier(self, name: str) -> Classifier:
        """The net with this name, loaded if necessary. If there are more than ``MOST_NETS``, the least recently used net is dropped."""
        offer = self.offer(name)
        if name not in self._kept:
            self._kept[name] = self._load(offer)
            while len(self._kept) > MOST_NETS:
                self._kept.popitem(last=False)
            self._fills.drop(lambda key: key[1] not in self._kept)
        self._kept.move_to_end(name)
        return self._kept[name]

    def _load(self, offer: Offer) -> Classifier:
        classifier = offer.load()
        inputs = classifier.inputs
        singular = PHOTO if isinstance(inputs, Pictures) else inputs.singular
        if singular not in KINDS:
            raise InputError(
                f"the page shows {', '.join(map(plural, KINDS))}, but {offer.name} takes {inputs.noun}; 'proofmap explain' writes a page of "
                "them"
            )
        if self.singular not in (None, singular):
            raise InputError(
                f"the page shows {plural(str(self.singular))}, but {offer.name} takes {inputs.noun}"
            )
        inputs.check_readable()
        self.singular = singular
        if classifier.device.type == "cpu":
            forward = classifier.frozen().batches[0].size
            classifier.fix_batches(forward, _GRADIENT_BATCH)
        classifier.frozen().probabilities(classifier.blank(1))  # so that the first photo need not wait for it
        names = tuple(map(one_line, classifier.names))
        self._facts[offer.name] = Facts(names, tuple(classifier.label_set), inputs)
        return classifier

    def facts(self, name: str) -> Facts:
        """The facts about a net, which is loaded first if necessary."""
        if self.known(name) is None:
            self.classifier(name)
        return self._facts[name]

    def at_own_length(self, name: str, image: Tensor) -> tuple[Classifier, Tensor]:
        """The net for inputs of this input's length, and the input ``(1, *shape)`` cut to this length. Texts differ in their number of words."""
        classifier = self.classifier(name)
        lengths = classifier.inputs.lengths(image)
        if lengths is None:
            return classifier, image
        n = int(lengths[0])
        return classifier.at_length(n), classifier.inputs.cut(image, n)

    def hidden(self, name: str, photo: Item, fill: Fill, image: Tensor, seed: int) -> Tensor:
        """What the hidden positions of a photo show ``(1, *shape)``, where the net sees it as ``image``. For a random fill, this is the first
        draw that curves with this seed use; random images come from the pool that ``proofmap explain`` would use.
        """

        def prepare() -> tuple[Fill, Session]:
            classifier, _ = self.at_own_length(name, self.seen(photo, name))
            session, judging = Session(classifier, role="judge"), self.judging_fill(fill, photo, name)
            judging.prepare(session)
            return judging, session

        judging, session = self._fills.get_or_make((photo.id, name, fill), prepare)
        with torch.no_grad():
            return judging(session, image, streams.image_keys(image, seed, "curve fill", 0))

    def beliefs(self, photo: Item, name: str, image: Tensor) -> Tensor:
        """The net's probabilities f ``(A,)`` of all labels for a photo, which the net sees as ``image``. They are computed once."""
        return self._beliefs.get_or_make(
            (photo.id, name), lambda: self.classifier(name).frozen().probabilities(image)[0].cpu()
        )

    # ---- in any thread --------------------------------------------------------------------------------------

    def seen(self, photo: Item, name: str) -> Tensor:
        """The photo ``(1, C, H, W)``, or the row, series or text ``(1, *shape)``, as the net sees it, on the CPU.

        The net must have been loaded before.
        """

        def prepared() -> Tensor:
            with photo.opened() as picture:
                return self._facts[name].inputs.prepare(picture)[None]

        return self._seen.get_or_make((photo.id, name), prepared)

    def seen_before(self, photo: Item, name: str) -> Tensor | None:
        """The photo as the net sees it, from the cache; None if the photo would have to be decoded."""
        return self._seen.get((photo.id, name))

    def judging_fill(self, fill: Fill, photo: Item, name: str) -> Fill:
        """The fill with the pool of random images that ``proofmap explain`` would use to judge maps of this photo."""
        if not isinstance(fill, Images):
            return fill
        source = self._sources(photo, name) if fill.is_usual else None
        part = "judge" if fill.part == "auto" else fill.part
        return fill.changed(part=part, **({} if source is None else {"source": source}))

    def _sources(self, photo: Item, name: str) -> Distractors | None:
        inputs = self._facts[name].inputs
        if self.of_photos or self.data is None:
            return Distractors.from_images(self.seen(photo, name), inputs)
        if name not in self._others:
            self._others[name] = Distractors.from_dataset(self.data, inputs)
        return self._others[name]

    def search(self, facts: Facts, text: str) -> list[int]:
        """Labels whose name contains the text or whose index equals it. If there are none, labels with similar names.

        Exact matches come first, then names that begin with the text.
        """
        wanted = canonical_name(text)
        if not wanted:
            return list(facts.label_set[:MOST_FOUND])
        names = {label: canonical_name(facts.names[label]) for label in facts.label_set}
        found = [label for label, name in names.items() if wanted == str(label) or wanted in name]
        if not found:
            return [facts.label_set[place] for place in close_names(wanted, [*names.values()])]
        found.sort(key=lambda a: (names[a] != wanted, not names[a].startswith(wanted)))
        return found[:MOST_FOUND]


def top_labels(f: Tensor, label_set: Sequence[int], number: int) -> list[int]:
    """The ``number`` most probable labels of the label set, most probable first, given the probabilities ``f`` ``(A,)`` of all labels.

    >>> top_labels(torch.tensor([0.1, 0.6, 0.3]), [0, 1, 2], 2)
    [1, 2]
    """
    members = torch.tensor(list(label_set))
    order = f[members].argsort(descending=True, stable=True)[:number]
    found: list[int] = members[order].tolist()
    return found


def check_known(labels: Sequence[int], facts: Facts) -> None:
    """Raise if the net does not have one of these labels."""
    unknown = sorted({*labels} - {*facts.label_set})
    if unknown:
        raise InputError(f"the net has no label {unknown[0]}; it has {len(facts.label_set)}, see /api/labels")
