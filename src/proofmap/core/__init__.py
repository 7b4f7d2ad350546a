"""What everything else stands on: inputs, labels, ranking, random streams, batches, progress, files, errors."""
