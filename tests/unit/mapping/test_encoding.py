"""What leaves the mapping can be encoded, and nothing of it is lost on the way."""

import math
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.queue_message import QueueMessage
from models.values import to_key, to_value
from tests.builders import a_message
from tests.unit.mapping.mappings import a_step, mapped, through_the_queue

VALUES: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text()
    | st.decimals()
    | st.dates()
    | st.times(timezones=st.just(UTC))
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.uuids()
    | st.binary()
    | st.lists(st.integers(0, 9))
    | st.dictionaries(st.text(), st.decimals())
)


@given(values=st.lists(VALUES, min_size=2, max_size=5))
def test_whatever_a_record_holds_arrives_as_its_queue_form(values: list[Any]) -> None:
    record = {f"f{n}": value for n, value in enumerate(values)}
    mapping = a_step(fields=[{"source": name, "target": name} for name in record])
    fields = through_the_queue(mapped(mapping, **record).fields)
    assert fields == {name: to_value(value) for name, value in record.items()}
    message: QueueMessage = a_message(fields=fields)
    assert QueueMessage.from_body(message.to_body()) == message


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, "nan"),
        (math.inf, "inf"),
        (-math.inf, "-inf"),
        (time(1, 2, tzinfo=UTC), "01:02:00+00:00"),
        ({"a": Decimal("0.10")}, '{"a":"0.10"}'),
        ([1, None], "[1,null]"),
        ((1, 2), "[1,2]"),
        (2**70, "1180591620717411303424"),
        (Decimal("1E+3"), "1000"),
        (date(2026, 11, 30), "2026-11-30"),
        (datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1))), "2026-01-01T00:00:00+01:00"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"a", "YQ=="),
        (memoryview(b"a"), "YQ=="),
    ],
)
def test_what_json_cannot_hold_travels_as_text(value: object, text: str) -> None:
    assert to_value(value) == text


@pytest.mark.parametrize("where", ["keys", "fields"])
def test_nan_never_becomes_null(where: str) -> None:
    pair = [{"source": "x", "target": "y"}]
    mapping = a_step(keys=pair, fields=[]) if where == "keys" else a_step(fields=pair)
    record = mapped(mapping, x=math.nan)
    assert getattr(record, where)["y"] == "nan"


def test_the_value_of_an_operation_is_encoded_too() -> None:
    operations = [{"field": "y", "constant": 2**70}, {"field": "z", "constant": 0.1}]
    fields = mapped(a_step(*operations), x=math.nan).fields
    assert through_the_queue(fields) == {"x": "nan", "y": str(2**70), "z": "0.1"}


@pytest.mark.parametrize(
    ("parts", "key"),
    [(["D1"], "D1"), ([7], "7"), ([Decimal("1.0")], "1.0"), (["a", 7, None], '["a",7,null]')],
)
def test_a_key_is_one_text(parts: list[object], key: str) -> None:
    assert to_key(parts) == key
