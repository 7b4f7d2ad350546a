"""Facts about the registered methods as plain records, for the command line and the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass
from typing import Any

from proofmap.core.errors import ProofmapError
from proofmap.methods.method import METHODS, Family, Method
from proofmap.plugins.settings import settings_of

FAMILIES: Mapping[Family, str] = {
    "gradients": "Gradients",
    "cam": "Class activation maps",
    "perturbation": "Perturbation",
    "mask": "Optimised masks",
    "masker": "Trained maskers",
    "propagation": "Propagation",
    "attention": "Attention",
    "control": "Controls",
    "adapter": "Other libraries",
    "other": "Other",
}
"""The families of methods and their titles, in the order in which lists show them."""
_WRAPPED = "random"  # costs nothing, so the cost of a wrapper around it is that of the wrapper
_NOT_AN_EXACT_LINE = 1e-9


@dataclass(frozen=True)
class Passes:
    """Number of passes of the net for an image with L labels: ``fixed + per_label * L``. A wrapper adds the passes of the METHOD that it
    wraps.
    """

    fixed: float
    per_label: float
    wraps: bool = False

    def __str__(self) -> str:
        """
        >>> print(
        ...     Passes(0, 600),
        ...     "|",
        ...     Passes(1, 0),
        ...     "|",
        ...     Passes(8, 2),
        ...     "|",
        ...     Passes(0, 0),
        ...     "|",
        ...     Passes(1, 0, wraps=True),
        ... )
        600 per label | 1 per image | 8 + 2 per label | none | METHOD's + 1
        """
        parts = [f"{self.fixed:,g}"] if self.fixed else []
        parts += [f"{self.per_label:,g} per label"] if self.per_label else []
        if self.wraps:
            return " + ".join(["METHOD's", *parts])
        return " + ".join(parts) + ("" if self.per_label else " per image") if parts else "none"


@dataclass(frozen=True)
class MethodFacts:
    """Facts about one method with its default settings. A fact is None if it depends on a setting without a default."""

    name: str
    description: str
    family: Family
    passes: Passes | None
    label_free: bool | None
    signed: bool | None
    stochastic: bool | None
    needs: tuple[str, ...]
    reference: str

    def record(self) -> dict[str, Any]:
        """The facts as plain data. The passes are given as numbers, not as text."""
        return {**asdict(self), "needs": list(self.needs)}

    @property
    def map_words(self) -> str:
        """A phrase that says whether all labels share one map."""
        return {True: "one for all labels", False: "one per label", None: "depends"}[self.label_free]


def facts_of(kind: type[Method]) -> MethodFacts:
    """The facts about a class of methods, read from an instance with default settings. A wrapper is put around a method that takes no passes."""
    inner = [info for info in settings_of(kind) if info.default is MISSING and info.plugin is not None]
    try:
        method: Method | None = kind.build({info.name: _WRAPPED for info in inner})
    except ProofmapError:
        method = None
    return MethodFacts(
        name=kind.name,
        description=kind.description,
        family=kind.family,
        passes=None if method is None else _passes(method, wraps=bool(inner)),
        label_free=_stated(kind, method, "label_free", bool(inner)),
        signed=_stated(kind, method, "signed", bool(inner)),
        stochastic=_stated(kind, method, "stochastic", bool(inner)),
        needs=_needs(kind),
        reference=kind.reference,
    )


def by_family() -> Iterator[tuple[str, list[MethodFacts]]]:
    """The registered methods, sorted by name, under the titles of their families."""
    known = [facts_of(METHODS[name]) for name in sorted(METHODS)]
    for family, title in FAMILIES.items():
        members = [facts for facts in known if facts.family == family]
        if members:
            yield title, members


def _needs(kind: type[Method]) -> tuple[str, ...]:
    """The needs of a class of methods. Empty for a wrapper, which has the needs of the METHOD that it wraps."""
    of_class: object = kind.needs
    return tuple(sorted(of_class)) if isinstance(of_class, frozenset) else ()


def _passes(method: Method, *, wraps: bool) -> Passes | None:
    costs = {labels: method.cost(labels) for labels in (1, 6, 11)}
    first, middle, last = (None if cost is None else cost.passes for cost in costs.values())
    if first is None or middle is None or last is None:
        return None
    slope = (last - first) / 10
    if abs(first + 5 * slope - middle) > _NOT_AN_EXACT_LINE:
        return None
    return Passes(first - slope, slope, wraps)


def _stated(kind: type[Method], method: Method | None, fact: str, wraps: bool) -> bool | None:
    """The value of a fact, from the class or from its instance. None if a wrapper takes the fact from METHOD."""
    of_class = getattr(kind, fact)
    if isinstance(of_class, bool):
        return of_class
    return None if method is None or wraps else bool(getattr(method, fact))
