"""How a value of a database or an API travels in a queue message, and back.

What JSON has no exact form for travels as text: decimals with all their digits, dates and times in
ISO 8601, GUIDs in lower case, bytes in base64.
"""

import base64
import math
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

#: What a field of a queue message may hold.
Value = str | int | float | bool | Decimal | datetime | date | time | UUID | bytes | None

#: What JSON encoders and databases hold exactly; a greater integer travels as text.
JSON_INTEGERS = range(-(2**63), 2**63)


def to_value(raw: object) -> Value:
    """Return `raw` as a queue message holds it."""
    write = _WRITERS.get(type(raw))
    return write(raw) if write else _to_value(raw)


#: The types that come by the million.
_WRITERS: dict[type, Callable[[Any], str]] = {
    date: date.isoformat,
    datetime: datetime.isoformat,
    Decimal: "{:f}".format,
}


def _to_value(raw: object) -> Value:
    match raw:
        case None | str() | bool():
            return raw
        case int() | float() if _fits_json(raw):
            return raw
        case Decimal():
            return format(raw, "f")
        case date() | time():  # a datetime is a date
            return raw.isoformat()
        case bytes() | memoryview():
            return base64.b64encode(raw).decode()
        case _:
            return _to_text(raw)


def _to_text(raw: object) -> str:
    if isinstance(raw, dict | list | tuple):
        return orjson.dumps(raw, to_value, orjson.OPT_NON_STR_KEYS).decode()
    # SQL databases read the texts of NaN, infinities and long integers.
    return str(raw)


def _fits_json(number: float) -> bool:
    return number in JSON_INTEGERS if isinstance(number, int) else math.isfinite(number)


def to_key(parts: Sequence[object]) -> str:
    """Return the key as one text; the parts of a compound key as a JSON array."""
    if len(parts) == 1 and type(parts[0]) is str:
        return parts[0]
    values = [to_value(part) for part in parts]
    if len(values) == 1:
        return str(values[0])
    return orjson.dumps(values).decode()


def from_text(python_type: type) -> Callable[[str], Any] | None:
    """Return what turns a travelling text into `python_type`; None where it stays a text."""
    return _FROM_TEXT.get(python_type)


_FROM_TEXT: dict[type, Callable[[str], Any]] = {
    Decimal: Decimal,
    float: float,
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    bytes: base64.b64decode,
    UUID: UUID,
}
