"""Who is told how a study goes: a live view, lines in a log, a file, TensorBoard, MLflow, W&B."""
