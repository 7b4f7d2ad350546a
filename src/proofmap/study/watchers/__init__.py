"""Watchers show the progress of a running study: a live view, lines in a log, a file, TensorBoard, MLflow, W&B."""
