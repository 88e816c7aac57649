"""What the mover reads from a message."""

import uuid
from typing import Any

import pytest

from dead_letter_mover.letters import Letter
from delivery.errors import UnreadableError
from tests.builders import NOW
from tests.encoded_messages import a_body, an_encoded


def test_a_letter_has_what_is_decided_by() -> None:
    encoded = an_encoded(7, "no such parent", beside={"OriginalQueue": "sbqlow"})
    assert Letter.of(encoded) == Letter(
        sequence_number=7,
        encoded=encoded,
        message_id="m-1",
        error="no such parent",
        job_name="orders",
        source_key="D1",
        original_queue="sbqlow",
        enqueued=int(NOW.timestamp() * 1000),
        body=a_body(),
    )


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        (
            {"DeadLetterReason": "TTLExpiredException", "DeadLetterErrorDescription": "too late"},
            "too late",
        ),
        ({"DeadLetterReason": "TTLExpiredException"}, "TTLExpiredException"),
        ({"ErrorMessage": "ours", "DeadLetterErrorDescription": "the broker's"}, "ours"),
        ({"ErrorMessage": {"TYPE": "SYMBOL", "VALUE": b"a symbol"}}, "a symbol"),
        ({"ErrorMessage": 7}, None),
        ({"ErrorMessage": " "}, None),
        ({"ErrorMessage": "", "DeadLetterReason": "why"}, "why"),
        ({}, None),
    ],
)
def test_the_most_telling_reason_counts(properties: dict[str, Any], error: str | None) -> None:
    assert Letter.of(an_encoded(error=None, beside=properties)).error == error


@pytest.mark.parametrize(
    ("message_id", "shown"),
    [
        (None, ""),
        (uuid.UUID(int=1), "0" * 31 + "1"),
        (255, "ff"),
    ],
)
def test_any_message_id_can_be_shown(message_id: object, shown: str) -> None:
    assert Letter.of(an_encoded(message_id=message_id)).message_id == shown


def test_a_body_that_is_no_bytes_is_none_of_ours() -> None:
    encoded = an_encoded(data=None, value={"a": 1})
    assert Letter.of(encoded).body == b""


@pytest.mark.parametrize(("state", "is_waiting"), [(0, False), (1, True), (2, True)])
def test_scheduled_and_deferred_messages_are_waiting(state: int, is_waiting: bool) -> None:  # noqa: FBT001 - an expectation
    annotations = {
        b"x-opt-sequence-number": {"TYPE": "LONG", "VALUE": 2**40},
        b"x-opt-message-state": {"TYPE": "INT", "VALUE": state},
    }
    assert Letter.of(an_encoded(message_annotations=annotations)).is_waiting == is_waiting


def test_a_message_that_is_not_encoded_well_is_known_by_its_number() -> None:
    annotations, _, rest = an_encoded(7).partition(b"\x00\x53\x73")
    letter = Letter.of(annotations + b"\x00\x53\x74\x40" + rest[:0])
    assert (letter.sequence_number, letter.is_readable, letter.error) == (7, False, None)


def test_a_message_without_sequence_number_is_refused() -> None:
    with pytest.raises(UnreadableError, match="sequence number"):
        Letter.of(b"")
