"""The forms that a compiled operation has."""

from collections.abc import Callable
from collections.abc import Mapping as Record
from typing import Any

from connectors.fields.errors import Refusal
from delivery.errors import MappingError

#: The record's values by target field, the key's among them, while operations run.
type Values = dict[str, Any]

#: Turns one value that is neither missing nor null into another; raises Refusal.
type Convert = Callable[[Any], Any]

#: Changes `Values`; raises MappingError.
type Step = Callable[[Record[str, Any], Values], None]

#: Stands for what a record does not hold, which is something else than null.
MISSING = object()


def converting(field: str, convert: Convert, where: str) -> Step:
    """Apply `convert` to the field; missing stays missing and null stays null."""

    def step(_record: Record[str, Any], values: Values) -> None:
        value = values.get(field)
        if value is None:
            return
        try:
            values[field] = convert(value)
        except Refusal as refusal:
            # The context may quote the value.
            msg = f"{where}: {refusal}"
            raise MappingError(msg) from None

    return step
