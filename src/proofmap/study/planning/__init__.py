"""Plans a run: which units it has to compute, what they cost, and how many images a unit has."""
