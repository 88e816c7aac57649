"""Runs a command that ends with its starter, however the starter ends.

`python -m devstack.tether [--user NAME] [--stop-signal NAME] -- COMMAND …`

The starter keeps the other end of our standard input open. When that pipe closes (because the
starter closed it, crashed or was killed), or when we are told to stop, the command gets the stop
signal, and SIGKILL after a grace time. The command runs in a process group of its own, so a Ctrl-C
in the terminal reaches only the starter, which then stops things in order.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType

_GRACE_SECONDS = 15


def main() -> int:
    """Return the command's exit status, 0 where it ended by our stop signal."""
    parser = argparse.ArgumentParser(prog="devstack.tether")
    parser.add_argument("--user", help="run the command as this user; needs root")
    parser.add_argument("--stop-signal", default="SIGTERM")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    return _run(options.command, options.user, signal.Signals[options.stop_signal])


def _run(command: list[str], user: str | None, stop_signal: signal.Signals) -> int:
    child = subprocess.Popen(  # noqa: S603 - the command is our starter's
        command,
        stdin=subprocess.DEVNULL,
        process_group=0,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    stopping = threading.Event()

    def stop(_signal: int | None = None, _frame: FrameType | None = None) -> None:
        stopping.set()
        if child.poll() is None:
            child.send_signal(stop_signal)
            threading.Timer(_GRACE_SECONDS, _kill_group, [child.pid]).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    threading.Thread(target=_when_abandoned, args=[stop], daemon=True).start()
    status = child.wait()
    _kill_group(child.pid)
    os._exit(0 if stopping.is_set() else status % 256)


def _when_abandoned(stop: Callable[[], None]) -> None:
    sys.stdin.buffer.read()
    stop()


def _kill_group(group: int) -> None:
    """End what the command started and left behind."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    sys.exit(main())
