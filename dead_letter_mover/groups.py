"""Messages that are in a queue for the same reason, whatever their records."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from dead_letter_mover.letters import Letter

#: The group of messages without any recorded error.
UNRECORDED = "(no recorded error)"

#: So many reasons are told apart; what comes beyond is one group. It bounds the memory.
MOST_GROUPS = 1_000
OTHER = "(other errors)"

#: What differs from record to record, and what stands for it. In this order: a GUID has numbers.
_DIFFERING = (
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE), "<guid>"),
    (re.compile(r"'[^'\n]*'|\"[^\"\n]*\""), "<text>"),
    (re.compile(r"\d+(?:[.,:]\d+)*"), "<n>"),
)


def normalised(error: str) -> str:
    """Return the first line of `error` without GUIDs, quoted values and numbers."""
    line = error.strip().partition("\n")[0]
    for differing, stands_for in _DIFFERING:
        line = differing.sub(stands_for, line)
    return line or UNRECORDED


@dataclass(slots=True)
class Group:
    """How many messages of which jobs are here for one reason, and since when."""

    error: str
    count: int = 0
    jobs: Counter[str] = field(default_factory=Counter)
    oldest: datetime | None = None

    def add(self, letter: Letter) -> None:
        """Count one more."""
        self.count += 1
        self.jobs[letter.job_name] += 1
        moments = [moment for moment in (self.oldest, letter.enqueued) if moment]
        self.oldest = min(moments, default=None)


def by_error(letters: Iterable[Letter]) -> list[Group]:
    """Return the groups, the largest first."""
    groups: dict[str, Group] = {}
    for letter in letters:
        error = UNRECORDED if letter.error is None else normalised(letter.error)
        if error not in groups and len(groups) >= MOST_GROUPS:
            error = OTHER
        groups.setdefault(error, Group(error)).add(letter)
    return sorted(groups.values(), key=lambda group: (-group.count, group.error))
