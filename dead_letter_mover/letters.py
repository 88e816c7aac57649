"""What lies in a queue, as far as an operator decides by it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from models.message_properties import ERROR_MESSAGE, JOB_NAME
from services.peeking import peek_all

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver

_PAGE = 250
_PEEK_TIMEOUT_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Letter:
    """One message; `error` is None where nobody wrote down why it is here."""

    sequence_number: int
    error: str | None
    job_name: str
    enqueued: datetime | None


def letters_in(receiver: "ServiceBusReceiver") -> Iterator[Letter]:
    """Yield every message of the queue without locking any."""
    messages = peek_all(receiver, page_size=_PAGE, timeout_seconds=_PEEK_TIMEOUT_SECONDS)
    return map(_letter, messages)


def _letter(message: "ServiceBusReceivedMessage") -> Letter:
    properties = {
        _text(name): value for name, value in (message.application_properties or {}).items()
    }
    # A dead letter that the broker made has its words only.
    error = properties.get(ERROR_MESSAGE)
    if error is None:
        error = message.dead_letter_error_description or message.dead_letter_reason
    return Letter(
        message.sequence_number or 0,
        None if error is None else _text(error),
        _text(properties.get(JOB_NAME, "")),
        message.enqueued_time_utc,
    )


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
