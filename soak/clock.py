"""Wall clocks that jump, of processes that are started for it: `clock.c` as a library, on Linux."""

import mmap
import os
import shutil
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

_SOURCE = Path(__file__).with_name("clock.c")
_BYTES = 8


class Clock:
    """The wall clock of all processes that have `environment`; the monotonic clock is untouched.

    Where the system knows no LD_PRELOAD, `reason` says so, and the clock stays the system's.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.reason = _why_not()
        self.environment: dict[str, str] = {}
        self.offset = timedelta()
        if self.reason:
            return
        file = folder / f"{name}.clock"
        file.write_bytes(bytes(_BYTES))
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), _BYTES)
        self.environment = {"LD_PRELOAD": str(_library(folder)), "SOAK_CLOCK": str(file)}

    def set(self, offset: timedelta) -> None:
        """Let the processes' clocks be ahead of ours by `offset` from now on, in one step."""
        nanoseconds = offset // timedelta(microseconds=1) * 1000
        self._shared[:] = nanoseconds.to_bytes(_BYTES, sys.byteorder, signed=True)
        self.offset = offset


def _why_not() -> str | None:
    if sys.platform != "linux":
        return f"clocks are shifted by LD_PRELOAD, which {sys.platform} does not have"
    return None if _compiler() else "clocks are shifted by a library, and there is no C compiler"


def _compiler() -> str | None:
    return shutil.which("cc") or shutil.which("gcc")


def _library(folder: Path) -> Path:
    """Compile the library, once for a folder."""
    library = folder / "clock.so"
    if not library.exists():
        command = [_compiler() or "cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror"]
        subprocess.run(  # noqa: S603 - the compiler and a source of our own
            [*command, "-o", str(library), str(_SOURCE), "-ldl"],
            check=True,
            env=dict(os.environ),
        )
    return library
