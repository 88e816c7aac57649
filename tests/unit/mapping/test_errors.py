"""An error names mapping, field, operation and remedy, and never shows people's data."""

import traceback
from typing import Any

import pytest

from connectors.fields import compile_mapping
from delivery.errors import MappingError, UnprocessableError
from tests.unit.mapping.mappings import a_step

SECRET = "Erika-Mustermann"  # noqa: S105 - a person, not a password
REFUSING: list[dict[str, Any]] = [
    {"split": {"separator": ";", "part": 2}},
    {"number": {"locale": "de-DE"}},
    {"number": {"decimal": ","}},
    {"scale": {"multiply": 2}},
    {"datetime": {}},
    {"datetime": {"input": ["%d.%m.%Y"]}},
    {"boolean": {}},
    {"option": {"map": "status", "to": "label"}},
    {"option": {"map": "status", "to": "code"}},
]
KEY_TYPES = ["guid", "number"]


def _shown(error: MappingError) -> str:
    return "".join(traceback.format_exception(error))


@pytest.mark.parametrize("operation", REFUSING, ids=lambda o: next(iter(o)))
def test_an_operation_that_refuses_names_itself_and_never_the_value(
    operation: dict[str, Any],
) -> None:
    mapping = a_step(operation, optionMaps={"status": {"values": {"1": "Active"}}})
    with pytest.raises(MappingError) as caught:
        compile_mapping(mapping).apply({"number": "D1", "x": SECRET})
    [kind] = operation
    prefix = f"mapping 'customers', field 'x', operations.0.{kind}: "
    assert str(caught.value).startswith(prefix)
    assert "; " in str(caught.value).removeprefix(prefix)
    assert SECRET not in _shown(caught.value)


@pytest.mark.parametrize("value", [SECRET.encode(), [SECRET], {"a": SECRET}])
@pytest.mark.parametrize("operation", [{"trim": "both"}, {"case": "upper"}, *REFUSING])
def test_values_of_other_types_are_refused_as_quietly(
    value: object, operation: dict[str, Any]
) -> None:
    mapping = a_step(operation, optionMaps={"status": {"values": {"1": "Active"}}})
    with pytest.raises(MappingError) as caught:
        compile_mapping(mapping).apply({"number": "D1", "x": value})
    assert SECRET not in _shown(caught.value)


@pytest.mark.parametrize("kind", KEY_TYPES)
def test_a_key_that_is_refused_is_not_shown(kind: str) -> None:
    mapping = a_step(keys=[{"source": "number", "target": "n", "type": kind}])
    with pytest.raises(MappingError, match="mapping 'customers', key 'number': is no") as caught:
        compile_mapping(mapping).apply({"number": SECRET, "x": 1})
    assert SECRET not in _shown(caught.value)


def test_a_mapping_error_is_permanent_and_has_its_own_code() -> None:
    assert issubclass(MappingError, UnprocessableError)
    assert MappingError.code == "mapping"
