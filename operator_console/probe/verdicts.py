"""What is assumed, and what came out."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from operator_console.probe.scene import Scene


class Verdict(StrEnum):
    """What came out, in the words that are printed."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    NOT_TESTED = "not tested"


@dataclass(frozen=True, slots=True)
class Assumption:
    """Something about the platform that we cannot change and rely on.

    `id` never changes once shipped. `test` returns a sentence of what was seen where it holds,
    raises RefutedError where it does not and UntestedError where that cannot be said.
    """

    id: str
    sentence: str
    #: What in Gleichlauf would be wrong otherwise.
    rests_on_it: str
    #: The page below docs/, with its section.
    where: str
    test: "Callable[[Scene], str]"


@dataclass(frozen=True, slots=True)
class Finding:
    """One assumption, and what came out; `failed` where the connection was the reason."""

    assumption: Assumption
    verdict: Verdict
    seen: str
    failed: bool = False


class RefutedError(Exception):
    """The platform does something else; the text says what was seen."""


class UntestedError(Exception):
    """Nothing can be said; the text says why."""


def expect(condition: object, seen: str) -> None:
    """Raise RefutedError with what was seen unless `condition` is true."""
    if not condition:
        raise RefutedError(seen)


def spoken(duration: timedelta) -> str:
    """Return a duration as people say it."""
    if duration > _DAY:
        return f"{duration / _DAY:g} days"
    return f"{duration / _MINUTE:g} minutes" if duration > _MINUTE else f"{duration / _SECOND:g} s"


_SECOND, _MINUTE, _DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
