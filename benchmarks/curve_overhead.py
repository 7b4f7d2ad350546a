"""What an insertion curve costs beside the net itself: ranking, compositing, bookkeeping.

    python benchmarks/curve_overhead.py [--model efficientnet-lite0]

Times whole curves, and the same number of images through the bare net in the same batches, alternating in one run.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch

import proofmap as pm


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--images", type=int, default=2)
    parser.add_argument("--labels", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=7)
    args = parser.parse_args()
    f = pm.load_classifier(args.model).frozen()
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(args.images, 3, *f.size, generator=generator).to(f.device)
    maps = torch.rand(args.images, args.labels, *f.size, generator=generator).to(f.device)
    labels = torch.arange(args.labels, device=f.device).expand(args.images, -1)
    batch = f.batches[0].size
    passes = (
        args.images * args.labels * 31 + 2 * args.images
    )  # 32 steps: 31 inside, the two ends once per image
    ready = (images[:1].expand(batch, -1, -1, -1) - f._mean) / f._std
    ready = ready.contiguous(memory_format=torch.channels_last)

    def curve() -> None:
        pm.insertion(f, images, maps, labels)

    @torch.no_grad()
    def bare() -> None:
        for start in range(0, passes, batch):
            f.net(ready[: min(batch, passes - start)])

    times: dict[str, list[float]] = {"curve": [], "bare": []}
    for _ in range(args.rounds + 1):
        for name, run in (("curve", curve), ("bare", bare)):
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    whole, net = (statistics.median(times[k][1:]) for k in ("curve", "bare"))
    print(
        f"{args.model}, {args.images} x {args.labels} maps at {f.size[0]} px, {passes} passes, batches of {batch}"
    )
    print(f"curves {whole:.2f} s, bare net {net:.2f} s, overhead {100 * (whole / net - 1):.0f} %")


if __name__ == "__main__":
    main()
