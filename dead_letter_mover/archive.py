"""The archive: a file of JSON Lines with the messages that left the bus for good.

A line is safe on disk before its message is completed. It holds people's data: the file is for its
owner only.
"""

import base64
import json
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from dead_letter_mover.mover import Moved

_MODE = 0o600


class ArchiveError(Exception):
    """A line could not be written; its message is still in its queue."""


class JsonLines:
    """Appends to one file. `place` is the queue that the messages came from."""

    def __init__(
        self, path: Path, descriptor: int, place: str, now: Callable[[], datetime]
    ) -> None:
        self._path = path
        self._descriptor = descriptor
        self._place = place
        self._now = now

    def write(self, removed: Sequence[Moved]) -> None:
        """Return once all of them are safe; raise ArchiveError where the disk takes no more."""
        text = "".join(json.dumps(self._line(moved)) + "\n" for moved in removed)
        rest = memoryview(text.encode())
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            os.fsync(self._descriptor)
        except OSError as error:
            msg = (
                f"{self._path}: {error.strerror}; nothing of this batch was removed. "
                "Make room, or name another archive, and start again"
            )
            raise ArchiveError(msg) from error

    def _line(self, moved: Moved) -> dict[str, object]:
        letter = moved.letter
        return {
            "at": self._now().isoformat(timespec="seconds"),
            "action": moved.done,
            "queue": self._place,
            "sequenceNumber": letter.sequence_number,
            "messageId": letter.message_id,
            "job": letter.job_name,
            "sourceKey": letter.source_key,
            "error": letter.error,
            "body": letter.body.decode(errors="replace"),
            # As the broker gave it, with every property.
            "amqp": base64.b64encode(letter.encoded).decode(),
        }


class NoArchive:
    """For runs that remove nothing."""

    def write(self, removed: Sequence[Moved]) -> None:
        """Refuse."""
        msg = f"{len(removed)} messages would be removed for good; name a file with --archive"
        raise ArchiveError(msg)


@contextmanager
def open_archive(path: Path, place: str, now: Callable[[], datetime]) -> Iterator[JsonLines]:
    """Open a file, new or not; raise ArchiveError where it is none, OSError where it is refused."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, _MODE)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            msg = f"{path} is no file; name one that keeps what is written to it"
            raise ArchiveError(msg)
        os.fchmod(descriptor, _MODE)
        _end_torn_line(descriptor)
        _keep_name(path)
        yield JsonLines(path, descriptor, place, now)
    finally:
        os.close(descriptor)


def _end_torn_line(descriptor: int) -> None:
    """Begin a line of its own behind what an interrupted run left."""
    size = os.fstat(descriptor).st_size
    if size and os.pread(descriptor, 1, size - 1) != b"\n":
        os.write(descriptor, b"\n")


def _keep_name(path: Path) -> None:
    """Make the file's name as safe on disk as its content will be."""
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
