import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devstack.functions_host.schedule import (
    TimerStatus,
    is_monitored_by_default,
    is_past_due,
    parse_schedule,
    status_after_run,
    status_at_first_start,
)
from devstack.functions_host.timers import timer_json

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)  # a Monday
moments = st.datetimes(
    min_value=datetime(2020, 1, 1),  # noqa: DTZ001 - hypothesis adds the zone
    max_value=datetime(2040, 1, 1),  # noqa: DTZ001 - as above
    timezones=st.just(UTC),
)


@pytest.mark.parametrize(
    ("text", "due"),
    [
        ("0 */5 * * * *", NOON + timedelta(minutes=5)),
        ("30 0 12 * * *", NOON + timedelta(seconds=30)),
        ("0 30 9 * * Tue", datetime(2026, 12, 1, 9, 30, tzinfo=UTC)),
        ("*/5 * * * *", NOON + timedelta(minutes=5)),
        ("01:30:00", NOON + timedelta(minutes=90)),
        # NCRONTAB wants both the day of the month and the weekday.
        ("0 0 0 13 * 5", datetime(2027, 8, 13, tzinfo=UTC)),
    ],
)
def test_a_schedule_knows_its_next_moment(text: str, due: datetime) -> None:
    assert parse_schedule(text).next_after(NOON) == due


@pytest.mark.parametrize(
    "text",
    [
        *("", "* * * *", "0 0 0 L * *", "0 0 0 ? * 1", "61 * * * * *", "0 0 0 30 2 *", "x"),
        *("00:00:00", "99999999999.00:00:00", "9999999.00:00:00"),
    ],
)
def test_what_the_platform_would_not_run_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse_schedule(text)


@given(
    second=st.integers(0, 59), minute=st.integers(0, 59), hour=st.integers(0, 23), moment=moments
)
def test_the_next_moment_is_later_matches_and_is_the_first(
    second: int, minute: int, hour: int, moment: datetime
) -> None:
    due = parse_schedule(f"{second} {minute} {hour} * * *").next_after(moment)
    assert moment < due <= moment + timedelta(days=1)
    assert (due.hour, due.minute, due.second, due.microsecond) == (hour, minute, second, 0)


@given(moment=moments, step=st.sampled_from([1, 2, 5, 10, 15, 30]))
def test_steps_of_seconds_come_at_their_multiples(moment: datetime, step: int) -> None:
    due = parse_schedule(f"*/{step} * * * * *").next_after(moment)
    assert due.second % step == 0
    assert timedelta(0) < due - moment <= timedelta(seconds=step)


@pytest.mark.parametrize(
    ("text", "monitored"), [("*/30 * * * * *", False), ("0 * * * * *", True), ("00:00:59", False)]
)
def test_a_timer_of_less_than_a_minute_is_not_monitored(text: str, *, monitored: bool) -> None:
    assert is_monitored_by_default(parse_schedule(text), NOON) is monitored


@given(downtime=st.integers(0, 3600))
def test_a_timer_is_past_due_exactly_when_a_moment_passed_while_the_host_was_down(
    downtime: int,
) -> None:
    schedule = parse_schedule("0 */5 * * * *")
    status = status_after_run(schedule, NOON)
    now = NOON + timedelta(seconds=downtime)
    assert is_past_due(schedule, status, now) is (downtime > 300)


def test_the_first_start_is_never_past_due_and_a_changed_schedule_decides_by_itself() -> None:
    every_hour, every_minute = parse_schedule("0 0 * * * *"), parse_schedule("0 * * * * *")
    assert not is_past_due(every_hour, None, NOON)
    status = status_at_first_start(every_hour, NOON)
    later = NOON + timedelta(minutes=2)
    assert not is_past_due(every_hour, status, later)
    assert is_past_due(every_minute, status, later)


def test_the_timers_argument_is_the_json_that_a_worker_wants() -> None:
    status = TimerStatus(last=None, next=NOON, last_updated=NOON)
    assert json.loads(timer_json(status, past_due=True)) == {
        "Schedule": {"AdjustForDST": True},
        "ScheduleStatus": {
            "Last": "0001-01-01T00:00:00+00:00",
            "Next": "2026-11-30T12:00:00+00:00",
            "LastUpdated": "2026-11-30T12:00:00+00:00",
        },
        "IsPastDue": True,
    }
    assert json.loads(timer_json(None, past_due=False))["ScheduleStatus"] is None
