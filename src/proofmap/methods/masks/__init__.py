"""Methods that optimise masks for each (image, label) pair, all with one engine."""

from proofmap.methods.masks import (  # noqa: F401 they register methods
    belief,
    diffmask,
    extremal,
    fido,
    fong_vedaldi,
    iba,
    igos,
    learned,
    rate_distortion,
)
