"""The lists: methods, metrics, models and datasets."""

from __future__ import annotations

import json
from dataclasses import asdict

import proofmap as pm
from proofmap.cli.options import AsJson
from proofmap.data import list_datasets
from proofmap.methods import METHODS
from proofmap.plugins.settings import setting_names
from proofmap.results import tables


def methods(as_json: AsJson = False) -> None:
    """The methods, what they are and their settings."""
    records = [
        {
            "name": name,
            "meaning": METHODS[name].description,
            "needs": sorted(METHODS[name].needs),
            "settings": setting_names(METHODS[name]),
        }
        for name in METHODS
    ]
    if as_json:
        print(json.dumps(records, indent=1))
        return
    for record in records:
        needs = f"; needs {', '.join(record['needs'])}" if record["needs"] else ""
        print(f"{record['name']}\n    {record['meaning']}{needs}")
        if record["settings"]:
            print(f"    settings: {', '.join(record['settings'])}")
    print("\nSettings follow a colon: learned-mask:tv=0.1,scale=4 or learned-mask:preset=paper")


def metrics(as_json: AsJson = False) -> None:
    """The metrics, what they are, which way is better, and their settings."""
    kinds = [pm.METRICS[name] for name in pm.METRICS]
    records = [
        {
            "name": kind.name,
            "meaning": kind.description,
            "better": "higher" if kind.higher_is_better else "lower",
            "settings": [*kind.shortcuts, *setting_names(kind)],
        }
        for kind in kinds
    ]
    if as_json:
        print(json.dumps(records, indent=1))
        return
    for record in records:
        print(f"{record['name']} ({record['better']} is better)\n    {record['meaning']}")
        if record["settings"]:
            print(f"    settings: {', '.join(record['settings'])}")
    print("\nSettings follow a colon: soundness:thresholds=released,curve=rise")


def models(as_json: AsJson = False) -> None:
    """The nets that have a name here, and how to name any other."""
    infos = pm.list_models()
    if as_json:
        print(json.dumps([asdict(info) for info in infos], indent=1))
        return
    rows = [[i.name, str(i.size or "any"), i.weights, i.description] for i in infos]
    print(tables.aligned(["model", "input", "weights", "what it is"], rows))


def datasets(as_json: AsJson = False) -> None:
    """The kinds of data, and how to write them after --data or in a study file."""
    infos = list_datasets()
    if as_json:
        print(json.dumps([asdict(info) for info in infos], indent=1))
        return
    print(tables.aligned(["write", "what it is"], [[i.form, i.description] for i in infos]))
    print("\nCapitals stand for something of yours; what follows them may be left out.")
