"""Messages of the probe as bytes: how they are sent, and how a peek shows them."""

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from delivery.errors import UnreadableError
from operator_console.probe.ports import Parcel, Seen
from services.amqp_sections import (
    ANNOTATIONS,
    APPLICATION_PROPERTIES,
    DATA,
    NULL,
    PROPERTIES,
    content,
    fields,
    is_text,
    list_section,
    map_section,
    pairs,
    sections,
    string,
    whole,
)

_HEADER = 0x70
_TIME_TO_LIVE, _DELIVERY_COUNT = 2, 4
_MILLISECOND = timedelta(milliseconds=1)
_SCHEDULED = 2
_LONG_BINARY = 0xB0
_UINT_ZERO = 0x43
_BEGINNING = datetime.fromtimestamp(0, UTC)

NULL_VALUE = bytes((NULL,))


def integer(value: int) -> bytes:
    """Return an encoded int of 32 bits."""
    return b"\x71" + value.to_bytes(4, signed=True)


def timestamp(moment: datetime) -> bytes:
    """Return an encoded timestamp."""
    return b"\x83" + ((moment - _BEGINNING) // _MILLISECOND).to_bytes(8, signed=True)


#: One property of each type that .NET writes and the SDK writes too.
EVERY_TYPE: Mapping[str, bytes] = {
    "string": string("größer"),
    "boolean": b"\x41",
    "short": b"\x61\xff\xfe",
    "int": integer(-7),
    "long": b"\x81" + (2**40).to_bytes(8),
    "ulong": b"\x80" + (2**63).to_bytes(8),
    "double": b"\x82" + bytes.fromhex("3ff8000000000000"),
    "timestamp": timestamp(datetime(2026, 11, 30, 12, tzinfo=UTC)),
    "uuid": b"\x98" + uuid.UUID(int=1).bytes,
    "symbol": b"\xa3\x03abc",
}

#: What the SDK cannot write, or not read: a char, and decimals of 32 and 64 bits.
AWKWARD: Mapping[str, bytes] = {
    "char": b"\x73\x00\x00\x00A",
    "decimal32": b"\x74\x32\x80\x00\x01",
    "decimal64": b"\x84\x31\xc0\x00\x00\x00\x00\x00\x01",
}


def differing(wanted: Mapping[str, bytes], found: Mapping[str, bytes]) -> list[str]:
    """Return the names of properties that are missing or have another value or type."""
    return [name for name in wanted if _meaning(wanted[name]) != _meaning(found.get(name))]


def _meaning(raw: bytes | None) -> object:
    """Return type and value, the same for the short and the long form of an encoding."""
    from services.amqp_properties import (  # noqa: PLC0415 - heavy: imported when used
        application_properties,
    )

    if raw is None or raw in AWKWARD.values():
        return raw
    try:
        return application_properties(map_section(APPLICATION_PROPERTIES, [(string("x"), raw)]))
    except UnreadableError:
        return raw


def text(raw: bytes | None) -> str:
    """Return a string; empty for whatever else stands there."""
    return content(raw).decode(errors="replace") if raw and is_text(raw) else ""


def encoded(parcel: Parcel) -> bytes:
    """Return the message's bytes."""
    parts = b""
    if parcel.time_to_live is not None:
        life = b"\x70" + (parcel.time_to_live // _MILLISECOND).to_bytes(4)
        parts += list_section(_HEADER, [NULL_VALUE, NULL_VALUE, life])
    if parcel.due is not None:
        name = b"\xa3\x1cx-opt-scheduled-enqueue-time"
        parts += map_section(ANNOTATIONS, [(name, timestamp(parcel.due))])
    named = ((string(name), value) for name, value in parcel.properties.items())
    parts += list_section(PROPERTIES, [string(parcel.message_id)])
    parts += map_section(APPLICATION_PROPERTIES, named)
    body = bytes((_LONG_BINARY,)) + len(parcel.body).to_bytes(4) + parcel.body
    return parts + bytes((0x00, 0x53, DATA)) + body


def seen(message: bytes) -> Seen:
    """Read a message as `$management` shows it."""
    parts = {code: value for code, _, value in sections(message)}
    header = fields(parts[_HEADER]) if _HEADER in parts else []
    annotations = _by_name(parts.get(ANNOTATIONS))
    life = _count(header, _TIME_TO_LIVE)
    enqueued = _whole(annotations.get("x-opt-enqueued-time"))
    return Seen(
        _whole(annotations.get("x-opt-sequence-number")) or 0,
        text(next(iter(fields(parts[PROPERTIES])), None)) if PROPERTIES in parts else "",
        _count(header, _DELIVERY_COUNT) or 0,
        content(parts[DATA]) if DATA in parts else b"",
        _by_name(parts.get(APPLICATION_PROPERTIES)),
        None if life is None else life * _MILLISECOND,
        None if enqueued is None else _BEGINNING + enqueued * _MILLISECOND,
        _whole(annotations.get("x-opt-message-state")) == _SCHEDULED,
    )


def _by_name(raw: bytes | None) -> dict[str, bytes]:
    return {text(name): value for name, value in pairs(raw)} if raw else {}


def _whole(raw: bytes | None) -> int | None:
    return whole(raw) if raw else None


def _count(header: list[bytes], index: int) -> int | None:
    """Return an unsigned number of the header, None where it says none."""
    raw = header[index] if index < len(header) else NULL_VALUE
    if raw == NULL_VALUE:
        return None
    return 0 if raw[0] == _UINT_ZERO else int.from_bytes(raw[1:])
