"""What the queues keep, in SQLite: written once per turn of the event loop, read at the start.

The journal only collects; `commit` writes what was collected in one transaction. A failed commit
raises and keeps nothing, and whoever called must then tell nobody that anything was done.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from devstack.service_bus.messages import Content, DeadLetter, Message, QueueSettings, State
from devstack.service_bus.queue import Queue

#: Sequence numbers below this share a row id with the queue's number above it.
_SEQUENCES = 1 << 40

_SCHEMA = """
CREATE TABLE IF NOT EXISTS queues (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, next_sequence INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY, message_id TEXT, enqueued INTEGER NOT NULL, ttl INTEGER,
    state INTEGER NOT NULL, due INTEGER NOT NULL, delivery_count INTEGER NOT NULL,
    reason TEXT, description TEXT, source TEXT,
    header BLOB NOT NULL, annotations BLOB NOT NULL, bare BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS history (
    queue INTEGER NOT NULL, message_id TEXT NOT NULL, at INTEGER NOT NULL,
    PRIMARY KEY (queue, message_id)
) WITHOUT ROWID;
"""


#: What marks a database as ours ("GLSB"), and the version of the tables above.
_APPLICATION = 0x474C5342
_VERSION = 1
#: The columns of our tables, which tells the files of ours that bear no mark yet.
_TABLES = {
    "queues": {"number", "name", "next_sequence"},
    "messages": {
        *("id", "message_id", "enqueued", "ttl", "state", "due", "delivery_count", "reason"),
        *("description", "source", "header", "annotations", "bare"),
    },
    "history": {"queue", "message_id", "at"},
}

#: Sorts of failure of SQLite, and what to do about them.
_DAMAGED = (
    "is damaged or no database of the emulator's ({reason}): move messages.sqlite* out of the "
    "folder to start with empty queues, or give --data another folder."
)
_IN_USE = (
    "is in use by another emulator: stop that one, or give this one a --data folder of its own."
)
_UNWRITABLE = "cannot be written ({reason}): free space there, or give --data another folder."
_REMEDIES = {
    sqlite3.SQLITE_NOTADB: _DAMAGED,
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_BUSY: _IN_USE,
    sqlite3.SQLITE_LOCKED: _IN_USE,
}


class StoreError(Exception):
    """The store cannot be opened, read or written. The message says what to do."""


class MemoryStore:
    """Keeps nothing: what the queues cost without a disk, for the benchmark."""

    def open_queue(self, settings: QueueSettings) -> Queue:
        """Return the queue, empty."""
        return Queue(settings, self)

    def put(self, queue: str, message: Message) -> None:
        """Keep nothing."""

    def remove(self, queue: str, sequence: int) -> None:
        """Keep nothing."""

    def advance_sequence(self, queue: str, next_sequence: int) -> None:
        """Keep nothing."""

    def remember(self, queue: str, message_id: str, at: int) -> None:
        """Keep nothing."""

    def forget(self, queue: str, message_id: str) -> None:
        """Keep nothing."""

    def commit(self) -> None:
        """Write nothing."""

    def close(self) -> None:
        """Close nothing."""


class SqliteStore:
    """Keeps messages, sequence numbers and duplicate-detection history in one folder."""

    def __init__(self, folder: Path, *, synchronous: str = "NORMAL") -> None:
        self._path = folder / "messages.sqlite"
        self._numbers: dict[str, int] = {}
        self._messages: dict[int, Message | None] = {}
        self._sequences: dict[int, int] = {}
        self._history: dict[tuple[int, str], int | None] = {}
        with self._translated():
            self._database = sqlite3.connect(self._path, isolation_level=None, timeout=0)
            try:
                self._prepare(synchronous)
            except (sqlite3.Error, StoreError):
                self._database.close()
                raise

    def _prepare(self, synchronous: str) -> None:
        run = self._database.execute
        # An exclusive lock keeps a second emulator off these messages for as long as we live.
        run("PRAGMA locking_mode = EXCLUSIVE")
        run("BEGIN EXCLUSIVE")
        self._refuse_the_foreign()
        run("COMMIT")
        run("PRAGMA journal_mode = WAL")
        run(f"PRAGMA synchronous = {synchronous}")
        run("PRAGMA wal_autocheckpoint = 4000")
        run("BEGIN IMMEDIATE")
        for statement in _SCHEMA.split(";"):
            run(statement)
        run(f"PRAGMA application_id = {_APPLICATION}")
        run(f"PRAGMA user_version = {_VERSION}")
        run("COMMIT")

    def _refuse_the_foreign(self) -> None:
        run = self._database.execute
        (application,) = run("PRAGMA application_id").fetchone()
        (version,) = run("PRAGMA user_version").fetchone()
        tables = {
            name: {column for _, column, *_ in run(f"PRAGMA table_info('{name}')")}
            for (name,) in run("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            if name in _TABLES or not application
        }
        # Before it was marked, a file of ours was one with exactly our tables, or empty.
        ours = not tables or tables == _TABLES
        if not ours or (application, version) not in {(_APPLICATION, _VERSION), (0, 0)}:
            raise self._error(_DAMAGED, "its tables are not those of this version")

    def open_queue(self, settings: QueueSettings) -> Queue:
        """Return the queue with everything that was kept of it."""
        with self._translated():
            self._database.execute(
                "INSERT OR IGNORE INTO queues (name, next_sequence) VALUES (?, 1)", [settings.name]
            )
            number, next_sequence = self._database.execute(
                "SELECT number, next_sequence FROM queues WHERE name = ?", [settings.name]
            ).fetchone()
            self._numbers[settings.name] = number
            queue = Queue(settings, self, next_sequence=next_sequence)
            for message in self._kept(number):
                queue.restore(message)
            history = self._database.execute(
                "SELECT message_id, at FROM history WHERE queue = ? ORDER BY at", [number]
            )
            for message_id, at in history:
                queue.restore_history(message_id, at)
        return queue

    def _kept(self, number: int) -> Iterator[Message]:
        rows = self._database.execute(
            "SELECT * FROM messages WHERE id BETWEEN ? AND ? ORDER BY id",
            [number * _SEQUENCES, (number + 1) * _SEQUENCES - 1],
        )
        for identity, message_id, enqueued, ttl, state, due, count, *rest in rows:
            reason, description, source, header, annotations, bare = rest
            dead_letter = DeadLetter(reason, description, source) if source is not None else None
            content = Content(header, annotations, bare)
            sequence = identity % _SEQUENCES
            yield Message(
                sequence, content, message_id, enqueued, ttl, State(state), due, count, dead_letter
            )

    def put(self, queue: str, message: Message) -> None:
        """Keep `message` as it is when `commit` comes."""
        self._messages[self._numbers[queue] * _SEQUENCES + message.sequence] = message

    def remove(self, queue: str, sequence: int) -> None:
        """Forget the message."""
        self._messages[self._numbers[queue] * _SEQUENCES + sequence] = None

    def advance_sequence(self, queue: str, next_sequence: int) -> None:
        """Never give out a number below `next_sequence` again."""
        self._sequences[self._numbers[queue]] = next_sequence

    def remember(self, queue: str, message_id: str, at: int) -> None:
        """Keep a message id for duplicate detection."""
        self._history[self._numbers[queue], message_id] = at

    def forget(self, queue: str, message_id: str) -> None:
        """Drop a message id that left the duplicate-detection window."""
        self._history[self._numbers[queue], message_id] = None

    def commit(self) -> None:
        """Write everything collected since the last commit, whole or not at all."""
        if not (self._messages or self._sequences or self._history):
            return
        with self._translated():
            self._database.execute("BEGIN")
            self._write()
            self._database.execute("COMMIT")
        self._messages.clear()
        self._sequences.clear()
        self._history.clear()

    def _write(self) -> None:
        many = self._database.executemany
        gone = [(identity,) for identity, message in self._messages.items() if message is None]
        if gone:
            many("DELETE FROM messages WHERE id = ?", gone)
        if len(gone) < len(self._messages):
            rows = [_row(identity, m) for identity, m in self._messages.items() if m is not None]
            many("INSERT OR REPLACE INTO messages VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)", rows)
        if self._sequences:
            many(
                "UPDATE queues SET next_sequence = ? WHERE number = ?",
                [(sequence, number) for number, sequence in self._sequences.items()],
            )
        for (number, message_id), at in self._history.items():
            self._write_history(number, message_id, at)

    def _write_history(self, number: int, message_id: str, at: int | None) -> None:
        if at is None:
            self._database.execute(
                "DELETE FROM history WHERE queue = ? AND message_id = ?", [number, message_id]
            )
        else:
            self._database.execute(
                "INSERT OR REPLACE INTO history VALUES (?, ?, ?)", [number, message_id, at]
            )

    def close(self) -> None:
        """Give the folder free for the next emulator."""
        self._database.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            # The lowest byte is the sort of failure, the rest its details.
            code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
            raise self._error(_REMEDIES.get(code, _UNWRITABLE), str(error)) from error

    def _error(self, remedy: str, reason: str) -> StoreError:
        return StoreError(f"{self._path} {remedy.format(reason=reason)}")


def _row(identity: int, message: Message) -> tuple[object, ...]:
    return (
        identity,
        message.message_id,
        message.enqueued,
        message.ttl,
        int(message.state),
        message.due,
        message.delivery_count,
        *(message.dead_letter or (None, None, None)),
        *message.content,
    )
