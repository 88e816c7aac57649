"""One log line an event: what happened, to which record, in words that queries can rely on.

    action=failed queue=sbqnormal job=customers-to-erp key=D000003 attempt=2: RejectedError: …

A name with blanks, quotes or control characters stands as a JSON string. Payloads and secrets have
no place here: the text behind the colon is an error of ours, whose message holds none.
"""

import json
import logging
import re
import traceback
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from delivery.errors import DeliveryError


class Action(StrEnum):
    """What happened. These words are stable: people's alarms look for them."""

    #: Of a message.
    PROCESSED = "processed"
    IGNORED = "ignored"
    TRANSITIVE = "transitive"
    POSTPONED = "postponed"
    FAILED = "failed"
    LOCK_LOST = "lock-lost"
    LOCK_NOT_RENEWED = "lock-not-renewed"
    DEAD_LETTERED = "dead-lettered"
    NOT_SETTLED = "not-settled"
    TYPES_LOST = "types-lost"
    #: Of a job.
    DETECTED = "detected"
    RUN_FAILED = "run-failed"
    RUN_SKIPPED = "run-skipped"
    WATERMARK_AHEAD = "watermark-ahead"
    BOUNDARY_LOST = "boundary-lost"


#: A source key may be any text, and a line has its limits.
_LONGEST: Final = 200

_LONGEST_TEXT: Final = 4_000

#: Enough to find the way from our code to where it broke.
_FRAMES: Final = 6

_PLAIN: Final = re.compile(r"[\w.|/@+-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whom an event is about; what does not apply is left out of the line."""

    queue: str = ""
    job: str = ""
    source_key: str = ""
    attempt: int = 0

    def __str__(self) -> str:
        """Return the fields as they stand in the line."""
        fields = {
            "queue": self.queue,
            "job": self.job,
            "key": self.source_key,
            "attempt": str(self.attempt or ""),
        }
        return " ".join(f"{name}={_shown(value)}" for name, value in fields.items() if value)


def log_event(
    logger: logging.Logger, level: int, action: Action, subject: Subject, text: str = ""
) -> None:
    """Write the line of one event."""
    if logger.isEnabledFor(level):
        # An error's text may have several lines, and an event is one.
        event = f"action={action.value} {subject}".rstrip()
        more = f": {' '.join(text.split())[:_LONGEST_TEXT]}" if text else ""
        logger.log(level, "%s%s", event, more)


def told(error: Exception) -> str:
    """Return what may be said of an error: one of ours in full, of others type and place.

    Their texts may quote a record, or an address with a secret in it.
    """
    name = type(error).__name__
    if isinstance(error, DeliveryError):
        return f"{name}: {error}"
    return f"{name} {place_of(error)}"


def place_of(error: Exception) -> str:
    """Return where in the code an error was raised, and by which way."""
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    places = (f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)
    return f"in {' > '.join(places)}"


def _shown(value: str) -> str:
    value = value[:_LONGEST]
    return value if _PLAIN.fullmatch(value) else json.dumps(value)
