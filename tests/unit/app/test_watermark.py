from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.watermark import WatermarkType, WatermarkValue

OFFSETS = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
TIMES = st.datetimes(min_value=datetime(2, 1, 1), max_value=datetime(9998, 1, 1), timezones=OFFSETS)  # noqa: DTZ001 - hypothesis wants naive bounds


def _datetime(text: str) -> WatermarkValue:
    return WatermarkValue(WatermarkType.DATETIME, text)


@given(earlier=TIMES, later=TIMES)
def test_advancing_never_goes_back_whatever_the_offsets(earlier: datetime, later: datetime) -> None:
    earlier, later = sorted((earlier, later))
    assert _datetime(later.isoformat()).advance(earlier.isoformat()).text == later.isoformat()
    advanced = _datetime(earlier.isoformat()).advance(later.isoformat()).text
    assert datetime.fromisoformat(advanced) == later


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("2026-01-01T00:00:48.3386171Z", "2026-01-01T00:00:48.3386179Z"),
        ("2026-01-01T00:00:00.1Z", "2026-01-01T00:00:00.12Z"),
        ("2026-01-01T00:00:00.12+05:00", "2026-01-01T00:00:00.1Z"),
        ("0001-01-01T00:00:00+02:00", "0001-01-01T00:00:00Z"),
        ("2026-01-01", "2026-01-01T00:00:00.0000001Z"),
        ("2026-01-01 08:00:00", "2026-01-01T08:00:01"),
    ],
)
def test_seven_digits_offsets_and_year_one_compare_as_instants(earlier: str, later: str) -> None:
    assert _datetime(earlier).advance(later).text == later
    assert _datetime(later).advance(earlier).text == later


def test_the_text_of_the_source_is_kept_digit_by_digit() -> None:
    text = "2026-11-30T08:15:48.3386171Z"
    assert _datetime("").advance(text).text == text


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        (WatermarkType.DATE, "0001-01-01"),
        (WatermarkType.DATETIME, "0001-01-01T00:00:00Z"),
        (WatermarkType.INTEGER, ""),
        (WatermarkType.TEXT, ""),
    ],
)
@pytest.mark.parametrize("stored", [None, ""])
def test_nothing_stored_means_the_default_of_the_type(
    kind: WatermarkType, default: str, stored: str | None
) -> None:
    assert WatermarkValue.initialize(kind, stored).text == default


@given(values=st.lists(st.integers(), min_size=1))
def test_integers_compare_as_numbers(values: list[int]) -> None:
    watermark = WatermarkValue(WatermarkType.INTEGER, "")
    for value in values:
        watermark = watermark.advance(str(value))
    assert int(watermark.text) == max(values)


def test_dates_and_texts_advance_in_their_order() -> None:
    date = WatermarkValue(WatermarkType.DATE, "0999-12-31")
    assert date.advance("1000-01-01").text == "1000-01-01"
    text = WatermarkValue(WatermarkType.TEXT, "a")
    assert text.advance("b").advance("a").text == "b"


def test_a_time_without_offset_is_utc() -> None:
    naive = datetime(2026, 1, 1, 12, tzinfo=UTC).replace(tzinfo=None).isoformat()
    assert _datetime(naive).advance("2026-01-01T12:30:00+01:00").text == naive
