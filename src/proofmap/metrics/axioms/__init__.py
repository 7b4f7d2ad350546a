"""Axioms of attribution (Sundararajan et al. 2017), checked on nets that are made for it."""
