"""What an operator types as a watermark, checked against the job that will read it."""

from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

from models.job import Job
from models.watermark import WatermarkType, WatermarkValue

_WORDS = ("now", "today")


def to_watermark(text: str, job: Job | None, now: datetime) -> str:
    """Return the text to store; raise ValueError, which says what is wrong.

    `now` and `today` are taken for dates and times, `today` as it begins in the job's time zone.
    Without a job nothing but the words can be checked.
    """
    text = text.strip()
    if not text:
        msg = "a watermark is not empty; `watermarks reset` starts over"
        raise ValueError(msg)
    kind = _kind_of(job, text)
    if text.lower() in _WORDS:
        return _from_word(text.lower(), job, kind, now)
    if kind is WatermarkType.DATE:
        return _parsed_date(text).isoformat()
    if kind is WatermarkType.DATETIME:
        _check_datetime(text)
    if kind is WatermarkType.INTEGER:
        return _canonical_integer(text)
    return text


def is_ahead(watermark: str, job: Job, now: datetime) -> bool:
    """Tell whether a watermark of a date or a time lies in the future."""
    kind = _kind_of(job, watermark)
    if kind not in {WatermarkType.DATE, WatermarkType.DATETIME}:
        return False
    today = _from_word("now", job, kind, now)
    return WatermarkValue(kind, watermark).is_after(WatermarkValue(kind, today))


def _kind_of(job: Job | None, text: str) -> WatermarkType:
    if job is None:
        return WatermarkType.UNKNOWN
    return WatermarkValue.initialize(job.cursor.type, text).type


def _from_word(word: str, job: Job | None, kind: WatermarkType, now: datetime) -> str:
    if job is None or kind not in {WatermarkType.DATE, WatermarkType.DATETIME}:
        msg = f"{word!r} is for watermarks of type date or datetime; write the value itself"
        raise ValueError(msg)
    zone = ZoneInfo(job.time_zone)
    today = now.astimezone(zone).date()
    if kind is WatermarkType.DATE:
        return today.isoformat()
    moment = now if word == "now" else datetime.combine(today, time(), zone)
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def _parsed_date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        msg = f"{text!r} is no date; write it as 2026-11-30, or `today`"
        raise ValueError(msg) from None


def _check_datetime(text: str) -> None:
    try:
        # The app compares the first way, and a source reads it the second way.
        _ = WatermarkValue(WatermarkType.DATETIME, text).order, datetime.fromisoformat(text)
    except ValueError:
        msg = f"{text!r} is no time; write it as 2026-11-30T12:00:00Z, or `now`, or `today`"
        raise ValueError(msg) from None


def _canonical_integer(text: str) -> str:
    try:
        return str(int(text))
    except ValueError:
        msg = f"{text!r} is no whole number"
        raise ValueError(msg) from None
