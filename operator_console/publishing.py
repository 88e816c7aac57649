"""How the published set of files becomes the local one: what to do, in which order."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from services.configuration_files import FOLDERS

#: Files by name, each as the digest of its content.
Digests = Mapping[str, bytes]


class Action(StrEnum):
    """What happens to one published file."""

    ADD = "add"
    CHANGE = "change"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class Step:
    """One file that is written or removed."""

    action: Action
    file: str


def digest(content: bytes) -> bytes:
    """Return what Azure Storage keeps as a blob's MD5."""
    return hashlib.md5(content, usedforsecurity=False).digest()


def plan(local: Digests, published: Digests) -> list[Step]:
    """Return the steps after which `published` equals `local`.

    What others refer to is there before them and goes after them. Sets in between may still be
    invalid, and the app refuses those.
    """
    writes = [
        Step(Action.CHANGE if name in published else Action.ADD, name)
        for name in sorted(local, key=_rank)
        if published.get(name) != local[name]
    ]
    gone = sorted(published.keys() - local.keys(), key=_rank, reverse=True)
    return [*writes, *(Step(Action.REMOVE, name) for name in gone)]


def _rank(name: str) -> tuple[int, str]:
    return FOLDERS.index(name.partition("/")[0]), name
