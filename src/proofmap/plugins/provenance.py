"""Which code a plug-in's results come from, for records: results of other code must not be mixed with them."""

from __future__ import annotations

from collections.abc import Iterator

from proofmap.plugins.code import Digest, foreign_code
from proofmap.plugins.settings import Plugin


def provenance(plugin: Plugin, *others: Plugin) -> dict[str, object]:
    """The ``revisions`` of a plug-in, of those it has as settings and of ``others`` it uses, where they are not the
    first; and the ``code`` of those that are not ours, as a digest.

    Records stay as short as they are because a revision that is not stated is the first.
    """
    members = list(dict.fromkeys(inner for one in (plugin, *others) for inner in _with_inner(one)))
    revisions = {f"{one.noun} {one.name}": one.revision for one in members if one.revision != 1}
    codes = [code for one in members for code in foreign_code(one).values()]
    found: dict[str, object] = {"revisions": revisions} if revisions else {}
    if codes:
        digest = Digest(8)
        digest.add_value(codes)
        found["code"] = codes[0] if len(codes) == 1 else digest.hexdigest()
    return found


def _with_inner(plugin: Plugin) -> Iterator[Plugin]:
    yield plugin
    for one in plugin._members():
        yield from _with_inner(one)
