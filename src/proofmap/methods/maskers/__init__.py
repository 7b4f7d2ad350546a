"""Maskers: small nets, trained beforehand, that make masks from the features of the explained net."""

from proofmap.methods.maskers import trained  # noqa: F401 they register methods
