"""The small rules that the services rely on."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.errors import ConfigurationError
from models.job import Priority
from models.values import from_text, to_key, to_value
from services.azure_access import ConnectionString, Identity, resolve
from services.broker_limits import cut, cut_front
from services.detection.watermarks import job_name_of, row_key
from services.outgoing import OutgoingMessage, to_service_bus
from services.payloads import PayloadService
from tests.builders import a_message
from tests.fakes.storage import MemoryBlobs

TYPED = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False, places=6),
    st.datetimes(timezones=st.just(UTC)),
    st.dates(),
    st.times(),
    st.binary(),
    st.uuids(),
)


@given(value=TYPED)
def test_what_json_cannot_hold_travels_as_text_and_comes_back(value: object) -> None:
    text = to_value(value)
    convert = from_text(type(value))
    assert isinstance(text, str)
    assert convert is not None
    assert convert(text) == value


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (None, None),
        (True, True),
        (2**62, 2**62),
        (1.5, 1.5),
        (float("inf"), "inf"),
        (Decimal("0.10"), "0.10"),
        (Decimal("1E+3"), "1000"),
        (date(1949, 5, 23), "1949-05-23"),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00+00:00"),
        (time(8, 15), "08:15:00"),
        (b"\x00\xff", "AP8="),
        (memoryview(b"a"), "YQ=="),
        (UUID("ABCDEF00-0000-4000-8000-000000000000"), "abcdef00-0000-4000-8000-000000000000"),
    ],
)
def test_values_keep_their_meaning(raw: object, value: object) -> None:
    assert to_value(raw) == value


def test_compound_keys_cannot_be_confused() -> None:
    keys = [to_key(["a", "b,c"]), to_key(["a,b", "c"]), to_key(["a", "b", "c"]), to_key(["a"])]
    assert len(set(keys)) == 4


@given(text=st.text(), limit=st.integers(8, 200))
def test_a_cut_text_fits_and_stays_text(text: str, limit: int) -> None:
    for shortened in (cut(text, limit), cut_front(text, limit)):
        assert len(shortened.encode()) <= limit
        if len(text.encode(errors="replace")) <= limit:
            assert shortened == text.encode(errors="replace").decode()


def test_the_end_of_a_stack_trace_survives() -> None:
    assert cut_front("x" * 100 + "the cause", 20).endswith("the cause")


@given(name=st.text(st.characters(codec="utf-8"), min_size=1))
def test_every_job_name_becomes_a_row_key_and_back(name: str) -> None:
    key = row_key(name)
    assert job_name_of(key) == name
    assert not set("/\\#?%") & set(key)
    assert all(character.isprintable() for character in key)


def test_a_message_carries_what_the_mover_needs() -> None:
    payloads = PayloadService(MemoryBlobs())  # type: ignore[arg-type] # the fake's few methods
    message = to_service_bus(OutgoingMessage.of(a_message(), Priority.LOW), payloads, "")
    assert message.application_properties == {"JobName": "customers-to-erp", "SourceKey": "D1"}
    assert message.content_type == "application/json"
    assert b"".join(message.body) == a_message().to_body()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"BUS": "Endpoint=…"}, ConnectionString("Endpoint=…")),
        ({"BUS": "", "BUS__address": "a.example"}, Identity("a.example", False, None)),  # noqa: FBT003 - positional for brevity
        (
            {"BUS__address": "a", "BUS__credential": "managedidentity", "BUS__clientId": "c"},
            Identity("a", True, "c"),  # noqa: FBT003 - as above
        ),
    ],
)
def test_a_prefix_resolves_as_in_the_functions_host(
    environ: dict[str, str], expected: object
) -> None:
    assert resolve(environ, "BUS", "address") == expected


def test_a_missing_connection_names_both_settings() -> None:
    with pytest.raises(ConfigurationError, match=r"BUS is missing.*BUS__address"):
        resolve({}, "BUS", "address")
