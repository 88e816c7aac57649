"""What a message is when it goes back: itself, without what told of failures.

It is put together from its own bytes, so that body and properties keep every AMQP type, also those
that the SDK cannot write.
"""

import hashlib

from dead_letter_mover.letters import Letter
from models.message_properties import ERROR_PROPERTIES, PREVIOUS_MESSAGE_ID
from services.amqp_sections import (
    ANNOTATIONS,
    APPLICATION_PROPERTIES,
    DATA,
    FOOTER,
    NULL,
    PROPERTIES,
    SEQUENCE,
    VALUE,
    content,
    fields,
    is_text,
    list_section,
    map_section,
    pairs,
    sections,
    string,
)

#: Positions in AMQP's `properties`.
_MESSAGE_ID, _ABSOLUTE_EXPIRY, _CREATION = 0, 8, 9
_NULL = bytes((NULL,))

_LEFT_OUT = {name.encode() for name in ERROR_PROPERTIES}
_PREVIOUS = PREVIOUS_MESSAGE_ID.encode()

#: The one annotation that a sender chooses; the others are the broker's, about the message as it
#: was.
_PARTITION_KEY = b"x-opt-partition-key"

#: They come along as they are, with what follows them.
_BODY = {DATA, SEQUENCE, VALUE, FOOTER}


def new_id(place: str, letter: Letter) -> str:
    """Return 64 hex digits; the same message in the same place always gets the same id.

    So a message that was sent twice, because a run ended in between, can be told by its id.
    """
    origin = f"{place}/{letter.sequence_number}/{letter.message_id}"
    return hashlib.sha256(origin.encode()).hexdigest()


def resubmitted(encoded: bytes, message_id: str) -> bytes:
    """Return the message to send, without error properties and with an id of its own.

    What it was called before becomes a property. Neither header nor expiry comes along: the queue
    gives the message a fresh time to live. Raise UnreadableError where the bytes are no message.
    """
    annotations, body = b"", b""
    properties, application = [_NULL], []
    for code, whole, value in sections(encoded):
        if code == ANNOTATIONS:
            annotations = _annotations(value)
        elif code == PROPERTIES:
            properties = fields(value) or properties
        elif code == APPLICATION_PROPERTIES:
            application = [pair for pair in pairs(value) if _name(pair[0]) not in _LEFT_OUT]
        elif code in _BODY:
            body += whole
    if properties[_MESSAGE_ID] != _NULL:
        application = [pair for pair in application if _name(pair[0]) != _PREVIOUS]
        application.append((string(PREVIOUS_MESSAGE_ID), properties[_MESSAGE_ID]))
    return b"".join(
        (
            annotations,
            list_section(PROPERTIES, _renamed(properties, message_id)),
            map_section(APPLICATION_PROPERTIES, application) if application else b"",
            body,
        )
    )


def _annotations(raw: bytes) -> bytes:
    kept = [pair for pair in pairs(raw) if _name(pair[0]) == _PARTITION_KEY]
    return map_section(ANNOTATIONS, kept) if kept else b""


def _renamed(properties: list[bytes], message_id: str) -> list[bytes]:
    renamed = [string(message_id), *properties[1:]]
    for position in (_ABSOLUTE_EXPIRY, _CREATION):
        if position < len(renamed):
            renamed[position] = _NULL
    return renamed


def _name(raw: bytes) -> bytes | None:
    return content(raw) if is_text(raw) else None
