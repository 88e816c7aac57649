"""The small languages inside a mapping, checked when it is loaded.

Locales, time zones, date formats and regular expressions.
"""

import importlib
import re
from collections.abc import Iterator
from typing import Annotated, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator

#: Directives without any language in them, so that they mean the same on every machine.
DIRECTIVES = "YymdjHMSfz%"

#: The input format of ISO 8601, as databases and APIs write it.
ISO = "iso"


def _known_locale(name: str) -> str:
    from babel.core import Locale, UnknownLocaleError  # noqa: PLC0415 - heavy, and rarely used

    try:
        return str(Locale.parse(name.replace("-", "_")))
    except (UnknownLocaleError, ValueError):
        msg = f"locale {name!r} is unknown; write language and country, as de-DE"
        raise ValueError(msg) from None


def _known_zone(name: str) -> str:
    try:
        return ZoneInfo(name).key
    except (ZoneInfoNotFoundError, ValueError, OSError):
        msg = f"time zone {name!r} is unknown; write an IANA name, as Europe/Berlin"
        raise ValueError(msg) from None


def _date_format(text: str) -> str:
    found = re.findall("%(.?)", text)
    if unknown := [f"%{letter}" for letter in found if letter not in DIRECTIVES or not letter]:
        known = " ".join(f"%{letter}" for letter in DIRECTIVES)
        msg = f"format: {', '.join(unknown)} is not supported; there are {known}"
        raise ValueError(msg)
    parts = [letter for letter in found if letter != "%"]
    if len(set(parts)) < len(parts):
        msg = "format: a part of the date occurs twice"
        raise ValueError(msg)
    return text


def _input_format(text: str) -> str:
    if text == ISO:
        return text
    parts = set(re.findall("%(.)", _date_format(text)))
    if not parts & set("Yy") or not (parts >= set("md") or "j" in parts) or parts >= set("Yy"):
        msg = "format: to read a date it needs year (%Y or %y), month (%m) and day (%d)"
        raise ValueError(msg)
    return text


LocaleName = Annotated[str, AfterValidator(_known_locale)]
ZoneName = Annotated[str, AfterValidator(_known_zone)]
#: What a date is written by.
OutputFormat = Annotated[str, AfterValidator(_date_format)]
#: What a date is read by: `iso`, or a format that leaves no part of the date out.
InputFormat = Annotated[str, AfterValidator(_input_format)]


def check_pattern(pattern: str, replacement: str) -> None:
    """Raise ValueError where a regular expression is wrong, or could run for ever."""
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        msg = f"pattern: {error}"
        raise ValueError(msg) from None
    try:
        compiled.sub(replacement, "")
    except (re.error, IndexError) as error:
        msg = f"replacement: {error}"
        raise ValueError(msg) from None
    # The parser's public name is deprecated, its private one is stable since Python 3.11.
    if _may_explode(importlib.import_module("re._parser").parse(pattern), repeated=False):
        msg = (
            "pattern: a repetition that holds another repetition, or alternatives, may run for "
            "ever; make the outer one possessive, as (?:a+|b)++"
        )
        raise ValueError(msg)


def _may_explode(parsed: Any, *, repeated: bool) -> bool:  # noqa: ANN401 - the parser has no types
    """Tell whether a part that is repeated can itself match one text in several ways."""
    for opcode, argument in parsed:
        name = str(opcode)
        repeats = name in {"MAX_REPEAT", "MIN_REPEAT"}
        if repeated and (name == "BRANCH" or (repeats and argument[0] != argument[1])):
            return True
        inner = (repeated or (repeats and argument[1] > 1)) and name not in _NEVER_BACKTRACK
        if any(_may_explode(part, repeated=inner) for part in _parts(argument)):
            return True
    return False


_NEVER_BACKTRACK = {"POSSESSIVE_REPEAT", "ATOMIC_GROUP"}


def _parts(argument: Any) -> Iterator[Any]:  # noqa: ANN401 - the parser has no types
    """Yield the sub-patterns among an opcode's arguments."""
    if type(argument).__name__ == "SubPattern":
        yield argument
    elif isinstance(argument, (tuple, list)):
        for part in argument:
            yield from _parts(part)
