"""No call to a database lasts for ever, whatever the server does.

The server itself ends a long statement, where it can. A server that accepts connections and never
answers is left by the client: some drivers do so by themselves, psycopg waits for ever. There a
watchdog shuts the connection's socket down, and the waiting thread gets an error.
"""

import contextlib
import os
import socket
from dataclasses import dataclass, field
from datetime import timedelta
from math import inf
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How long things may last. Together they stay well below the host's `functionTimeout`."""

    #: Until the server has let us in.
    connecting: timedelta = timedelta(seconds=10)
    #: One statement, as the server counts.
    statement: timedelta = timedelta(seconds=60)
    #: All that is done with a connection in one go, as the client counts.
    call: timedelta = timedelta(seconds=75)
    #: Until one of the pool's connections is free.
    free_connection: timedelta = timedelta(seconds=30)


@dataclass(slots=True, eq=False)
class _Watched:
    """A connection's socket, by a descriptor of our own: the driver's may be closed and reused."""

    own: socket.socket
    deadline: float


@dataclass(slots=True, eq=False)
class Watchdog:
    """One thread for all connections of an engine; a call costs it two assignments.

    The thread ends with the last connection.
    """

    limit: timedelta
    _watched: set[_Watched] = field(default_factory=set)
    _changing: Lock = field(default_factory=Lock)
    _is_running: bool = False

    def watch(self, engine: sa.Engine) -> None:
        """Watch every connection from its beginning: its first statements may hang as well."""
        event.listen(engine, "do_connect", self._connect)
        event.listen(engine, "checkout", self._begin)
        event.listen(engine, "checkin", self._end)
        event.listen(engine, "close", self._forget)

    def _connect(self, dialect: sa.Dialect, record: Any, arguments: Any, options: Any) -> Any:  # noqa: ANN401 - SQLAlchemy's and the driver's
        connection: Any = dialect.connect(*arguments, **options)
        own = socket.socket(fileno=os.dup(connection.fileno()))
        watched = _Watched(own, self._deadline())
        record.info[_WATCHED] = watched
        with self._changing:
            self._watched.add(watched)
            if not self._is_running:
                self._is_running = True
                Thread(target=self._run, name="database-watchdog", daemon=True).start()
        return connection

    def _begin(self, _connection: object, record: Any, _proxy: object) -> None:  # noqa: ANN401
        record.info[_WATCHED].deadline = self._deadline()

    def _end(self, _connection: object, record: Any) -> None:  # noqa: ANN401 - as above
        if watched := record.info.get(_WATCHED):
            watched.deadline = inf

    def _forget(self, _connection: object, record: Any) -> None:  # noqa: ANN401 - as above
        if watched := record.info.pop(_WATCHED, None):
            with self._changing:
                self._watched.discard(watched)
                watched.own.close()

    def _deadline(self) -> float:
        return monotonic() + self.limit.total_seconds()

    def _run(self) -> None:
        while True:
            sleep(self.limit.total_seconds() * _PRECISION)
            with self._changing:
                self._shut_down_what_is_late()
                if not self._watched:
                    self._is_running = False
                    return

    def _shut_down_what_is_late(self) -> None:
        now = monotonic()
        for late in [watched for watched in self._watched if watched.deadline < now]:
            self._watched.discard(late)
            with late.own, contextlib.suppress(OSError):  # the server may have closed it
                late.own.shutdown(socket.SHUT_RDWR)


_WATCHED = "watched"

#: The part of the limit by which a call may be found out too late.
_PRECISION = 1 / 15
