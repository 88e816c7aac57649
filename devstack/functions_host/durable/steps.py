"""One step of an orchestration: events come in, the function answers, work goes out.

Nothing here knows the store or the worker, so a step is the same however often it is taken: what
it decides is committed as a whole, or the step is taken again.
"""

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from devstack.functions_host.durable.answers import Action, ActionType, Answer, type_name
from devstack.functions_host.durable.events import (
    Event,
    EventType,
    event,
    timestamp,
)
from devstack.functions_host.durable.instances import (
    Activity,
    Instance,
    Operation,
    Progress,
    Timer,
)
from devstack.functions_host.durable.retries import Retry
from devstack.functions_host.durable.texts import cut
from devstack.functions_host.frames import encodable

_BEGIN = EventType.EXECUTION_STARTED
#: A step is one commit, and the host does nothing else meanwhile.
_MOST_ACTIONS = 10_000


class Known(Protocol):
    """The functions that the app has."""

    def has_activity(self, name: str) -> bool:
        """Tell whether there is an activity of that name."""

    def has_entity(self, entity: str) -> bool:
        """Tell whether `@name@key` names an entity function."""


@dataclass(slots=True)
class Step:
    """What a step brings: everything that must be committed together."""

    instance: Instance
    history: list[Event]
    activities: list[Activity] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    #: Set where the instance continues as new, with this input.
    continues_with: str | None = None


class StepError(Exception):
    """The instance must fail; the message says why."""


def take(inbox: Sequence[tuple[int, Event]], progress: Progress) -> list[tuple[int, Event]]:
    """Return the events that the next step takes in, with their rows.

    While something is being retried one at a time: only so is it plain which of the numbers that
    the library took without asking came first.
    """
    kinds = [waiting["EventType"] for _, waiting in inbox]
    if EventType.EXECUTION_TERMINATED in kinds:
        return [inbox[kinds.index(EventType.EXECUTION_TERMINATED)]]
    begins = [e for e, kind in zip(inbox, kinds, strict=True) if kind == _BEGIN]
    others = [e for e, kind in zip(inbox, kinds, strict=True) if kind != _BEGIN]
    return begins + (others[:1] if progress.retries else others)


def context(instance: Instance, past: Sequence[Event], new: Sequence[Event]) -> str:
    """Return the JSON that the orchestrator function gets."""
    raw_input = None if instance.raw_input is None else json.loads(instance.raw_input)
    facts = {
        "history": [e | {"IsPlayed": True} for e in past] + [e | {"IsPlayed": False} for e in new],
        "input": raw_input,
        "instanceId": instance.id,
        "isReplaying": bool(past),
        "parentInstanceId": None,
        # The newest form of answers that the library's version 1.7 has.
        "upperSchemaVersion": 2,
    }
    return json.dumps(facts)


def decide(
    instance: Instance, new: Sequence[Event], answer: Answer, known: Known, now: datetime
) -> Step:
    """Return what follows from `answer` to the `new` events."""
    maker = _Maker(instance, list(new), known, now)
    try:
        maker.keep_retries_in_step()
        maker.take_up(answer.actions)
    except StepError as error:
        # A failure outside the library brings no actions: its own error says more than that.
        return fail(instance, new, answer.error or str(error), now)
    except (KeyError, OverflowError, TypeError, ValueError) as error:
        # Decided once and for all: taken again, the step would only fail again.
        why = f"it asks for what cannot be read ({type(error).__name__}: {error})."
        return fail(instance, new, why, now)
    status = answer.custom_status
    custom = instance.custom_status if status is None else json.dumps(status)
    maker.step.instance = replace(
        instance,
        status="Running",
        custom_status=custom,
        progress=maker.progress,
        updated=now,
    )
    return _ended(maker.step, answer, now)


def terminate(instance: Instance, new: Sequence[Event], now: datetime) -> Step:
    """Return the step that ends the instance without asking its function."""
    reason = json.dumps(new[-1]["Input"])
    return Step(replace(instance, status="Terminated", output=reason, updated=now), list(new))


def fail(instance: Instance, new: Sequence[Event], error: str, now: datetime) -> Step:
    """Return the step that ends the instance with `error`."""
    return _ended(Step(replace(instance, updated=now), list(new)), Answer((), error=error), now)


def _ended(step: Step, answer: Answer, now: datetime) -> Step:
    """Close the step: the instance failed, completed, continues as new or waits."""
    if answer.error is not None:
        text = cut(f"Orchestrator function '{step.instance.name}' failed: {answer.error}")
        _complete(step, "Failed", text, now)
    elif answer.is_done and step.continues_with is None:
        _complete(step, "Completed", answer.output, now)
    step.history.append(event(EventType.ORCHESTRATOR_COMPLETED, now))
    return step


def _complete(step: Step, status: str, output: Any, now: datetime) -> None:  # noqa: ANN401 - any JSON
    result = json.dumps(output)
    step.continues_with = None
    step.instance = replace(step.instance, status=status, output=result)
    number = step.instance.progress.next_id
    step.history.append(
        event(EventType.EXECUTION_COMPLETED, now, number, OrchestrationStatus=status, Result=result)
    )


class _Maker:
    """Turns actions into events and work, and numbers them as the library does."""

    def __init__(self, instance: Instance, new: list[Event], known: Known, now: datetime) -> None:
        self.step = Step(instance, new)
        self._instance = instance
        self._known = known
        self._now = now
        self._labels = list(instance.progress.labels)
        self._next_id = instance.progress.next_id
        self._retries = dict(instance.progress.retries)
        self._takers: dict[int, Callable[[Action], None]] = {
            ActionType.CALL_ACTIVITY: self._call_activity,
            ActionType.CALL_ACTIVITY_WITH_RETRY: self._call_with_retry,
            ActionType.CREATE_TIMER: self._create_timer,
            ActionType.CALL_ENTITY: self._call_entity,
            ActionType.SIGNAL_ENTITY: self._signal_entity,
            ActionType.CONTINUE_AS_NEW: self._continue_as_new,
            ActionType.WAIT_FOR_EXTERNAL_EVENT: self._wait,
        }

    @property
    def progress(self) -> Progress:
        """How far the execution has come with this step."""
        return Progress(tuple(self._labels), self._next_id, self._retries)

    def keep_retries_in_step(self) -> None:
        """Do what the library does unasked with the events of retried activities."""
        for taken in list(self.step.history):
            number = taken.get("TaskScheduledId", taken.get("TimerId"))
            retry = self._retries.pop(number, None) if number is not None else None
            if retry is None:
                continue
            if taken["EventType"] == EventType.TASK_FAILED:
                self._retries[self._next_id] = retry
                self._timer(self._now + retry.interval)
            elif taken["EventType"] == EventType.TIMER_FIRED and not retry.is_last:
                self._retries[self._next_id] = retry.next()
                self._schedule(retry.name, retry.input)

    def take_up(self, actions: Sequence[Action]) -> None:
        """Take up the actions that are not in hand yet, or raise StepError."""
        known = [action.label for action in actions[: len(self._labels)]]
        if known != self._labels:
            asked = next(
                (a for a, b in zip(known, self._labels, strict=False) if a != b), "nothing"
            )
            msg = (
                f"the replay is not deterministic: it asks for {asked} where the first run asked "
                "for something else; an orchestrator must decide by its input and its tasks alone."
            )
            raise StepError(msg)
        if (count := len(actions) - len(self._labels)) > _MOST_ACTIONS:
            msg = (
                f"it asks for {count:,} things at once; the local host takes at most "
                f"{_MOST_ACTIONS:,} in one step: wait for some before you ask for more."
            )
            raise StepError(msg)
        for action in actions[len(self._labels) :]:
            taker = self._takers.get(action.type)
            if taker is None:
                msg = (
                    f"it asks for {type_name(action.type)} (action type {action.type}), which the "
                    "local host does not know."
                )
                raise StepError(msg)
            taker(action)
            self._labels.append(action.label)

    def _number(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def _call_activity(self, action: Action) -> None:
        self._schedule(action.facts["functionName"], action.facts["input"])

    def _call_with_retry(self, action: Action) -> None:
        self._retries[self._next_id] = Retry.from_action(action.facts)
        self._call_activity(action)

    def _schedule(self, name: str, text: str) -> None:
        if not self._known.has_activity(name):
            msg = f"the function '{name}' doesn't exist or is not an activity function."
            raise StepError(msg)
        number = self._number()
        self.step.history.append(
            event(EventType.TASK_SCHEDULED, self._now, number, Name=name, Version="", Input=text)
        )
        self.step.activities.append(
            Activity(self._instance.id, self._instance.execution, number, name, text)
        )

    def _create_timer(self, action: Action) -> None:
        self._timer(datetime.fromisoformat(action.facts["fireAt"]))

    def _timer(self, fire_at: datetime) -> None:
        number = self._number()
        self.step.history.append(
            event(EventType.TIMER_CREATED, self._now, number, FireAt=timestamp(fire_at))
        )
        self.step.timers.append(Timer(number, fire_at))

    def _call_entity(self, action: Action) -> None:
        self._send(action, self._instance.id, self._instance.execution)

    def _signal_entity(self, action: Action) -> None:
        self._send(action, None, None)

    def _send(self, action: Action, instance: str | None, execution: str | None) -> None:
        entity, name = encodable(action.facts["instanceId"]), encodable(action.facts["operation"])
        if not self._known.has_entity(entity):
            msg = f"the entity '{entity}' has no entity function in this app."
            raise StepError(msg)
        # Read twice by the library: as JSON, and then what that says as JSON again.
        text = json.dumps(action.facts["input"])
        operation = Operation(entity, str(uuid.uuid4()), name, text, instance, execution)
        sent = event(EventType.EVENT_SENT, self._now, self._number(), InstanceId=entity, Name="op")
        # By the id in it the library pairs the request with the answer.
        sent["Input"] = json.dumps(
            {
                "op": name,
                "signal": operation.is_signal,
                "input": text,
                "id": operation.id,
                "parent": self._instance.id,
            }
        )
        self.step.history.append(sent)
        self.step.operations.append(operation)

    def _continue_as_new(self, action: Action) -> None:
        # JSON in JSON, as a start by the library's client has it.
        self.step.continues_with = json.dumps(action.facts["input"])

    def _wait(self, action: Action) -> None:
        """Nothing to do: an event finds its task by name, and takes no number."""
