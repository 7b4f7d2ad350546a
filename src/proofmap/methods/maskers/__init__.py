"""Maskers: small nets, trained beforehand, that make masks from the features of the explained net."""
