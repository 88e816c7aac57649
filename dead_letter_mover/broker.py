"""The broker, through the Service Bus SDK.

Messages are read and sent as they are encoded (`services.encoded_messages`).
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cached_property
from itertools import batched
from typing import TYPE_CHECKING

from azure.servicebus import ServiceBusSubQueue
from azure.servicebus.exceptions import MessageLockLostError, ServiceBusError

from dead_letter_mover.letters import Letter
from dead_letter_mover.mover import Locked
from delivery.errors import ConfigurationError
from services.amqp_properties import sequence_number
from services.azure_access import SERVICE_BUS, service_bus_client
from services.encoded_messages import anything_received, batches, undisturbed
from services.management_node import ManagementNode
from services.time_limit import within

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

_PAGE = 250

#: A receiver that got nothing in this time has seen all that is not locked.
_PATIENCE = timedelta(seconds=5)

#: The SDK has no timeout of its own for a broker that is silent.
_SEND_TIMEOUT_SECONDS = 60

#: How long to wait for a broker that takes a connection and says nothing.
_CONNECT_LIMIT = timedelta(seconds=60)

_TOKENS_AT_ONCE = 100


class ServiceBusBroker:
    """One queue or dead-letter queue to take from, and all queues to send to."""

    def __init__(
        self,
        client: "ServiceBusClient",
        queue: str,
        *,
        dead_letters: bool,
        patience: timedelta = _PATIENCE,
    ) -> None:
        self._client = client
        self._patience = patience.total_seconds()
        self._sub_queue = ServiceBusSubQueue.DEAD_LETTER if dead_letters else None
        self._queue = queue
        self._node = ManagementNode(client, f"{queue}/$deadletterqueue" if dead_letters else queue)
        self._senders: dict[str, ServiceBusSender] = {}

    @cached_property
    def _receiver(self) -> "ServiceBusReceiver":
        return undisturbed(self._client.get_queue_receiver(self._queue, sub_queue=self._sub_queue))

    def letters(self) -> Iterator[Letter]:
        """Yield every message, whatever its state; holds one page at a time."""
        # The first request connects, for which the SDK knows no end.
        page = within(_CONNECT_LIMIT, "connect", lambda: self._node.peek_page(1, _PAGE))
        while page:
            letters = [Letter.of(encoded) for encoded in page]
            yield from letters
            page = self._node.peek_page(letters[-1].sequence_number + 1, _PAGE)

    def receive(self, most: int) -> list[Locked]:
        """Lock messages; empty where none came in time."""
        with anything_received():
            received = self._receiver.receive_messages(most, max_wait_time=self._patience)
        return [
            Locked(message.sequence_number or 0, uuid.UUID(str(message.lock_token)))
            for message in received
        ]

    def encoded(self, sequence_numbers: Sequence[int]) -> dict[int, bytes]:
        """Return messages, locked or not, as they are encoded; without those that are gone."""
        wanted = list(sequence_numbers)
        found: dict[int, bytes] = {}
        while wanted:
            page = self._node.peek_page(wanted[0], len(wanted))
            numbers = [sequence_number(encoded) or 0 for encoded in page]
            found.update(zip(numbers, page, strict=True))
            last = max(numbers, default=wanted[-1])
            wanted = [number for number in wanted if number > last]
        return {number: found[number] for number in sequence_numbers if number in found}

    def send(self, queue: str, messages: Sequence[bytes]) -> None:
        """Return once the broker has all of them.

        Raise RejectedError, with nothing sent, where one is too large.
        """
        if queue not in self._senders:
            self._senders[queue] = self._client.get_queue_sender(queue)
        sender = self._senders[queue]
        for batch in batches(sender, messages):
            sender.send_messages(batch, timeout=_SEND_TIMEOUT_SECONDS)

    def complete(self, messages: Sequence[Locked]) -> list[Locked]:
        """Remove messages; return those whose lock ran out, and which stay.

        Many in one request; where the broker refuses that, one by one.
        """
        late: list[Locked] = []
        for some in batched(messages, _TOKENS_AT_ONCE, strict=False):
            try:
                self._node.complete([message.lock_token for message in some])
            except ServiceBusError:
                late += [message for message in some if not self._is_completed(message)]
        return late

    def _is_completed(self, message: Locked) -> bool:
        try:
            self._node.complete([message.lock_token])
        except MessageLockLostError:
            return False
        return True

    def give_back(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        """Unlock messages; never raises, as locks end by themselves."""
        with suppress(ServiceBusError):
            for tokens in batched(lock_tokens, _TOKENS_AT_ONCE, strict=False):
                self._node.give_back(tokens)

    def renew(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        """Let locks run anew; one that is lost already stays lost, with some of its neighbours."""
        for tokens in batched(lock_tokens, _TOKENS_AT_ONCE, strict=False):
            with suppress(MessageLockLostError):
                self._node.renew_all(tokens)


@contextmanager
def open_broker(
    environ: Mapping[str, str], queue: str, *, dead_letters: bool
) -> Iterator[ServiceBusBroker]:
    """Connect by the setting SYNC_SERVICE_BUS, as the app does."""
    try:
        client = service_bus_client(environ)
    except ValueError as error:
        msg = f"the setting {SERVICE_BUS} is no connection string: {error}"
        raise ConfigurationError(msg) from error
    with client:
        yield ServiceBusBroker(client, queue, dead_letters=dead_letters)
