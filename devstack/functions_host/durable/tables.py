"""Rows of the durable file: reads and writes that a transaction of the store is made of."""

import json
import sqlite3
from collections.abc import Iterable, Sequence
from datetime import datetime

from devstack.functions_host.durable.events import Event, timestamp
from devstack.functions_host.durable.instances import Activity, Instance, Operation, Progress

_COLUMNS = "id, execution, name, input, status, created, updated, output, custom_status, progress"
#: The row alone would do for a search, but the number of a dropped one is given again.
_ONE_CALL = "WHERE row = ? AND execution = ? AND task = ?"


class Tables:
    """The tables of one file. Nothing here begins or ends a transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def all(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Return every row that the query finds."""
        return self._connection.execute(query, values).fetchall()

    def run(self, statement: str, *values: object) -> None:
        """Change rows."""
        self._connection.execute(statement, values)

    def run_many(self, statement: str, rows: Iterable[Sequence[object]]) -> None:
        """Change rows once for each of `rows`."""
        self._connection.executemany(statement, rows)

    def delete(self, table: str, rows: Iterable[int]) -> None:
        """Delete rows by their numbers."""
        self.run_many(f"DELETE FROM {table} WHERE row = ?", [(row,) for row in rows])  # noqa: S608 - our own table names

    def instance(self, instance_id: str) -> Instance | None:
        """Return the instance, or None where there is none."""
        rows = self.all(f"SELECT {_COLUMNS} FROM instances WHERE id = ?", instance_id)  # noqa: S608 - our own column names
        return _instance(rows[0]) if rows else None

    def instances(self) -> list[Instance]:
        """Return every instance, the oldest first."""
        rows = self.all(f"SELECT {_COLUMNS} FROM instances ORDER BY created, id")  # noqa: S608 - our own column names
        return [_instance(row) for row in rows]

    def put(self, instance: Instance) -> None:
        """Keep the instance in the place of what was kept of it."""
        values = _values(instance)
        marks = ", ".join("?" * len(values))
        self.run(f"INSERT OR REPLACE INTO instances ({_COLUMNS}) VALUES ({marks})", *values)  # noqa: S608 - our own column names

    def forget(self, instance_id: str) -> None:
        """Delete everything of an instance. Calls that run go on, and nobody hears of them."""
        self.run("DELETE FROM instances WHERE id = ?", instance_id)
        for table in ("history", "inbox", "timers", "activities"):
            self.run(f"DELETE FROM {table} WHERE instance = ?", instance_id)  # noqa: S608 - our own table names

    def post(self, instance_id: str, execution: str | None, event: Event) -> None:
        """Put `event` into the inbox, unless nobody is there any more who waits for it."""
        if self.listens(instance_id, execution):
            self.insert_event(instance_id, execution, event)

    def listens(self, instance_id: str, execution: str | None) -> bool:
        """Tell whether the execution runs; without one, whether any does."""
        instance = self.instance(instance_id)
        if instance is None or instance.has_ended:
            return False
        return execution is None or execution == instance.execution

    def has_activity(self, activity: Activity) -> bool:
        """Tell whether the call was not dropped."""
        return bool(self.all(f"SELECT 1 FROM activities {_ONE_CALL}", activity.row, *activity.key))  # noqa: S608 - constant

    def drop_activity(self, activity: Activity) -> None:
        """Delete the call, where that was not done yet."""
        self.run(f"DELETE FROM activities {_ONE_CALL}", activity.row, *activity.key)  # noqa: S608 - constant

    def insert_event(self, instance_id: str, execution: str | None, event: Event) -> None:
        """Put `event` into the inbox; without an execution it is for whichever runs."""
        statement = "INSERT INTO inbox (instance, execution, event) VALUES (?, ?, ?)"
        self.run(statement, instance_id, execution, json.dumps(event))

    def append(self, instance_id: str, events: Sequence[Event]) -> None:
        """Add `events` to history."""
        query = "SELECT coalesce(max(position), -1) FROM history WHERE instance = ?"
        [(last,)] = self.all(query, instance_id)
        self.run_many(
            "INSERT INTO history (instance, position, event) VALUES (?, ?, ?)",
            [(instance_id, last + 1 + n, json.dumps(event)) for n, event in enumerate(events)],
        )

    def send(self, operation: Operation) -> None:
        """Put a request into its entity's queue."""
        self.run(
            "INSERT INTO operations (entity, id, name, input, instance, execution) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            operation.entity,
            operation.id,
            operation.name,
            operation.input,
            operation.instance,
            operation.execution,
        )


def _values(instance: Instance) -> tuple[object, ...]:
    return (
        instance.id,
        instance.execution,
        instance.name,
        instance.raw_input,
        instance.status,
        timestamp(instance.created),
        timestamp(instance.updated),
        instance.output,
        instance.custom_status,
        json.dumps(instance.progress.to_json()),
    )


def _instance(row: sqlite3.Row) -> Instance:
    identity, execution, name, raw_input, status, created, updated, output, custom, progress = row
    return Instance(
        id=identity,
        execution=execution,
        name=name,
        raw_input=raw_input,
        status=status,
        created=datetime.fromisoformat(created),
        updated=datetime.fromisoformat(updated),
        output=output,
        custom_status=custom,
        progress=Progress.from_json(json.loads(progress)),
    )
