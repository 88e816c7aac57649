"""The application properties of an encoded message, with the AMQP types that their sender chose.

Received messages have lost these: in the SDK a timestamp is a number and a symbol looks like bytes,
and the Functions host hands properties over as JSON. The bytes that a peek on `$management` answers
with still have them. Values leave here as the SDK takes typed values, and it encodes them as told;
for that this module uses private names of it, which a unit test holds, type by type.

Every simple type of AMQP 1.0 (OASIS, part 1: types) survives, and simple values with a descriptor,
as .NET writes a TimeSpan, a DateTimeOffset or a Uri. The SDK cannot write the rest: a char becomes
a string, and lists, maps, arrays, small decimals and those without a number are refused.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from azure.servicebus._pyamqp._decode import decode_payload
from azure.servicebus._pyamqp.types import TYPE, VALUE, AMQPTypes

from delivery.errors import UnreadableError
from services.amqp_sections import (
    ANNOTATIONS,
    APPLICATION_PROPERTIES,
    DESCRIBED,
    NULL,
    STRING8,
    STRING32,
    end_of,
    malformed,
    pairs,
    sections,
    whole,
)

#: A value as the SDK encodes it, with its AMQP type.
TypedValue = dict[str, Any]

_CHAR, _DECIMAL128 = 0x73, 0x94

_SEQUENCE_NUMBER = b"\xa3\x15x-opt-sequence-number"

#: What the SDK's own decoder reads without loss once its type is known, by AMQP's format code.
_TYPES = {
    NULL: AMQPTypes.null,
    **dict.fromkeys((0x41, 0x42, 0x56), AMQPTypes.boolean),
    0x50: AMQPTypes.ubyte,
    0x51: AMQPTypes.byte,
    0x60: AMQPTypes.ushort,
    0x61: AMQPTypes.short,
    **dict.fromkeys((0x43, 0x52, 0x70), AMQPTypes.uint),
    **dict.fromkeys((0x54, 0x71), AMQPTypes.int),
    **dict.fromkeys((0x44, 0x53, 0x80), AMQPTypes.ulong),
    **dict.fromkeys((0x55, 0x81), AMQPTypes.long),
    0x72: AMQPTypes.float,
    0x82: AMQPTypes.double,
    0x83: AMQPTypes.timestamp,
    0x98: AMQPTypes.uuid,
    **dict.fromkeys((0xA0, 0xB0), AMQPTypes.binary),
    **dict.fromkeys((STRING8, STRING32), AMQPTypes.string),
    **dict.fromkeys((0xA3, 0xB3), AMQPTypes.symbol),
}


def application_properties(encoded: bytes) -> dict[str, TypedValue]:
    """Return the properties without those that are null.

    Raise UnreadableError where the bytes are no message, or hold a value that is refused.
    """
    return {
        _name(key): _typed(value)
        for key, value in _pairs(encoded, APPLICATION_PROPERTIES)
        if value[0] != NULL
    }


def sequence_number(encoded: bytes) -> int | None:
    """Return the number that the broker gave to the message, None where it says none."""
    for key, value in _pairs(encoded, ANNOTATIONS):
        if key == _SEQUENCE_NUMBER:
            return whole(value)
    return None


def annotations(encoded: bytes) -> dict[str, object]:
    """Return what the broker says about a message; a timestamp is a number of milliseconds."""
    return {
        _text(_simple(key)[VALUE], "ascii"): _simple(value)[VALUE]
        for key, value in _pairs(encoded, ANNOTATIONS)
        if value[0] in _TYPES
    }


def _pairs(encoded: bytes, section: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of one section, still encoded; all others are skipped by length."""
    for code, _, value in sections(encoded):
        if code == section:
            yield from pairs(value)


def _name(raw: bytes) -> str:
    if raw[0] not in (STRING8, STRING32):
        raise malformed()
    return _text(_simple(raw)[VALUE], "utf-8")


def _typed(raw: bytes) -> TypedValue:
    if raw[0] != DESCRIBED:
        return _simple(raw)
    middle = end_of(raw, 1)
    return {TYPE: AMQPTypes.described, VALUE: (_simple(raw[1:middle]), _simple(raw[middle:]))}


def _simple(raw: bytes) -> TypedValue:
    code = raw[0]
    if code == _CHAR:
        return {TYPE: AMQPTypes.string, VALUE: _text(raw[1:], "utf-32-be")}
    if code == _DECIMAL128:
        return {TYPE: AMQPTypes.decimal128, VALUE: _decimal(int.from_bytes(raw[1:]))}
    if code not in _TYPES:
        raise _refused(code)
    # The SDK decodes single values only as bodies: section 0x77.
    return {TYPE: _TYPES[code], VALUE: decode_payload(memoryview(b"\x00\x53\x77" + raw)).value}


def _decimal(bits: int) -> Decimal:
    """Return the decimal that the SDK writes with these bits; its decoder returns another one."""
    exponent = (bits >> 113) & 0x3FFF
    if exponent >= 0x3000:  # noqa: PLR2004 - from here on: infinite, no number, or out of range
        raise _refused(_DECIMAL128)
    digits = tuple(map(int, str(bits & ((1 << 113) - 1))))
    return Decimal((bits >> 127, digits, exponent - 6176))


def _text(raw: bytes, encoding: str) -> str:
    try:
        return raw.decode(encoding)
    except UnicodeDecodeError:
        raise malformed() from None


def _refused(code: int) -> UnreadableError:
    return UnreadableError(
        f"an application property is of the AMQP type 0x{code:02x}, which the SDK cannot write"
    )
