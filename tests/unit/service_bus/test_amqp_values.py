"""AMQP values survive being written and read, and garbage is refused, not believed."""

import struct
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Data

from devstack.service_bus import amqp_values as amqp

LONGS = st.integers(-(2**63), 2**63 - 1)


@given(st.text())
def test_text_survives(value: str) -> None:
    assert amqp.read(amqp.text(value)) == value


@given(st.binary(max_size=600))
def test_bytes_survive(value: bytes) -> None:
    assert amqp.read(amqp.binary(value)) == value


@given(LONGS)
def test_longs_and_timestamps_survive(value: int) -> None:
    assert amqp.read(amqp.long(value)) == amqp.read(amqp.timestamp(value)) == value


@given(st.lists(LONGS, max_size=300))
def test_lists_and_arrays_survive(values: list[int]) -> None:
    encoded = [amqp.long(value) for value in values]
    assert amqp.read(amqp.sequence(encoded)) == values
    assert amqp.read(amqp.array(encoded, 0x81)) == values


@given(st.dictionaries(st.text(max_size=30), st.text(max_size=60), max_size=60))
def test_maps_survive_however_long(values: dict[str, str]) -> None:
    encoded = amqp.mapping([amqp.text(part) for pair in values.items() for part in pair])
    assert amqp.read(encoded) == values
    assert amqp.end_of(encoded, 0) == len(encoded)


def test_uuids_survive() -> None:
    value = uuid4()
    assert amqp.read(amqp.uuid(value.bytes)) == value


SAMPLES: list[object] = [
    None,
    True,
    False,
    0,
    -1,
    2**40,
    1.5,
    "text",
    "ü" * 300,
    b"bytes",
    UUID(int=7),
    ["a", ["b", 1]],
    {"k": {"n": 1}},
]


@pytest.mark.parametrize("value", SAMPLES, ids=repr)
def test_what_another_implementation_writes_is_read(value: object) -> None:
    data = Data()
    data.put_object(value)
    encoded = data.encode()
    assert amqp.read(encoded) == value
    assert amqp.end_of(encoded, 0) == len(encoded)


def test_a_descriptor_is_skipped() -> None:
    assert amqp.read(amqp.described(0x77, amqp.text("inside"))) == "inside"


def test_an_array_of_billions_of_nulls_in_a_few_bytes_is_refused() -> None:
    with pytest.raises(amqp.MalformedError, match="more elements"):
        amqp.read(b"\xf0\x00\x00\x00\x05\xff\xff\xff\xff\x40")


@given(st.binary(min_size=1, max_size=60))
def test_garbage_raises_nothing_unexpected(garbage: bytes) -> None:
    try:
        amqp.read(garbage)
        amqp.end_of(garbage, 0)
    except (amqp.MalformedError, IndexError, ValueError, struct.error, TypeError, RecursionError):
        pass
