"""The watermark: how far a job has read its source, kept as the source's own text."""

from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum


class WatermarkType(StrEnum):
    """How two values of a cursor compare."""

    DATE = "date"
    DATETIME = "datetime"
    INTEGER = "integer"
    TEXT = "text"


_DEFAULTS = {
    WatermarkType.DATE: "0001-01-01",
    WatermarkType.DATETIME: "0001-01-01T00:00:00Z",
}

_TICKS_PER_SECOND = 10_000_000


@dataclass(frozen=True, slots=True)
class WatermarkValue:
    """A cursor value: the text as the source wrote it, compared by its type.

    Text, because Table storage's DateTime begins in 1601 and Python's datetime cuts the seventh
    fraction digit that .NET writes. An empty text means "from the beginning".
    """

    type: WatermarkType
    text: str

    @classmethod
    def initialize(cls, kind: WatermarkType, stored: str | None) -> "WatermarkValue":
        """Return the stored value, or the type's default where nothing is stored."""
        return cls(kind, stored or _DEFAULTS.get(kind, ""))

    def advance(self, change_tracker: str) -> "WatermarkValue":
        """Return the later of this value and `change_tracker`."""
        other = WatermarkValue(self.type, change_tracker)
        return other if other._order() > self._order() else self

    def _order(self) -> tuple[int, int | str]:
        if not self.text:
            return (0, 0)
        match self.type:
            case WatermarkType.DATE:
                return (1, date.fromisoformat(self.text).toordinal())
            case WatermarkType.DATETIME:
                return (1, _ticks(self.text))
            case WatermarkType.INTEGER:
                return (1, int(self.text))
            case WatermarkType.TEXT:
                return (1, self.text)


def _ticks(text: str) -> int:
    """Return 100-nanosecond ticks since year 1, UTC; a time without offset is UTC."""
    seconds_text, digits, zone = _split_fraction(text)
    moment = datetime.fromisoformat(seconds_text)
    offset = datetime.fromisoformat(f"2000-01-01T00:00:00{zone}").utcoffset() if zone else None
    # Subtract as integers: year 1 with a positive offset lies before what datetime can hold.
    since = moment.replace(tzinfo=UTC) - datetime(1, 1, 1, tzinfo=UTC)
    seconds = since.days * 86_400 + since.seconds
    if offset is not None:
        seconds -= offset.days * 86_400 + offset.seconds
    return seconds * _TICKS_PER_SECOND + int(f"{digits:0<7}"[:7])


def _split_fraction(text: str) -> tuple[str, str, str]:
    """Split an ISO 8601 time into whole seconds, fraction digits and zone."""
    head, zone = text, ""
    time_at = max(text.find("T"), text.find(" "))
    if text.endswith(("Z", "z")):
        head, zone = text[:-1], "+00:00"
    elif time_at > 0 and (sign := max(text.rfind("+"), text.rfind("-"))) > time_at:
        head, zone = text[:sign], text[sign:]
    seconds, _, digits = head.partition(".")
    return seconds, digits, zone
