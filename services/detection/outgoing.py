"""A queue message, encoded once, on its way to the broker."""

from typing import NamedTuple, Self

from models.job import Priority
from models.queue_message import QueueMessage, message_id

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
    def content_hash(self) -> int:
        """64 bits that tell changes of one cursor value apart: key and content are in it."""
        return int(self.message_id[:_HASH_DIGITS], 16)
