"""What an orchestrator function answered: done or not, and every action that it has asked for.

The library repeats all actions from the beginning in each answer, those that history already
knows included. A failing orchestrator raises; its answer stands behind a marker in the error.
"""

import enum
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_MARKER = "\n\n$OutOfProcData$:"


class ActionType(enum.IntEnum):
    """Every action that the library can ask for, known here or not."""

    CALL_ACTIVITY = 0
    CALL_ACTIVITY_WITH_RETRY = 1
    CALL_SUB_ORCHESTRATOR = 2
    CALL_SUB_ORCHESTRATOR_WITH_RETRY = 3
    CONTINUE_AS_NEW = 4
    CREATE_TIMER = 5
    WAIT_FOR_EXTERNAL_EVENT = 6
    CALL_ENTITY = 7
    CALL_HTTP = 8
    SIGNAL_ENTITY = 9
    SCHEDULED_SIGNAL_ENTITY = 10
    WHEN_ANY = 11
    WHEN_ALL = 12


class UnreadableAnswerError(Exception):
    """The answer is not what the library answers; the message says how."""


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that the orchestrator asks for."""

    type: int
    facts: Mapping[str, Any]

    @property
    def label(self) -> str:
        """What a replay must ask for again at the same place."""
        target = self.facts.get("functionName") or self.facts.get("instanceId") or ""
        operation = self.facts.get("operation") or self.facts.get("externalEventName") or ""
        return f"{type_name(self.type)} {target} {operation}".strip()


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer, its actions in the order in which the library numbers them."""

    actions: tuple[Action, ...]
    is_done: bool = False
    output: Any = None
    custom_status: Any = None
    #: None unless the orchestrator failed.
    error: str | None = None


def type_name(number: int) -> str:
    """Return the library's name of an action type: CallHttp, say."""
    try:
        return ActionType(number).name.title().replace("_", "")
    except ValueError:
        return f"type {number}"


def parse_answer(text: str) -> Answer:
    """Return what the JSON `text` answers, or raise UnreadableAnswerError."""
    try:
        state = json.loads(text)
        actions = tuple(_flat(state["actions"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        msg = "it answered what is no orchestrator's state; decorate it with orchestration_trigger"
        raise UnreadableAnswerError(msg) from error
    return Answer(
        actions,
        is_done=bool(state.get("isDone")),
        output=state.get("output"),
        custom_status=state.get("customStatus"),
        error=state.get("error"),
    )


def parse_failure(text: str) -> Answer:
    """Return the answer that the error `text` carries, or one that only fails with it."""
    message, found, state = text.rpartition(_MARKER)
    if not found:
        return Answer((), error=text)
    try:
        answer = parse_answer(state)
    except UnreadableAnswerError:
        return Answer((), error=message)
    return answer if answer.error else Answer(answer.actions, error=message)


def _flat(node: Any) -> Iterator[Action]:  # noqa: ANN401 - nested JSON
    if isinstance(node, list):
        for part in node:
            yield from _flat(part)
    elif node["actionType"] in {ActionType.WHEN_ANY, ActionType.WHEN_ALL}:
        yield from _flat(node["compoundActions"])
    else:
        yield Action(int(node["actionType"]), node)
