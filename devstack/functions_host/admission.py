"""Which queue messages may go to the worker: all that have a slot, or one at a time.

After a death of the worker nobody knows which of the messages in flight killed it. Until as many
invocations have ended well as were in flight, messages go one at a time over all queues, so that
the guilty one meets its end alone. `docs/decisions/0003` has the reasons.
"""

import threading
from collections.abc import Hashable


class Admission:
    """The gate that all receivers of the host share."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._in_worker = 0
        #: How many invocations must still end well before the gate opens fully.
        self._owed = 0
        self._receivers: set[Hashable] = set()
        self._empty: set[Hashable] = set()

    def register(self, receiver: Hashable) -> None:
        """Count `receiver` among those that must find nothing before probation ends early."""
        with self._lock:
            self._receivers.add(receiver)

    def is_on_probation(self) -> bool:
        """Tell whether messages go one at a time."""
        return self._owed > 0

    def admit(self, wanted: int) -> int:
        """Return how many of the `wanted` messages may go to the worker; they count as there."""
        with self._lock:
            if self._owed and wanted:
                wanted = 0 if self._in_worker else 1
            self._in_worker += wanted
            return wanted

    def ended(self) -> None:
        """Note that an invocation ended and left the worker alive."""
        with self._lock:
            self._in_worker -= 1
            self._owed = max(0, self._owed - 1)

    def lost(self) -> None:
        """Note that an invocation ended with the worker."""
        with self._lock:
            self._in_worker -= 1

    def worker_died(self) -> None:
        """Begin probation for as many invocations as were in the worker. Call before `lost`."""
        with self._lock:
            self._owed = max(self._owed, self._in_worker)
            self._empty.clear()

    def found_nothing(self, receiver: Hashable) -> None:
        """Note that `receiver` and its queue are empty; the last to say so ends probation."""
        if not self._owed:
            return
        with self._lock:
            self._empty.add(receiver)
            if self._empty >= self._receivers and not self._in_worker:
                self._owed = 0

    def found_some(self) -> None:
        """Note that a queue was not empty after all."""
        if self._empty:
            with self._lock:
                self._empty.clear()
