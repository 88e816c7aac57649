"""What is kept, and what a kill between two commits leaves. No sockets, a file in a folder."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from devstack.functions_host.durable.answers import Action, Answer
from devstack.functions_host.durable.events import (
    Event,
    EventType,
    event,
    task_completed,
)
from devstack.functions_host.durable.instances import Instance, Operation
from devstack.functions_host.durable.steps import Step, decide
from devstack.functions_host.durable.store import AlreadyRunsError, Store
from devstack.functions_host.errors import SettingsError

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
CALL = Action(0, {"functionName": "f", "input": "1"})
TIMER = Action(5, {"fireAt": "2026-11-30T12:00:10.000000Z"})
ASK = Action(7, {"instanceId": "@e@k", "operation": "add", "input": "1"})
CONTINUE = Action(4, {"input": "2"})


class Everything:
    """An app with every function."""

    def has_activity(self, name: str) -> bool:
        return bool(name)

    def has_entity(self, entity: str) -> bool:
        return bool(entity)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "durable.db"


@pytest.fixture
def store(file: Path) -> Iterator[Store]:
    store = Store(file)
    store.create("i", "orchestrator", '"x"', NOW)
    yield store
    store.close()


def present(store: Store) -> Instance:
    instance = store.instance("i")
    assert instance is not None
    return instance


def step(store: Store, answer: Answer) -> Step:
    """Take a step with what is in the inbox, and commit it."""
    instance, inbox = present(store), store.inbox("i")
    begun = [event(EventType.ORCHESTRATOR_STARTED, NOW), *(waiting for _, waiting in inbox)]
    taken = decide(instance, begun, answer, Everything(), NOW)
    store.commit_step(taken, [row for row, _ in inbox], NOW)
    return taken


def kinds(events: list[Event]) -> list[EventType]:
    return [EventType(e["EventType"]) for e in events]


def test_a_new_instance_is_pending_and_due(store: Store) -> None:
    assert present(store).status == "Pending"
    assert store.due_instances(()) == ["i"]
    assert store.due_instances({"i"}) == []
    assert kinds([e for _, e in store.inbox("i")]) == [EventType.EXECUTION_STARTED]


def test_a_step_is_kept_as_a_whole(store: Store, file: Path) -> None:
    step(store, Answer((CALL, TIMER, ASK)))
    store.close()
    again = Store(file)
    assert present(again).status == "Running"
    assert kinds(again.history("i")) == [
        EventType.ORCHESTRATOR_STARTED,
        EventType.EXECUTION_STARTED,
        EventType.TASK_SCHEDULED,
        EventType.TIMER_CREATED,
        EventType.EVENT_SENT,
        EventType.ORCHESTRATOR_COMPLETED,
    ]
    assert [call.task for call in again.due_activities((), 9)] == [0]
    assert again.next_timer() == NOW + timedelta(seconds=10)
    assert [o.name for o in again.operations("@e@k", 9)] == ["add"]
    assert again.due_instances(()) == []
    again.close()


def test_a_step_that_breaks_off_leaves_everything_as_it_was(store: Store) -> None:
    instance, inbox = present(store), store.inbox("i")
    begun = [event(EventType.ORCHESTRATOR_STARTED, NOW), *(waiting for _, waiting in inbox)]
    broken = decide(instance, begun, Answer((CALL, ASK)), Everything(), NOW)
    broken.operations[0] = replace(broken.operations[0], input=None)  # type: ignore[arg-type] # the file refuses it
    with pytest.raises(Exception, match="NOT NULL"):
        store.commit_step(broken, [row for row, _ in inbox], NOW)
    assert present(store) == instance
    assert store.inbox("i") == inbox
    assert store.due_activities((), 9) == []


def test_an_outcome_takes_the_call_off_and_makes_the_instance_due(store: Store) -> None:
    step(store, Answer((CALL,)))
    [call] = store.due_activities((), 9)
    assert store.due_activities({call.key}, 9) == []
    store.finish_activity(call, task_completed(NOW, call.task, '"done"'))
    assert store.due_activities((), 9) == []
    assert store.due_instances(()) == ["i"]


@pytest.mark.parametrize(
    "answer", [Answer((CALL, CONTINUE), is_done=True), Answer((CALL,), is_done=True)]
)
def test_nobody_hears_an_outcome_of_an_execution_that_is_over(store: Store, answer: Answer) -> None:
    step(store, answer)
    before = store.inbox("i")
    [call] = store.due_activities((), 9)
    store.finish_activity(call, task_completed(NOW, call.task, '"late"'))
    assert store.inbox("i") == before


def test_continuing_as_new_keeps_events_from_outside_and_nothing_else(store: Store) -> None:
    step(store, Answer((CALL, TIMER)))
    inbox, execution = store.inbox("i"), present(store).execution
    assert inbox == []
    [call] = store.due_activities((), 9)
    store.finish_activity(call, task_completed(NOW, call.task, "1"))
    taken = store.inbox("i")
    store.deliver("i", event(EventType.EVENT_RAISED, NOW, Name="Go", Input="1"))
    store.fire_timers(NOW + timedelta(seconds=10))
    begun = [event(EventType.ORCHESTRATOR_STARTED, NOW), *(waiting for _, waiting in taken)]
    answer = Answer((CALL, TIMER, CONTINUE), is_done=True)
    continued = decide(present(store), begun, answer, Everything(), NOW)
    store.commit_step(continued, [row for row, _ in taken], NOW)
    assert kinds([e for _, e in store.inbox("i")]) == [
        EventType.EVENT_RAISED,
        EventType.EXECUTION_STARTED,
    ]
    fresh = present(store)
    assert (fresh.raw_input, fresh.progress.next_id, store.history("i")) == ('"2"', 0, [])
    assert fresh.execution != execution
    assert fresh.created == NOW


def test_a_timer_fires_once_and_not_early(store: Store) -> None:
    step(store, Answer((TIMER,)))
    store.fire_timers(NOW + timedelta(seconds=9))
    assert store.inbox("i") == []
    store.fire_timers(NOW + timedelta(seconds=11))
    store.fire_timers(NOW + timedelta(seconds=12))
    [(_, fired)] = store.inbox("i")
    assert fired["TimerId"] == 0
    assert store.next_timer() is None


def test_an_id_that_runs_cannot_be_started_and_one_that_ended_can(store: Store) -> None:
    with pytest.raises(AlreadyRunsError, match="status Pending already exists"):
        store.create("i", "other", None, NOW)
    step(store, Answer((TIMER,), is_done=True, output=7))
    store.create("i", "other", None, NOW)
    assert (present(store).name, present(store).output) == ("other", None)
    assert store.history("i") == []
    assert store.next_timer() is None


def test_what_was_purged_while_its_step_ran_stays_away(store: Store) -> None:
    inbox, instance = store.inbox("i"), present(store)
    store.purge(["i"])
    store.commit_step(Step(instance, []), [row for row, _ in inbox], NOW)
    assert store.instance("i") is None
    assert store.due_instances(()) == []


def test_an_entitys_state_and_its_answers_are_one_commit(store: Store) -> None:
    step(store, Answer((ASK,)))
    store.signal(Operation("@e@k", "s", "add", "null"))
    batch = store.operations("@e@k", 9)
    assert [operation.is_signal for operation in batch] == [False, True]
    answers = [(o, event(EventType.EVENT_RAISED, NOW, Name=o.id, Input="{}")) for o in batch]
    store.finish_batch("@e@k", "5", answers)
    assert store.entity_state("@e@k") == "5"
    assert store.due_entities(()) == []
    [(_, answer)] = store.inbox("i")
    assert answer["Name"] == batch[0].id
    store.finish_batch("@e@k", None, [])
    assert store.entity_state("@e@k") is None


def test_only_one_host_has_the_file_and_only_its_owner_reads_it(
    store: Store, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert present(store)
    assert {part.stat().st_mode & 0o777 for part in file.parent.iterdir()} == {0o600}
    monkeypatch.setattr("devstack.functions_host.durable.schema._LOCK_SECONDS", 0.05)
    with pytest.raises(SettingsError, match="end the other host"):
        Store(file)


@pytest.mark.parametrize("content", [b"no database" * 1000])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "durable.db"
    path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"durable\.db: cannot be used"):
        Store(path)
