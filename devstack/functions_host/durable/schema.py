"""The file that keeps everything durable: opened alone, private, refused in words if it is odd."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devstack.functions_host.errors import SettingsError

_VERSION = 1
#: A host that was killed lets go at once; another one that still stops gets this long.
_LOCK_SECONDS = 15

_TABLES = """
CREATE TABLE instances (
    id TEXT PRIMARY KEY, execution TEXT NOT NULL, name TEXT NOT NULL, input TEXT,
    status TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL,
    output TEXT, custom_status TEXT, progress TEXT NOT NULL
);
CREATE TABLE history (
    instance TEXT NOT NULL, position INTEGER NOT NULL, event TEXT NOT NULL,
    PRIMARY KEY (instance, position)
) WITHOUT ROWID;
-- What an orchestrator has not taken in yet. Without an execution it outlives continue_as_new.
CREATE TABLE inbox (
    row INTEGER PRIMARY KEY, instance TEXT NOT NULL, execution TEXT, event TEXT NOT NULL
);
CREATE INDEX inbox_by_instance ON inbox (instance);
CREATE TABLE activities (
    row INTEGER PRIMARY KEY, instance TEXT NOT NULL, execution TEXT NOT NULL,
    task INTEGER NOT NULL, name TEXT NOT NULL, input TEXT NOT NULL
);
CREATE TABLE timers (
    row INTEGER PRIMARY KEY, instance TEXT NOT NULL, execution TEXT NOT NULL,
    task INTEGER NOT NULL, fire_at TEXT NOT NULL
);
CREATE INDEX timers_by_time ON timers (fire_at);
CREATE TABLE operations (
    row INTEGER PRIMARY KEY, entity TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL,
    input TEXT NOT NULL, instance TEXT, execution TEXT
);
CREATE INDEX operations_by_entity ON operations (entity);
CREATE TABLE entities (id TEXT PRIMARY KEY, state TEXT NOT NULL);
"""


def open_file(path: Path) -> sqlite3.Connection:
    """Open the file at `path`, made where there is none, for this process alone."""
    connection: sqlite3.Connection | None = None
    try:
        # SQLite gives its side files the mode of this one: inputs and outputs are private.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None)
        _prepare(connection)
    except (OSError, sqlite3.Error, _OtherVersionError) as error:
        if connection is not None:
            connection.close()
        msg = (
            f"{path}: cannot be used for durable functions ({error}); end the other host if one "
            "runs on this folder, or delete the file, and with it every instance."
        )
        raise SettingsError(msg) from error
    return connection


class _OtherVersionError(Exception):
    pass


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = WAL")
    # Survives a killed process; only a power cut could take the last steps back.
    connection.execute("PRAGMA synchronous = NORMAL")
    with transaction(connection):
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version == 0:
            for statement in _TABLES.split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {_VERSION}")
        elif version != _VERSION:
            msg = f"it has the form of version {version}, not {_VERSION}"
            raise _OtherVersionError(msg)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit everything that happens inside, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # A full disk may have ended it already, or have left it open, even at the commit.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
