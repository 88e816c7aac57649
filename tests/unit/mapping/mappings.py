"""Mappings with one interesting field, and what they make of one value."""

from typing import Any

import orjson
import pytest

from connectors.fields import MappedRecord, compile_mapping
from delivery.errors import MappingError
from models.mapping import Mapping
from models.values import to_value
from tests.builders import a_mapping

KEY = "number"

REFUSED = object()


def a_step(*operations: dict[str, Any], **changes: Any) -> Mapping:
    """Return a mapping that copies `x` and applies operations, to `x` where they name no field."""
    return a_mapping(
        **{
            "fields": [{"source": "x", "target": "x"}],
            "operations": [{"field": "x", **operation} for operation in operations],
            **changes,
        }
    )


def mapped(mapping: Mapping, **record: Any) -> MappedRecord:
    return compile_mapping(mapping).apply({KEY: "D1", **record})


def changed(value: Any, *operations: dict[str, Any], **changes: Any) -> Any:
    """Return what the operations make of `value`."""
    return mapped(a_step(*operations, **changes), x=value).fields["x"]


def refused(value: Any, *operations: dict[str, Any], **changes: Any) -> str:
    """Return the text of the error that the operations raise for `value`."""
    with pytest.raises(MappingError) as caught:
        changed(value, *operations, **changes)
    return str(caught.value)


def changed_or_refused(value: Any, *operations: dict[str, Any], **changes: Any) -> Any:
    """Return what `changed` returns, or REFUSED; any other error fails the test."""
    try:
        return changed(value, *operations, **changes)
    except MappingError:
        return REFUSED


def through_the_queue(fields: dict[str, Any]) -> dict[str, Any]:
    """Encode as the queue message is to be encoded, and read it back."""
    body = orjson.dumps(fields, to_value, orjson.OPT_PASSTHROUGH_DATETIME)
    read: dict[str, Any] = orjson.loads(body)
    return read
