"""The one object that methods, fills, games and metrics work with: the net, its random images, and what was found for it so far."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import outside_inference_mode, steady_kernels
from proofmap.classifier.steadiness import FirstLook, UnsteadyNet
from proofmap.classifier.together import each_length, lane
from proofmap.core import streams
from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.inputs import Inputs, TextInputs
from proofmap.core.labels import NO_LABEL, check_labels
from proofmap.core.progress import Progress
from proofmap.core.ranking import as_maps, in_float32
from proofmap.core.tensors import private_copy
from proofmap.core.text import counted

if TYPE_CHECKING:
    from proofmap.methods.method import Method
    from proofmap.metrics.games import Game

__all__ = ["Session"]

T = TypeVar("T")
_SOURCE = "source"
"""The key, among the pools, of the source of random images."""
Role = Literal["all", "learn", "judge"]
"""Who draws random images: methods draw from one half of them (learn), metrics and games from the other (judge); all: from all of them."""


@dataclass(frozen=True)
class Snapshot:
    """The intermediate mask ``(*positions)`` of the pair with index ``pair``, after ``step`` of at most ``steps`` steps."""

    pair: int
    step: int
    steps: int
    mask: Tensor


Watch = Callable[[int, int, Snapshot], None]
"""Callback that receives the index of an image, a label, and the intermediate mask."""


class Session:
    """A net, and everything that is found or built for it while methods make maps and metrics judge them.

    Args:
        net: the classifier.
        seed: the seed of all random numbers.
        role: the half of the random images that fills draw from; by default both.
        distractors: a function that returns the source of random images for fills that name none. It is called once, when it is needed.
        progress: where passes are reported.
        watch: callback that receives the masks of methods that learn them, after every ``watch_every`` steps.
        shared: methods whose maps other methods change; the maps of the latest block of images are kept for these.
    """

    def __init__(
        self,
        net: Classifier,
        *,
        seed: int = 0,
        role: Role = "all",
        distractors: Callable[[], Any] | None = None,
        progress: Progress | None = None,
        watch: Watch | None = None,
        watch_every: int = 10,
        shared: frozenset[Method] = frozenset(),
    ) -> None:
        self.net, self.seed, self.role, self.shared = net, seed, role, shared
        self.progress: Progress = progress or Progress()
        self.watch, self.watch_every = watch, watch_every
        self.whole: Session | None = None
        """For inputs of one length: the session of inputs of any length that this one was made from."""
        self.first_look: FirstLook | None = None
        """The net's outputs before the work started; kept when the net changes, so that the change is found out."""
        self.batch_difference: float | None = None
        """How much f of a masked image differs between batches; None before it was looked at."""
        self.made: Mapping[Method, Tensor] = {}
        """Maps that exist already of the block of images that is judged."""
        self._distractors = distractors
        self._pools: dict[Hashable, Any] = {}  # of all sessions that belong together
        self._begin()

    def _begin(self) -> None:
        """Forget everything that was found for the net."""
        self._state = self.net.state()
        self._memo: dict[Hashable, tuple[object, Any]] = {}
        self._lengths: dict[int, Session] = {}
        self._judging: Session | None = None
        self._block: object = None
        self._block_maps: dict[Method, Tensor] = {}
        if self.whole is None and isinstance(self.inputs, TextInputs) and self.inputs.whole is not None:
            self.whole = self._relative(self.net.at_length(self.inputs.whole))

    def _relative(self, net: Classifier, **changes: Any) -> Session:
        """A session with the same random images and seed that has found nothing yet."""
        other = copy.copy(self)
        other.net, other.made = net, {}
        for name, value in changes.items():
            setattr(other, name, value)
        other._begin()
        return other

    @property
    def inputs(self) -> Inputs:
        return self.net.inputs

    # ---- what is found or built once --------------------------------------------------------------------------------

    def memo(self, key: Hashable, build: Callable[[], T]) -> T:
        """The result of ``build()``, which is called once per key. Results are dropped when the net changes.

        Plug-ins share the session, so a plug-in's key is ``(self, "what")``: plug-ins are equal if their settings are.
        """
        known = _hashable(key)
        if known not in self._memo:
            self._memo[known] = key, build()  # with the key, whose parts may be known by their identity alone
        return cast(T, self._memo[known][1])

    def pool(self, key: Hashable, build: Callable[[], T]) -> T:
        """The result of ``build()``, called once per key for all nets with these inputs on this device: pools of random images."""
        full = (key, self.inputs, self.net.device)
        if full not in self._pools:
            self._pools[full] = build()
        return cast(T, self._pools[full])

    def source(self) -> Any:
        """The source of random images for fills that name none; None if there is none."""
        if _SOURCE not in self._pools:
            self._pools[_SOURCE] = None if self._distractors is None else self._distractors()
        return self._pools[_SOURCE]

    @property
    def used_source(self) -> Any:
        """What :meth:`source` returned, or None if nothing has asked for it yet."""
        return self._pools.get(_SOURCE)

    def prepare(self, plugin: Any) -> None:
        """Let a method, metric, game or fill find or build what it needs, once. It raises if it cannot be used with this net."""
        self.memo(("prepared", plugin), lambda: plugin.prepare(self))

    def refresh(self) -> None:
        """Forget what was found for the net if it has changed since."""
        if self.net.state() != self._state:
            self._begin()

    # ---- sessions that belong to this one ---------------------------------------------------------------------------

    def judging(self) -> Session:
        """The same session in the role of a judge: its fills draw from the half of the random images that methods do not draw from."""
        if self.role == "judge":
            return self
        if self._judging is None:
            role = "judge" if self.role == "learn" else self.role
            self._judging = self._relative(self.net, role=role, watch=None, shared=frozenset())
            self._judging.whole = None if self.whole is None else self.whole.judging()
        self._judging.progress = self.progress
        return self._judging

    def for_net(self, net: Classifier) -> Session:
        """A session of another net, with the same random images and seed. Nothing was found for it yet."""
        return self if net is self.net else self._relative(net, watch=None, shared=frozenset(), whole=None)

    def like(self, **changes: Any) -> Session:
        """The same session with other attributes, such as another ``seed`` or ``progress``. What was found for the net is shared."""
        other = copy.copy(self)
        other._lengths, other._judging, other._block, other._block_maps, other.made = {}, None, None, {}, {}
        for name, value in changes.items():
            setattr(other, name, value)
        return other

    def at_length(self, n: int) -> Session:
        """The session for inputs of exactly ``n`` positions, for inputs that vary in length. It is made once per length."""
        if n not in self._lengths:
            self._lengths[n] = self._relative(self.net.at_length(n), whole=self.whole or self)
        return self._lengths[n]

    # ---- looks at the net -------------------------------------------------------------------------------------------

    def look(self, images: Tensor, labels: Tensor, game: Game) -> FirstLook:
        """The net's outputs before the work started, which :meth:`FirstLook.check` compares with later ones. The first call takes them from these
        images, and compares f of images that ``game`` has masked between batches. Raises an UnsteadyNet if f depends on the batch.
        """
        if self.first_look is None:
            look = FirstLook(self.net.frozen(), images)
            try:
                self.batch_difference = FirstLook.difference_between_batches(
                    *self._masked_batch(images, labels, game)
                )
            except UnsteadyNet:
                raise
            except Exception:
                # a net or a fill that fails on masked images: the game says for which, and a run stores it
                self.batch_difference = 0.0
            self.first_look = look
        return self.first_look

    @torch.no_grad()
    def _masked_batch(self, images: Tensor, labels: Tensor, game: Game) -> tuple[Classifier, Tensor]:
        """The classifier and randomly masked images for it, as many as one batch of a game has. Of inputs with different numbers of
        positions, those of the commonest number are used.
        """
        groups = self.inputs.by_length(images)
        if groups:
            n, places = max(groups, key=lambda group: len(group[1]))
            cut = self.inputs.cut(images[places], n)
            return self.at_length(n)._masked_batch(cut, labels[places.to(labels.device)], game)
        inputs, classifier = self.inputs, self.net.frozen()
        most = classifier.batches[0].size
        passes = max(1, game.passes(inputs.count) * int((labels != NO_LABEL).sum()))
        count = -(-passes // -(-passes // most))
        image = torch.arange(count) % len(images)
        random = torch.rand(count, inputs.count, generator=torch.Generator().manual_seed(0))
        shown = random < ((torch.arange(count) + 0.5) / count)[:, None]
        image, keep = image.to(images.device), shown.view(-1, *inputs.positions).to(images.device)
        keys = streams.image_keys(images, 0, "masked batch")[image]
        hidden = game.fill.behind(self.judging(), images[image], keys, keep)
        return classifier, inputs.composite(keep, images[image], hidden)

    # ---- maps -------------------------------------------------------------------------------------------------------

    def maps(self, method: Method, images: Tensor, labels: Tensor) -> Tensor:
        """A method's maps ``(N, L, *positions)`` float32 on the net's device for labels ``(N, L)``.

        The map of a label -1 (padding) is zero. The same inputs and seed give the same maps up to rounding, for every batch size and order.
        """
        with outside_inference_mode():  # gradients cannot be had inside of it
            self.refresh()
            groups = self.inputs.by_length(images)
            if groups:
                return self._maps_by_length(method, groups, images, labels)
            return self._maps(method, images, labels)

    def shared_maps(self, method: Method, images: Tensor, labels: Tensor) -> Tensor:
        """The maps by which a method is judged. They are kept for this block of images if other methods change them."""
        if method in self.made:
            return self.spread(method, self.made[method], labels)
        if method not in self.shared:
            return self.maps(method, images, labels)
        self.refresh()
        block = (streams.content_keys(images), labels.tolist())
        if block != self._block:
            self._block, self._block_maps = block, {}
        if method not in self._block_maps:
            self._block_maps[method] = self.maps(method, images, labels)
        return self._block_maps[method]

    def spread(self, method: Method, maps: Tensor, labels: Tensor) -> Tensor:
        """Check the maps that a method returned and expand them to labels ``(N, L)``, because a label-free method makes one map for all."""
        made = labels[:, :1] if method.label_free else labels
        maps = self._checked(method, maps, (*made.shape, *self.inputs.positions), made)
        maps = maps.expand(*labels.shape, *maps.shape[2:])
        if bool((labels == NO_LABEL).any()):
            empty = (labels == NO_LABEL).view(*labels.shape, *[1] * len(self.inputs.positions))
            maps = maps.masked_fill(empty, 0.0)
        return maps

    def _maps(self, method: Method, images: Tensor, labels: Tensor) -> Tensor:
        self.prepare(method)
        net = self.net
        images = net.check_images(images)
        labels = check_labels(
            labels.to(net.device), len(images), len(net.names), net.label_set, self.inputs.singular
        )
        asked = labels[:, :1] if method.label_free and not method.reads_all_labels else labels
        with (
            _note_errors(f"while the method {method.title()} made maps"),
            torch.enable_grad(),  # wherever the caller stands
            lane().apart(method.looks_inside),
            steady_kernels(tf32=False),  # a method that can do with less, such as learning, says so itself
        ):
            # copies, since a method may write into what it is given, and others read the images and labels after it
            maps = method.maps(self, private_copy(images), private_copy(asked))
        return self.spread(method, maps, labels)

    def _maps_by_length(
        self, method: Method, groups: list[tuple[int, Tensor]], images: Tensor, labels: Tensor
    ) -> Tensor:
        """Maps of inputs with different numbers of positions. Each map is made at the length of its input, and is zero at the positions that
        the input lacks.
        """
        net, inputs = self.net, self.inputs
        images, labels = net.check_images(images), labels.to(net.device)
        maps = torch.zeros(*labels.shape, *inputs.positions, device=net.device)
        near = {n: self.at_length(n) for n, _ in groups}
        for session in near.values():
            session.prepare(method)

        def at_length(n: int, places: Tensor, progress: Progress) -> None:
            near[n].progress, near[n].watch = progress, Session.watch_at(self.watch, places.tolist())
            maps[places, :, :n] = near[n].maps(method, inputs.cut(images[places], n), labels[places])

        each_length(net, groups, at_length, labels=labels.shape[1], progress=self.progress)
        return maps

    def _checked(self, method: Method, maps: Tensor, expected: tuple[int, ...], labels: Tensor) -> Tensor:
        name = method._title_name()
        maps = as_maps(maps, f"the method {name} must return maps")
        if tuple(maps.shape) != expected:
            raise InputError(f"the method {name} returned maps {tuple(maps.shape)}, expected {expected}")
        # a method may use its own tensor again
        maps = in_float32(private_copy(maps)).to(self.net.device)
        bad = ~maps.flatten(2).isfinite().all(dim=2)
        if bool(bad.any()):
            i, j = bad.nonzero()[0].tolist()
            raise InputError(
                f"the method {name} made a map with NaN or infinity for {self.inputs.singular} {i}, label {int(labels[i, j])} "
                f"({int(bad.sum())} of {counted(bad.numel(), 'map')})"
            )
        return maps

    @staticmethod
    def watch_at(watch: Watch | None, places: Sequence[int]) -> Watch | None:
        """The callback for a part of the images: image k of the part is passed on as image ``places[k]``."""
        return None if watch is None else lambda image, *rest: watch(places[image], *rest)


@contextmanager
def _note_errors(what: str) -> Iterator[None]:
    """Add the note ``what`` to exceptions that are raised inside the block, also by ``sys.exit()``, except errors of Proofmap."""
    try:
        yield
    except ProofmapError:
        raise
    except (Exception, SystemExit) as error:
        error.add_note(what)
        raise


def _hashable(key: Hashable) -> Hashable:
    """The key, in which parts of a tuple that cannot be hashed, such as an object with a list in it, are replaced by their identity."""
    try:
        hash(key)
    except TypeError:
        return tuple(map(_hashable, key)) if isinstance(key, tuple) else id(key)
    return key
