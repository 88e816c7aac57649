"""The queues by role. Their properties stand in `servicebus.json`, which `read_queues` reads."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter

from models.job import Priority

PROCESSING_QUEUES = {
    Priority.HIGH: "sbqhigh",
    Priority.NORMAL: "sbqnormal",
    Priority.LOW: "sbqlow",
}

#: By processing queue: where its messages wait for what they depend on.
TRANSITIVE_QUEUES = {
    "sbqhigh": "sbqtransitivehigh",
    "sbqnormal": "sbqtransitivenormal",
    "sbqlow": "sbqtransitivelow",
}

IGNORED_QUEUE = "sbqignored"

#: No function is triggered by these: they isolate, for people to look at.
SIDE_QUEUES = (*TRANSITIVE_QUEUES.values(), IGNORED_QUEUE)

ALL_QUEUES = (*PROCESSING_QUEUES.values(), *SIDE_QUEUES)

_DURATION = TypeAdapter(timedelta)


@dataclass(frozen=True, slots=True)
class QueueProperties:
    """What the app needs to know of a queue.

    The defaults, those of our processing queues, are for an app that cannot read the file.
    """

    lock_duration: timedelta = timedelta(minutes=5)
    max_delivery_count: int = 10
    time_to_live: timedelta = timedelta(days=14)


def read_queues(text: str | bytes) -> Mapping[str, QueueProperties]:
    """Read the queues' properties from the text of `servicebus.json`."""
    [namespace] = json.loads(text)["UserConfig"]["Namespaces"]
    return {queue["Name"]: _read(queue["Properties"]) for queue in namespace["Queues"]}


def _read(properties: Mapping[str, Any]) -> QueueProperties:
    return QueueProperties(
        lock_duration=_DURATION.validate_python(properties["LockDuration"]),
        max_delivery_count=properties["MaxDeliveryCount"],
        time_to_live=_DURATION.validate_python(properties["DefaultMessageTimeToLive"]),
    )
