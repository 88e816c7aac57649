"""Fields that are copied. What the record lacks, the result lacks; null stays null."""

from collections.abc import Callable
from collections.abc import Mapping as Record
from operator import itemgetter
from typing import Any

from connectors.fields.steps import Values
from models.mapping import CopiedField, EmptyRule
from models.values import to_value

type Copy = Callable[[Record[str, Any]], Values]


def copier(fields: tuple[CopiedField, ...]) -> Copy:
    """Return what copies `fields`, with no work per field where all are plain."""
    copy = _copier([(pair.source, pair.target) for pair in fields])
    rules = [(pair.target, pair.empty) for pair in fields if pair.empty is not EmptyRule.KEEP]
    if not rules:
        return copy

    def copy_and_look(record: Record[str, Any]) -> Values:
        values = copy(record)
        for target, rule in rules:
            if values.get(target) == "":
                _replace_empty(values, target, rule)
        return values

    return copy_and_look


def _copier(pairs: list[tuple[str, str]]) -> Copy:
    if len(pairs) <= 1:  # an itemgetter of one name returns no tuple
        return lambda record: _copy_what_is_there(record, pairs)
    read = itemgetter(*(source for source, _ in pairs))
    targets = [target for _, target in pairs]

    def copy(record: Record[str, Any]) -> Values:
        try:
            return dict(zip(targets, read(record), strict=True))
        except KeyError:
            return _copy_what_is_there(record, pairs)

    return copy


def _copy_what_is_there(record: Record[str, Any], pairs: list[tuple[str, str]]) -> Values:
    return {target: record[source] for source, target in pairs if source in record}


def _replace_empty(values: Values, target: str, rule: EmptyRule) -> None:
    match rule:
        case EmptyRule.KEEP:
            pass
        case EmptyRule.NULL:
            values[target] = None
        case EmptyRule.SKIP:
            del values[target]


# What orjson writes by itself and not as a queue message holds it: NaN as null, structures as
# structures. It leaves dates and times to its hook where it is told to pass them through.
_NOT_FOR_THE_ENCODER = frozenset({float, dict, list, tuple})


def encodable(values: Values) -> Values:
    """Return `values` so that the message's encoder, with `to_value` as its hook, loses nothing."""
    if _NOT_FOR_THE_ENCODER.isdisjoint(map(type, values.values())):
        return values
    return {
        name: to_value(value) if type(value) in _NOT_FOR_THE_ENCODER else value
        for name, value in values.items()
    }
