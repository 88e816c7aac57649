"""How the app's queues are to be made, all of it: `models.queues` reads what the app needs."""

import json
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from pydantic import TypeAdapter

from operator_console.probe.ports import QueueRules

_DURATION = TypeAdapter(timedelta)


def wanted_rules(text: str | bytes) -> Mapping[str, QueueRules]:
    """Read the queues from the text of `servicebus.json`."""
    [namespace] = json.loads(text)["UserConfig"]["Namespaces"]
    return {queue["Name"]: _rules(queue["Properties"]) for queue in namespace["Queues"]}


def _rules(properties: Mapping[str, Any]) -> QueueRules:
    return QueueRules(
        _DURATION.validate_python(properties["LockDuration"]),
        properties["MaxDeliveryCount"],
        _DURATION.validate_python(properties["DefaultMessageTimeToLive"]),
        properties["DeadLetteringOnMessageExpiration"],
        properties["RequiresDuplicateDetection"],
        properties["RequiresSession"],
    )
