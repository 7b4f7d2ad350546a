"""Classifier: any net, how its input is prepared, and the labels that count: the paper's f(x, a)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn

from proofmap.classifier.frozen import freeze
from proofmap.classifier.kernels import outside_inference_mode, steady_kernels
from proofmap.classifier.memory import probe_batch_sizes
from proofmap.classifier.outputs import (
    Outputs,
    as_logits,
    check_declaration,
    check_finite,
    check_outputs,
    chosen_labels,
    is_independent,
    names_of,
    outside_of,
)
from proofmap.classifier.steadiness import count_labels, on_noise
from proofmap.classifier.view import (
    LogitsModule,
    copy_net,
    counted_tensors,
    device_of,
    dtype_of,
    is_changed,
    state_of,
    tensors_of,
    view_of,
)
from proofmap.core.batching import BatchSize, in_batches
from proofmap.core.errors import InputError, ModelError
from proofmap.core.inputs import Inputs, Pictures
from proofmap.core.labels import LabelRule, Labels, is_by_probability
from proofmap.core.pictures import Fit, Interpolation
from proofmap.core.text import counted
from proofmap.plugins.code import Digest


class Classifier:
    """A net together with everything that makes its output a probability f(x, a).

    Images are ``(N, C, H, W)`` floats in [0, 1]; normalisation ``(x - mean) / std`` happens inside. A net that takes
    something else declares it with ``inputs`` (:class:`~proofmap.core.inputs.Series`, ``Rows``). Labels are
    indices into the net's outputs. ``label_set`` names the outputs that count: the softmax runs over them alone, as the
    paper has it, and over all outputs with ``renormalise=False``. Labels that do not exclude
    each other, and nets with one logit, are declared with ``outputs="sigmoid"``: see :mod:`proofmap.classifier.outputs`.

    The net is used through a private view and is never altered: see :mod:`proofmap.classifier.view`. Weights are shared with
    your net, batch-norm statistics are copied; when you train the net further, the view and what was frozen from it are
    made anew before they are next used. Changes that torch does not count (through ``.data`` or NumPy) are not seen.

    Args:
        net: a module or function from normalised images ``(N, C, H, W)`` to outputs ``(N, A)``.
        size: height and width of the input (one number for a square).
        mean, std: per channel, in [0, 1] pixel units.
        outputs: what the net returns: ``"logits"`` or ``"probabilities"`` of labels of which one is right, ``"sigmoid"``
            (logits) or ``"sigmoid-probabilities"`` of independent labels; checked on the first batch.
        names: one name per output; ``"0", "1", ...`` when left out. A net with one output has two labels, no and yes.
        label_set: ``"all"``, or a list of names or indices.
        renormalise: softmax over the label set only, as in the paper; on when left out. Independent labels have none.
        resize: shorter side before the centre crop when photos are loaded; the input size when left out.
        fit: what happens to photos of other proportions: ``"crop"``, ``"pad"`` or ``"squash"``.
        inputs: what the net takes, in place of size, mean, std, resize, interpolation and fit.
        device: where to run; the net's own device when left out.
        batch_size: passes of the net at once; found from the device's memory when left out.

    >>> net = nn.Sequential(nn.Flatten(), nn.Linear(12, 3))
    >>> f = Classifier(net, size=2, names=["cat", "dog", "cup"])
    >>> f.probabilities(torch.rand(5, 3, 2, 2)).sum(dim=1).allclose(torch.ones(5))
    True
    """

    @outside_inference_mode()
    def __init__(
        self,
        net: nn.Module | Callable[[Tensor], Tensor],
        *,
        size: int | tuple[int, int] | None = None,
        mean: Sequence[float] = (0.0, 0.0, 0.0),
        std: Sequence[float] = (1.0, 1.0, 1.0),
        outputs: Outputs = "logits",
        names: Sequence[str] | None = None,
        label_set: Literal["all"] | Sequence[int | str] = "all",
        renormalise: bool | None = None,
        resize: int | None = None,
        interpolation: Interpolation = "bilinear",
        fit: Fit = "crop",
        inputs: Inputs | None = None,
        device: str | torch.device | None = None,
        batch_size: int | None = None,
        name: str = "",
    ) -> None:
        if not callable(net):
            raise InputError(f"net must be a torch module or a function, not {type(net).__name__}")
        if inputs is None:
            if size is None:
                raise InputError(
                    "a classifier needs the size of its pictures, or inputs= for other kinds of input"
                )
            inputs = Pictures(
                size=size,  # type: ignore[arg-type]
                mean=tuple(mean),
                std=tuple(std),
                resize=resize,
                interpolation=interpolation,
                fit=fit,
            )
        elif size is not None:
            raise InputError("give either the size of pictures or inputs=, not both")
        self.inputs: Inputs = inputs
        if batch_size is not None and batch_size < 1:
            raise InputError(f"batch_size must be at least 1, not {batch_size}")
        self.device = torch.device(device) if device is not None else device_of(net)
        self.net = view_of(net, self.device) if isinstance(net, nn.Module) else net
        self._original = net if isinstance(net, nn.Module) else None
        self._state, self._counted = (
            state_of(net),
            counted_tensors(net),
        )  # of the original, when the view was made
        self.dtype = dtype_of(net)
        self.outputs: Outputs = check_outputs(outputs)
        self.name = name or getattr(net, "__qualname__", type(net).__name__)
        self._source: Classifier | None = None  # what this one was frozen from,
        self._compiled = False  # and how
        self._mean = inputs.per_channel(torch.tensor(inputs.mean, device=self.device, dtype=torch.float32))
        self._std = inputs.per_channel(torch.tensor(inputs.std, device=self.device, dtype=torch.float32))
        self._checked = self.one_output = False
        self._frozen: dict[tuple[torch.dtype, bool], Classifier] = {}
        self._fixed_batches = None if batch_size is None else (batch_size, batch_size)
        self._batches: tuple[BatchSize, BatchSize] | None = None

        width = count_labels(self, self.inputs, self.device, self.outputs, self.dtype)
        self.names: tuple[str, ...] = names_of(names, width, one_output=self.one_output)
        if isinstance(label_set, str) and label_set != "all":
            raise InputError(f"label_set must be 'all' or a list of names or indices, not {label_set!r}")
        self._set_labels(range(width) if isinstance(label_set, str) else label_set, renormalise)

    # ---- what the net is ------------------------------------------------------------------------------------

    @property
    def channels(self) -> int:
        return self.inputs.channels

    @property
    def mean(self) -> tuple[float, ...]:
        return self.inputs.mean

    @property
    def std(self) -> tuple[float, ...]:
        return self.inputs.std

    @property
    def size(self) -> tuple[int, int]:
        """Height and width of its pictures."""
        if not isinstance(self.inputs, Pictures):
            raise InputError(f"this needs a net of pictures; {self.name} takes {self.inputs.noun}")
        return self.inputs.size

    @property
    def independent(self) -> bool:
        """Whether the labels do not exclude each other: f(x, a) = sigmoid(logit_a), which does not sum to one."""
        return is_independent(self.outputs)

    @property
    def gray(self) -> Tensor:
        """What normalises to zero, ``(C,)`` in the input's own units: for pictures a colour inside [0, 1]."""
        return self.inputs.neutral.to(self.device)

    @property
    def batches(self) -> tuple[BatchSize, BatchSize]:
        """Passes at once (forward only, with input gradient), found from the memory of the device at first use."""
        if self._batches is None:
            if self._fixed_batches is not None:
                forward, gradient = self._fixed_batches
                self._batches = (BatchSize(forward), BatchSize(gradient))
            else:
                self._batches = probe_batch_sizes(self, self.blank(1), tensors_of(self.net))
        return self._batches

    def fix_batches(self, forward: int, gradient: int) -> None:
        """Use these batch sizes from now on, also in every frozen view: they affect the last bits of a result."""
        self._set_batches((forward, gradient), (BatchSize(forward), BatchSize(gradient)))

    def _set_batches(
        self, fixed: tuple[int, int] | None, batches: tuple[BatchSize, BatchSize] | None
    ) -> None:
        for view in (self, *self._frozen.values()):
            view._fixed_batches, view._batches = fixed, batches

    def blank(self, n: int) -> Tensor:
        """``n`` inputs of the classifier's own gray."""
        return self.inputs.blank(n).to(self.device)

    def restricted(self, label_set: Sequence[int | str], *, renormalise: bool | None = None) -> Classifier:
        """The same net, seen through a smaller label set; label indices keep their meaning.

        The softmax runs over the smaller set unless ``renormalise`` is False; independent labels have none.

        >>> f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), size=2).restricted([0, 2])
        >>> f.probabilities(torch.rand(1, 3, 2, 2))[0, 1].item()
        0.0
        """
        self.refresh()
        other = self._like(self.net)
        other._set_labels(label_set, renormalise)
        if self._source is not None:
            other._source = self._source.restricted(label_set, renormalise=renormalise)
        return other

    def fitting(self, fit: Fit) -> Classifier:
        """The same net, with photos of other proportions cropped, padded or squashed."""
        if not isinstance(self.inputs, Pictures):
            raise InputError(f"fit is for photos; {self.name} takes {self.inputs.noun}")
        self.refresh()
        other = self._like(self.net)
        other.inputs = replace(self.inputs, fit=fit)
        if self._source is not None:
            other._source = self._source.fitting(fit)
        return other

    def refresh(self) -> None:
        """Make the view anew if the net was changed since, such as by training; all that takes images does this."""
        if self._original is None or (state := state_of(self._original)) == self._state:
            return
        self._counted = counted_tensors(self._original)
        if self._source is not None:
            self.net = self._source.frozen(dtype=self.dtype, compile=self._compiled).net
        else:
            self.net, self.dtype = view_of(self._original, self.device), dtype_of(self._original)
            self._frozen.clear()
        self._state = state

    def state(self) -> Hashable:
        """Equal as long as the net was not changed, such as by training; changes of what a function calls are not seen."""
        self.refresh()
        return self._state

    def settings(self) -> dict[str, object]:
        """What a record of results must carry to say which f was judged."""
        everything = len(self.label_set) == len(self.names)
        return {
            "model": self.name,
            **self.inputs.record(),
            "label_set": "all" if everything else list(self.label_set),
            "renormalise": self.renormalise,
            "outputs": self.outputs,
        }

    def fingerprint(self) -> str:
        """A digest of layers, weights, buffers and settings: it differs where the function f differs.

        A function counts by its code, what it calls and its bound values; so do the class and the plain attributes of
        every module that is not torch's. Files of your own count as a whole: see :mod:`proofmap.plugins.code`.
        """
        self.refresh()
        digest = Digest(16)
        digest.update(repr(sorted(self.settings().items())).encode())
        digest.add_function(self.net)
        return digest.hexdigest()

    # ---- one batch, differentiable --------------------------------------------------------------------------

    def __call__(self, images: Tensor) -> Tensor:
        """Logits ``(N, A)`` in float32 for one batch, differentiable in the images (log-probabilities where the
        net returns probabilities)."""
        return self.from_normalised((images - self._mean) / self._std)

    def normalised(self, images: Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Images ``(..., *shape)`` as the net itself takes them: (x - mean) / std, in its precision or another."""
        if self._source is None:  # its precision now
            self.refresh()
        return ((images - self._mean) / self._std).to(dtype or self.dtype)

    def from_normalised(self, x: Tensor) -> Tensor:
        """The same for images that are normalised already."""
        if self._source is None or is_changed(self._counted):  # a frozen view is called in inner loops
            self.refresh()
        out = self.net(x.to(self.dtype))
        if not isinstance(out, Tensor) or out.ndim != 2 or out.shape[0] != x.shape[0]:
            shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise ModelError(
                f"the net returned {shape} for {counted(x.shape[0], 'image')}; expected one row of outputs per image, "
                "(N, A). Wrap it in a function that picks the logits."
            )
        out = out.to(torch.float32, copy=True)  # a net may use its own tensor again
        if not self._checked:
            check_finite(out)
            check_declaration(
                out.detach(),
                self.outputs,
                lambda: on_noise(self.net, self.inputs, self.device, self.dtype),
            )
            self._checked, self.one_output = True, out.shape[1] == 1
        return as_logits(out, self.outputs)

    def log_f(self, logits: Tensor) -> Tensor:
        """log f(x, .) from logits, under this classifier's label set; minus infinity outside a renormalised set."""
        if self.independent:
            return nn.functional.logsigmoid(logits)
        if self._outside is not None:
            logits = logits + self._outside
        elif self.outputs == "probabilities":
            return logits
        return logits.log_softmax(dim=-1)

    # ---- any number of images, in batches -------------------------------------------------------------------

    @torch.no_grad()
    def logits(self, images: Tensor) -> Tensor:
        """Logits ``(N, A)``, in batches that fit the device, checked to be finite."""
        images = self.check_images(images)
        with steady_kernels(tf32=False):
            rows = in_batches(lambda a, b: self(images[a:b]), len(images), self.batches[0])
        out = torch.cat(rows) if rows else torch.zeros(0, len(self.names), device=self.device)
        check_finite(out)
        return out

    def log_probabilities(self, images: Tensor) -> Tensor:
        """log f(x, a), ``(N, A)``."""
        return self.log_f(self.logits(images))

    def probabilities(self, images: Tensor) -> Tensor:
        """f(x, a), ``(N, A)``; zero outside a renormalised label set."""
        return self.log_probabilities(images).exp()

    def top(self, images: Tensor, k: int = 5) -> Tensor:
        """The ``k`` most probable labels of the label set, ``(N, k)``, best first."""
        return LabelRule.parse(f"top{k}", self.names).choose(self.probabilities(images), self.label_set)

    def choose_labels(self, images: Tensor, labels: Labels) -> Tensor:
        """What a person wrote for ``labels`` (:meth:`LabelRule.parse`) as labels ``(N, L)`` of these images."""
        rule = LabelRule.parse(labels, self.names)
        if is_by_probability(str(rule)):
            return rule.choose(self.frozen().probabilities(images), self.label_set)
        return rule.choose(torch.zeros(len(images), len(self.names), device=self.device), self.label_set)

    # ---- checks ---------------------------------------------------------------------------------------------

    def check_images(self, images: Tensor) -> Tensor:
        """The images on this classifier's device, or an error that says what is wrong with them."""
        self.refresh()
        return self.inputs.check(images).to(self.device, torch.float32)

    # ---- faster views ---------------------------------------------------------------------------------------

    @outside_inference_mode()
    def frozen(self, *, dtype: torch.dtype | None = None, compile: bool = False) -> Classifier:
        """The same function made fast for input gradients: see :mod:`proofmap.classifier.frozen`.

        Batch-norm is folded into the convolutions, the layout is the faster one, on a CPU the input gradient of
        a convolution is computed as a convolution, and on a GPU convolutions over single positions are matrix products. The net's own precision unless ``dtype`` says otherwise;
        ``compile`` runs the net through ``torch.compile``. The result is kept until the net changes, so asking twice
        is free.
        """
        self.refresh()
        dtype = dtype or self.dtype
        if self._source is not None:
            same = dtype == self.dtype and (self._compiled or not compile)
            return self if same else self._source.frozen(dtype=dtype, compile=compile)
        if not isinstance(self.net, nn.Module):
            if dtype != self.dtype or compile:
                raise InputError(
                    "another precision or compiling needs a torch module; this classifier wraps a function"
                )
            return self
        if (dtype, compile) not in self._frozen:
            fast = self._like(freeze(self.net, self.blank(1).to(self.dtype), dtype=dtype))
            fast.dtype, fast._source, fast._compiled = dtype, self, compile
            if self._fixed_batches is not None:
                fast._batches = self.batches
            if compile:
                _ = fast.batches  # measured before compiling, which would specialise on a batch of one
                fast.net = torch.compile(fast.net, dynamic=False)
            self._frozen[dtype, compile] = fast
        return self._frozen[dtype, compile]

    @outside_inference_mode()
    def as_module(self, *, dtype: torch.dtype | None = None) -> nn.Module:
        """The ``nn.Module`` that Captum, pytorch-grad-cam or torch-cam ask for: images as this classifier takes them (in
        [0, 1], normalised inside), logits ``(N, A)`` out, differentiable, in evaluation mode, on this device.

        It is a copy, weights included: no hook, mode or weight that a library changes reaches the classifier or your net, and
        it stays as it is when you train the net. Layers are found below ``net``. The net's own precision unless ``dtype`` says
        otherwise. Outside a renormalised label set
        logits are minus infinity, so that the softmax over them is f(x, .).

        >>> f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), size=2)
        >>> module, images = f.as_module(), torch.rand(1, 3, 2, 2)
        >>> module(images).softmax(dim=1).allclose(f.probabilities(images)), module.net[1]
        (True, Linear(in_features=12, out_features=3, bias=True))
        """
        self.refresh()
        if dtype not in (None, self.dtype) and not isinstance(self.net, nn.Module):
            raise InputError("another precision needs a torch module; this classifier wraps a function")
        return LogitsModule(
            copy_net(self.net).to(dtype) if isinstance(self.net, nn.Module) else self.net,
            mean=self._mean,
            std=self._std,
            dtype=dtype or self.dtype,
            outputs=self.outputs,
            outside=self._outside,
        ).eval()

    def _like(self, net: nn.Module | Callable[[Tensor], Tensor]) -> Classifier:
        """Everything of this classifier but its net and what was derived from the net."""
        other = copy.copy(self)
        other.net, other._frozen, other._batches = net, {}, None
        other._original, other._counted = self._original, self._counted
        return other

    def __getstate__(self) -> dict[str, object]:
        """A copy, here or in another process, has weights of its own, which no training changes."""
        return {**self.__dict__, "_original": None, "_counted": ()}

    def _set_labels(self, label_set: Sequence[int | str], renormalise: bool | None) -> None:
        self.label_set, self.renormalise = chosen_labels(label_set, self.names, self.outputs, renormalise)
        outside = outside_of(self.label_set, len(self.names), self.device)
        self._outside = outside if self.renormalise else None

    def __repr__(self) -> str:
        kind = f"{len(self.label_set)} of {counted(len(self.names), 'label')}" + (
            ", renormalised" if self.renormalise else ""
        )
        shape = "x".join(map(str, self.inputs.positions))
        return f"Classifier({self.name}, {shape}, {kind}, {self.device})"
