"""What a run has to compute, what it costs, and how it is cut into units."""
