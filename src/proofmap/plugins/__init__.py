"""Plug-ins by name, of this package and of others: settings, specs, users' files, and digests of code."""
