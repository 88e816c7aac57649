"""One server of the local stack as a process: start, wait until it is ready, kill, stop."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent

_POLL_SECONDS = 0.02


class StackError(Exception):
    """A server could not be started, or ended by itself; the text says which, and where to look."""


@dataclass
class Server:
    """A command that runs until it is told to stop; its output goes to `log`.

    `environment` is added to ours. A server that is started again appends to its log.
    """

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    stop_signal: str = "SIGTERM"
    _tether: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start without waiting for readiness."""
        options = ["--stop-signal", self.stop_signal]
        if self.user is not None:
            options += ["--user", self.user]
        with self.log.open("ab") as log:
            self._tether = subprocess.Popen(  # noqa: S603 - commands of our own
                [sys.executable, "-m", "devstack.tether", *options, "--", *self.command],
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                process_group=0,
            )

    def wait_until[T](self, probe: Callable[[], T | None], seconds: float = 30) -> T:
        """Return what `probe` answers first; raise StackError where the server ends or is late."""
        end = time.monotonic() + seconds
        while (answer := probe()) is None:
            if not self.is_running():
                raise StackError(self._obituary("ended before it was ready"))
            if time.monotonic() > end:
                raise StackError(self._obituary(f"was not ready after {seconds:.0f} s"))
            time.sleep(_POLL_SECONDS)
        return answer

    def is_running(self) -> bool:
        """Tell whether the command still runs."""
        return self._tether is not None and self._tether.poll() is None

    def stop(self) -> None:
        """End it in order and wait; a server that was not started or has ended is fine."""
        if self._tether is None:
            return
        if self._tether.stdin is not None:
            self._tether.stdin.close()
        self._tether.wait()
        self._tether = None

    def kill(self) -> None:
        """End the command at once, as a crash would, and wait."""
        if self._tether is not None:
            for child in psutil.Process(self._tether.pid).children():
                child.kill()
            self.wait_for_end()

    def wait_for_end(self, seconds: float = 30) -> int:
        """Wait for a server that ends without `stop`, and return its exit status."""
        if self._tether is None:
            msg = f"{self.name} does not run"
            raise StackError(msg)
        status = self._tether.wait(seconds)
        self.stop()
        return status

    def _obituary(self, what: str) -> str:
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
        return f"{self.name} {what}; its last words in {self.log}: " + " | ".join(lines)


class Service:
    """What has one server, once it was started."""

    _server: Server | None = None

    def is_running(self) -> bool:
        """Tell whether the server runs."""
        return self._server is not None and self._server.is_running()

    def kill(self) -> None:
        """End the server as a crash would; its data stays, as far as it was written."""
        if self._server is not None:
            self._server.kill()

    def stop(self) -> None:
        """Stop the server; its data stays."""
        if self._server is not None:
            self._server.stop()


def kill(pid: int) -> None:
    """End a process at once, as a crash would."""
    os.kill(pid, signal.SIGKILL)
