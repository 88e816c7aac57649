"""M5: every spelling of one key is one key, in the message, its source key and in look-ups."""

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.fields import MappedRecord, compile_mapping
from delivery.errors import MappingError
from tests.builders import a_mapping


def keyed(value: Any, kind: str | None, **record: Any) -> MappedRecord:
    mapping = a_mapping(keys=[{"source": "id", "target": "key", "type": kind}], fields=[])
    return compile_mapping(mapping).apply({"id": value, **record})


def spellings(guid: UUID) -> list[Any]:
    dashed, plain = str(guid), guid.hex
    forms = [dashed, plain, f"{{{dashed}}}", f"({dashed})", f" {dashed} "]
    return [guid, *forms, *(form.upper() for form in forms)]


@given(guid=st.uuids())
def test_m5_upper_lower_braces_one_record(guid: UUID) -> None:
    records = [keyed(spelling, "guid") for spelling in spellings(guid)]
    assert {record.source_key for record in records} == {str(guid)}
    assert {record.keys["key"] for record in records} == {str(guid)}


@given(one=st.uuids(), other=st.uuids())
def test_m5_two_guids_never_become_one_key(one: UUID, other: UUID) -> None:
    assert (keyed(one, "guid") == keyed(str(other), "guid")) is (one == other)


@pytest.mark.parametrize(
    "value",
    ["", "x", 7, b"\0" * 16, "{" + "0" * 32, "0" * 31, "0-0" + "0" * 30, "urn:uuid:" + "0" * 32],
)
def test_m5_what_is_no_guid_is_refused(value: object) -> None:
    with pytest.raises(MappingError, match="key 'id': is no GUID"):
        keyed(value, "guid")


@given(number=st.integers(-(10**30), 10**30), zeros=st.integers(0, 5))
def test_spellings_of_a_number_give_one_key(number: int, zeros: int) -> None:
    sign, digits = ("-" if number < 0 else ""), str(abs(number))
    text = f"{sign}{'0' * zeros}{digits}"
    for value in (number, Decimal(number), text, f" {text}.{'0' * (zeros + 1)} "):
        assert keyed(value, "number").source_key == str(number)


def test_a_number_key_keeps_its_fraction() -> None:
    assert keyed("0012.50", "number") == keyed(Decimal("12.5"), "number")
    assert keyed("12.5", "number").source_key == "12.5"


@pytest.mark.parametrize("value", ["", "1,5", "1e5", True, 1.0, Decimal("NaN"), "1" * 101])
def test_what_is_no_number_is_no_number_key(value: object) -> None:
    with pytest.raises(MappingError, match="key 'id': is no number"):
        keyed(value, "number")


@pytest.mark.parametrize(
    ("value", "text"), [(42, "42"), ("042", "042"), (Decimal("1.50"), "1.50"), (b"a", "YQ==")]
)
def test_a_text_key_is_text_as_it_is_written(value: object, text: str) -> None:
    record = keyed(value, "text")
    assert (record.source_key, record.keys["key"]) == (text, text)


def test_a_key_without_type_stays_as_it_is() -> None:
    assert keyed("{AB}", None) == ("{AB}", {"key": "{AB}"}, {})
    assert keyed(9007199254740993, None).keys == {"key": 9007199254740993}


@pytest.mark.parametrize("record", [{}, {"id": None}])
def test_a_record_without_key_is_refused(record: dict[str, Any]) -> None:
    mapping = a_mapping(keys=[{"source": "id", "target": "key"}], fields=[])
    with pytest.raises(MappingError, match="mapping 'customers', key 'id': the record lacks it"):
        compile_mapping(mapping).apply(record)


def test_a_key_that_operations_make_null_is_refused() -> None:
    split = {"separator": "-", "part": 2, "absent": "null"}
    mapping = a_mapping(operations=[{"field": "partner_number", "split": split}])
    with pytest.raises(MappingError, match="key 'partner_number': is null after the operations"):
        compile_mapping(mapping).apply({"number": "D1", "name": "x"})


def test_parts_of_a_key_are_normalised_each_by_its_type() -> None:
    keys = [
        {"source": "a", "target": "a", "type": "guid"},
        {"source": "b", "target": "b"},
        {"source": "c", "target": "c", "type": "number"},
    ]
    compiled = compile_mapping(a_mapping(keys=keys, fields=[]))
    record = compiled.apply({"a": UUID(int=1), "b": "x", "c": "07"})
    assert record.source_key == '["00000000-0000-0000-0000-000000000001","x",7]'


PAIRS = st.tuples(st.text(), st.text())


@given(one=PAIRS, other=PAIRS)
def test_two_compound_keys_never_have_one_source_key(
    one: tuple[str, str], other: tuple[str, str]
) -> None:
    mapping = a_mapping(keys=[{"source": n, "target": n} for n in "ab"], fields=[])
    first, second = (
        compile_mapping(mapping).apply(dict(zip("ab", parts, strict=True)))
        for parts in (one, other)
    )
    assert (first.source_key == second.source_key) is (one == other)
