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

#: A value as the SDK encodes it, with its AMQP type.
TypedValue = dict[str, Any]

_ANNOTATIONS, _APPLICATION_PROPERTIES = 0x72, 0x74
_SMALL_ULONG, _ULONG = 0x53, 0x80
_MAP8, _MAP32 = 0xC1, 0xD1
_STRINGS = (0xA1, 0xB1)
_DESCRIBED, _NULL, _CHAR, _DECIMAL128, _LONG = 0x00, 0x40, 0x73, 0x94, 0x81

_SEQUENCE_NUMBER = b"\xa3\x15x-opt-sequence-number"

#: What the SDK's own decoder reads without loss once its type is known, by AMQP's format code.
_TYPES = {
    _NULL: AMQPTypes.null,
    **dict.fromkeys((0x41, 0x42, 0x56), AMQPTypes.boolean),
    0x50: AMQPTypes.ubyte,
    0x51: AMQPTypes.byte,
    0x60: AMQPTypes.ushort,
    0x61: AMQPTypes.short,
    **dict.fromkeys((0x43, 0x52, 0x70), AMQPTypes.uint),
    **dict.fromkeys((0x54, 0x71), AMQPTypes.int),
    **dict.fromkeys((0x44, _SMALL_ULONG, _ULONG), AMQPTypes.ulong),
    **dict.fromkeys((0x55, _LONG), AMQPTypes.long),
    0x72: AMQPTypes.float,
    0x82: AMQPTypes.double,
    0x83: AMQPTypes.timestamp,
    0x98: AMQPTypes.uuid,
    **dict.fromkeys((0xA0, 0xB0), AMQPTypes.binary),
    **dict.fromkeys(_STRINGS, AMQPTypes.string),
    **dict.fromkeys((0xA3, 0xB3), AMQPTypes.symbol),
}

#: How wide a value is after its format code, by the code's upper half.
_FIXED_WIDTHS = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
#: How wide the length is that tells that.
_LENGTH_WIDTHS = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}


def application_properties(encoded: bytes) -> dict[str, TypedValue]:
    """Return the properties without those that are null.

    Raise UnreadableError where the bytes are no message, or hold a value that is refused.
    """
    return {
        _name(key): _typed(value)
        for key, value in _pairs(encoded, _APPLICATION_PROPERTIES)
        if value[0] != _NULL
    }


def sequence_number(encoded: bytes) -> int | None:
    """Return the number that the broker gave to the message, None where it says none."""
    for key, value in _pairs(encoded, _ANNOTATIONS):
        if key == _SEQUENCE_NUMBER and value[0] == _LONG:
            return int.from_bytes(value[1:], signed=True)
    return None


def _pairs(encoded: bytes, section: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of one section, still encoded; all others are skipped by length."""
    position = 0
    while position < len(encoded):
        if encoded[position] != _DESCRIBED:
            raise _malformed()
        start = _end(encoded, position + 1)
        end = _end(encoded, start)
        if _code(encoded[position + 1 : start]) == section:
            yield from _map(encoded[start:end])
        position = end


def _code(descriptor: bytes) -> int:
    if descriptor[0] not in (_SMALL_ULONG, _ULONG):
        raise _malformed()
    return int.from_bytes(descriptor[1:])


def _map(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    if raw[0] not in (_MAP8, _MAP32):
        raise _malformed()
    width = 1 if raw[0] == _MAP8 else 4
    position = 1 + 2 * width
    for _ in range(_number(raw, 1 + width, width) // 2):
        start = _end(raw, position)
        end = _end(raw, start)
        yield raw[position:start], raw[start:end]
        position = end
    if position != len(raw):
        raise _malformed()


def _end(buffer: bytes, position: int) -> int:
    """Return where the value at `position` ends. Descriptors are counted, however deep they go."""
    values = 1
    while values:
        code = _number(buffer, position, 1)
        position += 1
        if code == _DESCRIBED:
            values += 1  # the descriptor, and what it describes
        else:
            values -= 1
            position += _width(buffer, position, code >> 4)
    if position > len(buffer):
        raise _malformed()
    return position


def _width(buffer: bytes, position: int, kind: int) -> int:
    if kind in _FIXED_WIDTHS:
        return _FIXED_WIDTHS[kind]
    if kind in _LENGTH_WIDTHS:
        return _LENGTH_WIDTHS[kind] + _number(buffer, position, _LENGTH_WIDTHS[kind])
    raise _malformed()


def _number(buffer: bytes, position: int, width: int) -> int:
    if position + width > len(buffer):
        raise _malformed()
    return int.from_bytes(buffer[position : position + width])


def _name(raw: bytes) -> str:
    if raw[0] not in _STRINGS:
        raise _malformed()
    return _text(_simple(raw)[VALUE], "utf-8")


def _typed(raw: bytes) -> TypedValue:
    if raw[0] != _DESCRIBED:
        return _simple(raw)
    middle = _end(raw, 1)
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
        raise _malformed() from None


def _malformed() -> UnreadableError:
    return UnreadableError("the message is not encoded as AMQP 1.0 says")


def _refused(code: int) -> UnreadableError:
    return UnreadableError(
        f"an application property is of the AMQP type 0x{code:02x}, which the SDK cannot write"
    )
