"""Instances, their history, and what is still to be done, each change in one transaction.

So a SIGKILL at any moment leaves a state from which work goes on: what was begun and not
committed is begun again. Used by one thread.
"""

import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from devstack.functions_host.durable.events import (
    Event,
    EventType,
    event,
    execution_started,
    timestamp,
)
from devstack.functions_host.durable.instances import (
    Activity,
    Instance,
    Operation,
    Progress,
)
from devstack.functions_host.durable.schema import open_file, transaction
from devstack.functions_host.durable.steps import Step
from devstack.functions_host.durable.tables import Tables
from devstack.functions_host.durable.trouble import Trouble


class AlreadyRunsError(Exception):
    """An instance of that id has not ended; the message says its status."""


class Store:
    """Everything durable of one host."""

    def __init__(self, path: Path) -> None:
        self._connection = open_file(path)
        self._tables = Tables(self._connection)
        self.trouble = Trouble(path)

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with transaction(self._connection):
            yield
        self.trouble.over()

    # Instances

    def create(self, instance_id: str, name: str, raw_input: str | None, now: datetime) -> None:
        """Start an instance, in the place of one that has ended, or raise AlreadyRunsError."""
        with self._transaction():
            existing = self.instance(instance_id)
            if existing is not None and not existing.has_ended:
                msg = f"An Orchestration instance with the status {existing.status} already exists."
                raise AlreadyRunsError(msg)
            self._tables.forget(instance_id)
            instance = Instance(
                id=instance_id,
                execution=uuid.uuid4().hex,
                name=name,
                raw_input=raw_input,
                status="Pending",
                created=now,
                updated=now,
            )
            self._tables.put(instance)
            self._begin(instance, now)

    def instance(self, instance_id: str) -> Instance | None:
        """Return the instance, or None where there is none."""
        return self._tables.instance(instance_id)

    def instances(self) -> list[Instance]:
        """Return every instance, the oldest first."""
        return self._tables.instances()

    def history(self, instance_id: str) -> list[Event]:
        """Return what has happened in the instance's present execution."""
        query = "SELECT event FROM history WHERE instance = ? ORDER BY position"
        return [json.loads(text) for (text,) in self._tables.all(query, instance_id)]

    def deliver(self, instance_id: str, event: Event) -> None:
        """Put an event from outside into the inbox of an instance that has not ended."""
        with self._transaction():
            self._tables.post(instance_id, None, event)

    def purge(self, instance_ids: Iterable[str]) -> None:
        """Forget instances altogether."""
        with self._transaction():
            for instance_id in instance_ids:
                self._tables.forget(instance_id)

    # Orchestrator steps

    def due_instances(self, busy: Collection[str]) -> list[str]:
        """Return the instances that have something in their inbox and are not `busy`."""
        rows = self._tables.all("SELECT instance FROM inbox GROUP BY instance ORDER BY min(row)")
        return [instance for (instance,) in rows if instance not in busy]

    def inbox(self, instance_id: str) -> list[tuple[int, Event]]:
        """Return what the instance has not taken in yet, by row."""
        query = "SELECT row, event FROM inbox WHERE instance = ? ORDER BY row"
        return [(row, json.loads(text)) for row, text in self._tables.all(query, instance_id)]

    def commit_step(self, step: Step, taken: Iterable[int], now: datetime) -> None:
        """Keep a step as a whole; `taken` are the rows of the inbox that it took in."""
        instance = step.instance
        with self._transaction():
            self._tables.delete("inbox", taken)
            current = self.instance(instance.id)
            if current is None or current.execution != instance.execution:
                return  # purged, or started again, while the function ran
            self._tables.append(instance.id, step.history)
            self._schedule(step)
            if instance.has_ended:
                self._drop_what_waits(instance)
            if step.continues_with is not None:
                self._drop_what_waits(instance)
                instance = self._continued(step, step.continues_with, now)
            self._tables.put(instance)

    def _schedule(self, step: Step) -> None:
        instance = step.instance
        self._tables.run_many(
            "INSERT INTO activities (instance, execution, task, name, input) "
            "VALUES (?, ?, ?, ?, ?)",
            [(a.instance, a.execution, a.task, a.name, a.input) for a in step.activities],
        )
        self._tables.run_many(
            "INSERT INTO timers (instance, execution, task, fire_at) VALUES (?, ?, ?, ?)",
            [(instance.id, instance.execution, t.task, timestamp(t.fire_at)) for t in step.timers],
        )
        for operation in step.operations:
            self._tables.send(operation)

    def _drop_what_waits(self, instance: Instance) -> None:
        """Drop timers and answers of the execution, and what a terminated one had in the queue.

        Of an execution that ends by itself all activities are made, as on Azure.
        """
        of_execution = "WHERE instance = ? AND execution = ?"
        self._tables.run(f"DELETE FROM timers {of_execution}", instance.id, instance.execution)  # noqa: S608 - constant
        self._tables.run(f"DELETE FROM inbox {of_execution}", instance.id, instance.execution)  # noqa: S608 - constant
        if instance.has_ended:
            self._tables.run("DELETE FROM inbox WHERE instance = ?", instance.id)
        if instance.status == "Terminated":
            self._tables.run("DELETE FROM activities WHERE instance = ?", instance.id)

    def _continued(self, step: Step, raw_input: str, now: datetime) -> Instance:
        self._tables.run("DELETE FROM history WHERE instance = ?", step.instance.id)
        instance = replace(
            step.instance,
            execution=uuid.uuid4().hex,
            raw_input=raw_input,
            progress=Progress(),
        )
        self._begin(instance, now)
        return instance

    def _begin(self, instance: Instance, now: datetime) -> None:
        started = execution_started(now, name=instance.name, raw_input=instance.raw_input)
        self._tables.insert_event(instance.id, instance.execution, started)

    # Activities

    def due_activities(self, busy: Collection[tuple[str, int]], limit: int) -> list[Activity]:
        """Return calls whose keys are not `busy`, the oldest first."""
        query = "SELECT instance, execution, task, name, input, row FROM activities ORDER BY row"
        rows = self._connection.execute(query)
        due: list[Activity] = []
        for row in rows:
            if len(due) >= limit:
                break
            call = Activity(*row)
            if call.key not in busy:
                due.append(call)
        rows.close()
        return due

    def is_due(self, activity: Activity) -> bool:
        """Tell whether the call is still to be made."""
        return self._tables.has_activity(activity)

    def has_listener(self, activity: Activity) -> bool:
        """Tell whether the execution that asked for the call still runs."""
        return self._tables.listens(activity.instance, activity.execution)

    def drop_activity(self, activity: Activity) -> None:
        """Take the call off, and tell nobody."""
        with self._transaction():
            self._tables.drop_activity(activity)

    def finish_activity(self, activity: Activity, outcome: Event) -> None:
        """Take the call off, and tell its orchestrator the outcome if it still listens."""
        with self._transaction():
            self._tables.drop_activity(activity)
            self._tables.post(activity.instance, activity.execution, outcome)

    # Timers

    def fire_timers(self, now: datetime) -> None:
        """Tell every orchestrator whose timer is due by `now`."""
        query = "SELECT row, instance, execution, task, fire_at FROM timers WHERE fire_at <= ?"
        due = self._tables.all(query, timestamp(now))
        if not due:
            return
        with self._transaction():
            self._tables.delete("timers", [row for row, *_ in due])
            for _, instance, execution, task, fire_at in due:
                fired = event(EventType.TIMER_FIRED, now, TimerId=task, FireAt=fire_at)
                self._tables.post(instance, execution, fired)

    def next_timer(self) -> datetime | None:
        """Return when the next timer is due."""
        [(moment,)] = self._tables.all("SELECT min(fire_at) FROM timers")
        return datetime.fromisoformat(moment) if moment else None

    # Entities

    def signal(self, operation: Operation) -> None:
        """Put a request from outside into the entity's queue."""
        with self._transaction():
            self._tables.send(operation)

    def due_entities(self, busy: Collection[str]) -> list[str]:
        """Return the entities that have requests and are not `busy`."""
        rows = self._tables.all("SELECT entity FROM operations GROUP BY entity ORDER BY min(row)")
        return [entity for (entity,) in rows if entity not in busy]

    def operations(self, entity: str, limit: int) -> list[Operation]:
        """Return the entity's next requests in the order of their arrival."""
        query = (
            "SELECT entity, id, name, input, instance, execution, row FROM operations "
            "WHERE entity = ? ORDER BY row LIMIT ?"
        )
        return [Operation(*row) for row in self._tables.all(query, entity, limit)]

    def entity_state(self, entity: str) -> str | None:
        """Return the entity's state as JSON; None where it does not exist."""
        rows = self._tables.all("SELECT state FROM entities WHERE id = ?", entity)
        return rows[0][0] if rows else None

    def finish_batch(
        self,
        entity: str,
        state: str | None,
        answers: Sequence[tuple[Operation, Event]],
    ) -> None:
        """Keep the state and take the requests off; their answers go out with the same commit."""
        with self._transaction():
            self._tables.delete("operations", [operation.row for operation, _ in answers])
            if state is None:
                self._tables.run("DELETE FROM entities WHERE id = ?", entity)
            else:
                self._tables.run(
                    "INSERT OR REPLACE INTO entities (id, state) VALUES (?, ?)", entity, state
                )
            for operation, answer in answers:
                if operation.instance is not None:
                    self._tables.post(operation.instance, operation.execution, answer)
