"""Foundations of all other packages: inputs, labels, ranking, random streams, batches, progress, files, errors."""
