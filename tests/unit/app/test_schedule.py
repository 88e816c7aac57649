import itertools
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.schedule import Schedule

BERLIN = "Europe/Berlin"
ZONES = st.sampled_from([BERLIN, "UTC", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"])
#: Weeks around the clock changes of 2026 in both hemispheres, and a quiet one.
MOMENTS = st.datetimes(
    min_value=datetime(2026, 3, 27),  # noqa: DTZ001 - hypothesis wants naive bounds
    max_value=datetime(2026, 11, 3),  # noqa: DTZ001 - as above
    timezones=st.just(UTC),
)


def runs(expression: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    schedule, found, moment = Schedule.parse(expression, zone), [], start
    while (moment := schedule.next_after(moment)) <= end:
        found.append(moment)
    return found


def test_a_15_minute_job_runs_every_15_real_minutes_around_the_clock_change() -> None:
    start = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)
    found = runs("*/15 * * * *", BERLIN, start, start + timedelta(hours=2))
    assert found == [start + timedelta(minutes=15 * n) for n in range(1, 9)]


def test_a_nightly_job_runs_once_in_the_hour_that_is_repeated() -> None:
    start = datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert runs("30 2 * * *", BERLIN, start, start + timedelta(days=2)) == [
        datetime(2026, 10, 25, 0, 30, tzinfo=UTC),
        datetime(2026, 10, 26, 1, 30, tzinfo=UTC),
    ]


def test_a_nightly_job_is_not_lost_in_the_hour_that_is_left_out() -> None:
    start = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert runs("30 2 * * *", BERLIN, start, start + timedelta(days=2)) == [
        datetime(2026, 3, 29, 1, 30, tzinfo=UTC),
        datetime(2026, 3, 30, 0, 30, tzinfo=UTC),
    ]


def test_a_run_right_after_the_gap_still_finds_the_time_that_the_gap_left_out() -> None:
    just_after = datetime(2026, 3, 29, 1, 10, tzinfo=UTC)
    expected = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert Schedule.parse("30 2 * * *", BERLIN).next_after(just_after) == expected


@settings(max_examples=60)
@given(zone=ZONES, start=MOMENTS, minutes=st.sampled_from([1, 5, 10, 15, 30]))
def test_a_job_by_minutes_never_pauses_nor_hurries(
    zone: str, start: datetime, minutes: int
) -> None:
    found = runs(f"*/{minutes} * * * *", zone, start, start + timedelta(hours=5))
    steps = {later - earlier for earlier, later in itertools.pairwise(found)}
    assert steps == {timedelta(minutes=minutes)}


@settings(max_examples=60)
@given(zone=ZONES, start=MOMENTS, hour=st.integers(0, 23), minute=st.integers(0, 59))
def test_a_daily_job_runs_once_every_day(
    zone: str, start: datetime, hour: int, minute: int
) -> None:
    found = runs(f"{minute} {hour} * * *", zone, start, start + timedelta(days=8))
    days = [moment.astimezone(ZoneInfo(zone)).date() for moment in found]
    assert len(days) == len(set(days))
    assert len(days) in (7, 8, 9)
    assert all(b - a == timedelta(days=1) for a, b in itertools.pairwise(days))


@given(start=MOMENTS)
def test_the_next_run_lies_in_the_future_and_no_run_lies_between(start: datetime) -> None:
    schedule = Schedule.parse("7 */3 * * *", BERLIN)
    following = schedule.next_after(start)
    assert following > start
    halfway = start + (following - start) / 2
    assert schedule.next_after(halfway) == following


def test_seconds_come_first_and_days_must_both_match() -> None:
    start = datetime(2026, 11, 30, tzinfo=UTC)
    assert runs("*/20 * * * * *", "UTC", start, start + timedelta(minutes=1))[0].second == 20
    [friday_13th] = runs("0 0 13 * 5", "UTC", start, datetime(2027, 9, 1, tzinfo=UTC))
    assert friday_13th == datetime(2027, 8, 13, tzinfo=UTC)


def test_a_job_that_never_ran_is_due() -> None:
    schedule = Schedule.parse("0 0 1 1 *", "UTC")
    now = datetime(2026, 11, 30, tzinfo=UTC)
    assert schedule.is_due(None, now)
    assert not schedule.is_due(now - timedelta(days=1), now)
    assert schedule.is_due(now - timedelta(days=400), now)
    assert schedule.is_due(
        datetime(2025, 12, 31, 23, 59, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    )


@pytest.mark.parametrize(
    ("expression", "zone", "complaint"),
    [
        ("* * * *", "UTC", "4 fields"),
        ("* * * * * * *", "UTC", "7 fields"),
        ("61 * * * *", "UTC", "cron expression '61"),
        ("soon", "UTC", "1 fields"),
        ("0 0 30 2 *", "UTC", "cron expression '0 0 30 2"),
        ("* * * * *", "Mars/Olympus", "Europe/Berlin"),
        ("* * * * *", "../etc/passwd", "Europe/Berlin"),
        ("* * * * *", "", "Europe/Berlin"),
    ],
)
def test_what_cannot_be_read_is_named(expression: str, zone: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Schedule.parse(expression, zone)
