"""What metrics cost, as ratios in one run: insertion and deletion, pixel flipping, ROAD, and a scored pair beside bare passes.

    python benchmarks/metric_speed.py [--device cuda] [--images 32] [--rounds 5] [--parts curves,flipping,road,pair]

- ``curves``: insertion and deletion of one map per image, 20 steps each, against torch-cam 0.5's ``DeletionInsertionMetric`` given the
  same maps; where torch-cam is not installed, against a loop of our own that does what its documentation and source say. Proofmap plays both
  games as an evaluation does, which shares what they have in common, and each by itself.
- ``flipping``: deletion in 24 steps against Quantus' ``PixelFlipping`` in as many; without Quantus, against its loop as its definition
  makes it: arrays in NumPy, one step of all images after the other.
- ``road``: the batched solve against SciPy's sparse solve, image by image; left out without SciPy.
- ``pair``: completeness and soundness of maps of several labels at 28 points against as many bare passes of the net in the same batches.

All run in float32. Full float32 means that TF32 is off, as it is in Proofmap's scores; the others are timed with torch's own choice, too.
Medians of alternating rounds, after one to warm up. Maps and images are noise, for the time does not depend on them.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import proofmap as pm
from proofmap.classifier.kernels import steady_kernels
from proofmap.fills.road import impute
from proofmap.metrics import make_game, scores
from proofmap.metrics.judged import Judged
from proofmap.session import Session

STEPS, POINTS, FLIPS = 20, 28, 24


class Normalised(nn.Module):
    """The eager net on images in [0, 1], as other libraries get it."""

    def __init__(self, f: pm.Classifier) -> None:
        super().__init__()
        self.f = f

    def forward(self, x: Tensor) -> Tensor:
        return self.f.net((x - self.f._mean) / self.f._std)


def medians(rounds: int, runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of each run, alternating; the first round is to warm up."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(each[1:]) for name, each in times.items()}


def told(seconds: dict[str, float], ours: str, images: int) -> None:
    """Each time, with its ratio to ours."""
    for name, each in seconds.items():
        ratio = "" if name == ours else f", ratio {each / seconds[ours]:.2f}"
        print(f"  {name}: {each:.3f} s, {images / each:.1f} images/s{ratio}", flush=True)


# ---- insertion and deletion -----------------------------------------------------------------------------------------


class GivenMaps:
    """Maps that are already there, in the place of a torch-cam extractor."""

    def __init__(self, model: nn.Module, maps: Tensor) -> None:
        self.model, self.maps = model, maps

    def __call__(self, *_: object, **__: object) -> list[Tensor]:
        return [self.maps]

    def fuse_cams(self, cams: list[Tensor]) -> Tensor:
        return cams[0]

    @contextlib.contextmanager
    def _hooks_off(self) -> Iterator[None]:
        yield


def flat_loop(net: nn.Module, x: Tensor, maps: Tensor, labels: Tensor, batch: int) -> float:
    """Deletion and insertion as torch-cam 0.5 defines them: one list of (image, curve, step), in batches, each score stored by itself."""
    n = maps[0].numel()
    ranks = maps.flatten(1).argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    counts = [*range(0, n, -(-n // STEPS)), n]
    areas = x.new_zeros(2, len(x), len(counts))
    jobs = [(i, curve, k) for i in range(len(x)) for k in range(len(counts)) for curve in (0, 1)]
    flat = x.flatten(2)
    with torch.inference_mode():
        for start in range(0, len(jobs), batch):
            part = jobs[start : start + batch]
            image = torch.tensor([i for i, _, _ in part], device=x.device)
            count = torch.tensor([counts[k] for _, _, k in part], device=x.device)
            inserted = torch.tensor([curve == 1 for _, curve, _ in part], device=x.device)
            top = ranks[image] < count[:, None]
            shown = torch.where(inserted[:, None], top, ~top)
            made = (flat[image] * shown[:, None]).view(-1, *x.shape[1:])
            scores = net(made).softmax(dim=-1).gather(1, labels[image, None])[:, 0]
            for (i, curve, k), score in zip(part, scores, strict=True):
                areas[curve, i, k] = score
    share = torch.tensor(counts, device=x.device) / n
    return float(torch.trapezoid(areas, share, dim=-1).sum())


def curves(f: pm.Classifier, args: argparse.Namespace) -> None:
    x, maps, labels = made_up(f, args.images, 1)
    net, fast = Normalised(f).eval(), f.frozen()
    others: dict[str, Callable[[int], object]] = {}
    try:
        from torchcam.metrics import DeletionInsertionMetric

        def torch_cam(batch: int) -> dict[str, float]:
            softmax = lambda logits: logits.softmax(dim=-1)  # noqa: E731
            metric = DeletionInsertionMetric(
                GivenMaps(net, maps[:, 0]), softmax, steps=STEPS, batch_size=batch
            )
            with torch.no_grad():
                metric.update(x, labels[:, 0].tolist())
            return metric.summary()

        torch_cam(32)
        others["torch-cam 0.5"] = torch_cam
    except Exception as error:
        print(f"  torch-cam is not here or does not run ({type(error).__name__}): a loop in its place")
        others["torch-cam's loop"] = lambda batch: flat_loop(net, x, maps[:, 0], labels[:, 0], batch)

    def ours() -> None:
        judged = Judged(Session(fast), x, labels, maps)
        for game in ("insertion", "deletion"):
            judged.play(make_game(game, points=STEPS)).auc.sum().item()

    def apart() -> None:
        for game in (pm.insertion, pm.deletion):
            game(fast, x, maps, labels, points=STEPS).auc.sum().item()

    runs: dict[str, Callable[[], object]] = {"Proofmap": ours, "Proofmap, each by itself": apart}
    own = fast.batches[0].size
    for name, run in others.items():
        for batch in dict.fromkeys((32, own)):
            runs[f"{name}, batches of {batch}"] = lambda run=run, batch=batch: run(batch)
            runs[f"{name}, batches of {batch}, full float32"] = steadily(
                lambda run=run, batch=batch: run(batch)
            )
    print(f"insertion and deletion, {STEPS} steps each; Proofmap in batches of {own}")
    told(medians(args.rounds, runs), "Proofmap", args.images)


def steadily(run: Callable[[], object]) -> Callable[[], None]:
    """The same with the kernels that Proofmap's scores are made with."""

    def within() -> None:
        with steady_kernels(tf32=False):
            run()

    return within


# ---- pixel flipping -------------------------------------------------------------------------------------------------


def flipping_loop(
    net: nn.Module, x: np.ndarray, maps: np.ndarray, labels: np.ndarray, device: str
) -> np.ndarray:
    """Pixel flipping as Quantus defines it: values of all channels, best first, become black, a step after the other; the curves."""
    spread = np.broadcast_to(maps[:, None], x.shape).reshape(len(x), -1)
    order = np.argsort(-spread, axis=1)
    step, made, scores = -(-spread.shape[1] // FLIPS), x.copy(), []
    for start in range(0, spread.shape[1], step):
        flat = made.reshape(len(x), -1).copy()
        np.put_along_axis(flat, order[:, start : start + step], flat.min(axis=1, keepdims=True), axis=1)
        made = flat.reshape(x.shape)
        with torch.no_grad():
            probabilities = net(torch.tensor(made, device=device)).softmax(dim=-1).cpu().numpy()
        scores.append(probabilities[np.arange(len(x)), labels])
    return np.stack(scores, axis=1)


def flipping(f: pm.Classifier, args: argparse.Namespace) -> None:
    x, maps, labels = made_up(f, args.images, 1)
    net, fast = Normalised(f).eval(), f.frozen()
    arrays = (x.cpu().numpy(), maps[:, 0].cpu().numpy(), labels[:, 0].cpu().numpy())

    def ours() -> None:
        pm.deletion(fast, x, maps, labels, points=FLIPS).auc.sum().item()

    def loop() -> None:
        flipping_loop(net, *arrays, str(f.device))

    runs: dict[str, Callable[[], object]] = {
        "Proofmap": ours,
        "Quantus' loop": loop,
        "Quantus' loop, full float32": steadily(loop),
    }
    try:
        from quantus import PixelFlipping

        metric = PixelFlipping(
            features_in_step=x[0].numel() // FLIPS,
            disable_warnings=True,
            normalise=False,
        )

        def quantus() -> None:
            pictures, given, true = arrays
            metric(
                net,
                pictures,
                true,
                a_batch=given[:, None],
                device=str(f.device),
                softmax=True,
                batch_size=len(x),
            )

        quantus()
        runs["Quantus' PixelFlipping"] = quantus
    except Exception as error:  # it does not keep up with every NumPy
        print(f"  Quantus is not here or does not run ({type(error).__name__}): only its loop")
    print(f"deletion in {FLIPS} steps against pixel flipping in as many")
    told(medians(args.rounds, runs), "Proofmap", args.images)


# ---- ROAD -----------------------------------------------------------------------------------------------------------


def sparse_solve(x: np.ndarray, known: np.ndarray) -> np.ndarray:
    """One picture ``(C, H, W)`` by SciPy; the system is put together without a loop over pixels."""
    from scipy.sparse import coo_matrix
    from scipy.sparse.linalg import spsolve

    height, width = known.shape
    number = np.full(known.shape, -1)
    number[~known] = np.arange((~known).sum())
    rows, columns, entries = [], [], []
    diagonal, right = np.zeros((~known).sum()), np.zeros(((~known).sum(), len(x)))
    i, j = np.nonzero(~known)
    for di in (-1, 0, 1):
        for dj in (-1, 0, 1):
            if not (di or dj):
                continue
            weight = 1 / 12 if di and dj else 1 / 6
            a, b = i + di, j + dj
            inside = np.nonzero((a >= 0) & (a < height) & (b >= 0) & (b < width))[0]
            diagonal[inside] += weight
            other = number[a[inside], b[inside]]
            shown, hidden = inside[other < 0], other >= 0
            right[shown] += weight * x[:, a[shown], b[shown]].T
            rows.append(inside[hidden])
            columns.append(other[hidden])
            entries.append(np.full(hidden.sum(), -weight))
    own = np.arange(len(diagonal))
    values = np.concatenate([*entries, diagonal])
    matrix = coo_matrix((values, (np.concatenate([*rows, own]), np.concatenate([*columns, own])))).tocsc()
    found = x.copy()
    found[:, i, j] = spsolve(matrix, right).T
    return found


def half_hidden(n: int, size: int) -> tuple[Tensor, Tensor]:
    """Smooth pictures with some noise, and masks that hide half of each: every other one in blobs, the rest scattered."""
    random = torch.Generator().manual_seed(0)

    def smooth(channels: int, cells: int) -> Tensor:
        coarse = torch.rand(n, channels, cells, cells, generator=random)
        return F.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=False)

    x = 0.9 * smooth(3, 16).clamp(0, 1) + 0.1 * torch.rand(n, 3, size, size, generator=random)
    noise = torch.rand(n, 1, size, size, generator=random)
    heat = torch.where((torch.arange(n) % 2 == 0).view(-1, 1, 1, 1), smooth(1, 9), noise)[:, 0]
    return x, heat > heat.flatten(1).quantile(0.5, dim=1).view(-1, 1, 1)


def road(f: pm.Classifier, args: argparse.Namespace) -> None:
    x, known = half_hidden(args.images, f.size[0])
    on_device, mask, solved = x.to(f.device), known.to(f.device), min(args.sparse, args.images)
    found: dict[str, Tensor] = {}

    def ours() -> None:
        found["batched"] = impute(on_device, mask)
        found["batched"].sum().item()

    runs: dict[str, Callable[[], object]] = {"batched": ours}
    expected: list[np.ndarray] = []

    def sparse() -> None:
        expected[:] = [sparse_solve(x[i].double().numpy(), known[i].numpy()) for i in range(solved)]

    try:
        import scipy  # noqa: F401

        runs["SciPy"] = sparse
    except ImportError:
        print("  SciPy is not here: the batched solve alone")
    seconds = medians(args.rounds, runs)
    print(f"ROAD's imputation, half of {f.size[0]} x {f.size[0]} pixels hidden")
    fast = seconds["batched"] / args.images
    print(f"  batched: {1000 * fast:.2f} ms per image")
    if "SciPy" in seconds:
        slow = seconds["SciPy"] / solved
        worst = max(
            float(np.abs(found["batched"][i].cpu().numpy() - e).max()) for i, e in enumerate(expected)
        )
        print(
            f"  SciPy: {1000 * slow:.1f} ms per image, ratio {slow / fast:.1f}; largest difference {worst:.1e}"
        )


# ---- a pair -----------------------------------------------------------------------------------------------------------


def pair(f: pm.Classifier, args: argparse.Namespace) -> None:
    x, maps, labels = made_up(f, args.images, args.labels)
    fast = f.frozen()
    batch, passes = fast.batches[0].size, args.images * (args.labels * (POINTS - 1) + 2)
    ready = ((x[:1].expand(batch, -1, -1, -1) - fast._mean) / fast._std).contiguous(
        memory_format=torch.channels_last
    )

    def ours() -> None:
        found = pm.insertion(fast, x, maps, labels, points=POINTS)
        scores.completeness(found.auc, found.f, 0.01).sum().item()
        scores.soundness(found.auc, found.f, 0.001).sum().item()

    @torch.no_grad()
    def bare() -> None:
        for start in range(0, passes, batch):
            fast.net(ready[: min(batch, passes - start)])

    seconds = medians(
        args.rounds, {"scored": ours, "bare": steadily(bare), "bare, torch's own kernels": bare}
    )
    pairs = args.images * args.labels
    print(f"{pairs} pairs at {POINTS} points, {passes} passes in batches of {batch}")
    print(f"  scored: {seconds['scored']:.3f} s, {1000 * seconds['scored'] / pairs:.2f} ms per pair")
    for name in ("bare", "bare, torch's own kernels"):
        print(f"  {name}: {seconds[name]:.3f} s; scored / bare {seconds['scored'] / seconds[name]:.3f}")


def made_up(f: pm.Classifier, images: int, labels: int) -> tuple[Tensor, Tensor, Tensor]:
    """Images, maps and labels of noise on the net's device."""
    random = torch.Generator().manual_seed(0)
    x = torch.rand(images, *f.inputs.shape, generator=random)
    maps = torch.rand(images, labels, *f.size, generator=random)
    return x.to(f.device), maps.to(f.device), torch.arange(labels, device=f.device).repeat(images, 1)


PARTS = {"curves": curves, "flipping": flipping, "road": road, "pair": pair}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--images", type=int, default=None, help="128 on a GPU, 4 on a CPU when left out")
    parser.add_argument("--labels", type=int, default=3, help="of each image, for pairs")
    parser.add_argument("--sparse", type=int, default=4, help="images that SciPy solves")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument(
        "--no-weights", action="store_true", help="random weights, where the real ones are not here"
    )
    args = parser.parse_args()
    args.images = args.images or (4 if args.device == "cpu" else 128)
    warnings.simplefilter("ignore")
    f = pm.load_classifier(args.model, device=args.device, pretrained=not args.no_weights)
    print(
        f"{args.model} at {f.size[0]} px, {args.device}, torch {torch.__version__}, {args.images} images, "
        f"medians of {args.rounds} alternating rounds",
        flush=True,
    )
    for name in args.parts.split(","):
        PARTS[name](f, args)


if __name__ == "__main__":
    main()
