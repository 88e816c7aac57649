"""A task hub in a few lines: the orchestrator runs against simulated activities and the entity."""

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any

import azure.durable_functions as df
from azure.durable_functions.testing import orchestrator_generator_wrapper
from azure.functions._durable_functions import OrchestrationContext

from devstack.functions_host.durable.answers import Action, ActionType, parse_answer, parse_failure
from devstack.functions_host.durable.events import (
    Event,
    EventType,
    event,
    execution_started,
    task_completed,
    task_failed,
)
from services.detection.job_state import Claim, State, operate
from services.detection.orchestration import ACTIVITY, LIST_ACTIVITY, orchestrate
from tests.builders import NOW
from tests.fakes.services import Clock


@dataclass
class Hub:
    """Jobs with so many activities each, the entity's state, and what was asked of both.

    A job in `errors` fails with that text in its last activity.
    """

    activities: dict[str, int]
    depends_on: dict[str, list[str]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    state: State = field(default_factory=dict)
    clock: Clock = field(default_factory=Clock)
    #: Called with the instance before each reading.
    on_read: Callable[[str], object] = lambda _: None
    after_read: Callable[[], object] = lambda: None
    #: In order: `list`, `read JOB N`, `Add JOB`, and so on.
    asked: list[str] = field(default_factory=list)
    told: list[Any] = field(default_factory=list)
    reads: list[tuple[str, str | None]] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)

    def activity(self, name: str, given: Any, instance: str = "i") -> Any:
        if name == LIST_ACTIVITY:
            self.asked.append("list")
            return [[job, self.depends_on.get(job, [])] for job in self.activities]
        assert name == ACTIVITY
        assert set(given) == {"job", "owner", "page", "cookie", "reading", "maxBatchSize"}
        assert given["reading"] == (f"{given['job']} as it is" if given["cookie"] else None)
        self.on_read(instance)
        job, cookie = given["job"], given["cookie"]
        assert self.state[job]["owner"] == given["owner"] == instance
        done = int(cookie or 0) + 1
        assert given["page"] == (done - 1) * given["maxBatchSize"]
        self.asked.append(f"read {job} {done}")
        self.reads.append((job, cookie))
        self.after_read()
        self.after_read = lambda: None
        if job in self.errors and done == self.activities[job]:
            raise RuntimeError(self.errors[job])
        return {
            "page": given["page"] + given["maxBatchSize"],
            "cookie": str(done),
            "watermark": cookie or "0",
            "hasMore": done < self.activities[job],
            "reading": f"{job} as it is",
            "detected": 10,
        }

    def entity(self, operation: str, given: Any) -> bool | str:
        self.asked.append(f"{operation} {given['job']}")
        claim = Claim.from_json(given)
        self.state, answer = operate(operation, claim, self.state, self.clock.now)
        return answer

    def holds(self, job: str, owner: str) -> None:
        self.state, _ = operate("Add", Claim(job, owner), self.state, self.clock.now)

    def run(self, instance: str = "i", ended: dict[str, str] | None = None) -> Any:
        """Run an instance to its end by the library's own testing helper, and return its output."""
        text: str | None = json.dumps({"ended": ended}) if ended else None
        while True:
            context = _Context(self, instance, text)
            *_, output = orchestrator_generator_wrapper(orchestrate(context))  # type: ignore[arg-type] # the few methods it calls
            if context.next_input is None:
                return output
            assert output is None
            text = context.next_input
            self.inputs.append(text)

    def reads_of(self, job: str) -> list[str | None]:
        return [cookie for name, cookie in self.reads if name == job]


class _Task:
    """A task whose outcome comes about when it is looked at, as the helper does once."""

    def __init__(self, perform: Callable[[], Any]) -> None:
        self._perform = perform

    @property
    def result(self) -> Any:
        return json.loads(json.dumps(self._perform()))


class _Context:
    """What the orchestrator needs of the library's context."""

    def __init__(self, hub: Hub, instance: str, text: str | None) -> None:
        self.instance_id = instance
        self.next_input: str | None = None
        self._hub = hub
        self._text = text

    def get_input(self, expected_type: type) -> Any:
        given = json.loads(self._text) if self._text else None
        assert given is None or isinstance(given, expected_type)
        return given

    def call_activity(self, name: str, given: Any, expected_type: type) -> _Task:
        assert expected_type in {dict, list}
        return _Task(lambda: self._hub.activity(name, given, self.instance_id))

    def call_entity(
        self, entity: df.EntityId, operation: str, given: Any, expected_type: type
    ) -> _Task:
        assert (entity.name, entity.key) == ("JobState", "jobs")
        assert expected_type is (str if operation == "InProgress" else bool)
        return _Task(lambda: self._hub.entity(operation, given))

    def set_custom_status(self, told: Any) -> None:
        self._hub.told.append(json.loads(json.dumps(told)))

    def continue_as_new(self, given: Any) -> None:
        self.next_input = json.dumps(given)


class Replay:
    """An instance that the real library replays from its history at every step."""

    def __init__(self, hub: Hub, function: Callable[..., Generator[Any, Any, Any]]) -> None:
        self._hub = hub
        self._handle = df.Orchestrator.create(function)
        self.input: Any = None
        self.executions: list[list[Event]] = []
        #: The answer that each history got.
        self.answers: list[tuple[Any, list[Event], str]] = []

    def run(self) -> Any:
        """Return the output; raise RuntimeError with the error where the instance failed."""
        while True:
            given = self.input
            history = [_at(EventType.ORCHESTRATOR_STARTED)]
            history += [execution_started(NOW, name="o", raw_input=None)]
            self.executions.append(history)
            known = 0
            while self.input == given:
                text = self.answer(self.input, history)
                self.answers.append((self.input, list(history), text))
                answer = parse_answer(text) if text.startswith("{") else parse_failure(text)
                if answer.error:
                    raise RuntimeError(answer.error)
                last = answer.actions[-1] if answer.actions else None
                if last is not None and last.type == ActionType.CONTINUE_AS_NEW:
                    self.input = last.facts["input"]
                    self._hub.inputs.append(self.input)
                    break
                if answer.is_done:
                    return answer.output
                self._perform(answer.actions[known:], known, history)
                known = len(answer.actions)

    def answer(self, given: Any, history: Sequence[Event]) -> str:
        """Return what the orchestrator answers to a history, or its error's text."""
        context = {
            "history": [past | {"IsPlayed": False} for past in history],
            "input": given,
            "instanceId": "i",
            "isReplaying": len(history) > 2,
            "parentInstanceId": None,
            "upperSchemaVersion": 2,
        }
        try:
            return self._handle(OrchestrationContext(json.dumps(context)))
        except Exception as error:  # noqa: BLE001 - the library raises no narrower one
            return str(error)

    def _perform(self, actions: Sequence[Action], known: int, history: list[Event]) -> None:
        outcomes: list[Event] = []
        for number, action in enumerate(actions, known):
            given = json.loads(action.facts["input"])
            if action.type == ActionType.CALL_ACTIVITY:
                name = action.facts["functionName"]
                history.append(_at(EventType.TASK_SCHEDULED, number, Name=name))
                outcomes.append(self._activity(name, given, number))
            else:
                assert action.type == ActionType.CALL_ENTITY
                operation = action.facts["operation"]
                sent = json.dumps({"op": operation, "id": f"request-{number}"})
                history.append(_at(EventType.EVENT_SENT, number, Name="op", Input=sent))
                result = {"result": json.dumps(self._hub.entity(operation, given))}
                outcomes.append(
                    _at(EventType.EVENT_RAISED, Name=f"request-{number}", Input=json.dumps(result))
                )
        history.append(_at(EventType.ORCHESTRATOR_COMPLETED))
        history.append(_at(EventType.ORCHESTRATOR_STARTED))
        history.extend(outcomes)

    def _activity(self, name: str, given: Any, number: int) -> Event:
        try:
            result = self._hub.activity(name, given)
        except RuntimeError as error:
            return task_failed(NOW, number, reason=str(error), details="a trace")
        return task_completed(NOW, number, json.dumps(result))


def _at(kind: EventType, number: int = -1, **facts: Any) -> Event:
    return event(kind, NOW, number, **facts)
