"""A run directory on disk: the database, the maps, the lock."""
