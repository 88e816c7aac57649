"""What the API says of an instance, in the extension's words."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from devstack.functions_host.durable.events import Event, EventType
from devstack.functions_host.durable.instances import Instance

#: Event that ends a task -> the key that names the task, and what it is called there.
_ENDINGS = {
    EventType.TASK_COMPLETED: "TaskScheduledId",
    EventType.TASK_FAILED: "TaskScheduledId",
    EventType.TIMER_FIRED: "TimerId",
}
_SILENT = {
    EventType.ORCHESTRATOR_STARTED,
    EventType.ORCHESTRATOR_COMPLETED,
    EventType.TASK_SCHEDULED,
    EventType.TIMER_CREATED,
}
_INTERNAL = {"EventId", "TaskScheduledId", "TimerId", "Version", "Details", "Name"}


def status_of(instance: Instance, *, show_input: bool) -> dict[str, Any]:
    """Return the instance's status; a failed one's text is its output."""
    return {
        "name": instance.name,
        "instanceId": instance.id,
        "runtimeStatus": instance.status,
        "input": value_of(instance.raw_input) if show_input else None,
        "customStatus": value_of(instance.custom_status),
        "output": value_of(instance.output),
        "createdTime": _second(instance.created),
        "lastUpdatedTime": _second(instance.updated),
    }


def history_of(
    events: Sequence[Event], *, show_input: bool, show_output: bool
) -> list[dict[str, Any]]:
    """Return history as the API shows it: endings with the name and time of what they end."""
    hidden = set() if show_output else {"Result"}
    hidden |= set() if show_input else {"Input"}
    return [
        {key: value for key, value in shown.items() if key not in hidden}
        for shown in _shown(events)
    ]


def _shown(events: Sequence[Event]) -> Iterator[dict[str, Any]]:
    begun = {e["EventId"]: e for e in events if e["EventType"] in _SILENT}
    for happened in events:
        kind = EventType(happened["EventType"])
        if kind in _SILENT:
            continue
        facts = {key: value for key, value in happened.items() if key not in _INTERNAL}
        facts["EventType"] = kind.name.title().replace("_", "")
        source = begun.get(happened.get(_ENDINGS.get(kind, "")), {})
        if source:
            facts["ScheduledTime"] = source["Timestamp"]
        name = source.get("Name") or happened.get("Name")
        if name is not None:
            facts["Name" if kind == EventType.EVENT_RAISED else "FunctionName"] = name
        if isinstance(facts.get("Result"), str):
            facts["Result"] = value_of(facts["Result"])
        yield facts


def value_of(text: str | None) -> Any:  # noqa: ANN401 - any JSON
    """Return what the app's JSON says. A NaN or infinity becomes text: no JSON can hold it."""
    return None if text is None else json.loads(text, parse_constant=str)


def _second(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
