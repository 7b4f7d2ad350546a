"""Methods whose maps a trained masker makes: one pass of the net, and a small net on its features for each label.

A masker's file has its weights as safetensors, and a header that says how and on what it was trained. ``benchmarks/maskers/train.py``
writes such files.


Maskers that other authors published are read from their own checkpoints as tensors only (``weights_only``).

Dabkowski and Gal 2017 (PiotrDabkowski/pytorch-saliency, ``model-1.ckpt``): a table of modules, each a table of tensors. ``up2``,
``up1`` and ``up0`` are the steps up, ``to_saliency_chans`` makes the two channels of the mask, and ``selector_module`` has a row
for each label. The encoder is not in the file: it is torchvision's ResNet-50. The input of this encoder is 4 x - 2 for pixels x in
[0, 1], which is close to the usual normalisation. Proofmap uses the same input. The authors' mask is enlarged by ``F.upsample``,
which aligned corners in the torch of its time; here corners are not aligned, as in any torch since.

Phang et al. 2020 (zphang/saliency_investigation, ``ca.chk`` and ``fix.chk``): ``state_dict_masker`` has ``final``, and
``conv1x1_K`` for each stage K = 1 to 4 of a ResNet-50 that the masker reads (the published ones read 3 and 4);
``state_dict_classifier`` is the ResNet-50 itself, which CA trained further. The masker reads the features of that net, or of the
net that is explained (``encoder``).

Neither file says which net it belongs to: both were trained for torchvision's ResNet-50, weights ``IMAGENET1K_V1``.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.classifier.view import copy_net
from proofmap.core.errors import InputError, ModelError
from proofmap.core.files import parse_json
from proofmap.core.inputs import Pictures
from proofmap.core.labels import NO_LABEL
from proofmap.methods.maskers.nets import PhangNet, RealTimeNet, resized
from proofmap.methods.method import METHODS, Cost, Method
from proofmap.methods.probe import is_spatial, mixed_logits, module_of, watch_outputs
from proofmap.models.weights import load_checkpoint, load_into
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session

State = dict[str, Tensor]

_WHAT = "a masker"
_FINER = 1.5
"""Each scale must be finer than the one before by at least this factor, so that a padded map does not count as another scale."""


@dataclass(frozen=True)
class Scale:
    """A layer whose output is a spatial map ``(N, channels, *size)``; ``layer`` is its name."""

    layer: str
    channels: int
    size: tuple[int, int]

    @staticmethod
    def all_of(classifier: Classifier, *, most: int) -> tuple[Scale, ...]:
        """The scales at which a masker reads the net, the coarsest first, at most ``most``.

        A scale is a size of feature maps, with the image's proportions and more than one position. Several layers may have this size.
        The last one in order of execution among the least nested ones is chosen: a stage, not a convolution inside the next stage. Only
        layers that the logits depend on, as a gradient shows, are used.
        """
        found = _spatial_layers(classifier)
        best: dict[tuple[int, int], Scale] = {}
        for name, output in found.items():
            scale = _scale(name, output)
            other = best.get(scale.size)
            if other is None or name.count(".") <= other.layer.count("."):
                best[scale.size] = scale
        chosen: list[Scale] = []
        for size in sorted(best):
            if not chosen or max(size) >= _FINER * max(chosen[-1].size):
                chosen.append(best[size])
        if not chosen:
            raise InputError(
                "a masker reads spatial feature maps (N, C, h, w), and no layer of this net has one that its logits depend on"
            )
        return tuple(chosen[:most])


def _scale(name: str, output: Tensor) -> Scale:
    return Scale(name, output.shape[1], (output.shape[2], output.shape[3]))


def _spatial_layers(classifier: Classifier) -> dict[str, Tensor]:
    """The outputs for one image of all layers with a spatial map that the logits depend on, in order of execution."""
    net, ran = module_of(classifier, _WHAT), dict[str, Tensor]()

    def note(name: str, output: object) -> None:
        if isinstance(output, Tensor) and output.ndim == 4 and output.requires_grad:
            ran.pop(name, None)
            ran[name] = output

    with watch_outputs(net, [name for name, _ in net.named_modules() if name], note), torch.enable_grad():
        image = classifier.inputs.probe().to(classifier.device).requires_grad_(True)
        score = mixed_logits(classifier(image))
    ran = {
        name: output
        for name, output in ran.items()
        if len(output) == 1 and is_spatial(output.shape[2:], classifier.size)
    }
    if not ran or not score.requires_grad:
        return {}
    gradients = torch.autograd.grad(score, list(ran.values()), allow_unused=True)
    return {
        name: output.detach()
        for (name, output), gradient in zip(ran.items(), gradients, strict=True)
        if gradient is not None and bool(gradient.abs().sum() > 0)
    }


@dataclass(frozen=True)
class Encoder:
    """Reads the features of a net for a masker: the output of one layer at each scale. ``stretched`` scales pixels to 4 x - 2
    instead of normalising them.
    """

    classifier: Classifier
    scales: tuple[Scale, ...]
    stretched: bool = False

    @torch.no_grad()
    def __call__(self, images: Tensor) -> tuple[list[Tensor], Tensor]:
        """Feature maps ``(N, C, h, w)`` in float32, the coarsest first, and logits ``(N, A)``, from one pass of the net."""
        outputs: dict[str, Tensor] = {}
        layers = [scale.layer for scale in self.scales]
        x = 4 * images - 2 if self.stretched else self.classifier.normalised(images)
        with watch_outputs(module_of(self.classifier, _WHAT), layers, outputs.__setitem__):
            logits = self.classifier.from_normalised(x)
        return [outputs[layer].float() for layer in layers], logits


_STEP_UP = {
    "upsampler.0.0": "larger.0",
    "upsampler.0.1": "larger.1",
    "follow_up.conv1": "mix.0",
    "follow_up.bn1": "mix.1",
    "follow_up.conv2": "mix.3",
    "follow_up.bn2": "mix.4",
    "follow_up.conv3": "mix.6",
    "follow_up.bn3": "mix.7",
    "follow_up.residual_transformer": "past",
}
"""The parts of a step up: the authors' names, and Proofmap's."""
_EPS = 1e-5


def _read_dabkowski(path: Path, classifier: Classifier) -> tuple[RealTimeNet, Encoder]:
    """Dabkowski and Gal's masker from a checkpoint, and the encoder that computes the features of the classifier that the masker
    reads.
    """
    content = _tables(path, "Dabkowski and Gal's masker")
    state = {f"{name}.{key}": tensor for name, part in content.items() for key, tensor in part.items()}
    tops = sorted((name for name in content if name.removeprefix("up").isdigit()), reverse=True)
    try:
        labels, top = state["selector_module.weight"].shape
        widths = [state[f"{name}.upsampler.0.0.weight"].shape[0] // 4 for name in tops]
        inner = [state[f"{name}.follow_up.conv1.weight"].shape[1] for name in tops]
    except KeyError as error:
        raise _unlike(path, "Dabkowski and Gal's masker", error) from None
    channels = [top, *(count - width for count, width in zip(inner, widths, strict=True))]
    if labels != len(classifier.names):
        raise InputError(
            f"{path} has masks for {labels} labels, and {classifier.name} has {len(classifier.names)}: it belongs to another net"
        )
    encoder = Encoder(classifier, _scales(path, classifier, channels), stretched=True)
    net = _built(RealTimeNet, channels, labels, widths[-1])
    renamed = {
        "selector.weight": state["selector_module.weight"],
        **{f"saliency.{key}": tensor for key, tensor in content.get("to_saliency_chans", {}).items()},
    }
    for k, name in enumerate(tops):
        for key, tensor in content[name].items():
            part, _, last = key.rpartition(".")
            renamed[f"up.{k}.{_STEP_UP.get(part, part)}.{last}"] = tensor
    for k, count in enumerate(channels):  # theirs does not standardise features
        renamed |= {
            f"norms.{k}.running_mean": torch.zeros(count),
            f"norms.{k}.running_var": torch.full((count,), 1 - _EPS),
        }
    _load(net, renamed, path)
    return net, encoder


def _read_phang(path: Path, classifier: Classifier, features: str) -> tuple[PhangNet, Encoder]:
    """The masker of Phang et al. from a checkpoint, and the encoder that computes the features that it reads. ``features`` chooses
    the features of the net in the checkpoint (``own``) or of the classifier (``net``).
    """
    content = _tables(path, "the masker of Phang et al.")
    try:
        state = content.get("state_dict_masker") or content["state_dict_decoder"]
        stages = sorted(
            (
                int(key[len("conv1x1_")])
                for key in state
                if key.startswith("conv1x1_") and key.endswith(".0.weight")
            ),
            reverse=True,
        )
        kernels = [state[f"conv1x1_{stage}.0.weight"] for stage in stages]
        final = state["final.0.weight"]
    except KeyError as error:
        raise _unlike(path, "the masker of Phang et al.", error) from None
    if not stages or 0 in stages or final.shape[1] != sum(len(kernel) for kernel in kernels):
        raise InputError(
            f"{path} also reads the stem of its net, or labels; only maskers of the stages 1 to 4 can be used"
        )
    reader = classifier
    if features == "own":
        reader = _with_weights(classifier, content.get("state_dict_classifier"), path)
    scales = _scales(path, reader, [kernel.shape[1] for kernel in kernels])
    larger = 2 ** (stages[0] - 1)
    width = len(kernels[0])
    grid = scales[0].size[0] * larger, scales[0].size[1] * larger
    net = _built(PhangNet, [scale.channels for scale in scales], grid, width)
    renamed = {
        "mask.weight": torch.cat(final.split(width, dim=1)[::-1], dim=1),  # theirs has the finest stage first
        **{f"mask.{key}": state[f"final.0.{key}"] for key in ("bias",) if f"final.0.{key}" in state},
    }
    for k, stage in enumerate(stages):
        part = f"conv1x1_{stage}."
        renamed |= {
            f"reduce.{k}.{key[len(part) :]}": tensor for key, tensor in state.items() if key.startswith(part)
        }
    _load(net, renamed, path)
    return net, Encoder(reader, scales)


def _tables(path: Path, what: str) -> dict[str, State]:
    """The tables of tensors in a checkpoint, by name; other entries, such as settings and optimisers, are left out."""
    if not path.is_file():
        raise InputError(f"there is no masker {str(path)!r}")
    content: Any = load_checkpoint(path)
    if not isinstance(content, Mapping):
        raise InputError(f"{path} is not a checkpoint of {what}: it holds {type(content).__name__}")
    return {
        str(name): dict(part)
        for name, part in content.items()
        if isinstance(part, Mapping) and part and all(isinstance(value, Tensor) for value in part.values())
    }


def _unlike(path: Path, what: str, error: KeyError) -> InputError:
    return InputError(f"{path} is not a checkpoint of {what}: it has no {error.args[0]!r}")


def _scales(path: Path, classifier: Classifier, channels: Sequence[int]) -> tuple[Scale, ...]:
    """The coarsest feature maps of the net, as many as ``channels`` has entries. An error is raised if their numbers of channels
    differ.
    """
    scales = Scale.all_of(classifier, most=len(channels))
    found = [scale.channels for scale in scales]
    if found != list(channels):
        raise InputError(
            f"{path} reads feature maps with {_listed(channels)} channels, as a ResNet-50 has, and those of {classifier.name} have "
            f"{_listed(found)}: it belongs to another net"
        )
    return scales


def _listed(counts: Sequence[int]) -> str:
    return ", ".join(map(str, counts))


def _built(kind: Any, *arguments: Any) -> Any:
    with torch.random.fork_rng(devices=[]):  # first weights, which are replaced
        return kind(*arguments)


def _load(net: nn.Module, state: State, path: Path) -> None:
    try:
        load_into(
            net,
            {key: tensor.float() if tensor.is_floating_point() else tensor for key, tensor in state.items()},
            source=str(path),
        )
    except ModelError as error:
        raise InputError(str(error)) from None


def _with_weights(classifier: Classifier, state: State | None, path: Path) -> Classifier:
    """A copy of the classifier whose net has the weights ``state``."""
    if state is None:
        raise InputError(
            f"{path} has no state_dict_classifier; write encoder=net to read the features of {classifier.name}"
        )
    net = copy_net(module_of(classifier, _WHAT))
    try:
        load_into(net, state, source=f"state_dict_classifier of {path}")
    except ModelError as error:
        raise InputError(
            f"{error}; write encoder=net to read the features of {classifier.name} instead"
        ) from None
    return classifier.with_net(net)


PACKAGED = Path(__file__).parent / "weights"
"""The folder of the maskers that come with the package."""
HEADER = "proofmap-masker"
COUNTER = "num_batches_tracked"
"""What the names of batch-norm's counters end with. Maskers' files do not have them."""


@dataclass(frozen=True)
class Header:
    """The description of a masker.

    Attributes:
        kind: ``dabkowski``, ``phang-ca`` or ``phang-fix``.
        width: the channels of the masker.
        scales: the layers that it reads, the coarsest first.
        model: the name of the net that it was trained on.
        net: a digest of that net, see :func:`net_digest`.
        data: the dataset's title.
        images: number of images of the dataset that were used.
        present: the labels in the data; a masker that takes a label knows nothing about other labels. None if the file does not say.
    """

    kind: str
    width: int
    scales: tuple[Scale, ...]
    model: str
    net: str
    data: str
    images: int
    present: list[int] | None

    @classmethod
    def parse(cls, text: str) -> Header:
        found: dict[str, Any] = parse_json(text)
        recipe = found["recipe"]
        return cls(
            kind=recipe["kind"],
            width=recipe["width"],
            scales=tuple(
                Scale(s["layer"], s["channels"], (s["size"][0], s["size"][1])) for s in found["scales"]
            ),
            model=found["model"],
            net=found["net"],
            data=found["data"],
            images=found["images"],
            present=found.get("present"),
        )


def net_digest(classifier: Classifier) -> str:
    """A digest of the net's weights and the shape and normalisation of its input. It does not depend on the label set or the
    wrapper.

    Values are rounded to float16, so a net in half precision is the same net.
    """
    digest = hashlib.blake2b(digest_size=16)
    digest.update(repr((classifier.inputs.shape, classifier.mean, classifier.std)).encode())
    net = module_of(classifier, _WHAT)
    for name, tensor in [*net.named_parameters(), *net.named_buffers()]:
        if not name.endswith(COUNTER):
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.detach().to("cpu", torch.float16).contiguous().numpy().tobytes())
    return digest.hexdigest()


def read_header(path: Path) -> Header:
    """The header of a masker's file."""
    if not path.is_file():
        raise InputError(
            f"there is no masker {str(path)!r}; name the file of one as weights=FILE.safetensors"
        )
    try:
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {}).get(HEADER)
    except Exception as error:  # SafetensorError for the header, OSError and others for the rest
        raise InputError(
            f"{str(path)!r} cannot be read as safetensors ({error}); it is damaged or incomplete: remove it, or name another file"
        ) from None
    if text is None:
        raise InputError(f"{str(path)!r} holds no masker; name a file that benchmarks/maskers/train.py wrote")
    try:
        return Header.parse(str(text))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"the masker {str(path)!r} is of another version of Proofmap ({error}); train it again"
        ) from None


def file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


_LABELS = 32
"""The largest number of labels whose masks are made at the same time."""
_WEIGHTS_HELP = "file of a trained masker; if left out, the package's masker for this net"


@dataclass(frozen=True)
class Masker:
    """A loaded masker: its net, the encoder that computes the features it reads, and the name and digest of its file.

    ``header`` is the header of the file, which describes the training; None for a file that other authors published.
    """

    net: nn.Module
    encoder: Encoder
    file: str
    digest: str
    header: Header | None = None


class TrainedMasker(Method):
    """Base class of methods that use a trained masker. The masker must have been trained for the classifier's net."""

    family = "masker"
    needs = frozenset({"masker"})
    net: ClassVar[type[RealTimeNet] | type[PhangNet]]
    weights: str = setting("", _WEIGHTS_HELP)

    @property
    def trained_as(self) -> str:
        """The kind of masker that the method takes."""
        raise NotImplementedError

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        self.masker(session)

    def masker(self, session: Session) -> Masker:
        """The masker that was trained for this net."""
        return session.memo((self, "masker"), lambda: self._load(session.net))

    def _load(self, classifier: Classifier) -> Masker:
        if not isinstance(classifier.inputs, Pictures):
            raise InputError(
                f"{self.name} is for pictures; {classifier.name} takes {classifier.inputs.noun}. Masks without training: belief-mask, learned-mask"
            )
        path = Path(self.weights) if self.weights else self._packaged(classifier)
        if path.suffix != ".safetensors" and (found := self.read_published(path, classifier)) is not None:
            published, encoder = found
            published = published.to(classifier.device).eval().requires_grad_(False)
            return Masker(published, encoder, path.name, file_digest(path))
        header = read_header(path)
        self._check(header, classifier, path)
        scales, known = header.scales, dict(module_of(classifier, _WHAT).named_modules())
        if any(scale.layer not in known for scale in scales):  # the same net in another module
            scales = Scale.all_of(classifier, most=self.net.most_scales)
        if [(s.channels, s.size) for s in scales] != [(s.channels, s.size) for s in header.scales]:
            raise InputError(
                f"{path} reads the layers {', '.join(s.layer for s in header.scales)}, which are not found in {classifier.name}"
            )
        with torch.random.fork_rng(devices=[]):  # first weights, which are replaced
            net = self.net.for_net(
                [scale.channels for scale in scales], scales[-1].size, classifier, header.width
            )
        weights = {name: tensor.float() for name, tensor in load_file(path).items()}
        missing, unexpected = net.load_state_dict(weights, strict=False)
        if unexpected or any(not name.endswith("num_batches_tracked") for name in missing):
            raise InputError(f"{path} holds other weights than its header says; train the masker again")
        net = net.to(classifier.device).eval().requires_grad_(False)
        return Masker(net, Encoder(classifier, scales), path.name, file_digest(path), header)

    def read_published(self, path: Path, classifier: Classifier) -> tuple[nn.Module, Encoder] | None:
        """The masker in a checkpoint that its authors published; None if they published none."""
        return None

    def record(self, session: Session) -> dict[str, object]:
        masker = self.masker(session)
        return {**self.settings(), "weights": masker.file, "digest": masker.digest}

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        self.check_labels(session, labels)

        def one_batch(some: Tensor, own: Tensor) -> Tensor:
            return self.masks(session, some, own.clamp_min(0))

        with torch.no_grad():
            return self.in_batches(session, one_batch, images, labels, per_image=1, gradients=False)

    def check_labels(self, session: Session, labels: Tensor) -> None:
        """Warn about labels ``(N, L)`` that were not in the masker's training data."""

    def _packaged(self, classifier: Classifier) -> Path:
        own = net_digest(classifier)
        for path in sorted(PACKAGED.glob("*.safetensors")):
            header = read_header(path)
            if header.kind == self.trained_as and header.net == own:
                return path
        raise InputError(
            f"the package has no masker of the kind {self.trained_as} for {classifier.name}; name the file of one as "
            "weights=FILE.safetensors (benchmarks/maskers/train.py trains maskers)"
        )

    def _check(self, header: Header, classifier: Classifier, path: Path) -> None:
        if header.kind != self.trained_as:
            raise InputError(f"{path} is a masker of the kind {header.kind}; this takes {self.trained_as}")
        if header.net != net_digest(classifier):
            raise InputError(
                f"{path} was trained on another net ({header.model}) than {classifier.name}: its masks would not explain "
                "this net. Name the file of a masker of this net (benchmarks/maskers/train.py trains maskers)"
            )

    def masks(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        """Maps ``(N, L, H, W)`` for one batch."""
        raise NotImplementedError

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        return Cost(forward=1)


@METHODS.register
class RealTimeSaliency(TrainedMasker):
    """Real-time saliency (Dabkowski and Gal 2017): a U-Net on the net's features. The label sets a gate on the coarsest features.

    See :class:`~proofmap.methods.maskers.nets.RealTimeNet` for the masks. ``confidence`` is subtracted from the label's evidence
    before the gate, so that labels with little evidence get empty masks. The default is 0, as in training. The preset ``released``
    has 6, like the released code. This value suits the released masker; a masker with less training gives less evidence.
    ``weights`` may be the authors' own checkpoint, for a ResNet-50 (:mod:`~proofmap.methods.maskers.trained`).

    >>> RealTimeSaliency.preset("released").confidence
    6.0
    """

    name = "real-time-saliency"
    net = RealTimeNet
    revision = 2
    description = "masks of a trained U-Net that takes the image and the label"
    reference = "Dabkowski and Gal 2017"
    shortcuts: ClassVar[Shortcuts] = {"preset": {"trained": {}, "released": {"confidence": 6.0}}}
    confidence: float = setting(
        0.0,
        "number subtracted from a label's evidence; larger empties the masks of labels with little evidence",
    )

    @property
    def trained_as(self) -> str:
        return "dabkowski"

    def read_published(self, path: Path, classifier: Classifier) -> tuple[nn.Module, Encoder]:
        return _read_dabkowski(path, classifier)

    def check_labels(self, session: Session, labels: Tensor) -> None:
        header = self.masker(session).header
        if header is None or header.present is None:
            return
        known = torch.tensor([*header.present, NO_LABEL], device=labels.device)
        if not bool(torch.isin(labels, known).all()):
            warnings.warn(  # in the same words each time, so that a study reports it once
                f"{self.name}: its masker was trained on {header.data} and knows {len(known) - 1} of "
                f"{len(session.net.names)} labels; maps of the others, which are asked for here, say nothing. Name the "
                "file of a masker that was trained on them, or choose another method",
                stacklevel=2,
            )

    def masks(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        masker = self.masker(session)
        features, _ = masker.encoder(images)
        parts = [masker.net(features, some, self.confidence) for some in labels.split(_LABELS, dim=1)]
        return resized(torch.cat(parts, dim=1), images.shape[2:])


@METHODS.register
class PhangMasker(TrainedMasker):
    """The masker of Phang et al. 2020: one mask for all labels, trained with one fixed net (FIX) or with changing copies of it (CA).

    ``weights`` may be the authors' own checkpoint, for a ResNet-50 (:mod:`~proofmap.methods.maskers.trained`).
    """

    name = "phang-masker"
    net = PhangNet
    description = "the mask of a trained net that knows no label"
    reference = "Phang et al. 2020"
    variant: Literal["ca", "fix"] = setting(
        "ca",
        "kind of training: ca (classifier-agnostic) with changing copies of the net, fix with the fixed net",
    )
    encoder: Literal["own", "net"] = setting(
        "own",
        "for a checkpoint of the authors: own reads the features of the net in the file, net those of the explained net",
    )
    label_free = True

    @property
    def trained_as(self) -> str:
        return f"phang-{self.variant}"

    def read_published(self, path: Path, classifier: Classifier) -> tuple[nn.Module, Encoder]:
        return _read_phang(path, classifier, self.encoder)

    def masks(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        masker = self.masker(session)
        return resized(masker.net(masker.encoder(images)[0]), images.shape[2:], nearest=True)
