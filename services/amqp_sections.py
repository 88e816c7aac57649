"""Walks through an encoded AMQP message without decoding it: sections, maps, lists and their parts.

Every part leaves here as the bytes that it arrived as, so that what is put together again is what
it was. Source: AMQP 1.0 (OASIS), part 1: types, part 3: messaging.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from delivery.errors import UnreadableError

ANNOTATIONS, PROPERTIES, APPLICATION_PROPERTIES = 0x72, 0x73, 0x74
DATA, SEQUENCE, VALUE, FOOTER = 0x75, 0x76, 0x77, 0x78

DESCRIBED, NULL = 0x00, 0x40
#: int, long and timestamp, in their short and long forms.
_WHOLE = (0x54, 0x71, 0x55, 0x81, 0x83)
STRING8, STRING32 = 0xA1, 0xB1
_TEXTS = {STRING8, STRING32, 0xA3, 0xB3}

_SMALL_ULONG, _ULONG = 0x53, 0x80
_LIST0, _LIST8, _LIST32, _MAP8, _MAP32 = 0x45, 0xC0, 0xD0, 0xC1, 0xD1

#: By the upper half of a format code: how wide the value behind it is, or, negative, how wide the
#: length is that tells that; None where there is no such code.
_WIDTHS = (None, None, None, None, 0, 1, 2, 4, 8, 16, -1, -4, -1, -4, -1, -4)

#: From here on, lengths have four bytes.
_LONG_FORMS = 0xB0

_LARGEST_SHORT = 0xFF


class Section(NamedTuple):
    """One section: its code, its whole bytes, and its value without the descriptor."""

    code: int
    whole: bytes
    value: bytes


def sections(encoded: bytes) -> Iterator[Section]:
    """Yield the sections of a message; raise UnreadableError where the bytes are none."""
    position = 0
    while position < len(encoded):
        if encoded[position] != DESCRIBED:
            raise malformed()
        start = end_of(encoded, position + 1)
        end = end_of(encoded, start)
        code = _code(encoded[position + 1 : start])
        yield Section(code, encoded[position:end], encoded[start:end])
        position = end


def pairs(raw: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield keys and values of a map, still encoded."""
    items = list(_items(raw, _MAP8, _MAP32))
    if len(items) % 2:
        raise malformed()
    return zip(items[::2], items[1::2], strict=True)


def fields(raw: bytes) -> list[bytes]:
    """Return the items of a list, still encoded."""
    return [] if raw[0] == _LIST0 else list(_items(raw, _LIST8, _LIST32))


def map_section(code: int, items: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Return a section that holds a map of encoded keys and values."""
    parts = [part for pair in items for part in pair]
    return _section(code, _MAP32, parts)


def list_section(code: int, items: list[bytes]) -> bytes:
    """Return a section that holds a list of encoded values."""
    return _section(code, _LIST32, items)


def string(text: str) -> bytes:
    """Return `text` as an encoded string."""
    encoded = text.encode()
    if len(encoded) <= _LARGEST_SHORT:
        return bytes((STRING8, len(encoded))) + encoded
    return bytes((STRING32,)) + len(encoded).to_bytes(4) + encoded


def is_text(raw: bytes) -> bool:
    """Tell whether this is an encoded string or symbol."""
    return raw[0] in _TEXTS


def content(raw: bytes) -> bytes:
    """Return what stands in an encoded string, symbol or binary."""
    return raw[2:] if raw[0] < _LONG_FORMS else raw[5:]


def whole(raw: bytes) -> int | None:
    """Return what an encoded int, long or timestamp says; None where it is none of them."""
    if raw[0] not in _WHOLE:
        return None
    return int.from_bytes(raw[1:], signed=True)


def end_of(buffer: bytes, position: int) -> int:
    """Return where the value at `position` ends. Descriptors are counted, however deep they go."""
    values = 1
    while values:
        if position >= len(buffer):
            raise malformed()
        code = buffer[position]
        position += 1
        if code == DESCRIBED:
            values += 1  # the descriptor, and what it describes
            continue
        values -= 1
        width = _WIDTHS[code >> 4]
        if width is None:
            raise malformed()
        if width < 0:
            width = int.from_bytes(buffer[position : position - width]) - width
        position += width
    if position > len(buffer):
        raise malformed()
    return position


def malformed() -> UnreadableError:
    """Return the error for bytes that are no AMQP."""
    return UnreadableError("the message is not encoded as AMQP 1.0 says")


def _section(code: int, constructor: int, parts: list[bytes]) -> bytes:
    inside = len(parts).to_bytes(4) + b"".join(parts)
    head = bytes((DESCRIBED, _SMALL_ULONG, code, constructor))
    return head + len(inside).to_bytes(4) + inside


def _items(raw: bytes, short: int, long: int) -> Iterator[bytes]:
    if raw[0] not in (short, long):
        raise malformed()
    width = 1 if raw[0] == short else 4
    position = 1 + 2 * width
    for _ in range(_number(raw, 1 + width, width)):
        end = end_of(raw, position)
        yield raw[position:end]
        position = end
    if position != len(raw):
        raise malformed()


def _code(descriptor: bytes) -> int:
    if descriptor[0] not in (_SMALL_ULONG, _ULONG):
        raise malformed()
    return int.from_bytes(descriptor[1:])


def _number(buffer: bytes, position: int, width: int) -> int:
    if position + width > len(buffer):
        raise malformed()
    return int.from_bytes(buffer[position : position + width])
