"""A receiver's connection to its queue: opened when it is needed, closed when it has failed.

It knows nothing of messages. Whoever uses it works in one thread, as the SDK's clients demand.
"""

import logging
import threading
from contextlib import ExitStack

from azure.servicebus import ServiceBusClient, ServiceBusReceiver

_LOG = logging.getLogger("functions_host.queues")

#: How long a read of the socket waits: the longest that a finished invocation waits for us.
_SOCKET_WAIT_SECONDS = 0.05


class ConnectionReport:
    """Writes one line when a queue's connection is lost and one when all of it is back."""

    def __init__(self, queue_name: str) -> None:
        self._queue = queue_name
        self._lock = threading.Lock()
        self._broken: set[int] = set()
        self._announced = False

    def lost(self, receiver: int, error: Exception) -> None:
        """Note that `receiver` has no connection."""
        with self._lock:
            if not self._broken:
                kind, text = type(error).__name__, str(error).partition("\n")[0]
                _LOG.warning(
                    "queue %s: no connection (%s: %s); trying again", self._queue, kind, text
                )
            self._broken.add(receiver)
            self._announced = False

    def connected(self, receiver: int) -> None:
        """Note that `receiver` has a connection."""
        with self._lock:
            self._broken.discard(receiver)
            if not self._broken and not self._announced:
                _LOG.info("queue %s: connected", self._queue)
                self._announced = True


class QueueLink:
    """One connection to one queue, again and again."""

    def __init__(self, connection: str, queue_name: str, report: ConnectionReport) -> None:
        self._connection = connection
        self._queue = queue_name
        self._report = report
        self._opened = ExitStack()
        self._receiver: ServiceBusReceiver | None = None

    def open(self) -> ServiceBusReceiver:
        """Return the receiver of the open connection, after opening one where there is none."""
        if self._receiver is None:
            client = self._opened.enter_context(
                # No retries: the caller's own loop tries again, and says so.
                ServiceBusClient.from_connection_string(self._connection, retry_total=0)
            )
            receiver = client.get_queue_receiver(
                self._queue, prefetch_count=0, socket_timeout=_SOCKET_WAIT_SECONDS
            )
            _keep_its_thread_away(receiver)
            self._receiver = self._opened.enter_context(receiver)
            self._report.connected(id(self))
        return self._receiver

    def report_lost(self, error: Exception) -> None:
        """Have it said that there is no connection because of `error`."""
        self._report.lost(id(self), error)

    def close(self) -> None:
        """Close the connection; the next `open` makes another."""
        self._receiver = None
        try:
            self._opened.close()
        except Exception as error:  # noqa: BLE001 - what cannot be closed is gone already
            _LOG.debug("queue %s: while closing: %r", self._queue, error)


def _keep_its_thread_away(receiver: ServiceBusReceiver) -> None:
    """Leave out the SDK's keep-alive thread, which reads from the connection beside us.

    On a busy machine that gives a message the lock token of another one, which would then be
    completed in its place. Azure's host is no Python program.
    """
    create = receiver._create_handler  # noqa: SLF001 - the SDK has no setting for it; it is pinned

    def create_without_thread(auth: object) -> None:
        create(auth)
        receiver._handler._keep_alive_interval = 0  # noqa: SLF001 - as above

    receiver._create_handler = create_without_thread  # type: ignore[method-assign] # noqa: SLF001 - as above
