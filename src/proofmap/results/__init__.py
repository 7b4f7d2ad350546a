"""Results: records, scores with intervals, comparisons, audits and their tables. Nothing here draws."""
