"""Copies keep what the message had, whatever that was."""

from datetime import timedelta
from typing import Any

from azure.servicebus import ServiceBusMessage, ServiceBusMessageBatch
from hypothesis import given
from hypothesis import strategies as st

from delivery.errors import TransitiveError
from models.message_properties import ERROR_PROPERTIES
from services.processing.copies import postponed, set_aside
from tests.builders import NOW, a_delivery
from tests.unit.app.stage import ODD, properties_of

REASON = TransitiveError("not yet")


def encode(message: ServiceBusMessage) -> None:
    """Let the SDK encode the message, as a send would."""
    ServiceBusMessageBatch(max_size_in_bytes=1_000_000).add_message(message)


@given(properties=st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), ODD))
def test_properties_of_any_type_can_be_sent_again(properties: dict[str, object]) -> None:
    copy = set_aside(a_delivery(properties=properties), REASON)
    encode(copy)
    kept = {name for name, value in properties.items() if value is not None} - ERROR_PROPERTIES
    assert kept <= set(properties_of(copy))


def test_numbers_texts_and_truths_keep_their_types_and_null_is_left_out() -> None:
    properties = {"n": 7, "t": "Müller", "b": True, "f": 0.5, "null": None, "l": [1, "ü"]}
    copy = set_aside(a_delivery(properties=properties), REASON)
    kept = {name: properties_of(copy).get(name) for name in properties}
    assert kept == {**properties, "l": '[1, "ü"]'}
    assert "null" not in properties_of(copy)


def test_sb4_types_that_are_known_win_over_what_the_host_told_and_ours_over_both() -> None:
    typed: dict[str, dict[str, Any]] = {
        "sent": {"TYPE": "TIMESTAMP", "VALUE": 7},
        "raw": {"TYPE": "BINARY", "VALUE": b"\xff"},
        "ErrorMessage": {"TYPE": "SYMBOL", "VALUE": b"of old"},
    }
    delivery = a_delivery(properties={"JobName": "a", "sent": "1970-01-01", "raw": "/w==", "n": 7})
    copies = [
        set_aside(delivery, REASON, typed),
        postponed(delivery, timedelta(0), NOW, typed),
    ]
    for copy in copies:
        encode(copy)
        kept = {name: properties_of(copy)[name] for name in ("JobName", "sent", "raw", "n")}
        assert kept == {"JobName": "a", "sent": typed["sent"], "raw": typed["raw"], "n": 7}
    assert properties_of(copies[0])["ErrorMessage"] == "not yet"


def test_a_reason_is_cut_to_what_the_broker_takes() -> None:
    copy = set_aside(a_delivery(), TransitiveError("x" * 100_000))
    assert len(properties_of(copy)["ErrorMessage"]) < 5_000


def test_copies_of_one_message_differ_in_their_ids_and_repeat_for_the_same_attempt() -> None:
    def message_id(**properties: int) -> str | None:
        delivery = a_delivery(properties=properties)
        return postponed(delivery, timedelta(0), NOW).message_id

    ids = {
        message_id(),
        message_id(CarriedAttempts=1),
        message_id(Postponements=1),
        message_id(CarriedAttempts=1, Postponements=1),
    }
    assert len(ids) == 4
    assert message_id() == message_id()
    assert all(each and len(each) <= 128 for each in ids)


def test_a_message_about_to_expire_expires_as_a_copy_too() -> None:
    delivery = a_delivery(expires=NOW + timedelta(seconds=10))
    copy = postponed(delivery, timedelta(seconds=100), NOW)
    assert copy.time_to_live == timedelta(seconds=1)
    assert postponed(a_delivery(), timedelta(seconds=100), NOW).time_to_live is None


def test_what_never_expires_can_be_put_off() -> None:
    far = NOW.replace(year=9999)
    encode(postponed(a_delivery(expires=far), timedelta(seconds=4), NOW))
