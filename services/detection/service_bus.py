"""Sends queue messages in batches."""

from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING, Self

from azure.servicebus.exceptions import MessageSizeExceededError

from delivery.errors import RejectedError
from services.broker_limits import MESSAGES_PER_BATCH
from services.metrics import MetricsService
from services.outgoing import OutgoingMessage, to_service_bus
from services.payloads import PayloadService
from services.tracing import TracingService

if TYPE_CHECKING:
    from azure.servicebus import (
        ServiceBusClient,
        ServiceBusMessage,
        ServiceBusMessageBatch,
        ServiceBusSender,
    )

    from models.job import Priority


class ServiceBusService:
    """Collects messages and sends them in batches of 200, or fewer where the size limit asks.

    One object serves one run on one thread: SDK clients are not thread-safe. Leaving the `with`
    block closes the links; what was added and not flushed is not sent.
    """

    def __init__(
        self,
        client: "ServiceBusClient",
        payloads: PayloadService,
        metrics: MetricsService,
        tracing: TracingService,
    ) -> None:
        self._client = client
        self._payloads = payloads
        self._metrics = metrics
        self._tracing = tracing
        self._batches: dict[Priority, _Batch] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for batch in self._batches.values():
            batch.close()
        self._client.close()

    def add_message_or_send(self, message: OutgoingMessage) -> None:
        """Add `message` to its priority's batch; a full batch is sent first.

        Raise RejectedError where the message alone is larger than the queue takes.
        """
        batch = self._batches.get(message.priority)
        if batch is None:
            sender = self._client.get_queue_sender(message.queue)
            batch = self._batches[message.priority] = _Batch(sender, message.queue, self._metrics)
        trace_parent = self._tracing.created(message.queue, message.job_name, message.source_key)
        batch.add(to_service_bus(message, self._payloads, trace_parent), message)

    def flush_batch(self) -> None:
        """Send what has been added; on return, the broker has accepted all of it."""
        for batch in self._batches.values():
            batch.send()

    def discard(self) -> None:
        """Forget what was added and not sent, so that a failed job leaves nothing to the next."""
        for batch in self._batches.values():
            batch.discard()


class _Batch:
    """The one open batch of one queue."""

    def __init__(self, sender: "ServiceBusSender", queue: str, metrics: MetricsService) -> None:
        self._sender = sender
        self._queue = queue
        self._metrics = metrics
        self._messages: ServiceBusMessageBatch | None = None
        self._jobs: Counter[str] = Counter()

    def add(self, encoded: "ServiceBusMessage", message: OutgoingMessage) -> None:
        if self._jobs.total() == MESSAGES_PER_BATCH:
            self.send()
        try:
            self._open().add_message(encoded)
        except MessageSizeExceededError:
            self.send()
            self._add_alone(encoded, message)
        self._jobs[message.job_name] += 1

    def send(self) -> None:
        if self._messages is not None and self._jobs:
            self._sender.send_messages(self._messages)
            self._metrics.batch_sent(self._queue, self._jobs)
        self.discard()

    def discard(self) -> None:
        self._messages = None
        self._jobs.clear()

    def close(self) -> None:
        self._sender.close()

    def _open(self) -> "ServiceBusMessageBatch":
        if self._messages is None:
            self._messages = self._sender.create_message_batch()
        return self._messages

    def _add_alone(self, encoded: "ServiceBusMessage", message: OutgoingMessage) -> None:
        try:
            self._open().add_message(encoded)
        except MessageSizeExceededError as error:
            msg = (
                f"job {message.job_name!r}, record {message.source_key!r}: the message is larger "
                "than the queue takes; shorten the key"
            )
            raise RejectedError(msg) from error
