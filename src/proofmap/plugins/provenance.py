"""Which code a plug-in's results come from, for records: results of other code must not be mixed with them."""

from __future__ import annotations

from collections.abc import Iterator

from proofmap.plugins.code import UNSEEN, foreign_code, value_digest
from proofmap.plugins.settings import Plugin


def provenance(plugin: Plugin, *others: Plugin) -> dict[str, object]:
    """The ``revisions`` of a plug-in, of those it has as settings and of ``others`` it uses, where they are not the
    first; and the ``code`` of those that are not ours, with the values that it reads (:func:`proofmap.plugins.code.code_record`).

    Records stay as short as they are because a revision that is not stated is the first.
    """
    members = list(dict.fromkeys(inner for one in (plugin, *others) for inner in _with_inner(one)))
    revisions = {f"{one.noun} {one.name}": one.revision for one in members if one.revision != 1}
    records = [record for one in members if (record := foreign_code(one))]
    found: dict[str, object] = {"revisions": revisions} if revisions else {}
    for record in records:
        for key in ("reads", UNSEEN):
            if key in record:
                found[key] = {**found.get(key, {}), **record[key]}  # type: ignore[dict-item]
    if records:
        codes = [record["code"] for record in records]
        found["code"] = codes[0] if len(codes) == 1 else value_digest(codes)
    return found


def _with_inner(plugin: Plugin) -> Iterator[Plugin]:
    yield plugin
    for one in plugin._members():
        yield from _with_inner(one)
