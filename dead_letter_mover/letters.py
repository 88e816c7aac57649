"""A message as the mover sees it: the bytes that the broker keeps, and what is decided by."""

from dataclasses import dataclass
from typing import Self

from delivery.errors import UnreadableError
from models.message_properties import (
    DEAD_LETTER_ERROR_DESCRIPTION,
    DEAD_LETTER_REASON,
    ERROR_MESSAGE,
    JOB_NAME,
    ORIGINAL_QUEUE,
    SOURCE_KEY,
)
from services.amqp_sections import (
    ANNOTATIONS,
    APPLICATION_PROPERTIES,
    DATA,
    PROPERTIES,
    content,
    fields,
    is_text,
    pairs,
    sections,
    whole,
)

_SEQUENCE_NUMBER, _ENQUEUED = "x-opt-sequence-number", "x-opt-enqueued-time"
#: 0 is active, 1 deferred, 2 scheduled.
_STATE = "x-opt-message-state"

#: Where the reason stands, the most telling place first: a dead letter of the broker's own making
#: has its words only.
_REASONS = (ERROR_MESSAGE, DEAD_LETTER_ERROR_DESCRIPTION, DEAD_LETTER_REASON)


@dataclass(frozen=True, slots=True)
class Letter:
    """One message.

    `error` is None where nobody wrote down why it is here, `enqueued` milliseconds since 1970,
    `body` empty where the message holds no bytes but an AMQP value. One that `is_waiting` is
    scheduled or deferred: the broker hands it out to nobody now.
    """

    sequence_number: int
    encoded: bytes
    message_id: str = ""
    error: str | None = None
    job_name: str = ""
    source_key: str = ""
    original_queue: str | None = None
    enqueued: int | None = None
    body: bytes = b""
    is_waiting: bool = False
    is_readable: bool = True

    @classmethod
    def of(cls, encoded: bytes) -> Self:
        """Read a message as the broker's `$management` node shows it.

        Raise UnreadableError where the bytes tell no sequence number.
        """
        annotations, properties, message_id, body = {}, {}, "", b""
        is_readable = True
        try:
            for code, _, value in sections(encoded):
                if code == ANNOTATIONS:
                    annotations = _by_name(value)
                elif code == APPLICATION_PROPERTIES:
                    properties = _by_name(value)
                elif code == PROPERTIES:
                    message_id = _shown(fields(value)[:1])
                elif code == DATA:
                    body += content(value)
        except UnreadableError:
            is_readable = False
        number = _whole(annotations.get(_SEQUENCE_NUMBER))
        if number is None:
            msg = "a message without a sequence number"
            raise UnreadableError(msg)
        reasons = (_text(properties.get(name)) for name in _REASONS)
        return cls(
            number,
            encoded,
            message_id,
            next((reason for reason in reasons if reason and not reason.isspace()), None),
            _text(properties.get(JOB_NAME)) or "",
            _text(properties.get(SOURCE_KEY)) or "",
            _text(properties.get(ORIGINAL_QUEUE)),
            _whole(annotations.get(_ENQUEUED)),
            body,
            bool(_whole(annotations.get(_STATE))),
            is_readable,
        )


def _by_name(raw: bytes) -> dict[str, bytes]:
    return {_text(name) or "": value for name, value in pairs(raw)}


def _text(raw: bytes | None) -> str | None:
    """Return a string or symbol; None for whatever else somebody put there."""
    return content(raw).decode(errors="replace") if raw and is_text(raw) else None


def _whole(raw: bytes | None) -> int | None:
    return whole(raw) if raw else None


def _shown(first: list[bytes]) -> str:
    """Return a message id as people read it: AMQP also has numbers, GUIDs and bytes there."""
    raw = first[0] if first else b""
    text = _text(raw)
    return raw[1:].hex() if text is None else text
