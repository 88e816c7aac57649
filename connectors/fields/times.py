"""Dates and times. What a text says beyond microseconds is cut off, never rounded."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from zoneinfo import ZoneInfo

from connectors.fields.errors import Refusal
from connectors.fields.steps import Convert
from models.formats import ISO
from models.operation_rules import DateTimeRule

type _Parse = Callable[[str], date | None]
type _Place = Callable[[datetime], datetime]

_ISO = re.compile(
    r"\d{4}-\d{2}-\d{2}"
    r"(?:[T ](?:[01]\d|2[0-3]):\d{2}(?::\d{2}(?:[.,]\d{1,9})?)?(?:Z|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII | re.IGNORECASE,
)
_MAX_TEXT = 100

_OUTPUT = {
    "%Y": "{0.year:04}",
    "%m": "{0.month:02}",
    "%d": "{0.day:02}",
    "%H": "{0.hour:02}",
    "%M": "{0.minute:02}",
    "%S": "{0.second:02}",
    "%f": "{0.microsecond:06}",
    "%y": "{0:%y}",
    "%j": "{0:%j}",
    "%z": "{0:%z}",
    "%%": "%",
}


def read_datetime(rule: DateTimeRule) -> Convert:
    """Return what reads, places in a zone, and gives out in the wanted form."""
    read, place, give = _reader(rule.input), _placer(rule), _giver(rule)
    zone = ZoneInfo(rule.zone)

    def convert(value: object) -> object:
        moment = read(value)
        try:
            if isinstance(moment, datetime):
                return give(place(moment))
            # A day without a time is the same day in every zone, until it becomes a time.
            midnight = datetime.combine(moment, time())
            return give(place(midnight) if rule.to == "datetime" else midnight.replace(tzinfo=zone))
        except OverflowError:
            msg = "lies outside of the years 1 to 9999 in the wanted zone; correct the source"
            raise Refusal(msg) from None

    return convert


def _reader(formats: tuple[str, ...]) -> Callable[[object], date]:
    parses = [_iso if form == ISO else _by_format(form) for form in formats]

    def read(value: object) -> date:
        if isinstance(value, date):  # a datetime is a date
            return value
        if isinstance(value, str) and len(text := value.strip()) <= _MAX_TEXT:
            for parse in parses:
                if (moment := parse(text)) is not None:
                    return moment
        msg = f"is no date as {' or '.join(formats)} writes it; correct the source or the operation"
        raise Refusal(msg)

    return read


def _iso(text: str) -> date | None:
    if not _ISO.fullmatch(text):
        return None
    try:
        return datetime.fromisoformat(text.upper()) if ":" in text else date.fromisoformat(text)
    except ValueError:
        return None


def _by_format(form: str) -> _Parse:
    has_time = re.search("%[HMSf]", form) is not None

    def parse(text: str) -> date | None:
        try:
            moment = datetime.strptime(text, form)  # noqa: DTZ007 - the zone is placed afterwards
        except ValueError:
            return None
        return moment if has_time else moment.date()

    return parse


def _placer(rule: DateTimeRule) -> _Place:
    """Return what gives a local time its offset, and then changes to the wanted zone."""
    zone = ZoneInfo(rule.zone)
    to_zone = ZoneInfo(rule.to_zone) if rule.to_zone else None

    def place(moment: datetime) -> datetime:
        if moment.tzinfo is None:
            moment = _localised(moment, zone, rule)
        return moment if to_zone is None else moment.astimezone(to_zone)

    return place


def _localised(moment: datetime, zone: ZoneInfo, rule: DateTimeRule) -> datetime:
    """Attach the zone; where clocks were changed, by the two rules."""
    earlier = moment.replace(tzinfo=zone, fold=0)
    later = moment.replace(tzinfo=zone, fold=1)
    before, after = earlier.utcoffset(), later.utcoffset()
    if before == after or before is None or after is None:
        return earlier
    if before < after:  # skipped: the clock went forward over it
        if rule.nonexistent == "refuse":
            msg = f"never was a time in {rule.zone}; set `nonexistent: shift`"
            raise Refusal(msg)
        return earlier.astimezone(UTC).astimezone(zone)
    if rule.ambiguous == "refuse":
        msg = f"was twice a time in {rule.zone}; set `ambiguous: earlier` or `later`"
        raise Refusal(msg)
    return earlier if rule.ambiguous == "earlier" else later


def _giver(rule: DateTimeRule) -> Callable[[datetime], object]:
    match rule.to:
        case "datetime":
            return lambda moment: moment
        case "date":
            return datetime.date
        case "text":
            return _template(rule.output or "").format


def _template(form: str) -> str:
    """Return the format as one of `str.format`, which is the same on every platform."""
    pieces = re.split("(%.)", form)
    return "".join(
        _OUTPUT.get(piece) or piece.replace("{", "{{").replace("}", "}}") for piece in pieces
    )
