"""One reason is one group, whatever the record."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dead_letter_mover.groups import (
    MOST_REASONS,
    OTHER,
    UNREADABLE,
    UNRECORDED,
    Reasons,
    normalised,
)
from dead_letter_mover.letters import Letter


def a_letter(error: str | None) -> Letter:
    return Letter(1, b"", error=error)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("column 'a' cannot hold 12.50", "column <text> cannot hold <n>"),
        (
            "record 9F1C2D3E-0000-4000-8000-00000000ABCD is gone",
            "record <guid> is gone",
        ),
        ('violates check constraint "no3"\nDETAIL: 7', "violates check constraint <text>"),
        ("at 2026-11-30T10:00:00", "at <n>-<n>-<n>T<n>"),
        ("", UNRECORDED),
        ("it's the customer's", "it<text>s"),
    ],
)
def test_what_differs_from_record_to_record_is_left_out(error: str, reason: str) -> None:
    assert normalised(error) == reason


@given(number=st.integers(min_value=0), guid=st.uuids(), text=st.from_regex(r"\A[a-z ]*\Z"))
def test_errors_that_differ_in_values_only_are_one_reason(
    number: int, guid: object, text: str
) -> None:
    one = normalised(f"row {number} of {guid}: '{text}' is refused")
    assert one == "row <n> of <guid>: <text> is refused"


@given(text=st.text(max_size=300))
def test_no_number_survives_and_any_text_has_a_reason(text: str) -> None:
    reason = normalised(text)
    assert reason
    assert not re.search(r"\d", reason)


def test_messages_without_a_recorded_error_have_a_reason_of_their_own() -> None:
    reasons = Reasons()
    assert reasons.text(reasons.of(a_letter(None))) == UNRECORDED


def test_what_cannot_be_read_has_a_reason_of_its_own() -> None:
    reasons = Reasons()
    unreadable = Letter(1, b"", error="refused", is_readable=False)
    assert reasons.text(reasons.of(unreadable)) == UNREADABLE


def test_the_first_error_of_a_reason_is_its_example() -> None:
    reasons = Reasons()
    numbers = [reasons.of(a_letter(error)) for error in ("row 1", None, "row 2", "x" * 400)]
    assert numbers == [0, 1, 0, 2]
    assert [reasons.example(number) for number in (0, 1, 2)] == ["row 1", None, "x" * 300 + "…"]


def test_a_long_reason_is_cut() -> None:
    assert normalised("x" * 10_000) == "x" * 300 + "…"


def test_the_number_of_reasons_is_bounded_and_no_message_is_left_out() -> None:
    names = ["".join(chr(97 + int(digit)) for digit in f"{n:05}") for n in range(MOST_REASONS + 50)]
    reasons = Reasons()
    found = [reasons.text(reasons.of(a_letter(name))) for name in names]
    assert found == names[:MOST_REASONS] + [OTHER] * 50
    assert reasons.of(a_letter(names[0])) == 0
