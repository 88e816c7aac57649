"""The probed queue, through the SDK and the parts of the app that use it.

Two clients, so that two connections: one receives, the other one settles, peeks and sends. Neither
tries again by itself, so that what is seen is what the broker does.
"""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from azure.servicebus import ServiceBusMessage, ServiceBusSubQueue
from azure.servicebus.exceptions import ServiceBusError

from delivery.errors import ConfigurationError, RejectedError
from operator_console.probe.encoding import encoded, seen
from operator_console.probe.failures import translated
from operator_console.probe.namespace import Namespace
from operator_console.probe.ports import Counts, Held, Parcel, QueueRules, RefusedError, Seen
from services.azure_access import (
    SERVICE_BUS,
    service_bus_administration,
    service_bus_client,
)
from services.encoded_messages import anything_received, batches, undisturbed
from services.management_node import ManagementNode
from services.time_limit import within

if TYPE_CHECKING:
    from azure.servicebus import (
        ServiceBusClient,
        ServiceBusReceivedMessage,
        ServiceBusReceiver,
        ServiceBusSender,
    )

_SEND_TIMEOUT_SECONDS = 30

#: The SDK waits without end for a broker that takes a connection and says nothing.
_CONNECT_LIMIT = timedelta(seconds=30)


class ServiceBusQueue:
    """The adapter of `ports.ProbedQueue`. Belongs to one thread."""

    def __init__(
        self, open_client: "Callable[[], ServiceBusClient]", namespace: Namespace, name: str
    ) -> None:
        self._open_client = open_client
        self._namespace = namespace
        self._name = name
        self._here: ServiceBusClient | None = None
        self._elsewhere: ServiceBusClient | None = None
        self._nodes: dict[bool, ManagementNode] = {}
        self._receivers: dict[bool, ServiceBusReceiver] = {}
        self._sender_or_none: ServiceBusSender | None = None

    def connect(self, patience: timedelta) -> None:
        """Reach the queue, or raise a sentence that says why it cannot be."""
        try:
            # As a sender: of a queue that is missing, the management node says no clear word.
            within(patience, "connect", self.largest)
        except TimeoutError as error:
            # What hangs cannot be closed.
            self._sender_or_none, self._elsewhere = None, None
            with self._sentences():
                raise error from None
        except RefusedError as error:
            msg = f"{self._name}: the broker refuses senders: {error}; check the queue's name"
            raise RejectedError(msg) from error
        except ValueError:
            # The cause may quote the setting.
            msg = f"the setting {SERVICE_BUS} is no valid connection string or address; correct it"
            raise ConfigurationError(msg) from None

    def largest(self) -> int:
        """Return how many bytes a message may have."""
        with self._sentences():
            sender = self._sender
            sender.create_message_batch()  # attaches; a batch may be smaller than a message
            return sender._max_message_size_on_link  # noqa: SLF001 - no public access

    def send(self, parcels: Sequence[Parcel]) -> None:
        """Send all, as the mover does."""
        with self._sentences():
            for batch in batches(self._sender, [encoded(parcel) for parcel in parcels]):
                self._sender.send_messages(batch, timeout=_SEND_TIMEOUT_SECONDS)

    def send_alone(self, parcel: Parcel) -> None:
        """Send a message whose size the SDK does not look at."""
        message = ServiceBusMessage(parcel.body, message_id=parcel.message_id)
        with self._sentences():
            self._sender.send_messages(message, timeout=_SEND_TIMEOUT_SECONDS)

    def receive(self, most: int, wait: timedelta, *, dead: bool = False) -> list[Held]:
        """Lock up to `most` messages."""
        with self._sentences(), anything_received():
            receiver = self._receiver(dead=dead)
            received = receiver.receive_messages(most, max_wait_time=wait.total_seconds())
        return [_held(message) for message in received]

    def peek(self, number: int, most: int, *, dead: bool = False) -> list[Seen]:
        """Return messages from this number on."""
        with self._sentences():
            return [seen(message) for message in self._node(dead=dead).peek_page(number, most)]

    def abandon_here(self, held: Held) -> None:
        """Abandon on the receiver's link."""
        with self._sentences():
            self._receiver(dead=False).abandon_message(held.delivery)

    def release_here(self, held: Held, *, dead: bool = False) -> None:
        """Release on the receiver's link, for which the SDK has no public way."""
        message = held.delivery
        with self._sentences():
            self._receiver(dead=dead)._handler.settle_messages(  # noqa: SLF001 - as said
                message._delivery_id,  # noqa: SLF001 - as said
                message._delivery_tag,  # noqa: SLF001 - as said
                "released",
            )

    def abandon(self, lock_token: uuid.UUID, properties: Mapping[str, str | int]) -> None:
        """Abandon by token."""
        with self._sentences():
            self._node(dead=False).abandon(lock_token, properties)

    def dead_letter(
        self,
        lock_token: uuid.UUID,
        reason: str,
        description: str,
        properties: Mapping[str, str | int],
    ) -> None:
        """Dead-letter by token."""
        with self._sentences():
            self._node(dead=False).dead_letter(lock_token, reason, description, properties)

    def renew(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        """Renew one as the app does, several as the mover does."""
        with self._sentences():
            if len(lock_tokens) == 1:
                self._node(dead=False).renew(lock_tokens[0])
            else:
                self._node(dead=False).renew_all(lock_tokens)

    def complete(self, lock_tokens: Sequence[uuid.UUID], *, dead: bool = False) -> None:
        """Complete by token."""
        with self._sentences():
            self._node(dead=dead).complete(lock_tokens)

    def give_back(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        """Abandon by token, without properties."""
        with self._sentences():
            self._node(dead=False).give_back(lock_tokens)

    def cancel(self, numbers: Sequence[int]) -> None:
        """Remove scheduled messages; without any, the SDK asks nothing."""
        with self._sentences():
            self._sender.cancel_scheduled_messages(list(numbers))

    def close_receiver(self) -> None:
        """Close the receivers and their connection."""
        for opened in (*self._receivers.values(), self._here):
            with suppress(ServiceBusError, OSError):
                if opened is not None:
                    opened.close()
        self._receivers, self._here = {}, None

    def disconnect(self) -> None:
        """Close everything."""
        self.close_receiver()
        for opened in (*self._nodes.values(), self._sender_or_none, self._elsewhere):
            with suppress(Exception):
                if opened is not None:
                    opened.close()
        self._nodes, self._sender_or_none, self._elsewhere = {}, None, None

    def rules(self, queue: str | None = None) -> QueueRules | None:
        """Return how a queue was made."""
        return self._namespace.rules(queue or self._name)

    def counts(self) -> Counts:
        """Return what is counted in the probed queue."""
        return self._namespace.counts(self._name)

    @contextmanager
    def _sentences(self) -> Iterator[None]:
        with translated(self._name):
            yield

    def _node(self, *, dead: bool) -> ManagementNode:
        if dead not in self._nodes:
            path = f"{self._name}/$deadletterqueue" if dead else self._name
            self._nodes[dead] = ManagementNode(self._client_elsewhere, path)
        return self._nodes[dead]

    def _receiver(self, *, dead: bool) -> "ServiceBusReceiver":
        if self._here is None:
            self._here = self._open_client()
        if dead not in self._receivers:
            sub_queue = ServiceBusSubQueue.DEAD_LETTER if dead else None
            receiver = self._here.get_queue_receiver(self._name, sub_queue=sub_queue)
            self._receivers[dead] = undisturbed(receiver)
        return self._receivers[dead]

    @property
    def _sender(self) -> "ServiceBusSender":
        if self._sender_or_none is None:
            self._sender_or_none = self._client_elsewhere.get_queue_sender(self._name)
        return self._sender_or_none

    @property
    def _client_elsewhere(self) -> "ServiceBusClient":
        if self._elsewhere is None:
            self._elsewhere = self._open_client()
        return self._elsewhere


def _held(message: "ServiceBusReceivedMessage") -> Held:
    return Held(
        message.sequence_number or 0,
        uuid.UUID(str(message.lock_token)),
        message.message_id or "",
        message.delivery_count or 0,
        message.enqueued_time_utc,
        message.locked_until_utc,
        message,
    )


@contextmanager
def open_queue(
    settings: Mapping[str, str], name: str, patience: timedelta = _CONNECT_LIMIT
) -> Iterator[ServiceBusQueue]:
    """Connect by the setting SYNC_SERVICE_BUS, as the app does; close in the end."""
    queue = ServiceBusQueue(
        lambda: service_bus_client(settings, retry_total=0),
        Namespace(lambda: service_bus_administration(settings, retry_total=0)),
        name,
    )
    try:
        queue.connect(patience)
        yield queue
    finally:
        queue.disconnect()
