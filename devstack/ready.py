"""How a server of the local stack says that it listens, and on which ports.

Ports are chosen by the operating system, so a starter learns them from the ready file: one JSON
object, there whole or not at all.
"""

import json
import os
from pathlib import Path


def announce(path: Path, **facts: str | int) -> None:
    """Write `facts` and this process's `pid` to `path` in one atomic step."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    partial.write_text(json.dumps({"pid": os.getpid(), **facts}), encoding="utf-8")
    partial.replace(path)


def read(path: Path) -> dict[str, str | int] | None:
    """Return what was announced at `path`, or None where nothing was yet."""
    try:
        facts: dict[str, str | int] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return facts
