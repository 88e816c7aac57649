"""Says that the durable file cannot be used, once, and that it can be again."""

import logging
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

_LOG = logging.getLogger("functions_host.durable")

#: On a disk that is nearly full small writes succeed between large ones that do not.
_QUIET_SECONDS = 60.0


class Trouble:
    """Whether the file can be used at present, as far as is known."""

    def __init__(self, file: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._file = file
        self._clock = clock
        self._is_said = False
        self._quiet_until = float("-inf")

    def met(self, error: sqlite3.Error) -> str:
        """Log what to do, unless that was done for this trouble already, and return it."""
        text = (
            f"{self._file}: cannot be used ({error}); make room on its disk. Durable functions "
            "wait until then, and go on by themselves."
        )
        if not self._is_said and self._clock() >= self._quiet_until:
            self._is_said = True
            self._quiet_until = self._clock() + _QUIET_SECONDS
            _LOG.error("%s", text)
        return text

    def over(self) -> None:
        """Take note that something was written."""
        if self._is_said:
            self._is_said = False
            _LOG.warning("%s: can be written again; durable functions go on", self._file)
