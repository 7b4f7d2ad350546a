"""``axioms``: which axioms of attribution methods keep, on nets that are made for it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer

import proofmap as pm
from proofmap.cli.console import print_result
from proofmap.cli.options import METHODS_HELP, AsJson, Device, Seed, device_named
from proofmap.metrics import check_axioms
from proofmap.plugins.specs import split_specs


def axioms(
    methods: Annotated[str, typer.Argument(help=METHODS_HELP, show_default=False)],
    device: Device = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Which axioms methods keep on small made nets: sensitivity (a) and (b), implementation invariance."""
    chosen = [pm.make_method(spec) for spec in split_specs(methods)]
    place = device_named(device)
    reports = [check_axioms(method, seed=seed, device=place) for method in chosen]
    if as_json:
        print_result(json.dumps([asdict(report) for report in reports], indent=1))
        return
    print_result("\n".join(map(str, reports)))
