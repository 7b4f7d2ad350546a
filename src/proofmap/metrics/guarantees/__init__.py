"""Metrics with a guarantee: what was found by sampling holds with a stated probability."""
