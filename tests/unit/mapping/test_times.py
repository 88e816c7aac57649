"""ID13: every valid time is read as the instant that it is; zones and clock changes by rule."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.mapping.mappings import changed, refused, through_the_queue

BERLIN = "Europe/Berlin"

#: Days on which some zone changes its clocks, and the minutes around.
CHANGES = st.sampled_from(
    [datetime.fromisoformat(f"2026-{day}") for day in ("03-08", "03-29", "04-05", "10-04", "10-25")]
)
DAY = st.integers(-60, 24 * 60)


def at(text: str, **rule: Any) -> Any:
    return changed(text, {"datetime": rule})


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-11-30T12:00:00.1Z", datetime(2026, 11, 30, 12, 0, 0, 100_000, UTC)),
        ("2026-11-30T12:00:00.12-05:00", datetime(2026, 11, 30, 17, 0, 0, 120_000, UTC)),
        ("2026-11-30T12:00:00.1234567Z", datetime(2026, 11, 30, 12, 0, 0, 123_456, UTC)),
        ("2026-11-30T23:59:59.999999999Z", datetime(2026, 11, 30, 23, 59, 59, 999_999, UTC)),
        ("2026-11-30", datetime(2026, 11, 30, tzinfo=UTC)),
        ("2026-11-30 12:00", datetime(2026, 11, 30, 12, tzinfo=UTC)),
        ("2026-11-30t12:00:00z", datetime(2026, 11, 30, 12, tzinfo=UTC)),
        ("2026-11-30T12:00:00,5+0530", datetime(2026, 11, 30, 6, 30, 0, 500_000, UTC)),
        ("2026-11-30T12:00:00+01", datetime(2026, 11, 30, 11, tzinfo=UTC)),
        (" 0001-01-01T00:00:00Z ", datetime(1, 1, 1, tzinfo=UTC)),
    ],
)
def test_id13_iso_8601(text: str, instant: datetime) -> None:
    assert at(text) == instant


@given(
    moment=st.datetimes(timezones=st.just(UTC)).map(lambda m: m.replace(microsecond=0)),
    fraction=st.text(alphabet="0123456789", max_size=9),
    minutes=st.integers(-12 * 60, 14 * 60),
)
def test_id13_any_fraction_and_offset_is_the_same_instant(
    moment: datetime, fraction: str, minutes: int
) -> None:
    try:
        local = moment.astimezone(timezone(timedelta(minutes=minutes)))
    except OverflowError:
        return
    head, zone = local.isoformat()[:19], local.isoformat()[19:]
    micros = int(f"{fraction:0<6}"[:6])
    assert at(f"{head}{'.' if fraction else ''}{fraction}{zone}") - moment == timedelta(
        microseconds=micros
    )


@pytest.mark.parametrize(
    "text",
    [
        *("", "30.11.2026", "2026-11-31", "2026-13-01", "2026-11-30T24:00:00Z", "20261130"),
        *("2026-11-30T12:00:60Z", "2026-11-30T12", "2026-11-30x12:00:00", "2026-W01-1"),
        *("2026-11-30T12:00:00.1234567890Z", "2026-11-30T12:00:00.Z", "0000-01-01", "1" * 101),
        *("2026-11-30T12:00:00+25:00", "\u0662\u0660\u0662\u0666-11-30"),
    ],
)
def test_what_is_no_iso_8601_is_refused(text: str) -> None:
    assert "is no date as iso writes it" in refused(text, {"datetime": {}})


@pytest.mark.parametrize("value", [20261130, True, time(12), 1.5])
def test_what_is_neither_date_nor_text_is_refused(value: object) -> None:
    assert "is no date" in refused(value, {"datetime": {}})


def test_a_local_time_is_placed_in_its_zone_and_an_offset_wins() -> None:
    assert at("2026-07-01T12:00:00", zone=BERLIN) == datetime(2026, 7, 1, 10, tzinfo=UTC)
    assert at("2026-07-01T12:00:00Z", zone=BERLIN) == datetime(2026, 7, 1, 12, tzinfo=UTC)


def test_the_wanted_zone_decides_which_day_it_is() -> None:
    assert at("2026-11-30T23:30:00Z", to="date") == date(2026, 11, 30)
    assert at("2026-11-30T23:30:00Z", toZone=BERLIN, to="date") == date(2026, 12, 1)


@pytest.mark.parametrize("value", ["2026-11-30", date(2026, 11, 30)])
def test_a_day_without_a_time_is_the_same_day_in_every_zone(value: Any) -> None:
    zones = {"zone": BERLIN, "toZone": "America/New_York"}
    assert changed(value, {"datetime": {**zones, "to": "date"}}) == date(2026, 11, 30)
    text = changed(value, {"datetime": {**zones, "to": "text", "output": "%d.%m.%Y"}})
    assert text == "30.11.2026"


@pytest.mark.parametrize(
    ("rule", "hour"), [({}, 0), ({"ambiguous": "earlier"}, 0), ({"ambiguous": "later"}, 1)]
)
def test_a_time_that_was_twice_is_the_earlier_one_or_as_configured(
    rule: dict[str, str], hour: int
) -> None:
    instant = at("2026-10-25T02:30:00", zone=BERLIN, **rule)
    assert instant.astimezone(UTC) == datetime(2026, 10, 25, hour, 30, tzinfo=UTC)


def test_a_time_that_never_was_is_moved_by_what_the_clock_skipped() -> None:
    instant = at("2026-03-29T02:30:00", zone=BERLIN)
    assert instant.isoformat() == "2026-03-29T03:30:00+02:00"


def test_both_can_be_refused() -> None:
    rule = {"zone": BERLIN, "ambiguous": "refuse", "nonexistent": "refuse"}
    assert "was twice" in refused("2026-10-25T02:30:00", {"datetime": rule})
    assert "never was" in refused("2026-03-29T02:30:00", {"datetime": rule})
    assert at("2026-10-25T03:30:00", **rule).hour == 3


@given(
    moment=st.builds(lambda start, minutes: start + timedelta(minutes=minutes), CHANGES, DAY),
    zone=st.sampled_from([BERLIN, "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]),
    ambiguous=st.sampled_from(["earlier", "later"]),
)
def test_every_local_time_that_was_is_kept_by_the_clock(
    moment: datetime, zone: str, ambiguous: str
) -> None:
    instant = changed(moment, {"datetime": {"zone": zone, "ambiguous": ambiguous}})
    shown = instant.astimezone(UTC).astimezone(ZoneInfo(zone))
    local = moment.replace(tzinfo=ZoneInfo(zone))
    existed = local.astimezone(UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None) == moment
    assert shown.replace(tzinfo=None) == instant.replace(tzinfo=None)
    assert (shown.replace(tzinfo=None) == moment) is existed
    assert shown.replace(tzinfo=None) >= moment


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        ("%d.%m.%Y", "01.12.2026", datetime(2026, 12, 1, tzinfo=UTC)),
        ("%d.%m.%Y %H:%M", "1.12.2026 9:05", datetime(2026, 12, 1, 9, 5, tzinfo=UTC)),
        ("%Y%m%d", "20261201", datetime(2026, 12, 1, tzinfo=UTC)),
        ("%Y/%j", "2026/335", datetime(2026, 12, 1, tzinfo=UTC)),
        ("%d.%m.%y %H:%M:%S %z", "01.12.26 01:02:03 +0100", datetime(2026, 12, 1, 0, 2, 3, 0, UTC)),
    ],
)
def test_a_format_is_read(form: str, text: str, expected: datetime) -> None:
    assert at(text, input=[form]) == at(text, input=form) == expected


def test_formats_are_tried_in_their_order() -> None:
    assert at("01.02.2026", input=["iso", "%d.%m.%Y", "%m.%d.%Y"], to="date") == date(2026, 2, 1)
    message = refused("x", {"datetime": {"input": ["iso", "%d.%m.%Y"]}})
    assert "is no date as iso or %d.%m.%Y writes it" in message


def test_a_text_is_written_as_its_format_says() -> None:
    form = "{%d.%m.%Y} %H:%M:%S.%f %y %j %z 100%%"
    text = changed(
        datetime(987, 6, 5, 4, 3, 2, 1, UTC), {"datetime": {"to": "text", "output": form}}
    )
    assert text == "{05.06.0987} 04:03:02.000001 87 156 +0000 100%"


@given(moment=st.datetimes(timezones=st.just(UTC)))
def test_what_a_format_writes_it_reads_back(moment: datetime) -> None:
    form = "%d.%m.%Y %H:%M:%S.%f%z"
    text = changed(moment, {"datetime": {"to": "text", "output": form}})
    assert at(text, input=[form]) == moment


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_an_instant_that_the_wanted_zone_cannot_show_is_refused(moment: str) -> None:
    zone = "America/New_York" if moment.startswith("0001") else "Asia/Tokyo"
    assert "outside of the years 1 to 9999" in refused(moment, {"datetime": {"toZone": zone}})


@given(moment=st.datetimes().map(lambda local: local.replace(year=1880)))
def test_an_old_offset_with_seconds_survives_the_queue(moment: datetime) -> None:
    instant = changed(moment, {"datetime": {"zone": BERLIN}})
    [sent] = through_the_queue({"x": instant}).values()
    assert datetime.fromisoformat(sent) == instant
