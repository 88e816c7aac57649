"""The campaign's clock and proxy do what it relies on."""

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from soak.clock import Clock
from soak.proxy import Proxy

pytestmark = pytest.mark.integration

#: Answers each line with both clocks and what a wait of 50 ms took.
_TELL = """
import datetime, sys, threading, time
for _ in sys.stdin:
    began = time.monotonic()
    threading.Event().wait(0.05)
    waited = time.monotonic() - began
    print(datetime.datetime.now().timestamp(), time.time(), time.monotonic(), waited, flush=True)
"""


def test_a_wall_clock_jumps_for_its_processes_and_their_monotonic_clock_does_not(
    tmp_path: Path,
) -> None:
    clock = Clock(tmp_path, "app")
    if clock.reason:
        pytest.skip(clock.reason)
    environment = {**os.environ, **clock.environment}
    with subprocess.Popen(
        [sys.executable, "-c", _TELL],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as teller:
        assert teller.stdin is not None
        assert teller.stdout is not None
        for offset in (0, 3600, -90.5):
            clock.set(timedelta(seconds=offset))
            teller.stdin.write("\n")
            teller.stdin.flush()
            told = [float(text) for text in teller.stdout.readline().split()]
            assert told[0] - time.time() == pytest.approx(offset, abs=10)
            assert told[1] - told[0] == pytest.approx(0, abs=10)
            assert told[2] == pytest.approx(time.monotonic(), abs=10)
            assert 0.05 <= told[3] < 10
        teller.stdin.close()


@pytest.fixture
def echo() -> int:
    """A server that sends back what it gets; return its port."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=repeat, args=[connection], daemon=True).start()

    def repeat(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while data := connection.recv(100):
                connection.sendall(data)

    threading.Thread(target=serve, daemon=True).start()
    return int(server.getsockname()[1])


def test_a_proxy_hands_on_hangs_cuts_refuses_and_takes_up_again(echo: int) -> None:
    with Proxy(echo) as proxy:
        address = ("127.0.0.1", proxy.port)
        with socket.create_connection(address, timeout=30) as connection:
            connection.sendall(b"one")
            assert connection.recv(100) == b"one"
            proxy.hang()
            connection.sendall(b"two")
            connection.settimeout(0.1)
            with pytest.raises(TimeoutError):
                connection.recv(100)
            connection.settimeout(30)
            proxy.flow()
            assert connection.recv(100) == b"two"
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                connection.recv(100)
        proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=30)
        proxy.accept()
        with socket.create_connection(address, timeout=30) as connection:
            connection.sendall(b"three")
            assert connection.recv(100) == b"three"
