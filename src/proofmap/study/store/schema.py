"""The tables of a run's database.

Methods, metrics and labels are rows, never columns, so no method or metric is named in this module. ``per_image`` and ``per_label`` are
views with names instead of ids, for people and pandas. A value that does not count (NaN) is NULL. A unit is one method on one block of images.
"""

from __future__ import annotations

import sqlite3

from proofmap.study.store.errors import StoreError

APPLICATION = 0x50726F66
"""SQLite's application id, ``Prof`` in ASCII. It distinguishes this file from other databases."""
VERSION = 7
"""Version of the tables. Databases of other versions are refused."""

TABLES = """
CREATE TABLE images (
    id INTEGER PRIMARY KEY,             -- in the order of the survey
    name TEXT NOT NULL UNIQUE,
    digest TEXT NOT NULL,               -- of the picture as it is stored
    stamp TEXT NOT NULL,                -- changes when the file does
    truth INTEGER,                      -- the true label, an output of the net, if there is one
    true_labels TEXT NOT NULL,          -- all of them, a JSON list
    eligible INTEGER NOT NULL,          -- passes the study's selection
    block INTEGER,                      -- the block it is judged in, once it is chosen
    failure TEXT                        -- why it cannot be read
);
CREATE INDEX images_of_block ON images (block);
CREATE TABLE labels (label INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE image_labels (
    image INTEGER NOT NULL REFERENCES images, place INTEGER NOT NULL, label INTEGER NOT NULL, f REAL NOT NULL,
    PRIMARY KEY (image, place)
) WITHOUT ROWID;
CREATE TABLE methods (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, label_free INTEGER NOT NULL, settings TEXT NOT NULL,
    kind TEXT NOT NULL                  -- 'signed' if its maps are
);
CREATE TABLE metrics (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, higher_is_better INTEGER NOT NULL, settings TEXT NOT NULL,
    kind TEXT NOT NULL,                 -- what it measures; pages go by this
    least REAL NOT NULL, greatest REAL NOT NULL
);
CREATE TABLE units (
    id INTEGER PRIMARY KEY,
    method INTEGER NOT NULL REFERENCES methods,
    block INTEGER NOT NULL,
    key TEXT NOT NULL,                  -- hash of all that affects the maps
    environment INTEGER NOT NULL,       -- place in the manifest's list
    batches TEXT NOT NULL,              -- batch sizes used
    seconds REAL NOT NULL,
    passes INTEGER NOT NULL,
    maps TEXT, maps_bytes INTEGER,
    finished TEXT NOT NULL
);
CREATE TABLE done (
    method INTEGER NOT NULL, block INTEGER NOT NULL, metric INTEGER NOT NULL, unit INTEGER NOT NULL REFERENCES units,
    PRIMARY KEY (method, block, metric)
) WITHOUT ROWID;
CREATE TABLE image_scores (
    method INTEGER NOT NULL, metric INTEGER NOT NULL, image INTEGER NOT NULL, value REAL,
    PRIMARY KEY (method, metric, image)
) WITHOUT ROWID;
CREATE TABLE label_scores (
    method INTEGER NOT NULL, metric INTEGER NOT NULL, image INTEGER NOT NULL, place INTEGER NOT NULL, value REAL,
    PRIMARY KEY (method, metric, image, place)
) WITHOUT ROWID;
CREATE TABLE curves (                   -- float32, little-endian; (L, S), (L), (L), (L), (L, L)
    method INTEGER NOT NULL, image INTEGER NOT NULL,
    game TEXT NOT NULL,                 -- key of the note with its steps and settings
    probabilities BLOB NOT NULL, f BLOB NOT NULL, auc BLOB NOT NULL, error BLOB NOT NULL, matrix BLOB,
    PRIMARY KEY (method, image, game)
);
CREATE TABLE failures (
    method INTEGER NOT NULL, image INTEGER NOT NULL, unit INTEGER NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (method, image)
) WITHOUT ROWID;
CREATE TABLE run_scores (               -- numbers about the run as a whole, replaced when it ends
    metric TEXT NOT NULL, subject TEXT NOT NULL, value REAL, n INTEGER NOT NULL,
    higher_is_better INTEGER NOT NULL, settings TEXT NOT NULL, kind TEXT NOT NULL,
    PRIMARY KEY (metric, subject)
) WITHOUT ROWID;
CREATE TABLE notes (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE VIEW per_image AS
    SELECT methods.name AS method, metrics.name AS metric, images.name AS image, images.truth AS truth, value
    FROM image_scores
    JOIN methods ON methods.id = image_scores.method
    JOIN metrics ON metrics.id = image_scores.metric
    JOIN images ON images.id = image_scores.image;
CREATE VIEW per_label AS
    SELECT methods.name AS method, metrics.name AS metric, images.name AS image, image_labels.label AS label,
           labels.name AS label_name, image_labels.f AS f, images.truth AS truth, value
    FROM label_scores
    JOIN methods ON methods.id = label_scores.method
    JOIN metrics ON metrics.id = label_scores.metric
    JOIN images ON images.id = label_scores.image
    JOIN image_labels ON image_labels.image = label_scores.image AND image_labels.place = label_scores.place
    JOIN labels ON labels.label = image_labels.label;
"""


def create_tables(database: sqlite3.Connection) -> None:
    """Create the tables in an empty database, all or none of them."""
    database.executescript(
        f"BEGIN IMMEDIATE; {TABLES} PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {VERSION}; COMMIT;"
    )


def check_version(database: sqlite3.Connection) -> None:
    """Raise if another version of Proofmap made the database."""
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > VERSION:
        raise StoreError(
            f"this run was made by a newer Proofmap (its database has version {version}, known is {VERSION}); "
            "install that version"
        )
    if version < VERSION:
        raise StoreError(
            f"this run was made by an earlier Proofmap (its database has version {version}, this one reads {VERSION}). Read it with "
            "the version that made it, or run the study again with another --out"
        )
