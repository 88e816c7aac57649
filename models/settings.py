"""App settings that are numbers; connections and schedules are read where they are used."""

from collections.abc import Mapping
from datetime import timedelta

from delivery.errors import ConfigurationError

#: What the Functions worker uses at most where PYTHON_THREADPOOL_THREAD_COUNT is not set.
_DEFAULT_THREADS = 32

#: The specification's: DeliveryCount² · 1000 ms.
_DEFAULT_UNIT_MILLISECONDS = 1_000


def threads(environ: Mapping[str, str]) -> int:
    """Return how many functions run at once at most."""
    return _number(environ, "PYTHON_THREADPOOL_THREAD_COUNT", "threads", _DEFAULT_THREADS)


def backoff_unit(environ: Mapping[str, str]) -> timedelta:
    """Return the unit of the squared backoff; smaller in tests and demonstrations."""
    name = "SYNC_BACKOFF_UNIT_MS"
    return timedelta(
        milliseconds=_number(environ, name, "milliseconds", _DEFAULT_UNIT_MILLISECONDS)
    )


def _number(environ: Mapping[str, str], name: str, unit: str, default: int) -> int:
    text = environ.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and int(text)):
        msg = (
            f"the app setting {name} is {text!r}; write a whole number of {unit}, "
            f"or leave it out for {default}"
        )
        raise ConfigurationError(msg)
    return int(text)
