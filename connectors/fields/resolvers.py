"""References: a field holds a key of another record, and becomes another value of that record.

Source resolvers run here, for a page of records at once. Target resolvers run in the target
connector, when the message is processed; `resolutions` tells it what to look up.
"""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Protocol

import models.mapping
from connectors.fields.errors import Refusal
from connectors.fields.keys import normaliser
from connectors.fields.steps import Convert, Values
from delivery.errors import MappingError
from models.mapping import At
from models.values import Value


@dataclass(frozen=True, slots=True)
class Reference:
    """What is looked up: field `value` of the record of `entity` whose field `key` is known."""

    entity: str
    key: str
    value: str


class Lookup(Protocol):
    """The need of a resolver, met by a connector."""

    def find(self, reference: Reference, keys: AbstractSet[Value]) -> Mapping[Value, Any]:
        """Return the wanted value for each of `keys` that exists; leave the others out.

        One call asks for a whole page, so answer it with one query. The result is by the keys as
        they were given. A value that is null was found. Several records of one key are a
        ConfigurationError: the field is no key.
        """


class CachingLookup:
    """Asks another lookup once for each key that exists; for one run in one thread.

    A key that does not exist is asked for again: its record may have been made meanwhile.
    """

    def __init__(self, lookup: Lookup, *, max_keys: int = 100_000) -> None:
        self._lookup = lookup
        self._max_keys = max_keys
        self._known: dict[Reference, dict[Value, Any]] = {}

    def find(self, reference: Reference, keys: AbstractSet[Value]) -> Mapping[Value, Any]:
        """Return what the other lookup returns."""
        known = self._known.setdefault(reference, {})
        answer = {key: known[key] for key in keys if key in known}
        if unknown := keys - answer.keys():
            found = self._lookup.find(reference, unknown)
            if len(known) + len(found) > self._max_keys:
                known.clear()
            known.update(found)
            answer.update(found)
        return answer


@dataclass(frozen=True, slots=True)
class Resolution:
    """One compiled resolver; `where` begins every error about it."""

    field: str
    reference: Reference
    null_if_absent: bool
    where: str
    _normalise: Convert

    def key_of(self, values: Mapping[str, Any]) -> Value:
        """Return the key to look up; None where there is none, and nothing to do.

        Raise MappingError where the value cannot be such a key.
        """
        value = values.get(self.field)
        if value is None:
            return None
        try:
            key: Value = self._normalise(value)
        except Refusal as refusal:
            msg = f"{self.where}: {refusal}"
            raise MappingError(msg) from None
        return key


def resolutions(mapping: models.mapping.Mapping, at: At) -> tuple[Resolution, ...]:
    """Return the mapping's resolvers of one side, in their order."""
    return tuple(_resolutions(mapping, at))


def _resolutions(mapping: models.mapping.Mapping, at: At) -> Iterator[Resolution]:
    for number, resolver in enumerate(mapping.resolvers):
        if resolver.at is at:
            yield Resolution(
                resolver.field,
                Reference(resolver.entity, resolver.key, resolver.value),
                resolver.absent == "null",
                f"mapping {mapping.name!r}, field {resolver.field!r}, resolvers.{number}",
                normaliser(resolver.type),
            )


def resolve(resolution: Resolution, page: list[Values], lookup: Lookup) -> dict[int, MappingError]:
    """Replace the field in every record of the page; return the errors by position."""
    errors: dict[int, MappingError] = {}
    keys: dict[int, Value] = {}
    for position, values in enumerate(page):
        try:
            key = resolution.key_of(values)
        except MappingError as error:
            errors[position] = error
        else:
            if key is not None:
                keys[position] = key
    found = lookup.find(resolution.reference, frozenset(keys.values())) if keys else {}
    for position, key in keys.items():
        if key in found:
            page[position][resolution.field] = found[key]
        elif resolution.null_if_absent:
            page[position][resolution.field] = None
        else:
            errors[position] = _absent(resolution)
    return errors


def _absent(resolution: Resolution) -> MappingError:
    reference = resolution.reference
    msg = (
        f"{resolution.where}: no record of {reference.entity!r} has this {reference.key!r}; "
        "create it, or set `absent: null`"
    )
    return MappingError(msg)
