"""The worker: a process that runs function code and nothing else.

It speaks `frames` over a socket that it inherited. When that socket closes, the host is gone or
wants this worker gone, and the process ends at once, whatever its functions are doing.
"""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any

from devstack.functions_host import worker_library
from devstack.functions_host.frames import Decoder, Frame, Kind, Outbox, encodable, encode

_READ_SIZE = 1 << 18


class _LogForwarder(logging.Handler):
    """Sends the app's log records to the host, with the invocation that they belong to."""

    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self._outbox = outbox

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == worker_library.LIBRARY_LOGGER:
            return
        header = {
            "level": record.levelno,
            "logger": encodable(record.name),
            "text": encodable(self.format(record)),
            "invocation": worker_library.invocation_id.get(),
        }
        self._outbox.send([encode(Kind.LOG, header)])


class _Worker:
    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._outbox = Outbox(connection)
        self._loop = asyncio.new_event_loop()

    def run(self, app: Path, level: int) -> None:
        """Index the app, say what was found, then serve until the process is ended."""
        logging.basicConfig(
            level=level, handlers=[_LogForwarder(self._outbox)], format="%(message)s"
        )
        # Reading begins before the import: an app that hangs there must not outlive the host.
        threading.Thread(target=self._read, daemon=True).start()
        asyncio.set_event_loop(self._loop)
        try:
            functions = self._loop.run_until_complete(worker_library.index(app))
        except worker_library.IndexingError as error:
            refusal = {"error": encodable(str(error)), "trace": encodable(error.trace)}
            self._outbox.send([encode(Kind.REFUSED, refusal)])
        else:
            self._outbox.send([encode(Kind.INDEXED, {"functions": functions})])
        self._loop.run_forever()

    def _read(self) -> None:
        decoder = Decoder()
        try:
            while data := self._connection.recv(_READ_SIZE):
                for frame in decoder.feed(data):
                    self._start(frame)
        finally:
            # Closed or reset: a host that is killed while it had something to read resets. The
            # whole group goes, so that nothing which a function started stays behind.
            os.killpg(os.getpgid(0), signal.SIGKILL)

    def _start(self, frame: Frame) -> None:
        call = worker_library.Call(frame.header, frame.body)
        worker_library.start(call, self._loop, self._reply)

    def _reply(self, header: dict[str, Any], body: bytes) -> None:
        worker_library.flush()
        self._outbox.send([encode(Kind.RESULT, header, body)])


def main(descriptor: str, app: str, level: str) -> None:
    """Run the worker of the app in folder `app` over the socket with that file descriptor."""
    # The app sees its own folder and the installed packages, not where the host comes from.
    sys.path[0] = app
    _Worker(socket.socket(fileno=int(descriptor))).run(Path(app), int(level))
