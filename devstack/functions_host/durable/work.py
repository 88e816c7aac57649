"""One piece of durable work until its commit: a step, a call, a batch of operations.

Each method returns the commit, to be tried until it succeeds, so that a full disk makes nothing
run twice; None where the worker was lost before it answered, and the piece is to be done again.
"""

import json
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

from devstack.functions_host.durable import steps
from devstack.functions_host.durable.answers import (
    Answer,
    UnreadableAnswerError,
    parse_answer,
    parse_failure,
)
from devstack.functions_host.durable.events import (
    Event,
    EventType,
    event,
    task_completed,
    task_failed,
)
from devstack.functions_host.durable.functions import Catalog, Runner, split_entity
from devstack.functions_host.durable.instances import Activity, Instance, Operation
from devstack.functions_host.durable.store import Store
from devstack.functions_host.durable.texts import cut
from devstack.functions_host.invocations import Lost, Outcome, Raised, Returned

_LOG = logging.getLogger("functions_host.durable")

#: How many requests an entity function gets at once.
_LARGEST_BATCH = 100

Commit = Callable[[], None]


class Work:
    """Does what is due, one piece at a time; whoever calls it sees to what may run at once."""

    def __init__(
        self, store: Store, catalog: Catalog, runner: Runner, now: Callable[[], datetime]
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._runner = runner
        self._now = now

    async def step(self, instance_id: str) -> Commit | None:
        """Take one step of an orchestration."""
        instance = self._store.instance(instance_id)
        inbox = self._store.inbox(instance_id)
        if instance is None or not inbox:
            return _nothing
        taken = steps.take(inbox, instance.progress)
        started = event(EventType.ORCHESTRATOR_STARTED, self._now())
        begun = [started, *(waiting for _, waiting in taken)]
        step = await self._decided(instance, begun)
        if step is None:
            return None
        return partial(self._commit_step, step, [row for row, _ in taken])

    def _commit_step(self, step: steps.Step, taken: Sequence[int]) -> None:
        self._store.commit_step(step, taken, self._now())
        instance = step.instance
        if instance.has_ended:
            _LOG.info("%s %s: %s", instance.name, instance.id, instance.status)

    async def _decided(self, instance: Instance, begun: list[Event]) -> steps.Step | None:
        if begun[-1]["EventType"] == EventType.EXECUTION_TERMINATED:
            return steps.terminate(instance, begun, self._now())
        function = self._catalog.orchestrator(instance.name)
        if function is None:
            why = "the app has no orchestrator function of this name any more."
            return steps.fail(instance, begun, why, self._now())
        text = steps.context(instance, self._store.history(instance.id), begun)
        outcome = await self._runner.run(function, text)
        try:
            answer = _answer(outcome)
        except UnreadableAnswerError as error:
            return steps.fail(instance, begun, str(error), self._now())
        if answer is None:
            return None
        return steps.decide(instance, begun, answer, self._catalog, self._now())

    async def call(self, activity: Activity) -> Commit | None:
        """Make one call of an activity, unless it was dropped while the worker restarted."""
        if not self._store.is_due(activity):
            return _nothing
        function = self._catalog.activity(activity.name)
        if function is None:
            why = Raised("FunctionNotFound", "the app", "", "the app has no such activity any more")
            outcome: Outcome = why
        else:
            outcome = await self._runner.run(function, activity.input)
        match outcome:
            case Returned(_, _, body):
                ended = task_completed(self._now(), activity.task, body.decode())
            case Raised() | Lost(timed_out=True):
                ended = self._failed(activity, outcome)
            case Lost():
                return self._lost(activity)
        return partial(self._store.finish_activity, activity, ended)

    def _lost(self, activity: Activity) -> Commit | None:
        """Have the call made again only while somebody waits for its outcome."""
        if self._store.has_listener(activity):
            return None
        return partial(self._store.drop_activity, activity)

    def _failed(self, activity: Activity, outcome: Raised | Lost) -> Event:
        return task_failed(
            self._now(),
            activity.task,
            reason=cut(f"Activity function '{activity.name}' failed: {_text(outcome)}"),
            details=outcome.place if isinstance(outcome, Raised) else "",
        )

    async def operate(self, entity: str) -> Commit | None:
        """Let an entity take what waits for it, in the order of arrival."""
        batch = self._store.operations(entity, _LARGEST_BATCH)
        state = self._store.entity_state(entity)
        function = self._catalog.entity(entity)
        if function is None:
            answers = [_refusal("the app has no such entity function any more")] * len(batch)
        else:
            outcome = await self._runner.run(function, _request(entity, state, batch))
            match outcome:
                case Returned(_, _, body):
                    state, answers = _entity_answer(body)
                case Raised() | Lost(timed_out=True):
                    answers = [_refusal(_text(outcome))] * len(batch)
                case Lost():
                    return None
        paired = [(o, self._raised(o, a)) for o, a in zip(batch, answers, strict=True)]
        return partial(self._store.finish_batch, entity, state, paired)

    def _raised(self, operation: Operation, answer: str) -> Event:
        return event(EventType.EVENT_RAISED, self._now(), Name=operation.id, Input=answer)


def _nothing() -> None:
    """Commit nothing: there was nothing to do."""


def _answer(outcome: Outcome) -> Answer | None:
    match outcome:
        case Returned(_, _, body):
            return parse_answer(body.decode())
        case Raised(text=text):
            return parse_failure(text)
        case Lost(timed_out=True):
            return Answer((), error=outcome.reason)
        case Lost():
            return None


def _text(outcome: Raised | Lost) -> str:
    return outcome.text if isinstance(outcome, Raised) else outcome.reason


def _request(entity: str, state: str | None, batch: Sequence[Operation]) -> str:
    name, key = split_entity(entity)
    facts = {
        "self": {"name": name, "key": key},
        "exists": state is not None,
        "state": state,
        "batch": [
            {"id": o.id, "name": o.name, "input": o.input, "signal": o.is_signal} for o in batch
        ],
    }
    return json.dumps(facts)


def _entity_answer(body: bytes) -> tuple[str | None, list[str]]:
    facts = json.loads(body)
    answers = [
        _refusal(json.loads(result["result"]))
        if result["isError"]
        else json.dumps({"result": result["result"]})
        for result in facts["results"]
    ]
    return (facts["entityState"] if facts["entityExists"] else None), answers


def _refusal(text: str) -> str:
    """Return the answer that the library raises: an `exceptionType` marks it."""
    return json.dumps({"result": json.dumps(cut(text)), "exceptionType": "EntityOperationError"})
