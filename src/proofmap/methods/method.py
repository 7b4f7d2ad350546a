"""What a method is: its settings, the facts that it states, and how it makes maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import outside_inference_mode
from proofmap.classifier.raw import as_classifier
from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.inputs import Inputs, TextInputs
from proofmap.core.labels import Labels
from proofmap.core.progress import Progress
from proofmap.core.registry import Registry
from proofmap.data.given import images_as_tensor
from proofmap.fills import Fill, Images
from proofmap.plugins.failures import check_call
from proofmap.plugins.settings import Plugin, settings_of
from proofmap.plugins.specs import make_plugin
from proofmap.session import Session

_NEEDS = ("gradients", "layer", "attention", "distractors", "masker", "neighbours", "order")
_FROM_OUTSIDE = ("gradients", "mask", "perturbation", "control")
_WRAPPED = "random"  # costs nothing, so the cost of a wrapper around it is that of the wrapper


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


class Method(Plugin):
    """The settings of a method, and how it makes maps: one heat map per label, where larger values are more salient.

    A subclass declares its settings and implements :meth:`maps`. ``METHODS.register`` makes it a frozen, keyword-only dataclass. What a
    method finds or builds for a net, such as a layer, is kept by ``session.memo``. A method states five facts: its ``family``,
    ``label_free`` (one map serves all labels of an image), ``stochastic`` (the seed matters), ``signed`` (values below zero are evidence
    against the label) and ``needs``.
    """

    noun = "method"
    FAMILIES: ClassVar[Mapping[str, str]] = {
        "gradients": "Gradients",
        "cam": "Class activation maps",
        "perturbation": "Perturbation",
        "mask": "Optimised masks",
        "masker": "Trained maskers",
        "propagation": "Propagation",
        "attention": "Attention",
        "control": "Controls",
        "adapter": "Other libraries",
        "other": "Other",
    }
    """The families of methods and their titles, in the order in which lists show them."""
    family: ClassVar[str] = "other"
    signed = False
    label_free = False
    stochastic = False
    needs: ClassVar[frozenset[str]] = frozenset()
    """What it needs of the net, the study or the inputs."""
    fills_behind: ClassVar[bool] = False
    """Whether it tells its fill which positions are shown, so that the fill may depend on them."""
    reads_all_labels: ClassVar[bool] = False
    """Whether :meth:`maps` of a label-free method gets all labels ``(N, L)`` instead of the first of each image."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        needs: object = cls.needs
        if not isinstance(needs, property) and (isinstance(needs, str) or not {*cls.needs} <= {*_NEEDS}):
            raise InputError(
                f"needs of the class {cls.__name__} must be a frozenset of some of {', '.join(_NEEDS)}, not {needs!r}"
            )
        if isinstance(cls.family, str) and cls.family not in cls.FAMILIES:
            raise InputError(
                f"family of the class {cls.__name__} must be one of {', '.join(cls.FAMILIES)}, not {cls.family!r}"
            )

    @property
    def looks_inside(self) -> bool:
        """Whether the method may use more of the net than outputs and input gradients. This is False only for families that use nothing
        else, and there only for methods that need no layer, attention or masker.
        """
        return self.family not in _FROM_OUTSIDE or not self.needs.isdisjoint(("layer", "attention", "masker"))

    def __post_init__(self) -> None:
        super().__post_init__()
        form = "maps(self, session, images, labels)"
        check_call(self.maps, type(self).__name__, form, None, None, None)
        for member in self._members():
            if isinstance(member, Fill) and member.reads_mask and not self.fills_behind:
                raise InputError(
                    f"the fill {member.name} depends on which positions are shown, and this method does not say; "
                    f"give {self.name} another fill"
                )

    @classmethod
    def make(cls, spec: Any) -> Method:
        return make_method(spec)

    def __call__(
        self,
        net: Any,
        images: Any,
        labels: Labels | None = None,
        *,
        target: Labels | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Tensor:
        """Maps ``(N, L, *positions)`` of a classifier, or of any other net that :func:`proofmap.evaluate` takes, for labels ``(N, L)`` or in any other form
        that it takes; ``target`` is another name for them, and by default it is the top label. If the method needs random images and its settings
        name none, each image uses the other images.
        """
        from proofmap.data.distractors import Distractors

        with outside_inference_mode():  # what is found and built there is of no use to gradients
            classifier = as_classifier(net, images)
            images = images_as_tensor(images, classifier.inputs)
            labels = target if labels is None else labels
            labels = "top1" if labels is None else labels
            if not (isinstance(labels, Tensor) and labels.ndim == 2):
                labels = classifier.choose_labels(images, labels, seed=seed)

            def others() -> Any:
                return Distractors.from_images(classifier.check_images(images), classifier.inputs)

            session = Session(classifier, seed=seed, role="learn", distractors=others, progress=progress)
            return session.maps(self, images, labels)

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        """Return maps ``(N, L, *positions)`` for images ``(N, *shape)`` and labels ``(N, L)`` on the net's device. The map of a label -1
        (padding) may hold any finite values.

        For a label-free method, ``labels`` is ``(N, 1)`` and the maps are ``(N, 1, *positions)``.
        """
        raise InputError(f"the class {type(self).__name__} defines no maps()")

    def prepare(self, session: Session) -> None:
        """Called before the first map of a net: refuse what cannot be explained, and find or build what takes long."""
        net = session.net
        lacking = self.lacks(net.inputs)
        if lacking is not None:
            raise InputError(
                f"{self.title()} has no meaning for {net.inputs.noun}: their {net.inputs.position_noun} "
                f"{'come in no order' if lacking == 'order' else 'have no neighbours'}; use another method"
            )
        if "gradients" in self.needs and not net.differentiable:
            known = [name for name in sorted(METHODS) if METHODS[name].family == "perturbation"]
            raise InputError(
                f"the method {self.title()} needs gradients, and {net.name} has none. Methods that need none: {', '.join(known)}"
            )
        for fill in self._fills().values():
            fill.prepare(session)

    def lacks(self, inputs: Inputs) -> str | None:
        """What the method needs and this kind of input does not have: ``neighbours`` or ``order``; None if nothing is lacking."""
        there = {"neighbours": inputs.has_neighbours, "order": inputs.has_order}
        return next((need for need in there if need in self.needs and not there[need]), None)

    def record(self, session: Session) -> dict[str, object]:
        """Plain data for the record of results: the settings, and what was found or built for the net."""
        return {**self.settings(), **{name: fill.record(session) for name, fill in self._fills().items()}}

    def _fills(self) -> dict[str, Fill]:
        values = {info.name: getattr(self, info.name) for info in settings_of(type(self))}
        return {name: value for name, value in values.items() if isinstance(value, Fill)}

    def cost(self, labels: int, session: Session | None = None) -> Cost | None:
        """Number of passes of the net for one image with this number of labels; None if unknown. Without a session, as far as the settings
        tell.
        """
        return None

    def random_images(self, session: Session, images: Tensor, count: int = 1) -> Tensor:
        """``count`` random images for each of the images, ``(N, count, *shape)``, for use in :meth:`maps`: from the half of the study's images that
        no metric draws from. They depend on the image, the method and the seed alone.
        """
        fill = Images()
        session.prepare(fill)
        keys = [streams.image_keys(images, session.seed, self.name, "random image", k) for k in range(count)]
        return torch.stack([fill(session, images, own) for own in keys], dim=1)

    def check_labels_used(self, session: Session, images: Tensor, labels: Tensor) -> None:
        """Raise if the maps do not depend on the labels although they should; checked only for functions of users."""

    @property
    def source(self) -> Method | None:
        """The method whose maps this method changes; None if there is none. If both methods are judged, the maps are made only once."""
        return None

    @classmethod
    def facts(cls) -> dict[str, Any]:
        """Facts about the method with its default settings, as plain data. A fact is None if it depends on a setting without a default.

        ``passes`` is the number of passes of the net for an image with L labels, ``fixed + per_label * L``; None if it is not of this form.
        A wrapper (``wraps``) adds the passes of the METHOD that it wraps, and has its needs.
        """
        inner = [
            info.name for info in settings_of(cls) if info.default is MISSING and info.plugin is not None
        ]
        try:
            method: Method | None = cls.build(dict.fromkeys(inner, _WRAPPED))
        except ProofmapError:
            method = None

        def stated(fact: str) -> bool | None:
            of_class = getattr(cls, fact)
            if isinstance(of_class, bool):
                return of_class
            return None if method is None or inner else bool(getattr(method, fact))

        needs: object = cls.needs
        return {
            "name": cls.name,
            "description": cls.description,
            "family": cls.family,
            "passes": None if method is None else _passes(method, wraps=bool(inner)),
            **{fact: stated(fact) for fact in ("label_free", "signed", "stochastic")},
            "needs": sorted(needs) if isinstance(needs, frozenset) else [],
            "reference": cls.reference,
        }

    @staticmethod
    def passes_text(passes: Mapping[str, Any] | None) -> str | None:
        """The passes of :meth:`facts` in words; None if they are not known.

        >>> Method.passes_text({"fixed": 8, "per_label": 2, "wraps": False})
        '8 + 2 per label'
        >>> Method.passes_text({"fixed": 1, "per_label": 0, "wraps": True})
        "METHOD's + 1"
        """
        if passes is None:
            return None
        parts = ["METHOD's"] if passes["wraps"] else []
        parts += [f"{passes['fixed']:,g}"] if passes["fixed"] else []
        parts += [f"{passes['per_label']:,g} per label"] if passes["per_label"] else []
        only_fixed = parts and not passes["wraps"] and not passes["per_label"]
        return " + ".join(parts) + (" per image" if only_fixed else "") or "none"

    @property
    def own_cost(self) -> Cost | None:
        """The passes for one image if the maps of :attr:`source` exist already; None if there is no source."""
        return None

    def in_batches(
        self,
        session: Session,
        one_batch: Callable[[Tensor, Tensor], Tensor],
        images: Tensor,
        labels: Tensor,
        *,
        per_image: int | None = None,
        gradients: bool = True,
    ) -> Tensor:
        """The concatenated results of ``one_batch(images, labels)`` over batches that fit the device; for use in :meth:`maps`.

        The progress counts ``per_image`` steps for each image; by default, one step for each label.
        """
        steps = labels.shape[1] if per_image is None else per_image
        with session.progress.task(self.name, len(images) * steps) as task:

            def run(start: int, stop: int) -> Tensor:
                maps = one_batch(images[start:stop], labels[start:stop])
                task.advance((stop - start) * steps)
                return maps

            return torch.cat(in_batches(run, len(images), session.net.batches[1 if gradients else 0]))


METHODS: Registry[Method] = Registry("method", "proofmap.methods")
"""The registered methods, by name."""

MethodLike = str | Method | Callable[[Classifier, Tensor, Tensor], Any]
"""A method, its spec (name and settings as text), or a function ``(classifier, images, labels) -> maps``."""


def _passes(method: Method, *, wraps: bool) -> dict[str, Any] | None:
    costs = [method.cost(labels) for labels in (1, 6, 11)]
    first, middle, last = (0 if cost is None else cost.passes for cost in costs)
    slope = (last - first) / 10
    if None in costs or abs(first + 5 * slope - middle) > 1e-9:
        return None
    return {"fixed": first - slope, "per_label": slope, "wraps": wraps}


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


def make_method(spec: Any) -> Method:
    """Return a method from its spec (:mod:`proofmap.plugins.specs`), a table, an instance, a function, or an object of Captum
    or pytorch-grad-cam.

    In a spec, ``preset=NAME`` starts from a preset; ``top-label:METHOD`` wraps another method; ``captum:CLASS`` is a method of another
    library (:mod:`proofmap.methods.adapters`); ``FILE.py:NAME`` is a function or a class of yours, in a file.

    >>> from proofmap.methods import make_method
    >>> make_method("random:seed_offset=3")
    Random(per_label=False, seed_offset=3)
    """

    def adopt(thing: Any) -> Method | None:
        return next((method for make in ADOPTED if (method := make(thing)) is not None), None)

    return make_plugin(METHODS, Method, spec, adopt=adopt)
