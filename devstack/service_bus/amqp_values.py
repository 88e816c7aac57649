"""AMQP 1.0 values as bytes: measure them, read them, write them.

Messages are cut and joined here rather than decoded into objects and encoded again: that keeps
every type that the sender chose, and costs a fraction.
"""

import struct
from collections.abc import Callable, Iterator
from uuid import UUID

NULL = b"\x40"
TRUE = b"\x41"
FALSE = b"\x42"
EMPTY_LIST = b"\x45"

type Value = bool | int | float | str | bytes | UUID | list[Value] | dict[Value, Value] | None

_DESCRIBED = 0x00
_FIXED_WIDTH = {0x4: 0, 0x5: 1, 0x6: 2, 0x7: 4, 0x8: 8, 0x9: 16}
_ONE_BYTE_LENGTH = {0xA, 0xC, 0xE}
_FOUR_BYTE_LENGTH = {0xB, 0xD, 0xF}
_CONSTANTS: dict[int, Value] = {0x40: None, 0x41: True, 0x42: False, 0x43: 0, 0x44: 0}
_FIXED = {
    0x50: ">B",
    0x51: ">b",
    0x52: ">B",
    0x53: ">B",
    0x54: ">b",
    0x55: ">b",
    0x56: ">?",
    0x60: ">H",
    0x61: ">h",
    0x70: ">I",
    0x71: ">i",
    0x72: ">f",
    0x80: ">Q",
    0x81: ">q",
    0x82: ">d",
    0x83: ">q",
}
_STRINGS = {0xA1, 0xB1, 0xA3, 0xB3}
_UINT = struct.Struct(">I")


#: What reading bytes that are no AMQP value may raise, beside `MalformedError`.
UNREADABLE = (IndexError, struct.error, ValueError, TypeError, RecursionError)


class MalformedError(Exception):
    """The bytes are no AMQP value."""


def end_of(buffer: bytes, position: int) -> int:
    """Return where the value at `position` ends."""
    code = buffer[position]
    if code == _DESCRIBED:
        return end_of(buffer, end_of(buffer, position + 1))
    group = code >> 4
    width = _FIXED_WIDTH.get(group)
    if width is not None:
        return position + 1 + width
    if group in _ONE_BYTE_LENGTH:
        return position + 2 + buffer[position + 1]
    if group in _FOUR_BYTE_LENGTH:
        return position + 5 + int(_UINT.unpack_from(buffer, position + 1)[0])
    msg = f"0x{code:02x} is no AMQP type"
    raise MalformedError(msg)


def items(buffer: bytes, position: int) -> Iterator[tuple[int, int]]:
    """Yield where each item of the list, or key and value of the map, starts and ends."""
    code = buffer[position]
    if code == EMPTY_LIST[0]:
        return
    if code in (0xC0, 0xC1):
        count, position = buffer[position + 2], position + 3
    elif code in (0xD0, 0xD1):
        count, position = _UINT.unpack_from(buffer, position + 5)[0], position + 9
    else:
        msg = f"0x{code:02x} is neither list nor map"
        raise MalformedError(msg)
    for _ in range(count):
        end = end_of(buffer, position)
        yield position, end
        position = end


def pairs(buffer: bytes, position: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield each key and value of the map as encoded bytes."""
    spans = items(buffer, position)
    for (key, key_end), (value, value_end) in zip(spans, spans, strict=True):
        yield buffer[key:key_end], buffer[value:value_end]


def read(buffer: bytes, position: int = 0) -> Value:
    """Return the value at `position` as a Python object. Descriptors are dropped."""
    code = buffer[position]
    if code in _CONSTANTS:
        return _CONSTANTS[code]
    if code in _FIXED:
        value: Value = struct.unpack_from(_FIXED[code], buffer, position + 1)[0]
        return value
    if code == _DESCRIBED:
        return read(buffer, end_of(buffer, position + 1))
    return _READERS.get(code, _read_rest)(buffer, position)


def _read_list(buffer: bytes, position: int) -> Value:
    return [read(buffer, start) for start, _ in items(buffer, position)]


def _read_map(buffer: bytes, position: int) -> Value:
    return {read(key): read(value) for key, value in pairs(buffer, position)}


def _read_variable(buffer: bytes, position: int) -> Value:
    code = buffer[position]
    start = position + (2 if code < 0xB0 else 5)  # noqa: PLR2004 - AMQP's boundary between widths
    raw = bytes(buffer[start : end_of(buffer, position)])
    return raw.decode() if code in _STRINGS else raw


def _read_array(buffer: bytes, position: int) -> Value:
    if buffer[position] == 0xE0:  # noqa: PLR2004 - array8's code
        count, position = buffer[position + 2], position + 3
    else:
        count, position = _UINT.unpack_from(buffer, position + 5)[0], position + 9
    constructor = buffer[position : position + 1]
    position += 1
    values: list[Value] = []
    if count > len(buffer):
        # Elements without a width, such as nulls: a few bytes could ask for billions of them.
        msg = "an array says that it has more elements than the message has bytes"
        raise MalformedError(msg)
    for _ in range(count):
        # Elements share the array's constructor: give each its own to read it like any value.
        width = _FIXED_WIDTH.get(constructor[0] >> 4)
        if width is None:
            width = end_of(constructor + buffer[position : position + 4], 0) - 1
        values.append(read(constructor + buffer[position : position + width]))
        position += width
    return values


def _read_uuid(buffer: bytes, position: int) -> Value:
    return UUID(bytes=bytes(buffer[position + 1 : position + 17]))


def _read_rest(buffer: bytes, position: int) -> Value:
    # Chars and decimals: nobody here looks into them.
    return bytes(buffer[position + 1 : end_of(buffer, position)])


_READERS: dict[int, Callable[[bytes, int], Value]] = {
    **dict.fromkeys((0xA0, 0xA1, 0xA3, 0xB0, 0xB1, 0xB3), _read_variable),
    **dict.fromkeys((0x45, 0xC0, 0xD0), _read_list),
    **dict.fromkeys((0xC1, 0xD1), _read_map),
    **dict.fromkeys((0xE0, 0xF0), _read_array),
    0x98: _read_uuid,
}


def name(encoded: bytes) -> str:
    """Return an encoded string or symbol that names something."""
    value = read(encoded)
    if not isinstance(value, str):
        msg = "a name is no string"
        raise MalformedError(msg)
    return value


def text(value: str) -> bytes:
    """Encode a string."""
    raw = value.encode()
    return _variable(0xA1, raw)


def symbol(value: str) -> bytes:
    """Encode a symbol."""
    return _variable(0xA3, value.encode("ascii"))


def binary(raw: bytes) -> bytes:
    """Encode a byte string."""
    return _variable(0xA0, raw)


def _variable(short_code: int, raw: bytes) -> bytes:
    if len(raw) <= 0xFF:  # noqa: PLR2004 - what one length byte holds
        return bytes((short_code, len(raw))) + raw
    return bytes((short_code + 0x10,)) + _UINT.pack(len(raw)) + raw


def integer(value: int) -> bytes:
    """Encode an int (32 bits)."""
    return struct.pack(">Bi", 0x71, value)


def unsigned(value: int) -> bytes:
    """Encode a uint (32 bits)."""
    return struct.pack(">BI", 0x70, value)


def long(value: int) -> bytes:
    """Encode a long (64 bits)."""
    return struct.pack(">Bq", 0x81, value)


def timestamp(value: int) -> bytes:
    """Encode a timestamp in milliseconds since 1970."""
    return struct.pack(">Bq", 0x83, value)


def uuid(raw: bytes) -> bytes:
    """Encode a UUID from its 16 bytes in RFC 4122 order."""
    return b"\x98" + raw


def sequence(encoded: list[bytes]) -> bytes:
    """Encode a list of encoded values."""
    return _compound(0xC0, encoded)


def mapping(encoded: list[bytes]) -> bytes:
    """Encode a map of encoded keys and values in turn."""
    return _compound(0xC1, encoded)


def _compound(short_code: int, encoded: list[bytes]) -> bytes:
    raw = b"".join(encoded)
    if len(raw) < 0xFF and len(encoded) <= 0xFF:  # noqa: PLR2004 - what one length byte holds
        return bytes((short_code, len(raw) + 1, len(encoded))) + raw
    return bytes((short_code + 0x10,)) + struct.pack(">II", len(raw) + 4, len(encoded)) + raw


def array(encoded: list[bytes], constructor: int) -> bytes:
    """Encode an array of fixed-width values that were encoded with this constructor."""
    raw = bytes((constructor,)) + b"".join(value[1:] for value in encoded)
    return b"\xf0" + struct.pack(">II", len(raw) + 4, len(encoded)) + raw


def described(code: int, value: bytes) -> bytes:
    """Encode a value under a small numeric descriptor, as sections are."""
    return bytes((0x00, 0x53, code)) + value
