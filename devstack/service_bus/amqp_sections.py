"""Encoded messages, cut by section: what a sender gave, and what a receiver gets.

The bytes of properties, application properties and body stay as they came; only the header and
the annotations are the broker's, and a message id where the sender gave none.
"""

import struct
import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from devstack.service_bus import amqp_values as amqp
from devstack.service_bus.messages import Content, DeadLetter, Message, State

MAX_MESSAGE = 256 * 1024
MAX_BATCH = 1024 * 1024
MAX_PROPERTIES = 64 * 1024
MAX_PROPERTY = 32 * 1024

_LONGEST_TTL = 0xFFFFFFFF
#: The end of .NET's calendar, in milliseconds: nothing is scheduled for later.
_LATEST = 253_402_300_800_000

_HEADER, _DELIVERY_ANNOTATIONS, _ANNOTATIONS, _PROPERTIES, _APPLICATION = range(0x70, 0x75)
_DATA, _SEQUENCE, _VALUE, _FOOTER = range(0x75, 0x79)
_SECTIONS = range(0x70, 0x79)

#: Annotations that are the broker's to write; a sender's are dropped.
_OURS = {
    amqp.symbol(name)
    for name in (
        "x-opt-sequence-number",
        "x-opt-enqueued-time",
        "x-opt-locked-until",
        "x-opt-lock-token",
        "x-opt-message-state",
        "x-opt-deadletter-source",
        "x-opt-enqueue-sequence-number",
    )
}
_SEQUENCE_NUMBER = amqp.symbol("x-opt-sequence-number") + b"\x81"
_ENQUEUED_TIME = amqp.symbol("x-opt-enqueued-time") + b"\x83"
_LOCKED_UNTIL = amqp.symbol("x-opt-locked-until") + b"\x83"
_LOCK_TOKEN = amqp.symbol("x-opt-lock-token") + b"\x98"
_MESSAGE_STATE = amqp.symbol("x-opt-message-state") + b"\x71"
_DEAD_LETTER_SOURCE = amqp.symbol("x-opt-deadletter-source")
_SCHEDULED_TIME = amqp.symbol("x-opt-scheduled-enqueue-time")
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")
_UINTS = struct.Struct(">II")


class TooLargeError(Exception):
    """The message is larger than the service takes."""


class PropertiesTooLargeError(Exception):
    """One application property, or all of them with the header, exceed the limit."""


@dataclass(frozen=True, slots=True)
class Incoming:
    """One message from a sender, with what the queue must know of it."""

    content: Content
    #: None where the sender gave none: what the broker makes up is nobody's duplicate.
    message_id: str | None
    ttl: int | None
    due: int | None


def messages(delivery: bytes) -> list[Incoming]:
    """Return the messages of one delivery: a batch carries several.

    A batch is a message whose data sections are encoded messages. Its message format says so,
    but the AMQP library does not show that: it counts as a batch where each data section reads
    as a message from beginning to end and the envelope has nothing of its own. The JavaScript
    SDK copies the first message's properties and application properties to the envelope.
    """
    try:
        spans = message_spans(delivery)
        inner = _batched(delivery, spans)
        if inner is None:
            return [_incoming(delivery, spans)]
        if len(delivery) > MAX_BATCH:
            msg = f"The batch has {len(delivery)} bytes; {MAX_BATCH} are the limit."
            raise TooLargeError(msg)
        return [_incoming(message, parts) for message, parts in inner]
    except amqp.UNREADABLE as error:
        msg = "the message is not encoded as AMQP 1.0 says"
        raise amqp.MalformedError(msg) from error


type Span = tuple[int, int, int, int]


def message_spans(buffer: bytes) -> list[Span]:
    """Return code, start, start of value and end of each section."""
    spans = []
    position, size = 0, len(buffer)
    while position < size:
        # Section descriptors are small ulongs, or the same as full ulongs.
        if buffer[position] == 0 and buffer[position + 1] == 0x53:  # noqa: PLR2004 - smallulong
            code, value = buffer[position + 2], position + 3
        elif buffer[position] == 0 and buffer[position + 1] == 0x80:  # noqa: PLR2004 - ulong
            code, value = int.from_bytes(buffer[position + 2 : position + 10]), position + 10
        else:
            code, value = -1, 0
        if code not in _SECTIONS:
            msg = "no message section where one should start"
            raise amqp.MalformedError(msg)
        end = amqp.end_of(buffer, value)
        spans.append((code, position, value, end))
        position = end
    if position > size:
        msg = "the last section is cut off"
        raise amqp.MalformedError(msg)
    return spans


def _batched(delivery: bytes, spans: list[Span]) -> list[tuple[bytes, list[Span]]] | None:
    inner = []
    for code, _, value, _ in spans:
        if code == _HEADER and delivery[value] != amqp.EMPTY_LIST[0]:
            return None
        if code == _DATA:
            payload = _binary(delivery, value)
            if payload[:1] != b"\x00":
                return None
            try:
                inner.append((payload, message_spans(payload)))
            except (amqp.MalformedError, *amqp.UNREADABLE):
                return None
    copied = _encoded_properties(delivery, spans)
    if not inner or copied not in (b"", _encoded_properties(*inner[0])):
        return None
    return inner


def _encoded_properties(buffer: bytes, spans: list[Span]) -> bytes:
    return b"".join(buffer[start:end] for code, start, _, end in spans if code == _APPLICATION)


def _binary(buffer: bytes, position: int) -> bytes:
    start = position + (2 if buffer[position] == 0xA0 else 5)  # noqa: PLR2004 - binary8's code
    return buffer[start : amqp.end_of(buffer, position)]


def _incoming(buffer: bytes, spans: list[Span]) -> Incoming:
    if len(buffer) > MAX_MESSAGE:
        msg = f"The message has {len(buffer)} bytes; {MAX_MESSAGE} are the limit."
        raise TooLargeError(msg)
    header, annotations = amqp.NULL + amqp.NULL, b""
    message_id: str | None = None
    ttl = due = None
    bare = len(buffer)
    for code, start, value, end in spans:
        if code == _HEADER:
            header, ttl = _header(buffer, value)
        elif code == _ANNOTATIONS:
            annotations, due = _annotations(buffer, value)
        elif code >= _PROPERTIES:
            bare = min(bare, start)
            if code == _PROPERTIES:
                message_id = _message_id(buffer, value)
            elif code == _APPLICATION and end - bare + len(annotations) > MAX_PROPERTY:
                _check_properties(buffer, value, end - bare + len(annotations))
    content = buffer[bare:] if message_id is not None else _identified(buffer[bare:])
    return Incoming(Content(header, annotations, content), message_id, ttl, due)


def _identified(bare: bytes) -> bytes:
    """Give a message an id, as the service does: the JavaScript SDK settles none without."""
    others, after = [], 0
    for code, _, value, end in message_spans(bare):
        if code == _PROPERTIES:
            others, after = [bare[start:stop] for start, stop in amqp.items(bare, value)][1:], end
    fields = amqp.sequence([amqp.text(uuid.uuid4().hex), *others])
    return amqp.described(_PROPERTIES, fields) + bare[after:]


def _header(buffer: bytes, value: int) -> tuple[bytes, int | None]:
    fields = [amqp.read(buffer, start) for start, _ in amqp.items(buffer, value)][:3]
    durable, priority, ttl = fields + [None] * (3 - len(fields))
    header = amqp.TRUE if durable is True else amqp.NULL  # null means not durable
    header += bytes((0x50, priority & 0xFF)) if isinstance(priority, int) else amqp.NULL
    return header, ttl if isinstance(ttl, int) and 0 <= ttl <= _LONGEST_TTL else None


def _annotations(buffer: bytes, value: int) -> tuple[bytes, int | None]:
    kept = []
    due = None
    for key, content in amqp.pairs(buffer, value):
        if key in _OURS:
            continue
        kept += [key, content]
        if key == _SCHEDULED_TIME:
            at = amqp.read(content)
            due = at if isinstance(at, int) and at < _LATEST else None
    return b"".join(kept), due


def _message_id(buffer: bytes, value: int) -> str | None:
    for start, _ in amqp.items(buffer, value):
        message_id = amqp.read(buffer, start)
        return None if message_id is None else str(message_id)
    return None


def _check_properties(buffer: bytes, value: int, total: int) -> None:
    if total > MAX_PROPERTIES:
        msg = f"Header and properties have {total} bytes; {MAX_PROPERTIES} are the limit."
        raise PropertiesTooLargeError(msg)
    for key, content in amqp.pairs(buffer, value):
        if len(content) > MAX_PROPERTY:
            msg = (
                f"The application property {amqp.name(key)} has {len(content)} bytes; "
                f"{MAX_PROPERTY} are the limit."
            )
            raise PropertiesTooLargeError(msg)


def application_properties(content: Content) -> dict[str, bytes]:
    """Return the application properties, their values encoded."""
    for code, _, value, _ in message_spans(content.bare):
        if code == _APPLICATION:
            return {amqp.name(key): encoded for key, encoded in amqp.pairs(content.bare, value)}
    return {}


def with_properties(content: Content, changes: Mapping[str, bytes]) -> Content:
    """Return `content` with application properties set to encoded values, the rest untouched."""
    if not changes:
        return content
    changed, start, end = _merged(content, changes)
    if (total := len(changed.annotations) + len(changed.bare)) > MAX_MESSAGE:
        msg = f"The message would have {total} bytes; {MAX_MESSAGE} are the limit."
        raise TooLargeError(msg)
    _check_properties(changed.bare, start + 3, end + len(content.annotations))
    return changed


def _merged(content: Content, changes: Mapping[str, bytes]) -> tuple[Content, int, int]:
    bare = content.bare
    properties: dict[str, bytes] = {}
    before = after = 0
    for code, start, value, end in message_spans(bare):
        if code < _APPLICATION:
            before = after = end
        elif code == _APPLICATION:
            properties = {amqp.name(key): encoded for key, encoded in amqp.pairs(bare, value)}
            before, after = start, end
    properties.update(changes)
    encoded = [part for name, raw in properties.items() for part in (amqp.text(name), raw)]
    section = amqp.described(_APPLICATION, amqp.mapping(encoded))
    bare = bare[:before] + section + bare[after:]
    return content._replace(bare=bare), before, before + len(section)


def render(message: Message, *, peeked: bool = False) -> bytes:
    """Encode `message` as a receiver gets it; a peeked one shows its state and no lock."""
    content = message.content
    annotations = (
        _SEQUENCE_NUMBER
        + _LONG.pack(message.sequence)
        + _ENQUEUED_TIME
        + _LONG.pack(message.enqueued)
    )
    count = 4
    if message.token is not None and not peeked:
        lock = (_LOCKED_UNTIL, _LONG.pack(message.locked_until), _LOCK_TOKEN, message.token)
        annotations += b"".join(lock)
        count += 4
    if peeked or message.state is not State.ACTIVE:
        annotations += _MESSAGE_STATE + _INT.pack(message.state)
        count += 2
    if message.dead_letter is not None:
        content = _with_dead_letter(content, message.dead_letter)
        annotations += _DEAD_LETTER_SOURCE + amqp.text(message.dead_letter.source)
        count += 2
    if content.annotations:
        annotations += content.annotations
        count += _count(content.annotations)
    size = _UINTS.pack(len(annotations) + 4, count)
    return b"".join((_render_header(message), b"\x00\x53\x72\xd1", size, annotations, content.bare))


def _render_header(message: Message) -> bytes:
    ttl = message.ttl
    fields = b"".join(
        (
            message.content.header,
            amqp.NULL if ttl is None else amqp.unsigned(min(ttl, _LONGEST_TTL)),
            amqp.FALSE,
            amqp.unsigned(message.delivery_count),
        )
    )
    return b"\x00\x53\x70\xc0" + bytes((len(fields) + 1, 5)) + fields


def _count(encoded: bytes) -> int:
    count, position = 0, 0
    while position < len(encoded):
        position = amqp.end_of(encoded, position)
        count += 1
    return count


def _with_dead_letter(content: Content, why: DeadLetter) -> Content:
    changes = {"DeadLetterReason": why.reason, "DeadLetterErrorDescription": why.description}
    encoded = {name: amqp.text(value) for name, value in changes.items() if value is not None}
    return _merged(content, encoded)[0] if encoded else content
