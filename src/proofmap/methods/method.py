"""The two classes of a method: its settings (:class:`Method`), and the method prepared for one net (:class:`ReadyMethod`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import outside_inference_mode, steady_kernels
from proofmap.classifier.together import apart, each_length
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, TextInputs
from proofmap.core.labels import NO_LABEL, Labels, check_labels
from proofmap.core.progress import Progress, Silent
from proofmap.core.ranking import as_maps, in_float32
from proofmap.core.registry import Registry
from proofmap.core.tensors import private_copy
from proofmap.core.text import counted
from proofmap.fills import Fill, Pools
from proofmap.plugins.failures import check_call, note_errors
from proofmap.plugins.settings import Plugin, Ready, settings_class
from proofmap.plugins.specs import make_plugin

Need = Literal["gradients", "layer", "attention", "distractors", "masker", "neighbours", "order"]
"""What a method may need from the net, from the study, or from the kind of input (:data:`INPUT_NEEDS`)."""
INPUT_NEEDS: Mapping[Need, tuple[Callable[[Inputs], bool], str]] = {
    "neighbours": (lambda inputs: inputs.has_neighbours, "have no neighbours"),
    "order": (lambda inputs: inputs.has_order, "come in no order"),
}
"""For each need that concerns the kind of input: a function that says whether the inputs meet the need, and the words of the error if they do
not.
"""
Family = Literal[
    "gradients",
    "cam",
    "perturbation",
    "mask",
    "masker",
    "propagation",
    "attention",
    "control",
    "adapter",
    "other",
]
_FROM_OUTSIDE: tuple[Family, ...] = ("gradients", "mask", "perturbation", "control")


@dataclass(frozen=True)
class Cost:
    """Number of passes of the net: ``forward`` passes only, and passes with an input ``gradient``.

    >>> Cost(forward=2) + Cost(gradient=3)
    Cost(forward=2, gradient=3)
    """

    forward: int = 0
    gradient: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.forward + other.forward, self.gradient + other.gradient)

    def __mul__(self, times: int) -> Cost:
        return Cost(self.forward * times, self.gradient * times)

    @property
    def passes(self) -> int:
        return self.forward + self.gradient


@dataclass(frozen=True, kw_only=True)
class Method(Plugin):
    """The settings of a method: (classifier, images, labels) -> one heat map per label, where larger values are more salient.

    A subclass declares its settings and implements :meth:`compute`. ``METHODS.register`` makes it a frozen, keyword-only dataclass. Some
    methods must first find or build something for a net, such as a layer or a set of random images. They return it from :meth:`state_for`,
    and implement :meth:`make_maps`, which can read this state, instead of :meth:`compute`. A method states five facts: its ``family``,
    ``label_free`` (one map serves all labels of an image), ``stochastic`` (the seed matters), ``signed`` (values below zero are evidence
    against the label) and ``needs``.
    """

    noun = "method"
    family: ClassVar[Family] = "other"
    signed = False
    label_free = False
    stochastic = False
    needs: ClassVar[frozenset[Need]] = frozenset()

    @property
    def looks_inside(self) -> bool:
        """Whether the method may use more of the net than outputs and input gradients. This is False only for families that use nothing
        else, and there only for methods that need no layer, attention or masker.
        """
        return self.family not in _FROM_OUTSIDE or not self.needs.isdisjoint(("layer", "attention", "masker"))

    def __post_init__(self) -> None:
        super().__post_init__()
        for member in self._members():
            if isinstance(member, Fill) and member.reads_mask:
                raise InputError(
                    f"the fill {member.name} depends on which positions are shown, so only metrics and games can use it; "
                    f"give {self.name} another fill"
                )

    @classmethod
    def make(cls, spec: Any) -> Method:
        return make_method(spec)

    def __call__(
        self,
        classifier: Classifier,
        images: Tensor,
        labels: Labels,
        *,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Tensor:
        """Prepare the method for the classifier, and return maps ``(N, L, *positions)`` for labels ``(N, L)``. Labels may also be given in any
        other form that :func:`proofmap.evaluate` takes. If the method needs random images and its settings name none, each image uses the
        other images.
        """
        from proofmap.data.distractors import from_images

        with outside_inference_mode():  # what is found and built there is of no use to gradients
            images = images.clone() if images.is_inference() else images
            pools = Pools(lambda: from_images(classifier.check_images(images), classifier.inputs))
            if not (isinstance(labels, Tensor) and labels.ndim == 2):
                labels = classifier.choose_labels(images, labels, seed=seed)
            return pools.bind(self).prepare(classifier)(images, labels, seed=seed, progress=progress)

    def prepare(self, classifier: Classifier) -> ReadyMethod:
        """Return the method prepared for this net: everything that its maps and its record depend on has been found or built."""
        self.check_needs(classifier)
        return ReadyMethod(self, classifier, self.state_for(classifier))

    def check_needs(self, classifier: Classifier) -> None:
        """Raise if the method needs gradients and the net has none, or if the method has no meaning for this kind of input."""
        inputs = classifier.inputs
        for need, (is_there, reason) in INPUT_NEEDS.items():
            if need in self.needs and not is_there(inputs):
                raise InputError(
                    f"{self.title()} has no meaning for {inputs.noun}: their {inputs.position_noun} {reason}; use another method"
                )
        if "gradients" in self.needs and not classifier.differentiable:
            known = [name for name in sorted(METHODS) if METHODS[name].family == "perturbation"]
            raise InputError(
                f"the method {self.title()} needs gradients, and {classifier.name} has none. Methods that need none: {', '.join(known)}"
            )

    def state_for(self, classifier: Classifier) -> Any:
        """Return the state that the method needs for a net before its first map, or None. Raise if the method cannot explain the net."""
        return None

    def compute(
        self, classifier: Classifier, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        """Return maps ``(N, L, *positions)`` for checked input. The map of a label -1 (padding) may hold any finite values.

        For a label-free method, ``labels`` is ``(N, 1)`` and the maps are ``(N, 1, *positions)``.
        """
        raise InputError(f"the class {type(self).__name__} defines neither compute() nor make_maps()")

    def make_maps(
        self, ready: ReadyMethod, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        """Like :meth:`compute`, for a method with a state: ``ready.state`` is the result of :meth:`state_for` for ``ready.classifier``."""
        given = (ready.classifier, images, labels)
        form = "compute(self, classifier, images, labels, *, seed, progress)"
        check_call(self.compute, type(self).__name__, form, *given, seed=seed, progress=progress)
        return self.compute(*given, seed=seed, progress=progress)

    def record(self, ready: ReadyMethod) -> dict[str, object]:
        """Plain data for the record of results: the settings, and what was found or built for the net."""
        return self.settings()

    def cost(self, labels: int) -> Cost | None:
        """Number of passes of the net for one image with this number of labels, for the plan of a study; None if unknown."""
        return None

    def cost_on(self, ready: ReadyMethod, labels: int) -> Cost | None:
        """Like :meth:`cost`, for a method whose cost depends on the net."""
        return self.cost(labels)


@dataclass(frozen=True, eq=False)
class ReadyMethod(Ready):
    """A method prepared for one net; call it with images and labels to get maps. Its record contains everything that its maps depend on.

    ``state`` is what :meth:`Method.state_for` returned. Everything else is delegated to the method.
    """

    method: Method
    classifier: Classifier
    state: Any = None
    _net_state: object = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_net_state", self.classifier.state())

    @property
    def plugin(self) -> Method:
        return self.method

    @property
    def label_free(self) -> bool:
        return self.method.label_free

    @property
    def stochastic(self) -> bool:
        return self.method.stochastic

    @property
    def signed(self) -> bool:
        return self.method.signed

    def record(self) -> dict[str, object]:
        return self.method.record(self)

    def cost(self, labels: int) -> Cost | None:
        return self.method.cost_on(self, labels)

    def __call__(
        self, images: Tensor, labels: Tensor, *, seed: int = 0, progress: Progress | None = None
    ) -> Tensor:
        """Maps ``(N, L, *positions)`` float32 on the classifier's device for labels ``(N, L)``.

        The map of a label -1 (padding) is zero. The same inputs and seed give the same maps up to rounding, for every batch size
        and order. If the net has been trained further, the method is prepared again.
        """
        with outside_inference_mode():  # gradients cannot be had inside of it
            fresh = self._net_state == self.classifier.state()
            ready = self if fresh else self.method.prepare(self.classifier)
            groups = self.classifier.inputs.by_length(images)
            if groups:
                return ready._maps_by_length(groups, images, labels, seed, progress)
            return ready._maps(images, labels, seed, progress)

    def at_length(self, n: int) -> ReadyMethod:
        """The method prepared for inputs of exactly ``n`` positions, for kinds of input that vary in length."""
        return self.method.prepare(self.classifier.at_length(n))

    def _maps_by_length(
        self,
        groups: list[tuple[int, Tensor]],
        images: Tensor,
        labels: Tensor,
        seed: int,
        progress: Progress | None,
    ) -> Tensor:
        """Maps of inputs with different numbers of positions. Each map is made at the length of its input, and is zero at the positions that
        the input lacks.
        """
        classifier = self.classifier
        images, labels = classifier.check_images(images), labels.to(classifier.device)
        maps = torch.zeros(*labels.shape, *classifier.inputs.positions, device=classifier.device)
        near = {n: self.at_length(n) for n, _ in groups}

        def at_length(n: int, places: Tensor, progress: Progress) -> None:
            some = classifier.inputs.cut(images[places], n)
            maps[places, :, :n] = near[n](some, labels[places], seed=seed, progress=progress)

        each_length(classifier, groups, at_length, labels=labels.shape[1], progress=progress)
        return maps

    def _maps(self, images: Tensor, labels: Tensor, seed: int, progress: Progress | None) -> Tensor:
        classifier = self.classifier
        images = classifier.check_images(images)
        labels = check_labels(
            labels.to(classifier.device),
            len(images),
            len(classifier.names),
            classifier.label_set,
            classifier.inputs.singular,
        )
        computed = labels[:, :1] if self.label_free else labels
        with (
            note_errors(f"while the method {self.method.title()} made maps"),
            apart(self.method.looks_inside),
            steady_kernels(tf32=False),  # a method that can do with less, such as learning, says so itself
        ):
            # copies, since a method may write into what it is given, and others read the images and labels after it
            maps = self.compute(
                private_copy(images), private_copy(computed), seed=seed, progress=progress or Silent()
            )
        return self.spread(maps, labels)

    def compute(self, images: Tensor, labels: Tensor, *, seed: int, progress: Progress) -> Tensor:
        """The maps as the method returns them, unchecked."""
        return self.method.make_maps(self, images, labels, seed=seed, progress=progress)

    def in_batches(
        self,
        one_batch: Callable[[Tensor, Tensor], Tensor],
        images: Tensor,
        labels: Tensor,
        progress: Progress,
        *,
        per_image: int | None = None,
        gradients: bool = True,
    ) -> Tensor:
        """The concatenated results of ``one_batch(images, labels)`` over batches that fit the device; for use in :meth:`Method.make_maps`.

        The progress counts ``per_image`` steps for each image; by default, one step for each label.
        """
        steps = labels.shape[1] if per_image is None else per_image
        with progress.task(self.method.name, len(images) * steps) as task:

            def run(start: int, stop: int) -> Tensor:
                maps = one_batch(images[start:stop], labels[start:stop])
                task.advance((stop - start) * steps)
                return maps

            return torch.cat(in_batches(run, len(images), self.classifier.batches[1 if gradients else 0]))

    def spread(self, maps: Tensor, labels: Tensor) -> Tensor:
        """Check computed maps and expand them to labels ``(N, L)``, because a label-free method computes one map for all labels."""
        computed = labels[:, :1] if self.label_free else labels
        maps = self._checked(maps, (*computed.shape, *self.classifier.inputs.positions), computed)
        maps = maps.expand(*labels.shape, *maps.shape[2:])
        if bool((labels == NO_LABEL).any()):
            empty = (labels == NO_LABEL).view(*labels.shape, *[1] * len(self.classifier.inputs.positions))
            maps = maps.masked_fill(empty, 0.0)
        return maps

    def _checked(self, maps: Tensor, expected: tuple[int, ...], labels: Tensor) -> Tensor:
        name = self.method._title_name()
        maps = as_maps(maps, f"the method {name} must return maps")
        if tuple(maps.shape) != expected:
            raise InputError(f"the method {name} returned maps {tuple(maps.shape)}, expected {expected}")
        # a method may use its own tensor again
        maps = in_float32(private_copy(maps)).to(self.classifier.device)
        bad = ~maps.flatten(2).isfinite().all(dim=2)
        if bool(bad.any()):
            i, j = bad.nonzero()[0].tolist()
            raise InputError(
                f"the method {name} made a map with NaN or infinity for {self.classifier.inputs.singular} {i}, label {int(labels[i, j])} "
                f"({int(bad.sum())} of {counted(bad.numel(), 'map')})"
            )
        return maps

    @property
    def source(self) -> ReadyMethod | None:
        """The method whose maps this method changes; None if there is none. If both methods are judged, the maps are made only once."""
        return None

    def cost_from_source(self) -> Cost:
        """Number of passes for one image if the maps of :attr:`source` exist already."""
        return Cost()


class PlannedMethod(ReadyMethod):
    """A method that is not prepared yet, for the plan of a study. Its cost is the one that its settings give without a net."""

    def cost(self, labels: int) -> Cost | None:
        return self.method.cost(labels)


METHODS: Registry[Method] = Registry("method", "proofmap.methods", prepare=settings_class)
"""The registered methods, by name."""

MapFunction = Callable[[Classifier, Tensor, Tensor], Any]
MethodLike = str | Method | MapFunction
"""A method, its spec (name and settings as text), or a function ``(classifier, images, labels) -> maps``."""


_MOST_SEARCHED = 500
"""The most positions for which belief-order is a default: it makes up to 10 passes for each position and label."""


def default_method(classifier: Classifier) -> str:
    """The name of the default method of :func:`proofmap.explain`: ``belief-order``, a direct search for an order of the positions, if they have
    one axis (words, columns, segments) and are at most 500, except words, or if the model has no gradients; otherwise ``belief-mask``.
    """
    inputs = classifier.inputs
    listed = len(inputs.positions) == 1 and inputs.count <= _MOST_SEARCHED
    if isinstance(inputs, TextInputs) or listed or not classifier.differentiable:
        return "belief-order"
    return "belief-mask"


ADOPTED: list[Callable[[Any], Method | None]] = []
"""Functions that make methods from functions and from objects of other libraries. Each returns None for an object that it does not know."""


def adopt(thing: Any) -> Method | None:
    """A method from a function or from an object of another library; None for anything else."""
    return next((method for make in ADOPTED if (method := make(thing)) is not None), None)


def make_method(spec: Any) -> Method:
    """Return a method from its spec (:mod:`proofmap.plugins.specs`), a table, an instance, a function, or an object of Captum,
    pytorch-grad-cam or torch-cam.

    In a spec, ``preset=NAME`` starts from a preset; ``top-label:METHOD`` wraps another method; ``captum:CLASS`` is a method of another
    library (:mod:`proofmap.methods.adapters`); ``FILE.py:NAME`` is a function or a class of yours, in a file.

    >>> from proofmap.methods import make_method
    >>> make_method("random:seed_offset=3")
    Random(per_label=False, seed_offset=3)
    """
    return make_plugin(METHODS, Method, spec, adopt=adopt)
