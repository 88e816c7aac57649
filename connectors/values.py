"""How a value of a database or an API travels in a queue message, and back.

What JSON has no exact form for travels as text: decimals with all their digits, dates and times in
ISO 8601, GUIDs in lower case, bytes in base64.
"""

import base64
import math
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any
from uuid import UUID

import orjson

from models.queue_message import Value


def to_value(raw: object) -> Value:
    """Return `raw` as a queue message holds it."""
    match raw:
        case None | str() | bool() | int():
            return raw
        case float():
            # JSON knows no NaN and no infinity; SQL databases read these texts.
            return raw if math.isfinite(raw) else str(raw)
        case Decimal():
            return format(raw, "f")
        case date() | time():  # a datetime is a date
            return raw.isoformat()
        case bytes() | memoryview():
            return base64.b64encode(raw).decode()
        case _:
            return str(raw)


def to_key(parts: list[object]) -> str:
    """Return the key as one text; the parts of a compound key as a JSON array."""
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
