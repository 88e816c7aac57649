"""Files that only their owner reads: there whole or not at all, also after a kill."""

import os
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Put `content` at `path`, in place of what is there, in one atomic step."""
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
