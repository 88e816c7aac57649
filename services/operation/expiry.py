"""Lets the broker expire messages: it enforces their time to live only where somebody receives.

No function reads the side queues, so without this their messages would stay for ever.
"""

import logging
from collections.abc import Callable, Collection
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from azure.servicebus import ServiceBusMessageState

from services.time_limit import within

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusReceiver

_LOGGER = logging.getLogger(__name__)

#: For all queues together: a function has minutes, and the payloads come after.
LIMIT = timedelta(minutes=2)

_PAGE = 100
_PEEK_TIMEOUT = timedelta(seconds=8)

#: A receiver that waits this long has made the broker look; what is alive comes at once.
_WAIT = timedelta(seconds=1)


class ExpiryService:
    """Looks at the head of each queue, and receives while something expired stands there."""

    def __init__(
        self,
        open_client: "Callable[[], ServiceBusClient]",
        queues: Collection[str],
        *,
        now: Callable[[], datetime],
        limit: timedelta = LIMIT,
    ) -> None:
        self._open_client = open_client
        self._queues = queues
        self._now = now
        self._limit = limit

    def execute(self) -> None:
        """Drain every queue; what fails or hangs is logged with its queue, and the next one comes.

        The time is shared evenly, so that one queue does not use up that of the others.
        """
        share = self._limit / len(self._queues)
        for queue in self._queues:
            deadline = self._now() + share
            try:
                expired = within(share, f"expiry-{queue}", partial(self._drain, queue, deadline))
            except Exception as error:  # noqa: BLE001 - the other queues have their turn
                _LOGGER.error(  # noqa: TRY400 - the SDK's own log has the trace
                    "queue %s: its expired messages stay until tomorrow: %s",
                    queue,
                    type(error).__name__,
                )
            else:
                _LOGGER.info("queue %s: %d expired messages found and let go", queue, expired)

    def _drain(self, queue: str, deadline: datetime) -> int:
        """Return how many messages at the head were expired."""
        seen: set[int] = set()
        with (
            self._open_client() as client,
            client.get_queue_receiver(queue) as receiver,
        ):
            # A locked message is beyond reach until its lock ends: then nothing new is seen.
            while (new := self._expired_at_head(receiver) - seen) and self._now() < deadline:
                seen |= new
                _let_expire(receiver)
        return len(seen)

    def _expired_at_head(self, receiver: "ServiceBusReceiver") -> set[int]:
        # A broker may also expire them while it is peeked at: then there is nothing left to do.
        page = receiver.peek_messages(
            _PAGE, sequence_number=1, timeout=_PEEK_TIMEOUT.total_seconds()
        )
        return {message.sequence_number or 0 for message in page if self._has_expired(message)}

    def _has_expired(self, message: "ServiceBusReceivedMessage") -> bool:
        expires = message.expires_at_utc
        active = message.state is ServiceBusMessageState.ACTIVE
        return active and expires is not None and expires <= self._now()


def _let_expire(receiver: "ServiceBusReceiver") -> None:
    """Receive, which expires what stands before the first live message, and give that one back."""
    alive = receiver.receive_messages(1, max_wait_time=_WAIT.total_seconds())
    for message in alive:
        receiver.abandon_message(message)
