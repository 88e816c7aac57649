"""Counts what clients send, for whoever wants to check their books against the broker's.

The service itself has this as its metric IncomingMessages, by queue only.
"""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from devstack.service_bus import amqp_values as amqp
from devstack.service_bus.amqp_sections import Incoming, application_properties

#: The name of the file in the emulator's data folder: {queue: {value of the property: count}}.
ARRIVALS = "arrivals.json"


class Arrivals:
    """Counts messages by queue and by one application property, since the start.

    What is scheduled for later is left out: it is mostly a message that was here before.
    """

    def __init__(self, path: Path, name: str) -> None:
        self._path = path
        self._name = name
        self._counts: dict[str, Counter[str]] = {}
        self._is_written = False

    def note(self, queue: str, incoming: Iterable[Incoming], now: int) -> None:
        """Count the messages that a client sent to `queue`; without the property, under ""."""
        counts = self._counts.setdefault(queue, Counter())
        for message in incoming:
            if message.due is None or message.due <= now:
                counts[self._value(message)] += 1
                self._is_written = False

    def write(self) -> None:
        """Write the counts in one atomic step, where they have changed."""
        if self._is_written:
            return
        partial = self._path.with_suffix(".partial")
        partial.write_text(json.dumps(self._counts), encoding="utf-8")
        partial.replace(self._path)
        self._is_written = True

    def _value(self, message: Incoming) -> str:
        try:
            encoded = application_properties(message.content).get(self._name)
            return "" if encoded is None else str(amqp.read(encoded))
        except (amqp.MalformedError, *amqp.UNREADABLE):
            return ""  # the queue takes it all the same
