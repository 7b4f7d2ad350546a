"""Plug-ins (methods, metrics, fills, games) of this package and of others: settings, specs, users' files, and digests of code."""
