"""The way that .NET writes a duration, which is how Azure's settings write it."""

import re
from datetime import timedelta

_TIME_SPAN = re.compile(
    r"(?:(?P<days>\d+)\.)?(?P<hours>\d{1,2}):(?P<minutes>\d{1,2})"
    r"(?::(?P<seconds>\d{1,2}(?:\.\d{1,7})?))?"
)
_HOURS_A_DAY = 24
_SIXTY = 60
#: .NET's TimeSpan ends here.
_MOST_DAYS = 10_675_199
_MOST_DIGITS = 20


def parse_time_span(text: str) -> timedelta:
    """Return the duration that `[d.]hh:mm[:ss[.fffffff]]` means, or raise ValueError."""
    match = _TIME_SPAN.fullmatch(text)
    if match is None:
        msg = f"'{text}' is not a TimeSpan (hh:mm:ss)"
        raise ValueError(msg)
    hours, minutes = int(match["hours"]), int(match["minutes"])
    seconds = float(match["seconds"] or 0)
    if hours >= _HOURS_A_DAY or minutes >= _SIXTY or seconds >= _SIXTY:
        msg = f"'{text}' is not a TimeSpan: hours go to 23, minutes and seconds to 59"
        raise ValueError(msg)
    days = match["days"] or "0"
    if len(days) > _MOST_DIGITS or int(days) >= _MOST_DAYS:
        msg = f"a TimeSpan ends before {_MOST_DAYS} days"
        raise ValueError(msg)
    return timedelta(days=int(days), hours=hours, minutes=minutes, seconds=seconds)
