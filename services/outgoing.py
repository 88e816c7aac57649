"""A queue message, encoded once, on its way to the broker."""

from typing import Any, NamedTuple, Self

from azure.servicebus import ServiceBusMessage

from models.job import Priority
from models.message_properties import JOB_NAME, SOURCE_KEY, TRACE_PARENT
from models.queue_message import QueueMessage, message_id
from models.queues import PROCESSING_QUEUES
from services.broker_limits import LARGEST_BODY_BYTES
from services.payloads import PayloadService

_HASH_DIGITS = 16


class OutgoingMessage(NamedTuple):
    """The body, and what else goes onto the bus with it."""

    priority: Priority
    job_name: str
    source_key: str
    change_tracker: str
    body: bytes
    message_id: str

    @classmethod
    def of(cls, message: QueueMessage, priority: Priority) -> Self:
        """Encode `message`."""
        body = message.to_body()
        return cls(
            priority,
            message.job_name,
            message.source_key,
            message.change_tracker,
            body,
            message_id(body),
        )

    @property
    def queue(self) -> str:
        """The queue that it is processed from."""
        return PROCESSING_QUEUES[self.priority]

    @property
    def content_hash(self) -> int:
        """64 bits that tell changes of one cursor value apart: key and content are in it."""
        return int(self.message_id[:_HASH_DIGITS], 16)


def to_service_bus(
    message: OutgoingMessage, payloads: PayloadService, trace_parent: str
) -> ServiceBusMessage:
    """Return the message as it goes to the broker, a large body by claim check.

    `trace_parent` is empty where nothing is traced.
    """
    body = message.body
    if len(body) > LARGEST_BODY_BYTES:
        body = payloads.check_in(message.message_id, body)
    # None of them is ever null: brokers treat a null property differently, some hang on it.
    properties: dict[str | bytes, Any] = {
        JOB_NAME: message.job_name,
        SOURCE_KEY: message.source_key,
    }
    if trace_parent:
        properties[TRACE_PARENT] = trace_parent
    return ServiceBusMessage(
        body,
        content_type="application/json",
        message_id=message.message_id,
        application_properties=properties,
    )
