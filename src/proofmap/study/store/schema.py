"""The database of a run: its tables, and the steps that bring an older one up to date.

Methods, metrics and labels are rows, never columns: nothing here knows one by name. ``per_image`` and ``per_label`` are
views with names in place of numbers, for people and pandas. A value that does not count (NaN) is NULL. Whatever a
number depends on has a digest beside it, so that damage is seen: ``seal`` is that of the rest of its row.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence

from proofmap.data.dataset import digest_of
from proofmap.study.store.errors import StoreError

APPLICATION = 0x50726F66  # "Prof": tells this file from any other database


_FIRST = """
CREATE TABLE images (
    id INTEGER PRIMARY KEY,             -- in the order of the survey
    name TEXT NOT NULL UNIQUE,
    digest TEXT NOT NULL,               -- of the picture as it is stored
    stamp TEXT NOT NULL,                -- changes when the file does
    truth INTEGER,                      -- the true label, an output of the net
    eligible INTEGER NOT NULL,          -- passes the study's selection
    block INTEGER,                      -- the block it is judged in, once it is chosen
    failure TEXT,                       -- why it cannot be read
    seal TEXT NOT NULL                  -- of what the survey found, labels included
);
CREATE INDEX images_of_block ON images (block);
CREATE TABLE labels (label INTEGER PRIMARY KEY, name TEXT NOT NULL, seal TEXT NOT NULL);
CREATE TABLE image_labels (
    image INTEGER NOT NULL REFERENCES images, place INTEGER NOT NULL, label INTEGER NOT NULL, f REAL NOT NULL,
    PRIMARY KEY (image, place)
) WITHOUT ROWID;
CREATE TABLE methods (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, label_free INTEGER NOT NULL, settings TEXT NOT NULL,
    seal TEXT NOT NULL
);
CREATE TABLE metrics (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, higher_is_better INTEGER NOT NULL, settings TEXT NOT NULL,
    seal TEXT NOT NULL
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
    maps TEXT, maps_bytes INTEGER, maps_digest TEXT,
    digest TEXT NOT NULL,               -- of the values below
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
    game TEXT NOT NULL,                 -- the note that tells its steps and settings
    probabilities BLOB NOT NULL, f BLOB NOT NULL, auc BLOB NOT NULL, error BLOB NOT NULL, matrix BLOB,
    digest TEXT NOT NULL,               -- of the six
    PRIMARY KEY (method, image, game)
);
CREATE TABLE failures (
    method INTEGER NOT NULL, image INTEGER NOT NULL, unit INTEGER NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (method, image)
) WITHOUT ROWID;
CREATE TABLE notes (key TEXT PRIMARY KEY, value TEXT NOT NULL, seal TEXT NOT NULL) WITHOUT ROWID;

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

# What a metric measures, which pages go by. Until now it was the name, without the number of a second setting.
_SECOND = """
ALTER TABLE metrics ADD COLUMN kind TEXT NOT NULL DEFAULT '';
UPDATE metrics SET kind = CASE
    WHEN rtrim(name, '0123456789') LIKE '%_-' AND rtrim(name, '0123456789') != name
    THEN substr(name, 1, length(rtrim(name, '0123456789')) - 1)
    ELSE name END;
UPDATE metrics SET seal = seal_of(name, higher_is_better, settings, kind)
    WHERE seal = seal_of(name, higher_is_better, settings);  -- what was damaged before stays so
"""

_THIRD = """
CREATE TABLE run_scores (               -- numbers about the run as a whole, made anew when it ends
    metric TEXT NOT NULL, subject TEXT NOT NULL, value REAL, n INTEGER NOT NULL,
    higher_is_better INTEGER NOT NULL, settings TEXT NOT NULL, kind TEXT NOT NULL, seal TEXT NOT NULL,
    PRIMARY KEY (metric, subject)
) WITHOUT ROWID;
"""

# Whether a method's maps are signed, which pictures go by. Until now one method was, alone or inside another.
_FOURTH = """
ALTER TABLE methods ADD COLUMN kind TEXT NOT NULL DEFAULT '';
UPDATE methods SET kind = 'signed' WHERE settings LIKE '%"method": "gradient-x-input"%';
UPDATE methods SET seal = seal_of(name, label_free, settings, kind)
    WHERE seal = seal_of(name, label_free, settings);
"""

# All true labels of a picture that has several, as a JSON list; ``truth`` is then NULL.
_FIFTH = "ALTER TABLE images ADD COLUMN true_labels TEXT;"

MIGRATIONS: tuple[str, ...] = (_FIRST, _SECOND, _THIRD, _FOURTH, _FIFTH)
"""Step k brings a database of version k to version k + 1. Steps are added, never changed."""


def migrate(database: sqlite3.Connection, steps: tuple[str, ...] | None = None) -> None:
    """Bring the database up to date, each step whole or not at all."""
    steps = MIGRATIONS if steps is None else steps
    database.create_function("seal_of", -1, _seal_in_sql, deterministic=True)
    (version,) = database.execute("PRAGMA user_version").fetchone()
    if version > len(steps):
        raise StoreError(
            f"this run was made by a newer Proofmap (its database has version {version}, known is {len(steps)}); "
            "install that version"
        )
    for number in range(version, len(steps)):
        database.execute("BEGIN IMMEDIATE")
        try:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version == number:  # not while we waited, by another process
                for statement in _statements(steps[number]):
                    database.execute(statement)
                database.execute(f"PRAGMA application_id = {APPLICATION}")
                database.execute(f"PRAGMA user_version = {number + 1}")
            database.execute("COMMIT")
        except BaseException:
            if database.in_transaction:
                database.execute("ROLLBACK")
            raise


def seal_of(row: Sequence[object]) -> str:
    """A digest of a row of plain values."""
    return digest_of(json.dumps(list(row)))


def _seal_in_sql(*row: object) -> str | None:
    """The same for the steps; none where damage has left bytes in place of text."""
    return None if any(isinstance(value, bytes) for value in row) else seal_of(row)


def _statements(script: str) -> Iterator[str]:
    """The statements of a script one by one: run as a whole, it would not be one transaction."""
    statement = ""
    for piece in script.split(";"):
        statement += piece + ";"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
