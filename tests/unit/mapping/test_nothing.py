"""M3: null, missing and empty are three different things."""

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.fields import compile_mapping
from tests.unit.mapping.mappings import KEY, a_step, changed, mapped

ABSENT = object()

OPERATIONS: list[dict[str, Any]] = [
    {"trim": "both"},
    {"case": "upper"},
    {"split": {"separator": ",", "part": 1}},
    {"replace": {"pattern": "a", "replacement": "b"}},
    {"number": {"locale": "de-DE"}},
    {"datetime": {}},
    {"boolean": {}},
    {"scale": {"multiply": 2}},
    {"option": {"map": "status", "to": "label"}},
]
STATUS = {"status": {"values": {"1": "Active"}}}


def _result(value: object, mapping: Any) -> object:
    record = {} if value is ABSENT else {"x": value}
    return mapped(mapping, **record).fields.get("x", ABSENT)


@pytest.mark.parametrize(
    ("empty", "expected"), [("keep", ""), ("null", None), (None, None), ("skip", ABSENT)]
)
def test_m3_an_empty_text_becomes_what_its_field_says(empty: object, expected: object) -> None:
    mapping = a_step(fields=[{"source": "x", "target": "x", "empty": empty}])
    assert _result("", mapping) == expected
    assert _result(None, mapping) is None
    assert _result(ABSENT, mapping) is ABSENT
    assert _result(" ", mapping) == " "


def test_m3_empty_is_kept_where_the_field_says_nothing() -> None:
    assert changed("") == ""


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda o: next(iter(o)))
def test_m3_operations_leave_null_null_and_missing_missing(operation: dict[str, Any]) -> None:
    mapping = a_step(operation, optionMaps=STATUS)
    assert _result(None, mapping) is None
    assert _result(ABSENT, mapping) is ABSENT


@pytest.mark.parametrize("when", [["missing"], ["null"], ["empty"], [None], ["missing", "null"]])
def test_m3_a_default_replaces_only_the_nothing_that_it_names(when: list[str | None]) -> None:
    mapping = a_step({"default": {"value": "new", "when": when}})
    names = {word or "null" for word in when}
    for name, value in (("missing", ABSENT), ("null", None), ("empty", "")):
        assert _result(value, mapping) == ("new" if name in names else value)


@pytest.mark.parametrize("value", ["old", 0, False, " ", 0.0])
def test_m3_a_default_takes_nothing_else_for_nothing(value: object) -> None:
    rule = {"value": "new", "when": ["missing", "null", "empty"]}
    assert changed(value, {"default": rule}) == value


@pytest.mark.parametrize("count", [0, 1, 2, 20])
@given(data=st.data())
def test_m3_a_field_is_in_the_message_exactly_if_it_is_in_the_record(
    count: int, data: st.DataObject
) -> None:
    names = [f"f{n}" for n in range(count)]
    values = st.none() | st.text() | st.integers() | st.booleans()
    optional = st.fixed_dictionaries({}, optional=dict.fromkeys(names, values))
    record = data.draw(optional)
    mapping = a_step(fields=[{"source": name, "target": f"to_{name}"} for name in names])
    assert mapped(mapping, **record).fields == {f"to_{k}": v for k, v in record.items()}


@given(record=st.dictionaries(st.sampled_from(["x", "y", "z"]), st.none() | st.text()))
def test_applying_never_changes_the_record_and_always_gives_the_same(
    record: dict[str, str | None],
) -> None:
    fields = [{"source": "x", "target": "x", "empty": "skip"}, {"source": "y", "target": "y"}]
    operations = [
        {"field": "y", "default": {"value": "d", "when": ["missing", "null", "empty"]}},
        {"field": "x", "trim": "both"},
        {"field": "t", "template": "{source.z}-{y}"},
    ]
    compiled = compile_mapping(a_step(fields=fields, operations=operations))
    frozen = MappingProxyType({KEY: "D1", **record})
    first, second = compiled.apply(frozen), compiled.apply(frozen)
    assert first == second
    first.fields["x"] = first.keys["later"] = "changed by the caller"
    assert compiled.apply(frozen) == second
    assert dict(frozen) == {KEY: "D1", **record}
