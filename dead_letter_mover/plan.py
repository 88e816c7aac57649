"""What the first pass finds and the second pass does, in a temporary database.

A row of some two hundred bytes a message, and SQLite keeps no more than a few megabytes of them in
memory, however long the queue is.
"""

import hashlib
import sqlite3
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from types import TracebackType
from typing import NamedTuple, Self

from dead_letter_mover.groups import Reasons
from dead_letter_mover.letters import Letter
from dead_letter_mover.rules import Action, Rules
from dead_letter_mover.versions import version
from models.queues import PROCESSING_QUEUES, TRANSITIVE_QUEUES

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_TABLES = """
CREATE TABLE letter (
    sequence_number INTEGER PRIMARY KEY,
    fate            TEXT NOT NULL,
    target          TEXT,
    reason          INTEGER NOT NULL,
    job             TEXT NOT NULL,
    enqueued        INTEGER,
    record          BLOB,
    version         TEXT,
    body            BLOB,
    done            INTEGER NOT NULL DEFAULT 0
);
"""

#: Whether another message stands for `letter`: a newer change of the record, or the same one again
#: later in the queue. Two questions, because each of them finds its answer in the index at once.
_REPLACED_BY = """(
    EXISTS (SELECT 1 FROM letter AS other
            WHERE other.record = letter.record AND other.version > letter.version {0})
    OR EXISTS (SELECT 1 FROM letter AS other
               WHERE other.record = letter.record AND other.version = letter.version
               AND other.body = letter.body AND other.sequence_number > letter.sequence_number {0}))
"""
_SUPERSEDE = f"""
CREATE INDEX by_record ON letter (record, version, body, sequence_number)
    WHERE record IS NOT NULL;
UPDATE letter SET fate = 'Supersede', target = NULL
WHERE record IS NOT NULL AND {_REPLACED_BY.format("")};
"""  # noqa: S608 - our own words
_REPLACED = f"""
SELECT sequence_number FROM letter
WHERE fate = 'Supersede' AND NOT done
AND {_REPLACED_BY.format("AND other.fate = 'Resubmit' AND other.done")}
ORDER BY 1
"""  # noqa: S608 - as above


class Fate(StrEnum):
    """What becomes of one message."""

    RESUBMIT = "Resubmit"
    SKIP = "Skip"
    #: A rule would resubmit it, and a newer change of its record goes back in its place.
    SUPERSEDE = "Supersede"
    #: No rule wants it away, or the broker hands it out to nobody now.
    NONE = "None"
    #: A rule would resubmit it, and nobody knows where to.
    STRAY = "Stray"


#: What the second pass does something about.
ACTED_ON = (Fate.RESUBMIT, Fate.SKIP, Fate.SUPERSEDE)


@dataclass(slots=True)
class Group:
    """How many messages of which jobs are here for one reason, since when, and what they await."""

    error: str
    fate: Fate
    example: str | None = None
    count: int = 0
    jobs: Counter[str] = field(default_factory=Counter)
    oldest: datetime | None = None


class Planned(NamedTuple):
    """What is to be done with one message, where to it goes back, and whether that is done."""

    fate: Fate
    target: str | None = None
    done: bool = False


class Plan:
    """Use as a context manager: leaving forgets it.

    `queue` is where the messages are; for those in its dead-letter queue that is its own name.
    """

    def __init__(self, queue: str, rules: Rules | None) -> None:
        self._queue = queue
        self._rules = rules
        self._reasons = Reasons()
        self._left = 0
        # An empty name: SQLite makes a file that nobody sees and removes it in the end.
        self._database = sqlite3.connect("", isolation_level=None)

    def __enter__(self) -> Self:
        # What is lost with the process need not be safe from its end.
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.executescript(_TABLES)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._database.close()

    def fill(self, letters: Iterable[Letter]) -> None:
        """Take note of every message, and of what supersedes what."""
        self._database.execute("BEGIN")
        self._database.executemany(
            "INSERT OR REPLACE INTO letter VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)",
            map(self._row, letters),
        )
        self._database.execute("COMMIT")
        self._database.executescript(_SUPERSEDE)
        self._left = self.count(*ACTED_ON)

    def groups(self) -> list[Group]:
        """Return reasons and fates, the largest group first."""
        groups: dict[tuple[int, str], Group] = {}
        for reason, fate, job, count, oldest in self._database.execute(
            "SELECT reason, fate, job, count(*), min(enqueued) FROM letter GROUP BY 1, 2, 3"
        ):
            known = Group(self._reasons.text(reason), Fate(fate), self._reasons.example(reason))
            group = groups.setdefault((reason, fate), known)
            group.count += count
            group.jobs[job] += count
            moments = [moment for moment in (group.oldest, _moment(oldest)) if moment]
            group.oldest = min(moments, default=None)
        return sorted(groups.values(), key=lambda group: (-group.count, group.error, group.fate))

    def count(self, *fates: Fate) -> int:
        """Return how many messages await one of these, done or not."""
        counted = "SELECT fate, count(*) FROM letter GROUP BY 1"
        return sum(count for fate, count in self._database.execute(counted) if fate in fates)

    def of(self, sequence_number: int) -> Planned:
        """Return what is to be done; a message that came after the first pass stays."""
        row = self._database.execute(
            "SELECT fate, target, done FROM letter WHERE sequence_number = ?", [sequence_number]
        ).fetchone()
        return Planned(Fate(row[0]), row[1], bool(row[2])) if row else Planned(Fate.NONE)

    def note_done(self, sequence_number: int) -> None:
        """Note that a message was sent or archived, so that it needs completing only."""
        self._database.execute(
            "UPDATE letter SET done = 1 WHERE sequence_number = ?", [sequence_number]
        )
        self._left -= 1

    def left(self) -> int:
        """Return how many messages still wait for what was planned."""
        return self._left

    def open(self) -> list[int]:
        """Return which ones."""
        rows = self._database.execute(
            "SELECT sequence_number FROM letter "
            "WHERE NOT done AND fate IN ('Resubmit', 'Skip', 'Supersede') ORDER BY 1"
        )
        return [number for (number,) in rows]

    def replaced(self) -> list[int]:
        """Return which superseded messages something newer has gone back for."""
        return [number for (number,) in self._database.execute(_REPLACED)]

    def _row(self, letter: Letter) -> tuple[object, ...]:
        fate, target = self._fate(letter)
        record, newness, body = None, None, None
        if fate is Fate.RESUBMIT and (known := version(letter.body)):
            record, newness = known
            body = hashlib.sha256(letter.body).digest()
        return (
            letter.sequence_number,
            fate,
            target,
            self._reasons.of(letter),
            letter.job_name,
            letter.enqueued,
            record,
            newness,
            body,
        )

    def _fate(self, letter: Letter) -> tuple[Fate, str | None]:
        if letter.is_waiting or not letter.is_readable or self._rules is None:
            return Fate.NONE, None
        match self._rules.action_for(letter):
            case Action.NONE:
                return Fate.NONE, None
            case Action.SKIP:
                return Fate.SKIP, None
            case Action.RESUBMIT:
                target = _way_back(letter, self._queue)
                return (Fate.RESUBMIT if target else Fate.STRAY), target


_ORIGINS = {transitive: queue for queue, transitive in TRANSITIVE_QUEUES.items()}
_PROCESSING = set(PROCESSING_QUEUES.values())


def _way_back(letter: Letter, queue: str) -> str | None:
    """Return the processing queue that the message came from, None where nothing tells.

    A property that names another queue is not believed: nobody processes what lies there.
    """
    origin = letter.original_queue
    if origin is None:
        origin = queue if queue in _PROCESSING else _ORIGINS.get(queue)
    return origin if origin in _PROCESSING else None


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else _EPOCH + timedelta(milliseconds=milliseconds)
