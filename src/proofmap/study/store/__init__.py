"""A run directory on disk: the database, the files of maps, and the lock."""
