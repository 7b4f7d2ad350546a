"""ROAD's imputation: the batched solve on the device against SciPy's sparse solve, image by image, in one run.

    python benchmarks/road_speed.py [--size 224] [--images 64] [--sparse 4] [--share 0.5] [--device cuda]

Both impute the same pictures behind the same masks: a share of the pixels is hidden, half of the masks in blobs, half scattered.
The sparse system is put together without a loop over pixels. The largest difference between the two is printed, too.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch
import torch.nn.functional as F
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import spsolve

from proofmap.fills.road import impute


def sparse_solve(x: np.ndarray, known: np.ndarray) -> np.ndarray:
    """One picture ``(C, H, W)`` by SciPy."""
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
    matrix = coo_matrix(
        (
            np.concatenate([*entries, diagonal]),
            (np.concatenate([*rows, own]), np.concatenate([*columns, own])),
        )
    ).tocsc()
    found = x.copy()
    found[:, i, j] = spsolve(matrix, right).T
    return found


def pictures(n: int, size: int, share: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Smooth pictures with some noise, and masks of which the share is hidden."""
    random = torch.Generator().manual_seed(0)
    coarse = torch.rand(n, 3, 16, 16, generator=random)
    x = F.interpolate(coarse, size=(size, size), mode="bicubic", align_corners=False).clamp(0, 1)
    x = 0.9 * x + 0.1 * torch.rand(x.shape, generator=random)
    blobs = F.interpolate(
        torch.rand(n, 1, 9, 9, generator=random), size=(size, size), mode="bicubic", align_corners=False
    )
    noise = torch.rand(n, 1, size, size, generator=random)
    heat = torch.where((torch.arange(n) % 2 == 0).view(-1, 1, 1, 1), blobs, noise)[:, 0]
    cut = heat.flatten(1).quantile(share, dim=1).view(-1, 1, 1)
    return x, heat > cut


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--sparse", type=int, default=4, help="images that SciPy solves")
    parser.add_argument("--share", type=float, default=0.5, help="of the pixels that is hidden")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()
    x, known = pictures(args.images, args.size, args.share)
    on_device, mask = x.to(args.device), known.to(args.device)
    impute(on_device[:2], mask[:2]).sum().item()  # to warm up
    batched, sparse = [], []
    for _ in range(args.rounds):
        began = time.perf_counter()
        found = impute(on_device, mask)
        found.sum().item()  # reading a number waits for the device
        batched.append((time.perf_counter() - began) / args.images)
        began = time.perf_counter()
        expected = [sparse_solve(x[i].double().numpy(), known[i].numpy()) for i in range(args.sparse)]
        sparse.append((time.perf_counter() - began) / args.sparse)
    worst = max(float(np.abs(found[i].cpu().numpy() - e).max()) for i, e in enumerate(expected))
    fast, slow = statistics.median(batched), statistics.median(sparse)
    print(
        f"{args.images} pictures of {args.size} px, {args.share:.0%} hidden, {args.device}, torch {torch.__version__}, "
        f"{args.rounds} rounds (medians)"
    )
    print(f"SciPy's sparse solve: {1000 * slow:.1f} ms per image; batched: {1000 * fast:.2f} ms per image")
    print(f"ratio {slow / fast:.1f}; largest difference of a pixel {worst:.1e}")


if __name__ == "__main__":
    main()
