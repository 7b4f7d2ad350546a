"""Options of commands that judge methods. Their help and completions list plug-ins, so they import torch."""

from __future__ import annotations

import typer

from proofmap.cli.options import METHODS_HELP, choice_option, completed
from proofmap.methods import METHODS as METHOD_NAMES
from proofmap.metrics import CURVES as CURVE_PRESETS
from proofmap.metrics import THRESHOLDS as THRESHOLD_PRESETS

METHODS = typer.Option(help=METHODS_HELP, autocompletion=completed(METHOD_NAMES, ","))
THRESHOLDS = typer.Option(
    help=f"Thresholds of the scores: {', '.join(THRESHOLD_PRESETS)}, or two numbers E1,E2."
)
CURVE = choice_option(CURVE_PRESETS, "How curves are drawn")
