"""One delivery of one message, as the host hands it over."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from models.message_properties import (
    CARRIED_ATTEMPTS,
    ERROR_DELIVERY_COUNT,
    JOB_NAME,
    POSTPONEMENTS,
    SOURCE_KEY,
)
from services.event_log import Subject

#: More than any message goes through in its life.
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Delivery:
    """`delivery_count` is the broker's, 1 at the first; `expires` is None where nothing expires."""

    queue: str
    body: bytes
    lock_token: uuid.UUID
    delivery_count: int
    message_id: str
    content_type: str | None = None
    properties: Mapping[str, object] = field(default_factory=dict)
    enqueued: datetime | None = None
    expires: datetime | None = None
    sequence_number: int | None = None

    @property
    def subject(self) -> Subject:
        """Whom the log, the metrics and the traces name; it stands on messages with no body too."""
        return Subject(
            queue=self.queue,
            job=self._text(JOB_NAME),
            source_key=self._text(SOURCE_KEY),
            attempt=self.attempt,
        )

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1, counted over all copies of the message."""
        return self._count(CARRIED_ATTEMPTS) + self.delivery_count

    @property
    def postponements(self) -> int:
        """How often the message was put off."""
        return self._count(POSTPONEMENTS)

    @property
    def is_suspect(self) -> bool:
        """Tell whether the delivery before this one ended without a word.

        It may have ended the worker, or was in flight when something else did.
        """
        told = self.properties.get(ERROR_DELIVERY_COUNT)
        return self.delivery_count > 1 and told != self.attempt - 1

    def _text(self, name: str) -> str:
        value = self.properties.get(name)
        return value if isinstance(value, str) else ""

    def _count(self, name: str) -> int:
        """Read a number of our own; whoever else wrote something there is not trusted."""
        value = self.properties.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            return 0
        return min(max(value, 0), _MOST)
