"""App settings beside connections and schedules, which are read where they are used."""

import logging
import os
from collections.abc import Mapping
from datetime import timedelta

from delivery.errors import ConfigurationError

_LOGGER = logging.getLogger(__name__)

#: What the Functions worker uses where PYTHON_THREADPOOL_THREAD_COUNT is not set.
DEFAULT_THREADS = min(32, (os.cpu_count() or 1) + 4)

#: The specification's: DeliveryCount² · 1000 ms.
DEFAULT_BACKOFF_UNIT = timedelta(milliseconds=1_000)


def threads(environ: Mapping[str, str]) -> int:
    """Return how many functions run at once at most."""
    return _number(environ, "PYTHON_THREADPOOL_THREAD_COUNT", "threads", DEFAULT_THREADS)


def backoff_unit(environ: Mapping[str, str]) -> timedelta:
    """Return the unit of the squared backoff; smaller in tests and demonstrations."""
    millisecond = timedelta(milliseconds=1)
    usual = DEFAULT_BACKOFF_UNIT // millisecond
    return _number(environ, "SYNC_BACKOFF_UNIT_MS", "milliseconds", usual) * millisecond


def detects_durably(environ: Mapping[str, str]) -> bool:
    """Tell whether detection runs as a durable orchestration and not by the timer.

    What is neither is logged, and means the timer: detection must not stand for a slip of the pen.
    """
    text = environ.get("SYNC_DETECTION", "")
    mode = text.strip().lower()
    if mode not in ("", "timer", "durable"):
        _LOGGER.error(
            "the app setting SYNC_DETECTION is %r; set it to timer or durable; until then the "
            "timer detects",
            text,
        )
    return mode == "durable"


def _number(environ: Mapping[str, str], name: str, unit: str, default: int) -> int:
    text = environ.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and int(text)):
        msg = (
            f"the app setting {name} is {text!r}; write a whole number of {unit}, "
            f"or leave it out for {default}"
        )
        raise ConfigurationError(msg)
    return int(text)
