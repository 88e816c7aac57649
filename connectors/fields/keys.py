"""Keys: every spelling of one key becomes the same key."""

import re
from collections.abc import Callable
from collections.abc import Mapping as Record
from decimal import Decimal
from typing import Any
from uuid import UUID

from connectors.fields.errors import Refusal
from connectors.fields.steps import Convert, Values
from delivery.errors import MappingError
from models.mapping import KeyType, Mapping
from models.values import JSON_INTEGERS, to_key, to_value

type KeyReader = Callable[[Record[str, Any]], tuple[str, Values]]

_GUID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[0-9]{1,100}(?:\.[0-9]{1,100})?")
_MAX_EXPONENT = 100


def key_reader(mapping: Mapping) -> KeyReader:
    """Return what reads the source key as text, and the key's values by target field."""
    sources = [pair.source for pair in mapping.keys]
    targets = [pair.target for pair in mapping.keys]
    convert = _typed(mapping)

    def read(record: Record[str, Any]) -> tuple[str, Values]:
        try:
            parts = [record[source] for source in sources]
        except KeyError:
            parts = [record.get(source) for source in sources]
        if None in parts:
            msg = (
                f"mapping {mapping.name!r}, key {sources[parts.index(None)]!r}: the record lacks "
                "it or it is null; filter such records out of the job, or choose another key"
            )
            raise MappingError(msg)
        if convert is not None:
            parts = convert(parts)
        return to_key(parts), dict(zip(targets, parts, strict=True))

    return read


def _typed(mapping: Mapping) -> Callable[[list[Any]], list[Any]] | None:
    """Return what normalises the parts; None where no part has a type."""
    if not any(pair.type for pair in mapping.keys):
        return None
    converts = [normaliser(pair.type) if pair.type else _unchanged for pair in mapping.keys]

    def convert(parts: list[Any]) -> list[Any]:
        normal = []
        for pair, one, part in zip(mapping.keys, converts, parts, strict=True):
            try:
                normal.append(one(part))
            except Refusal as refusal:
                msg = f"mapping {mapping.name!r}, key {pair.source!r}: {refusal}"
                raise MappingError(msg) from None
        return normal

    return convert


def _unchanged(value: object) -> object:
    return value


def normaliser(kind: KeyType | None) -> Convert:
    """Return what brings a key into the one form of its type, a form that JSON can hold."""
    match kind:
        case None:
            return to_value
        case KeyType.TEXT:
            return _text
        case KeyType.GUID:
            return _guid
        case KeyType.NUMBER:
            return _number


def _text(value: object) -> str:
    return str(to_value(value))


def _guid(value: object) -> str:
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, str):
        text = value.strip()
        if (text[:1], text[-1:]) in {("{", "}"), ("(", ")")}:
            text = text[1:-1]
        if _GUID.fullmatch(text):
            return str(UUID(text))
    msg = "is no GUID; correct the source, or give the key another type"
    raise Refusal(msg)


def _number(value: object) -> int | str:
    number = _decimal(value)
    if number is None or not number.is_finite() or abs(number.adjusted()) > _MAX_EXPONENT:
        msg = "is no number; correct the source, or give the key another type"
        raise Refusal(msg)
    if number == number.to_integral_value():
        whole = int(number)
        return whole if whole in JSON_INTEGERS else str(whole)
    return format(number, "f").rstrip("0")


def _decimal(value: object) -> Decimal | None:
    match value:
        case bool():
            return None
        case int() | Decimal():
            return Decimal(value)
        case str() if _NUMBER.fullmatch(text := value.strip()):
            return Decimal(text)
        case _:
            return None
