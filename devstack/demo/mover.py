"""The dead-letter mover, as an operator runs it: a command, its rules, its output."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure.servicebus.management import QueueRuntimeProperties, ServiceBusAdministrationClient

from devstack.demo.books import Remaining
from devstack.demo.commands import run
from devstack.stack import Stack

#: What goes back and what stays; written to be read.
RULES = Path(__file__).with_name("rules.yaml")


@dataclass(frozen=True, slots=True)
class Moved:
    """What was found, by reason, and what was sent back, by job."""

    groups: list[dict[str, Any]]
    requeued: Counter[str]


def bring_back(stack: Stack, queue: str, *options: str) -> Moved:
    """Send back what the rules say."""
    # Where two changes of one record lie there, the older one does not go back: it is filed.
    archive = stack.folder / "superseded.jsonl"
    lines = _run(stack, queue, *options, "--apply", "--archive", str(archive))
    messages = [line for line in lines if line["kind"] == "message"]
    return Moved(
        [line for line in lines if line["kind"] == "group"],
        Counter(line["job"] for line in messages if line["action"] == "resubmitted"),
    )


def remaining(stack: Stack) -> list[Remaining]:
    """Return what lies in the queues, and in the dead-letter queues."""
    # The mover takes a second to start, and most of them are empty: the broker says which are not.
    with _administration(stack) as broker:
        queues = list(broker.list_queues_runtime_properties())
    places = [
        place
        for queue in queues
        for place, count in (
            ([queue.name], (queue.total_message_count or 0) - _dead_letters_of(queue)),
            ([queue.name, "--dead-letter"], _dead_letters_of(queue)),
        )
        if count
    ]
    return [
        Remaining(place[0], error_of(group), group["jobs"])
        for place in places
        for group in _run(stack, *place)
        if group["kind"] == "group"
    ]


def error_of(group: Mapping[str, Any]) -> str:
    """Return the first line of the first error of a group, as it stands on its message."""
    text: str = group["example"] or group["error"]
    return text.partition("\n")[0]


def _dead_letters_of(queue: QueueRuntimeProperties) -> int:
    return queue.dead_letter_message_count or 0


def _administration(stack: Stack) -> ServiceBusAdministrationClient:
    facts = stack.service_bus.facts()
    return ServiceBusAdministrationClient.from_connection_string(
        str(facts["admin_connection_string"]), connection_verify=str(facts["certificate"])
    )


def _run(stack: Stack, *arguments: str) -> list[dict[str, Any]]:
    lines = run(
        f"the dead-letter mover ({' '.join(arguments)}) failed",
        *("dead_letter_mover", *arguments, "--rules", str(RULES), "--json"),
        SYNC_SERVICE_BUS=stack.app_settings()["SYNC_SERVICE_BUS"],
    )
    return [json.loads(line) for line in lines.splitlines()]
