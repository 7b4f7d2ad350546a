"""Progress of a running study: a live view, lines in a log, a file, TensorBoard, MLflow, W&B."""
