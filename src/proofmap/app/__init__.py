"""The local web page and its API: `proofmap serve`."""
