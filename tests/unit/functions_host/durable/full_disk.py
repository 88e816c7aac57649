"""A disk on which nothing grows any more, for one process alone."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def full_disk(file: Path, pid: int = 0) -> Iterator[None]:
    """Let no file of the process grow beyond the journal of `file`: every commit needs that.

    The process is this one where there is no `pid`. Python ignores the signal of the limit.
    """
    size = file.with_name(f"{file.name}-wal").stat().st_size
    soft, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # a test may have ended it
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (soft, hard))
