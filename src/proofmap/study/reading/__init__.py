"""Reads stored runs: their results, images and notes. Also checks runs for damage and exports their tables."""
