"""Captum's attributions by the name of their class: ``captum:IntegratedGradients(n_steps=20)``. For texts, attributions of tokens become
maps of words."""

from __future__ import annotations

import inspect
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, TextInputs, Tokens
from proofmap.fills.fill import rounded
from proofmap.methods.adapters.library import Attribute, Call, LibraryMethod, LibraryNet, Parameters
from proofmap.methods.attention import check_one_pass, of_words
from proofmap.methods.from_function import returned_maps
from proofmap.methods.gradients.plain import Channels
from proofmap.methods.method import METHODS
from proofmap.methods.probe import module_of, watch_outputs
from proofmap.plugins.settings import setting
from proofmap.session import Session


def first_token_layer(classifier: Classifier) -> str:
    """The name of the first module, in order of execution, that returns a vector for each token: the embeddings."""
    check_one_pass(classifier)
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


def of_token_layer(found: Any, texts: Tensor, classifier: Classifier, channels: str) -> Any:
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
    return of_words(one.detach()[:, None].float(), texts, classifier)[:, 0]


def _tokens_read(classifier: Classifier, texts: Tensor) -> int:
    """The number of tokens that the net reads for the longest text, special tokens included."""
    net: Any = classifier.net
    assert isinstance(classifier.inputs, Tokens)
    there = int(classifier.inputs.token_numbers(texts)[1].sum(dim=1).max())
    return there + len(net.before) + len(net.after)


RANDOM = frozenset(
    {
        "GradientShap",
        "KernelShap",
        "LayerGradientShap",
        "Lime",
        "LimeBase",
        "NeuronGradientShap",
        "NoiseTunnel",
        "ShapleyValueSampling",
    }
)
_GIVEN = ("inputs", "target")
_TWO_BASELINES = ("DeepLiftShap", "LayerDeepLiftShap", "NeuronDeepLiftShap")
_OTHER = ("LLM", "DataLoader", "Remote")
_AROUND = "attribution_method"
_BASELINES, _FEATURES = "baselines", "feature_mask"
GRAY = "gray"
"""The name of the default baselines: inputs that normalise to zero; for texts, each text with every word hidden."""
_OWN = "each text with every word hidden"
_PLAIN = (
    nn.ReLU6,
    nn.Hardtanh,
    nn.Hardswish,
    nn.Hardsigmoid,
    nn.GELU,
    nn.SiLU,
    nn.Mish,
    nn.SELU,
    nn.CELU,
    nn.PReLU,
    nn.LogSigmoid,
)
"""Activations for which no class of Captum has a rule: DeepLift and the classes in ``_RECTIFIERS`` use the plain gradient there,
without a warning.
"""
_BENT = (nn.ELU, nn.LeakyReLU, nn.Sigmoid, nn.Tanh, nn.Softplus)
"""Activations for which DeepLift has a rule, and the classes in ``_RECTIFIERS`` have none."""
_RECTIFIERS = ("Deconvolution", "GuidedBackprop", "GuidedGradCam")


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
    place = "captum.attr"
    extra = "captum"
    example = "IntegratedGradients(n_steps=20)"
    random_classes = RANDOM

    channels: Channels = setting("sum", "how the channels of a position become one value")

    @property
    def _inner(self) -> Call:
        """The class that computes attributions: the wrapped one if the named class is a wrapper such as NoiseTunnel, otherwise the
        named class."""
        return Call.read(str(self.call.options.get(_AROUND, self.call.name)))

    @property
    def signed(self) -> bool:  # type: ignore[override]
        inner = self._inner
        return has_signs(inner.name, {**inner.options, **self.call.options})

    @property
    def label_free(self) -> bool:  # type: ignore[override]
        return not takes_target(self.class_named(self.call.name))

    @classmethod
    def serves(cls, kind: Any) -> bool:
        made = not inspect.isabstract(kind) and callable(getattr(kind, "attribute", None))
        return made and not kind.__name__.startswith(_OTHER)

    def check(self, call: Call) -> None:
        if call.name.endswith("FeaturePermutation"):
            raise InputError(
                f"captum's {call.name} exchanges pixels between the images of a batch, so a map depends on the other "
                f"images; use captum:{call.name.replace('Permutation', 'Ablation')}"
            )
        first, made, called = _parameters(self.class_named(call.name))
        around = (first,) if first == _AROUND else ()
        known = (*around, *made.names, *called.names)
        found = ("layer", _BASELINES)
        lacking = (*around, *(name for name in (*made.required, *called.required) if name not in found))
        self.check_options(call, (*known, *call.options) if called.any_other else known, lacking)
        if around:
            self.class_named(Call.read(str(call.options[first])).name)

    def hides_words(self, inputs: Inputs) -> bool:
        """Whether the class hides whole words: true if it hides features and the inputs are texts."""
        kind = self.class_named(self.call.name)
        return isinstance(inputs, TextInputs) and _FEATURES in _parameters(kind)[2].names

    def takes_layer(self) -> bool:
        return "layer" in _parameters(self.class_named(self.call.name))[1].names

    def prepare(self, session: Session) -> None:
        self._warn_of_plain_gradients(session.net)
        super().prepare(session)

    def found_layer(self, classifier: Classifier) -> str:
        if isinstance(classifier.inputs, Tokens):
            return first_token_layer(classifier)
        return super().found_layer(classifier)

    def _warn_of_plain_gradients(self, classifier: Classifier) -> None:
        """Warn if the class changes the gradient at activations, but has no rule for some of the net's activations."""
        name = self._inner.name
        only_relu = name in _RECTIFIERS
        if not (only_relu or "DeepLift" in name) or not isinstance(classifier.net, nn.Module):
            return
        plain_there = (*_PLAIN, *_BENT) if only_relu else _PLAIN
        without = Counter(type(m).__name__ for m in classifier.net.modules() if isinstance(m, plain_there))
        if without:
            found = " and ".join(f"{number} x {kind}" for kind, number in sorted(without.items()))
            ours = {"DeepLift": "deep-lift", "GuidedBackprop": "guided-backprop"}.get(name)
            warnings.warn(
                f"captum's {name} has no rule for this net's {found}: there it uses the plain gradient"
                + (f". Proofmap's {ours} has a rule for every rectifier" if ours else ""),
                stacklevel=2,
            )

    @contextmanager
    def opened(self, subject: LibraryNet) -> Iterator[Attribute]:
        made, options = self._made(self.call, subject)
        target, inputs = takes_target(type(made)), subject.classifier.inputs
        by_words = self.hides_words(inputs)

        def attribute(images: Tensor, labels: Tensor) -> Any:
            given = dict(options)
            if given.get(_BASELINES) is _OWN:
                x = images.detach()
                given[_BASELINES] = inputs.blank_like(x) if by_words else inputs.start_like(x)
            if by_words:
                given[_FEATURES] = word_features(inputs).to(images.device)
            found = made.attribute(images, **({"target": labels} if target else {}), **given)
            if isinstance(inputs, Tokens):
                return of_token_layer(found, images.detach(), subject.classifier, self.channels)
            return found

        yield attribute

    def _made(self, call: Call, subject: LibraryNet) -> tuple[Any, dict[str, Any]]:
        """An object of Captum's class, and the remaining options for its ``attribute``."""
        kind, options = self.class_named(call.name), call.options
        first, made, _ = _parameters(kind)
        around, inner = subject.module, dict[str, Any]()
        if first == _AROUND:
            around, inner = self._made(Call.read(str(options.pop(first))), subject)
        if _BASELINES in options or takes_baselines(kind):
            given_baselines = options.get(_BASELINES, GRAY)
            options[_BASELINES] = baselines(call.name, given_baselines, subject.classifier)
        given = {name: options.pop(name) for name in made.names if name in options}
        if "layer" in made.names:
            given["layer"] = subject.layers[0]
        return kind(around, **given), {**inner, **options}

    def found_for(self, classifier: Classifier) -> dict[str, object]:
        """The default baseline, if the class takes one and none is given."""
        inner = self._inner
        given = _BASELINES in self.call.options or _BASELINES in inner.options
        return {} if given else usual_baseline(self.class_named(inner.name), classifier)

    def merged(self, found: Any, classifier: Classifier) -> Tensor:
        # every value of a word has the attribution of the word
        channels = "mean" if self.hides_words(classifier.inputs) else self.channels
        return merged_attribution(found, classifier, channels, self.title())


def merged_attribution(found: Any, classifier: Classifier, channels: str, title: str) -> Tensor:
    """An attribution ``(n, C, *grid)`` merged into maps ``(n, *grid)``. An attribution of every input value is merged into maps of
    positions, such as segments.

    If ``found`` is a tuple, which may also hold convergence errors, its first entry is used.
    """
    values = returned_maps(found[0] if isinstance(found, (tuple, list)) else found, title)
    inputs = classifier.inputs
    if tuple(values.shape[1:]) == inputs.shape:
        return inputs.merged_channels(values, channels)
    if inputs.channel_axis is None or values.ndim != 2 + len(inputs.positions):
        return values
    if channels == "max":
        return values.amax(dim=1)
    return values.sum(dim=1) if channels == "sum" else values.mean(dim=1)


def word_features(inputs: Inputs) -> Tensor:
    """For each value of a text, the index ``(1, *shape)`` of its word, from zero."""
    return inputs.over_channels(torch.arange(inputs.count)).expand(1, *inputs.shape).long()


def has_signs(name: str, options: Mapping[str, Any]) -> bool:
    """Whether attributions of a class with these options may be negative; Saliency returns absolute values by default."""
    return name != "Saliency" or options.get("abs", True) is False


def takes_target(kind: Any) -> bool:
    """Whether the attributions of the class belong to a label."""
    called = Parameters.of(kind.attribute)
    return "target" in called.names or called.any_other


def takes_baselines(kind: Any) -> bool:
    """Whether the attributions of the class are relative to a baseline input."""
    return _BASELINES in Parameters.of(kind.attribute).names


def usual_baseline(kind: Any, classifier: Classifier) -> dict[str, object]:
    """The record of the default baseline of a class; empty if the class takes no baseline."""
    if isinstance(classifier.inputs, Tokens):
        return {_BASELINES: _OWN} if takes_baselines(kind) else {}
    return {_BASELINES: rounded(classifier.inputs.neutral)} if takes_baselines(kind) else {}


def _parameters(kind: Any) -> tuple[str, Parameters, Parameters]:
    """The constructor's first parameter (a model, or another attribution), its other options, and the options of the call."""
    first = Parameters.of(kind.__init__).names[0]
    return (
        first,
        Parameters.of(kind.__init__, without=(first,)),
        Parameters.of(kind.attribute, without=_GIVEN),
    )


def baselines(name: str, given: object, classifier: Classifier) -> Tensor | str | None:
    """Baselines ``(1, *shape)`` for the class ``name``, or ``(2, *shape)`` if the class needs two. ``given`` is their colour: one
    number for all channels, one number per channel, or ``gray``. If it is None, Captum's default is used.
    """
    if given is None:
        return None
    rows = 2 if name in _TWO_BASELINES else 1
    if isinstance(classifier.inputs, Tokens):
        if given != GRAY:
            raise InputError(
                f"baselines of a text are the text with every word hidden; leave baselines out of captum's {name}"
            )
        return _OWN
    if given == GRAY:
        return classifier.blank(rows)
    values = torch.as_tensor(given, dtype=torch.float32, device=classifier.device).reshape(-1)
    return classifier.inputs.per_channel(values.expand(classifier.channels)).expand(
        rows, *classifier.inputs.shape
    )
