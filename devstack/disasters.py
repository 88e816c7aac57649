"""Ends the servers of a stack as no one asks for, and waits for what follows."""

import contextlib
import time
from collections.abc import Callable

from devstack.processes import StackError, kill
from devstack.stack import Stack

_POLL_SECONDS = 0.05


def kill_emulator(stack: Stack) -> None:
    """Kill the Service Bus emulator and start it again."""
    kill(int(stack.service_bus.facts()["pid"]))
    stack.service_bus.wait_for_end()
    stack.service_bus.start()


def kill_worker(stack: Stack) -> None:
    """Kill the worker and wait until the host has another one."""
    before = stack.host.facts()["worker_pid"]
    with contextlib.suppress(ProcessLookupError):  # the host may have ended it just now
        kill(int(before))
    wait_for(lambda: stack.host.facts()["worker_pid"] != before, seconds=60)


def kill_host(stack: Stack) -> None:
    """Kill the Functions host, and its worker with it, and start it again."""
    kill(int(stack.host.facts()["pid"]))
    stack.host.wait_for_end()
    stack.host.start()


def wait_for[T](probe: Callable[[], T | None], seconds: float = 30) -> T:
    """Return the first answer that is one: neither None, nor false, nor empty."""
    end = time.monotonic() + seconds
    while not (answer := probe()):
        if time.monotonic() > end:
            msg = f"nothing within {seconds} s"
            raise StackError(msg)
        time.sleep(_POLL_SECONDS)
    return answer
