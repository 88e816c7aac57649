"""Which of two messages is newer is said only where it is certain."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dead_letter_mover.versions import version
from models.queue_message import JobActionType
from tests.encoded_messages import a_body


def is_newer(one: str, other: str) -> bool | None:
    """Return None where nothing can be said."""
    newer, older = version(a_body(tracker=one)), version(a_body(tracker=other))
    if newer is None or older is None or newer[0] != older[0]:
        return None
    return newer[1] > older[1]


MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis wants them naive


@given(one=MOMENTS, other=MOMENTS)
def test_times_compare_as_times(one: datetime, other: datetime) -> None:
    assert is_newer(one.isoformat(), other.isoformat()) == (one > other)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("2026-11-30T10:00:00.5Z", "2026-11-30T10:00:00Z", True),
        ("2026-11-30T10:00:00.0000002Z", "2026-11-30T10:00:00.0000001Z", True),
        ("2026-11-30T10:00:00+01:00", "2026-11-30T09:30:00Z", False),
        ("2026-11-30", "2026-11-29", True),
        ("0102", "0101", True),
        # As numbers and as texts the other way round: a source may sort them either way.
        ("10", "9", None),
        ("2026-11-30", "20261129", None),
        ("token-b", "token-a", None),
        ("", "", None),
    ],
)
def test_only_what_is_certain_is_said(one: str, other: str, expected: bool | None) -> None:  # noqa: FBT001 - an expectation
    assert is_newer(one, other) is expected


def test_a_deletion_and_an_update_of_one_record_compare() -> None:
    update, deletion = a_body(), a_body(action=JobActionType.DELETE)
    assert version(update) == version(deletion) != None  # noqa: E711 - a chain


@pytest.mark.parametrize(
    "body",
    [
        a_body(action=JobActionType.INVOKE_ACTION),
        a_body(mapping_error="no such field"),
        b'{"schemaVersion":1,"payloadBlob":"a"}',
        b"",
    ],
)
def test_what_is_no_state_of_a_record_supersedes_nothing(body: bytes) -> None:
    assert version(body) is None


@pytest.mark.parametrize(
    "other", [a_body("D2"), a_body(job_name="customers"), a_body(update_only=True)]
)
def test_other_records_jobs_and_responses_stand_apart(other: bytes) -> None:
    one, another = version(a_body()), version(other)
    assert one is not None
    assert another is not None
    assert one[0] != another[0]
