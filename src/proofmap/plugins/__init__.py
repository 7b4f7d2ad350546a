"""Things known by name, with settings, ours and other people's: registries, settings, files of the user's, code."""
