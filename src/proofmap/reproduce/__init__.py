"""Computes the paper's tables and figures again, with one recipe each: ``proofmap reproduce NAME``."""
