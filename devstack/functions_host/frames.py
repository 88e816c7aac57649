"""The wire between host and worker: length-prefixed frames over one stream socket.

A frame is a small JSON header and a raw body, so that a message's bytes are copied but never
encoded. Either side sends through an `Outbox`, which joins what waits into one system call.
"""

import enum
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import orjson

#: Kind, length of the header, length of the body.
_PREFIX = struct.Struct("!BII")


class Kind(enum.IntEnum):
    """What a frame says."""

    INVOKE = 1
    RESULT = 2
    LOG = 3
    INDEXED = 4
    REFUSED = 5


class Frame(NamedTuple):
    """One message of the wire."""

    kind: Kind
    header: dict[str, Any]
    body: bytes


def encode(kind: Kind, header: dict[str, Any], body: bytes = b"") -> bytes:
    """Return the frame's bytes."""
    head = orjson.dumps(header)
    return b"".join((_PREFIX.pack(kind, len(head), len(body)), head, body))


def encodable(text: str) -> str:
    """Return `text` with what UTF-8 cannot say (lone surrogates) replaced by question marks."""
    return text.encode("utf-8", "replace").decode()


class Decoder:
    """Frames from a stream that arrives in pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take `data` in and yield every frame that is complete by now."""
        self._buffer += data
        start = 0
        while (end := self._end_of_frame(start)) is not None:
            kind, head_length, _ = _PREFIX.unpack_from(self._buffer, start)
            head_start = start + _PREFIX.size
            body_start = head_start + head_length
            header = orjson.loads(bytes(self._buffer[head_start:body_start]))
            yield Frame(Kind(kind), header, bytes(self._buffer[body_start:end]))
            start = end
        del self._buffer[:start]

    def _end_of_frame(self, start: int) -> int | None:
        if len(self._buffer) - start < _PREFIX.size:
            return None
        _, head_length, body_length = _PREFIX.unpack_from(self._buffer, start)
        end: int = start + _PREFIX.size + head_length + body_length
        return end if end <= len(self._buffer) else None


class Outbox:
    """Sends frames of many threads over one socket, each in one piece.

    Whoever finds the socket free sends everything that waits; the others only leave their frames
    and go on. So a burst costs one system call, and no thread exists for sending alone.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._lock = threading.Lock()
        self._waiting: list[bytes] = []
        self._sending = False

    def send(self, frames: Iterable[bytes]) -> None:
        """Send `frames`, or leave them to the thread that is sending. A closed peer is ignored.

        The reader of the same socket learns that the peer is gone and fails what was sent.
        """
        with self._lock:
            self._waiting.extend(frames)
            if self._sending:
                return
            self._sending = True
        while (batch := self._next_batch()) is not None:
            try:
                self._connection.sendall(batch)
            except OSError:
                continue

    def _next_batch(self) -> bytes | None:
        with self._lock:
            if not self._waiting:
                self._sending = False
                return None
            batch = b"".join(self._waiting)
            self._waiting.clear()
            return batch
