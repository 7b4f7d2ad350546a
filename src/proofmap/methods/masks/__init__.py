"""Methods that optimise masks for each (image, label) pair, all with one engine."""
