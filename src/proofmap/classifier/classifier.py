"""The class Classifier: a net, how its input is prepared, and the labels that count. It gives the paper's f(x, a)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn

from proofmap.classifier.beside import Beside
from proofmap.classifier.frozen import Frozen
from proofmap.classifier.kernels import outside_inference_mode, steady_kernels
from proofmap.classifier.outputs import (
    Outputs,
    as_logits,
    check_rows,
    checked_outputs,
    chosen_labels,
)
from proofmap.classifier.probability_models import ProbabilityModel, described, in_ranges
from proofmap.classifier.stated import stated_by
from proofmap.classifier.steadiness import FirstLook
from proofmap.classifier.together import lane
from proofmap.classifier.view import (
    LogitsModule,
    NetVersion,
    copy_net,
    place_of,
    tensors_of,
    usable_device,
    view_of,
)
from proofmap.core.batching import BatchSize, in_batches
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Pictures
from proofmap.core.inputs.pictures import Fit, Interpolation
from proofmap.core.labels import LabelRule, Labels
from proofmap.core.outputs import is_independent
from proofmap.core.text import counted
from proofmap.plugins.identity import identity


class Classifier:
    """A net with the preprocessing of its input and the labels that count. It gives f(x, a), the probability of label a for input x.

    Images are ``(N, C, H, W)`` floats in [0, 1]; the classifier normalises them, ``(x - mean) / std``. Labels are output indices.
    The net is used through a private view (:mod:`proofmap.classifier.view`) and is never altered. Weights are shared with your
    net, and batch-norm statistics are copied. After you train the net further, replace a layer or set an attribute such as
    ``net.temperature = 2``, the view and its frozen copies are made again before their next use. Changes that torch does not
    track (through ``.data`` or NumPy), and changes inside an attribute that is an object of your own, are not noticed.

    Args:
        net: a module or function from normalised images ``(N, C, H, W)`` to outputs ``(N, A)``; a model with ``predict_proba``
            (scikit-learn, XGBoost, LightGBM, CatBoost), a session of onnxruntime, a Keras model, or, with ``data``, a function of a
            data frame or array: see :mod:`proofmap.classifier.probability_models`. With texts, a function of a list of strings.
        data: a sample like the data that the model was fitted on. For tables, rows in a data frame of pandas or polars, or in an array:
            the columns, their categories, ranges and means are taken from them. For texts, a list of strings.
        size: height and width of the input (one number for a square).
        mean, std: per channel, in [0, 1] pixel units.
        outputs: if exactly one label is right, ``"logits"`` (the default for torch nets) or ``"probabilities"`` (the default otherwise). If
            labels are independent, or the net has one output, ``"sigmoid"`` (logits) or ``"sigmoid-probabilities"``. ``"probability"`` if
            a function of tables or texts returns the probability of the second label only. ``"find"``: found by a look at the net's first outputs.
            Refused if the first outputs cannot be of this
            kind: see :mod:`proofmap.classifier.outputs`.
        names: one name per output; ``"0", "1", ...`` by default. A net with one output has two labels, no and yes.
        ranges: of a model that predicts a number, such as a regressor: the limits between the ranges that are its labels, or how many ranges with
            equally many predictions on ``data`` (3 by default). f is the probability of a range if the true number is normal around the
            prediction p with standard deviation s: P(a to b) = Phi((b - p) / s) - Phi((a - p) / s).
        at_least: one limit of such a model, ``ranges=[at_least]``.
        error: the standard deviation s. Or ``truth``, the true numbers of ``data``: s is then the root mean square of the errors on these rows,
            so give rows that the model was not fitted on.
        given: of a net of several inputs, those that are not explained, in a batch, as the net takes them: a tensor, an array or a list, or a tuple
            of these. A batch of one is for all images; otherwise it has the values of each image that is explained, in their order.
        label_set: the labels that count: ``"all"``, or a list of names or indices.
        renormalise: whether the softmax runs over the label set alone, as in the paper (default), or over all outputs.
            Independent labels have no softmax.
        resize: shorter side of photos before the centre crop; the input size by default. If the input is not a square, photos are resized
            to cover an area ``resize / min(size)`` times as high and as wide as the input, as timm does it.
        fit: how photos of other proportions are fitted: ``"crop"``, ``"pad"`` or ``"squash"``.
        transforms: those of torchvision's weights, ``weights.transforms()``: size, mean, std, resize and interpolation are read from them. A net
            of timm states them itself, with the names of its labels. What is given beside it takes precedence.
        processor: the image processor or the tokenizer of a model of Hugging Face. A model of texts is copied: later training is not followed.
        normalised: whether images come normalised already by mean and std. Hidden pixels are then 0, and pictures are drawn in their colours.
        inputs: what the net takes (:class:`~proofmap.core.inputs.Series`, ``Rows``, ``Text``), instead of size, mean, std, resize,
            interpolation and fit.
        device: where to run; the net's device by default.
        batch_size: number of inputs in one pass of the net; by default found from the device's memory.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    >>> f = Classifier(net, size=2, names=["cat", "dog", "cup"])
    >>> f.probabilities(torch.rand(5, 3, 2, 2)).sum(dim=1).allclose(torch.ones(5))
    True
    """

    @outside_inference_mode()
    def __init__(
        self,
        net: nn.Module | Callable[..., Any] | Any,
        *,
        data: Any = None,
        size: int | tuple[int, int] | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        outputs: Outputs | Literal["find"] | None = None,
        names: Sequence[str] | None = None,
        ranges: int | Sequence[float] | None = None,
        at_least: float | None = None,
        error: float | None = None,
        truth: Any = None,
        given: Any = None,
        label_set: Literal["all"] | Sequence[int | str] = "all",
        renormalise: bool | None = None,
        resize: int | None = None,
        interpolation: Interpolation | None = None,
        fit: Fit | None = None,
        transforms: Any = None,
        processor: Any = None,
        normalised: bool = False,
        inputs: Inputs | None = None,
        device: str | torch.device | None = None,
        batch_size: int | None = None,
        name: str = "",
    ) -> None:
        net, stated = stated_by(net, transforms, processor)
        own = {key: stated.pop(key, None) for key in ("inputs", "device", "outputs", "name", "names")}
        if (
            transforms is None
            and processor is None
            and any(each is not None for each in (size, data, inputs))
        ):
            stated, own["names"] = {}, None  # the net is declared
        values, self.own_given = ((), 1) if given is None else Beside.read(given)
        """How many images have values of their own in ``given``; 1 if all images share them."""
        self._beside = (net, values)
        if values:
            net = Beside.of(net, values)
        if self.own_given > 1 and (truth is not None or isinstance(ranges, int)):
            raise InputError(
                "with given values for each image, state limits and error: ranges=[...], error=..."
            )
        inputs, device = inputs or own["inputs"], device or own["device"]
        outputs, name = outputs or own["outputs"], name or own["name"] or ""
        pictures = {
            "size": size,
            "mean": mean,
            "std": std,
            "resize": resize,
            "interpolation": interpolation,
            "fit": fit,
        }
        pictures = {**stated, **{key: value for key, value in pictures.items() if value is not None}}
        self._finds = outputs == "find"
        declared = None if outputs == "find" else outputs
        number = {"ranges": ranges, "at_least": at_least, "error": error, "truth": truth}
        net, self.inputs, self.outputs, names = described(
            net, data, inputs, declared, names, normalised, number, **pictures
        )
        self._ranges = ProbabilityModel.ranges_of(net)
        if batch_size is not None and batch_size < 1:
            raise InputError(f"batch_size must be at least 1, not {batch_size}")
        self.device, self.dtype = place_of(net)
        if device is not None:
            self.device = usable_device(device)
        self.net = view_of(net, self.device) if isinstance(net, nn.Module) else net
        self._version = NetVersion(net)  # when the view was made
        self.name = name or getattr(net, "__qualname__", type(net).__name__)
        self.assumed = ""
        """What was assumed about a net that came without a description."""
        self._source: Classifier | None = None  # the classifier that this one was frozen from
        self._mean, self._std = self.inputs.scale(self.device)
        self._checked = self._compiled = self._fixed_batches = self.one_output = False
        self._frozen: dict[tuple[torch.dtype, bool], Classifier] = {}
        self._longer: Classifier | None = None  # the classifier whose inputs of one length these are
        self._lengths: dict[int, Classifier] = {}
        self._batches: tuple[BatchSize, BatchSize] | None = None
        if batch_size is not None:
            self.fix_batches(batch_size, batch_size)
        width = FirstLook.count_labels(self)
        if names is None and own["names"] is not None and len(own["names"]) == width:
            names = own["names"]  # otherwise the net got another head
        self.names: tuple[str, ...] = _names_of(names, width, one_output=self.one_output)
        self._set_labels(label_set, renormalise)

    # ---- what the net is ------------------------------------------------------------------------------------

    @property
    def mean(self) -> tuple[float, ...]:
        return self.inputs.mean

    @property
    def std(self) -> tuple[float, ...]:
        return self.inputs.std

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the pictures that the net takes."""
        if not isinstance(self.inputs, Pictures):
            raise InputError(f"this needs a net of pictures; {self.name} takes {self.inputs.noun}")
        return self.inputs.size

    @cached_property
    def differentiable(self) -> bool:
        """Whether the net's outputs have a gradient with respect to the input. For a function, one pass is made to find out."""
        if isinstance(self.net, (nn.Module, ProbabilityModel)):
            return isinstance(self.net, nn.Module)
        with torch.enable_grad(), torch.inference_mode(False):
            x = self.blank(1).to(self.dtype).requires_grad_(True)
            try:
                return bool(getattr(self.net(x.clone()), "requires_grad", False))
            except RuntimeError as error:  # a function that calls NumPy refuses such an input
                if "requires grad" not in str(error):
                    raise
                return False

    @property
    def independent(self) -> bool:
        """Whether several labels can be right at once: f(x, a) = sigmoid(logit_a), which does not sum to one."""
        return is_independent(self.outputs)

    @property
    def layout(self) -> torch.memory_format:
        """The memory layout of the net's inputs; inputs in another layout are copied."""
        return self.net.layout if isinstance(self.net, Frozen) else torch.contiguous_format

    @property
    def gray(self) -> Tensor:
        """The value ``(C,)`` that normalises to zero, in the input's own units: for pictures a colour inside [0, 1]."""
        return self.inputs.neutral.to(self.device)

    @property
    def batches(self) -> tuple[BatchSize, BatchSize]:
        """Batch sizes for forward passes and for passes with input gradient, chosen at first use from the memory of the device."""
        if self._longer is not None:
            return lane().share_of(self._longer.batches[0]), lane().share_of(self._longer.batches[1])
        if self._batches is None:
            self._batches = BatchSize.probed(self, self.blank(1), tensors_of(self.net))
        return self._batches

    def fix_batches(self, forward: int, gradient: int) -> None:
        """Use these batch sizes from now on, also in every frozen view. They affect the last bits of a result."""
        self._set_batches(True, (BatchSize(forward), BatchSize(gradient)))

    def _set_batches(self, fixed: bool, batches: tuple[BatchSize, BatchSize] | None) -> None:
        for view in (self, *self._frozen.values()):
            view._fixed_batches, view._batches = fixed, batches

    def blank(self, n: int) -> Tensor:
        """``n`` inputs in which every value is the neutral one, :attr:`gray`."""
        return self.inputs.blank(n).to(self.device)

    def restricted(self, label_set: Sequence[int | str], *, renormalise: bool | None = None) -> Classifier:
        """The same net with a smaller label set; label indices stay the same.

        The softmax runs over the smaller set unless ``renormalise`` is False; independent labels have no softmax.

        >>> f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), size=2).restricted([0, 2])
        >>> f.probabilities(torch.rand(1, 3, 2, 2))[0, 1].item()
        0.0
        """
        return self._copy(lambda other: other._set_labels(label_set, renormalise))

    def fitting(self, fit: Fit) -> Classifier:
        """The same net with another fit: photos of other proportions are cropped, padded or squashed."""
        if not isinstance(self.inputs, Pictures):
            raise InputError(f"fit is for photos; {self.name} takes {self.inputs.noun}")
        inputs = replace(self.inputs, fit=fit)
        return self._copy(lambda other: setattr(other, "inputs", inputs))

    def at_length(self, n: int) -> Classifier:
        """The same classifier for inputs of exactly ``n`` positions; cached until the net changes."""
        self.refresh()
        if n == self.inputs.count:
            return self
        if self._longer is not None:
            return self._longer.at_length(n)
        if n not in self._lengths:
            other = copy.copy(self)
            other.inputs, other._longer, other._lengths = self.inputs.at_length(n), self, {}
            self._lengths[n] = other
        return self._lengths[n]

    def with_net(self, net: nn.Module | Callable[[Tensor], Tensor], **changes: Any) -> Classifier:
        """A classifier of another net, with the inputs, labels, device and name of this one. ``changes`` are arguments of Classifier."""
        same = ("inputs", "outputs", "names", "label_set", "renormalise", "device", "name")
        other = Classifier(net, **{**{key: getattr(self, key) for key in same}, **changes})
        if net is self.net:
            other._beside, other.own_given = self._beside, self.own_given
        return other

    def for_each(self, count: int) -> Iterator[tuple[Classifier, range]]:
        """The classifier for ``count`` images, with their indices; or one for each image, if each has its own ``given``."""
        if self.own_given == 1:
            yield self, range(count)
            return
        if count != self.own_given:
            raise InputError(
                f"given has values for {counted(self.own_given, self.inputs.singular)}, and there are {count}; give as many, in the same order"
            )
        net, values = self._beside
        for i in range(count):
            other = self.with_net(in_ranges(Beside.of(net, Beside.of_image(values, i)), self._ranges))
            other.fix_batches(*(batch.size for batch in self.batches))
            yield other, range(i, i + 1)

    def refresh(self) -> None:
        """Update the view of the net if the net has changed, for example by training. Every method that takes images calls this one."""
        if (original := self._version.net) is None or not self._version.is_old():
            return
        self._lengths.clear()
        self._version = NetVersion(original)
        if self._source is not None:
            self.net = self._source.frozen(dtype=self.dtype, compile=self._compiled).net
        else:
            self.net, self.dtype = view_of(original, self.device), place_of(original)[1]
            self._frozen.clear()

    def state(self) -> Hashable:
        """A value that stays equal as long as the net does not change. Changes in the code of a function are not noticed."""
        self.refresh()
        return self._version.state

    def settings(self) -> dict[str, object]:
        """Plain data that identify the function f(x, a) in a record of results."""
        return {
            "model": self.name,
            **self.inputs.record(),
            "label_set": "all" if len(self.label_set) == len(self.names) else list(self.label_set),
            "renormalise": self.renormalise,
            "outputs": self.outputs,
            **({} if self._ranges is None else self._ranges.record()),
        }

    def fingerprint(self) -> str:
        """A digest of layers, weights, buffers, code and settings: it differs if the function f(x, a) differs.

        The code is that of a function, or of modules that are not torch's (:mod:`proofmap.plugins.identity`). A net that is not a torch
        module also counts by f for 32 inputs, rounded to four digits, in which a part of the positions shows the neutral value.
        """
        self.refresh()
        net = self.net.content() if isinstance(self.net, ProbabilityModel) else self.net
        if isinstance(self.net, nn.Module):
            return identity(self.settings(), net)
        probe, blank = self.inputs.probe(), self.inputs.blank(1)
        chance = torch.rand(32, *self.inputs.positions, generator=torch.Generator().manual_seed(0))
        f = self.probabilities(self.inputs.composite(chance < 0.5, probe, blank))
        return identity(self.settings(), net, [round(value, 4) for value in f.flatten().tolist()])

    def __call__(self, images: Tensor) -> Tensor:
        """Logits ``(N, A)`` in float32 for one batch, differentiable in the images; log-probabilities if the net returns probabilities."""
        return self.from_normalised((images - self._mean) / self._std)

    def normalised(self, images: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Images ``(..., *shape)`` as the net takes them: (x - mean) / std, in the net's precision or in ``dtype``."""
        if self._source is None:
            self.refresh()
        return ((images - self._mean) / self._std).to(dtype or self.dtype)

    def from_normalised(self, x: Tensor) -> Tensor:
        """Logits ``(N, A)`` for images that are normalised already."""
        if self._source is None or self._version.is_changed_in_place():  # a fast check, for inner loops
            self.refresh()
        x = self.inputs.for_net(x.to(self.dtype))
        found = lane().outputs(self.net, x, self.inputs) if self._longer else self.net(x)
        found = check_rows(found, len(x), self.inputs.singular, finite=not self._checked)
        out = found.to(x.device, torch.float32, copy=True)  # a net may use its tensor again
        if not self._checked:
            declared = None if self._finds else self.outputs
            self.outputs = checked_outputs(out.detach(), declared, self._outputs_on_noise)
            self._checked, self.one_output = True, out.shape[1] == 1
        return as_logits(out, self.outputs)

    def _outputs_on_noise(self) -> Tensor:
        """The net's outputs for four inputs of strong noise, with autograd's graph."""
        with torch.enable_grad():
            x = self.inputs.strong_noise(4).to(self.device, self.dtype).requires_grad_(True)
            out: Tensor = self.net(x.clone())  # a net may change its input, which a leaf does not allow
            return out.float()

    def log_f(self, logits: Tensor) -> Tensor:
        """log f(x, a) for every label a, ``(N, A)``, from logits ``(N, A)``; minus infinity outside a renormalised label set."""
        if self.independent:
            return nn.functional.logsigmoid(logits)
        if self._outside is not None:  # minus infinity for labels that do not count
            logits = logits + self._outside
        elif self.outputs == "probabilities":
            return logits
        return logits.log_softmax(dim=-1)

    # ---- any number of images, in batches -------------------------------------------------------------------

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:
        """Logits ``(N, A)``, in batches that fit the device, checked to be finite."""
        images = self.check_images(images)
        if self.own_given > 1:
            return torch.cat([net.logits(images[i.start : i.stop]) for net, i in self.for_each(len(images))])
        with steady_kernels(tf32=False):
            rows = in_batches(lambda a, b: self(images[a:b]), len(images), self.batches[0])
        out = torch.cat(rows) if rows else torch.zeros(0, len(self.names), device=self.device)
        return check_rows(out, len(images), self.inputs.singular, finite=True)

    def probabilities(self, images: Tensor) -> Tensor:
        """The probabilities f(x, a), ``(N, A)``; zero outside a renormalised label set."""
        return self.log_f(self.logits(images)).exp()

    def top(self, images: Tensor, k: int = 5) -> Tensor:
        """The ``k`` most probable labels of the label set, ``(N, k)``, best first."""
        return LabelRule.parse(f"top{k}", self.names).choose(self.probabilities(images), self.label_set)

    def choose_labels(self, images: Tensor, labels: Labels, *, seed: int = 0) -> Tensor:
        """The labels ``(N, L)`` that a rule chooses for these images; see :meth:`LabelRule.parse` for the forms of ``labels``.

        ``seed`` draws the wrong labels of a rule such as ``top5+wrong``.
        """
        rule = LabelRule.parse(labels, self.names, self.inputs.singular)
        f = torch.zeros(len(images), len(self.names), device=self.device)
        if LabelRule.is_by_probability(str(rule)):
            f = self.frozen().probabilities(images)
        return rule.choose(f, self.label_set, images=images, seed=seed, item=self.inputs.singular)

    def check_images(self, images: Tensor) -> Tensor:
        """The images on this classifier's device. Raises an error that explains what is wrong with them."""
        self.refresh()
        return self.inputs.check(images).to(self.device, torch.float32)

    # ---- faster views ---------------------------------------------------------------------------------------

    @outside_inference_mode()
    def frozen(self, *, dtype: torch.dtype | None = None, compile: bool = False) -> Classifier:
        """A classifier that computes the same function, with faster passes and input gradients: see :mod:`proofmap.classifier.frozen`.

        ``dtype`` is the net's own precision by default; ``compile`` uses ``torch.compile``. Cached until the net changes.
        """
        self.refresh()
        dtype = dtype or self.dtype
        if self._longer is not None:
            return self._longer.frozen(dtype=dtype, compile=compile).at_length(self.inputs.count)
        if self._source is not None:
            same = dtype == self.dtype and (self._compiled or not compile)
            return self if same else self._source.frozen(dtype=dtype, compile=compile)
        if not isinstance(self.net, nn.Module):
            if dtype != self.dtype or compile:
                raise InputError(
                    "another dtype or compile needs a torch module; this classifier wraps a function"
                )
            return self
        if (dtype, compile) not in self._frozen:
            net = Frozen.of(self.net, self.blank(1).to(self.dtype), dtype=dtype)
            fast = self._copy(lambda other: setattr(other, "net", net))
            fast.dtype, fast._source, fast._compiled = dtype, self, compile
            if compile:
                _ = fast.batches  # measured before compiling, which would specialise on a batch of one
                fast.net = torch.compile(fast.net, dynamic=False)
            self._frozen[dtype, compile] = fast
        return self._frozen[dtype, compile]

    @outside_inference_mode()
    def as_module(self, *, dtype: torch.dtype | None = None) -> nn.Module:
        """An ``nn.Module`` for Captum or pytorch-grad-cam, in evaluation mode, on this device. It takes images in [0, 1],
        normalises them, and returns logits ``(N, A)`` that are differentiable.

        The module is a copy, including the weights. What a library does to the module does not affect the classifier or your net, and
        the module does not change when you train the net. The net's layers are found below the attribute ``net``. ``dtype`` is the net's
        own precision by default. Logits are minus infinity outside a renormalised label set, so that their softmax is f(x, a).

        >>> f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), size=2)
        >>> module, images = f.as_module(), torch.rand(1, 3, 2, 2)
        >>> module(images).softmax(dim=1).allclose(f.probabilities(images)), module.net[1]
        (True, Linear(in_features=12, out_features=3, bias=True))
        """
        self.refresh()
        if dtype not in (None, self.dtype) and not isinstance(self.net, nn.Module):
            raise InputError("another precision needs a torch module; this classifier wraps a function")
        net = copy_net(self.net).to(dtype) if isinstance(self.net, nn.Module) else self.net
        dtype = dtype or self.dtype
        return LogitsModule(net, self._mean, self._std, dtype, self.outputs, self._outside).eval()

    def _copy(self, change: Callable[[Classifier], None]) -> Classifier:
        """A changed copy of this classifier. If this is a frozen view, the classifier behind it is changed in the same way."""
        self.refresh()
        if self._longer is not None:
            return self._longer._copy(change).at_length(self.inputs.count)
        other = copy.copy(self)
        other._version = self._version  # which copies for others lack
        other._frozen, other._batches = {}, self._batches if self._fixed_batches else None
        other._lengths = {}
        other._source = None if self._source is None else self._source._copy(change)
        change(other)
        return other

    def __getstate__(self) -> dict[str, object]:
        """The state for a copy, which has its own weights. They do not change when the net is trained."""
        return {**self.__dict__, "_version": copy.copy(self._version)}

    def _set_labels(self, label_set: Literal["all"] | Sequence[int | str], renormalise: bool | None) -> None:
        self.label_set, self.renormalise, self._outside = chosen_labels(
            label_set, self.names, self.outputs, renormalise, self.device
        )

    def __repr__(self) -> str:
        shape, renormalised = "x".join(map(str, self.inputs.positions)), ", renormalised" * self.renormalise
        labels = f"{len(self.label_set)} of {counted(len(self.names), 'label')}{renormalised}"
        return f"Classifier({self.name}, {shape}, {labels}, {self.device})"


def _names_of(names: Sequence[str] | None, labels: int, *, one_output: bool) -> tuple[str, ...]:
    """One name per label; for a net with one output, the name of its positive label is enough.

    >>> _names_of(["tumour"], 2, one_output=True)
    ('not tumour', 'tumour')
    """
    if names is None:
        return tuple(str(i) for i in range(labels))
    # surrogates, from a file read in the wrong encoding, cannot be stored
    names = [str(name).encode(errors="backslashreplace").decode() for name in names]
    if one_output and len(names) == 1:
        return (f"not {names[0]}", names[0])
    if len(names) != labels:
        returns = (
            "one output: name its two labels, [negative, positive]" if one_output else f"{labels} outputs"
        )
        order = "" if one_output else "; give one name for each output, in their order"
        raise InputError(f"names has {len(names)} entries, but the net returns {returns}{order}")
    return tuple(names)
