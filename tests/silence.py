"""A server that takes connections and never says a word."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE_SECONDS = 10


@contextmanager
def silence() -> Iterator[int]:
    """Yield the port; at the end close all connections and wait for the threads that had them."""
    before = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        kept: list[socket.socket] = []

        def accept() -> None:
            try:
                while True:
                    kept.append(server.accept()[0])
            except OSError:
                return

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        for connection in kept:
            connection.close()
    for thread in set(threading.enumerate()) - before:
        thread.join(_PATIENCE_SECONDS)
