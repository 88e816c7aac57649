"""One reason is one group, whatever the record."""

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dead_letter_mover.groups import MOST_GROUPS, OTHER, UNRECORDED, by_error, normalised
from dead_letter_mover.letters import Letter
from tests.builders import NOW


def a_letter(number: int = 1, error: str | None = "refused", job: str = "orders") -> Letter:
    return Letter(number, error, job, NOW + timedelta(seconds=number))


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


def test_groups_are_counted_by_job_the_largest_first() -> None:
    letters = [a_letter(3, job="customers"), a_letter(2), a_letter(5), a_letter(9, "other")]
    first, second = by_error(letters)
    assert (first.error, first.count, dict(first.jobs)) == (
        "refused",
        3,
        {"customers": 1, "orders": 2},
    )
    assert first.oldest == NOW + timedelta(seconds=2)
    assert second.error == "other"


def test_messages_without_a_recorded_error_are_a_group_of_their_own() -> None:
    [group] = by_error([a_letter(1, None), a_letter(2, None)])
    assert (group.error, group.count) == (UNRECORDED, 2)


def test_the_number_of_groups_is_bounded_and_no_message_is_left_out() -> None:
    names = ["".join(chr(97 + int(digit)) for digit in f"{n:05}") for n in range(MOST_GROUPS + 50)]
    groups = by_error(a_letter(1, name) for name in names)
    assert len(groups) == MOST_GROUPS + 1
    assert sum(group.count for group in groups) == len(names)
    assert groups[0].error == OTHER
