"""Captum's attributions by the name of their class: ``captum:IntegratedGradients(n_steps=20)``. For texts, attributions of tokens become
maps of words."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.classifier.token_nets import TokenNet
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, TextInputs, Tokens
from proofmap.core.ranking import as_maps
from proofmap.fills.fill import rounded
from proofmap.fills.text import TextFill
from proofmap.methods.adapters.library import Call, LibraryMethod
from proofmap.methods.gradients.plain import CHANNELS_HELP, Channels
from proofmap.methods.method import METHODS
from proofmap.methods.probe import module_of, watch_outputs
from proofmap.plugins.settings import setting
from proofmap.session import Session


def _first_token_layer(classifier: Classifier) -> str:
    """The name of the first module, in order of execution, that returns a vector for each token: the embeddings."""
    TokenNet.check_one_pass(classifier)
    net, found = module_of(classifier, "the layer of the embeddings"), list[str]()
    text = classifier.inputs.probe().to(classifier.device)
    count = _tokens_read(classifier, text)

    def see(name: str, output: Any) -> None:
        if isinstance(output, Tensor) and output.ndim == 3 and output.shape[:2] == (1, count):
            found.append(name)

    with torch.no_grad(), watch_outputs(net, [name for name, _ in net.named_modules() if name], see):
        classifier(text)
    if not found:
        raise InputError(
            f"no layer of {classifier.name} gives a vector for each token; name a layer with layer=, or use a method without layers"
        )
    return found[0]


def _of_token_layer(found: Any, texts: Tensor, classifier: Classifier, channels: str) -> Any:
    """Attributions ``(N, T, d)`` of the tokens that the net reads, as maps ``(N, n)`` of words. Other attributions are returned unchanged."""
    values = found[0] if isinstance(found, (tuple, list)) else found
    inputs = classifier.inputs
    if not isinstance(values, Tensor) or values.ndim != 3 or tuple(values.shape[1:]) == inputs.shape:
        return found
    if values.shape[1] != _tokens_read(classifier, texts):
        raise InputError(
            f"the layer gives {tuple(values.shape[1:])} for each text, not a vector for each of its tokens; name another layer with layer="
        )
    one = values.amax(dim=2) if channels == "max" else values.sum(dim=2)
    one = one / values.shape[2] if channels == "mean" else one
    return TokenNet.of_words(one.detach()[:, None].float(), texts, classifier)[:, 0]


def _tokens_read(classifier: Classifier, texts: Tensor) -> int:
    """The number of tokens that the net reads for the longest text, special tokens included."""
    net: Any = classifier.net
    assert isinstance(classifier.inputs, Tokens)
    there = int(classifier.inputs.token_numbers(texts)[1].sum(dim=1).max())
    return there + len(net.before) + len(net.after)


_GIVEN = ("inputs", "target")
_TWO_BASELINES = ("DeepLiftShap", "LayerDeepLiftShap", "NeuronDeepLiftShap")
_OTHER = ("LLM", "DataLoader", "Remote")
_AROUND = "attribution_method"
_BASELINES, _FEATURES = "baselines", "feature_mask"
_GRAY = "gray"
"""The name of the default baselines: inputs that normalise to zero; for texts, each text with every word hidden."""
_OWN = "each text with every word hidden"


@METHODS.register
class Captum(LibraryMethod):
    """Any attribution of Captum, called as ``CLASS(classifier.as_module(), ...).attribute(images, target=label, ...)``.

    The default baseline, for classes that take one, is the input that normalises to zero, as in Proofmap's own methods: gray for
    pictures, the mean for rows and series, and the text with every word hidden for tokens. Baselines that you pass are in the
    classifier's units: 0 is a black picture, ``gray`` is the default, and ``none`` uses Captum's own default. ``channels`` merges
    the channels of a position. Attributions of layers are enlarged bilinearly; those of the tokens of a text are summed over each
    word. A class that wraps another class gets that class by name, as in ``NoiseTunnel(attribution_method=Saliency,nt_samples=8)``.
    """

    name = "captum"
    description = "any attribution of Captum, such as captum:IntegratedGradients"
    reference = "Kokhlikyan et al. 2020"
    revision = 2
    package = "captum"
    root = "captum"
    place = "captum.attr"
    called = "attribute"
    extra = "captum"
    example = "IntegratedGradients(n_steps=20)"
    random_classes = frozenset(
        (
            "GradientShap",
            "KernelShap",
            "LayerGradientShap",
            "Lime",
            "LimeBase",
            "NeuronGradientShap",
            "NoiseTunnel",
            "ShapleyValueSampling",
        )
    )

    channels: Channels = setting("sum", CHANNELS_HELP)

    @property
    def _inner(self) -> Call:
        """The class that computes attributions: the wrapped one if the named class is a wrapper such as NoiseTunnel, otherwise the
        named class."""
        return Call.read(str(self.call.options.get(_AROUND, self.call.name)))

    @property
    def signed(self) -> bool:  # type: ignore[override]
        return self.has_signs(self._inner.name, {**self._inner.options, **self.call.options})

    @classmethod
    def has_signs(cls, name: str, options: Mapping[str, Any]) -> bool:
        return name != "Saliency" or options.get("abs", True) is False

    @classmethod
    def ignores_labels(cls, kind: Any) -> bool:
        return not {"target", "**"} & {*LibraryMethod.parameters(kind.attribute)}

    @classmethod
    def serves(cls, kind: Any) -> bool:
        made = not inspect.isabstract(kind) and callable(getattr(kind, "attribute", None))
        return made and not kind.__name__.startswith(_OTHER)

    def check(self) -> None:
        call = self.call
        if call.name.endswith("FeaturePermutation"):
            raise InputError(
                f"captum's {call.name} exchanges pixels between the images of a batch, so a map depends on the other "
                f"images; use captum:{call.name.replace('Permutation', 'Ablation')}"
            )
        kind = self.class_named(call.name)
        first, made = _made_with(kind)
        called = LibraryMethod.parameters(kind.attribute, *_GIVEN)
        known = {**made, **called, **(dict.fromkeys(call.options, False) if "**" in called else {})}
        known |= {name: False for name in ("layer", _BASELINES) if name in known}  # these are found
        self.check_options({_AROUND: True, **known} if first == _AROUND else known)
        if first == _AROUND:
            self.class_named(Call.read(str(call.options[first])).name)

    def hides_words(self, inputs: Inputs) -> bool:
        """Whether the class hides whole words: true if it hides features and the inputs are texts."""
        kind = self.class_named(self.call.name)
        return isinstance(inputs, TextInputs) and _FEATURES in LibraryMethod.parameters(kind.attribute)

    def takes_layer(self) -> bool:
        return "layer" in _made_with(self.class_named(self.call.name))[1]

    def found_layer(self, classifier: Classifier) -> str:
        if isinstance(classifier.inputs, Tokens):
            return _first_token_layer(classifier)
        return super().found_layer(classifier)

    @classmethod
    def attributing(cls, made: Any, options: Mapping[str, Any]) -> Callable[[Tensor, Tensor], Any]:
        aimed = not cls.ignores_labels(type(made))
        return lambda x, a: made.attribute(x, **({"target": a} if aimed else {}), **options)

    @contextmanager
    def opened(
        self, classifier: Classifier, module: nn.Module, layers: list[nn.Module]
    ) -> Iterator[Callable[[Tensor, Tensor], Any]]:
        made, options = self._made(self.call, classifier, module, layers)
        inputs, by_words = classifier.inputs, self.hides_words(classifier.inputs)

        def attribute(images: Tensor, labels: Tensor) -> Any:
            given = dict(options)
            if given.get(_BASELINES) is _OWN:
                x = images.detach()
                given[_BASELINES] = inputs.blank_like(x) if by_words else TextFill.path_start(inputs, x)
            if by_words:  # for each value of a text, the index of its word
                words = inputs.over_channels(torch.arange(inputs.count)).expand(1, *inputs.shape).long()
                given[_FEATURES] = words.to(images.device)
            found = self.attributing(made, given)(images, labels)
            if isinstance(inputs, Tokens):
                return _of_token_layer(found, images.detach(), classifier, self.channels)
            return found

        yield attribute

    def _made(
        self, call: Call, classifier: Classifier, module: Any, layers: list[nn.Module]
    ) -> tuple[Any, dict[str, Any]]:
        """An object of Captum's class, and the remaining options for its ``attribute``."""
        kind, options = self.class_named(call.name), call.options
        first, made = _made_with(kind)
        around, inner = module, dict[str, Any]()
        if first == _AROUND:
            around, inner = self._made(Call.read(str(options.pop(first))), classifier, module, layers)
        if _BASELINES in options or _takes_baselines(kind):
            options[_BASELINES] = _baselines(call.name, options.get(_BASELINES, _GRAY), classifier)
        given = {name: options.pop(name) for name in made if name in options}
        if "layer" in made:
            given["layer"] = layers[0]
        return kind(around, **given), {**inner, **options}

    def record(self, session: Session) -> dict[str, object]:
        """The settings, and the default baseline if the class takes one and none is given."""
        inner = self._inner
        if _BASELINES in self.call.options or _BASELINES in inner.options:
            return super().record(session)
        _, baseline = self.baseline(self.class_named(inner.name), session.net)
        return {**super().record(session), **({} if baseline is None else {_BASELINES: baseline})}

    @classmethod
    def baseline(cls, kind: Any, classifier: Classifier) -> tuple[Any, object]:
        if not _takes_baselines(kind):
            return None, None
        tokens = isinstance(classifier.inputs, Tokens)
        return _baselines(kind.__name__, _GRAY, classifier), _OWN if tokens else rounded(
            classifier.inputs.neutral
        )

    def merged(self, found: Any, classifier: Classifier) -> Tensor:
        # every value of a word has the attribution of the word
        channels = "mean" if self.hides_words(classifier.inputs) else self.channels
        return self.merge(found, classifier, channels, self.title())

    @classmethod
    def merge(cls, found: Any, classifier: Classifier, channels: str, title: str) -> Tensor:
        """An attribution ``(n, C, *grid)`` merged into maps ``(n, *grid)``. An attribution of every input value is merged into maps of
        positions, such as segments. If ``found`` is a tuple, which may also hold convergence errors, its first entry is used.
        """
        one = found[0] if isinstance(found, (tuple, list)) else found
        values = as_maps(one, f"{title} must return maps")
        inputs = classifier.inputs
        if tuple(values.shape[1:]) == inputs.shape:
            return inputs.merged_channels(values, channels)
        if inputs.channel_axis is None or values.ndim != 2 + len(inputs.positions):
            return values
        return _over_axis(values, 1, channels)


def _over_axis(values: Tensor, axis: int, channels: str) -> Tensor:
    if channels == "max":
        return values.amax(dim=axis)
    return values.sum(dim=axis) if channels == "sum" else values.mean(dim=axis)


def _takes_baselines(kind: Any) -> bool:
    """Whether the attributions of the class are relative to a baseline input."""
    return _BASELINES in LibraryMethod.parameters(kind.attribute)


def _made_with(kind: Any) -> tuple[str, dict[str, bool]]:
    """The constructor's first parameter (a model, or another attribution), and its other options."""
    first, *_ = LibraryMethod.parameters(kind.__init__)
    return first, LibraryMethod.parameters(kind.__init__, first)


def _baselines(name: str, given: object, classifier: Classifier) -> Tensor | str | None:
    """Baselines ``(1, *shape)`` for the class ``name``, or ``(2, *shape)`` if the class needs two. ``given`` is their colour: one
    number for all channels, one number per channel, or ``gray``. If it is None, Captum's default is used.
    """
    if given is None:
        return None
    rows = 2 if name in _TWO_BASELINES else 1
    if isinstance(classifier.inputs, Tokens):
        if given != _GRAY:
            raise InputError(
                f"baselines of a text are the text with every word hidden; leave baselines out of captum's {name}"
            )
        return _OWN
    if given == _GRAY:
        return classifier.blank(rows)
    values = torch.as_tensor(given, dtype=torch.float32, device=classifier.device).reshape(-1)
    colours = classifier.inputs.per_channel(values.expand(classifier.inputs.channels))
    return colours.expand(rows, *classifier.inputs.shape)
