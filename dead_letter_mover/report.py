"""What the program prints: for people, or one JSON document a line."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from dead_letter_mover.mover import Done, Moved
from dead_letter_mover.plan import Fate, Group

#: What a group awaits, as people read it.
_WORDS = {
    Fate.RESUBMIT: "goes back",
    Fate.SKIP: "is taken out",
    Fate.SUPERSEDE: "is superseded by a newer change of its record",
    Fate.NONE: "stays",
    Fate.STRAY: "stays: nothing on it tells a processing queue that it came from",
}


class Report(Protocol):
    """Turns what happens into lines of text."""

    def group(self, group: Group) -> str:
        """Return the lines about one group."""

    def moved(self, moved: Moved) -> str:
        """Return the audit line of one message."""

    def summary(self, counts: Mapping[Done, int], remaining: int) -> str:
        """Return the last line; `remaining` messages still await what was planned."""


class ForPeople:
    """Text. Control characters are shown and never sent to a terminal."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now

    def group(self, group: Group) -> str:
        """Return the lines about one group."""
        since = f"{_utc(group.oldest):%Y-%m-%d %H:%M:%S} UTC" if group.oldest else "an unknown time"
        jobs = ", ".join(f"{job or '(no job)'} {count}" for job, count in group.jobs.most_common())
        return printable(
            f"{group.count:7}  {group.error}",
            f"{'':7}  {_WORDS[group.fate]}; since {since}; {jobs}",
        )

    def moved(self, moved: Moved) -> str:
        """Return the audit line of one message."""
        letter = moved.letter
        where = f" to {moved.target} as {moved.new_message_id}" if moved.target else ""
        why = f": {moved.why}" if moved.why else ""
        return printable(
            f"{_utc(self._now()):%Y-%m-%dT%H:%M:%SZ}  {moved.done:11}  "
            f"{letter.job_name or '(no job)'}  {letter.source_key}  "
            f"{letter.sequence_number}  {letter.message_id}{where}{why}"
        )

    def summary(self, counts: Mapping[Done, int], remaining: int) -> str:
        """Return the last line."""
        what = ", ".join(f"{counts.get(done, 0)} {done}" for done in Done)
        return f"{what}; {remaining} still to do"


class ForMachines:
    """JSON Lines."""

    def __init__(self, place: str, now: Callable[[], datetime]) -> None:
        self._place = place
        self._now = now

    def group(self, group: Group) -> str:
        """Return the document of one group."""
        return _line(
            kind="group",
            queue=self._place,
            error=group.error,
            action=group.fate,
            count=group.count,
            jobs=group.jobs,
            oldest=group.oldest.isoformat() if group.oldest else None,
        )

    def moved(self, moved: Moved) -> str:
        """Return the audit document of one message."""
        return _line(
            kind="message",
            at=self._now().isoformat(),
            action=moved.done,
            queue=self._place,
            target=moved.target,
            job=moved.letter.job_name,
            sourceKey=moved.letter.source_key,
            sequenceNumber=moved.letter.sequence_number,
            messageId=moved.letter.message_id,
            newMessageId=moved.new_message_id,
            reason=moved.why,
        )

    def summary(self, counts: Mapping[Done, int], remaining: int) -> str:
        """Return the last document."""
        return _line(
            kind="summary",
            queue=self._place,
            remaining=remaining,
            **{done.value: counts.get(done, 0) for done in Done},
        )


def printable(*lines: str) -> str:
    """Join lines; whatever could steer a terminal, or look like a line of its own, is replaced."""
    return "\n".join(map(_printable, lines))


def _printable(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(character if character.isprintable() else "�" for character in line)


def _line(**document: object) -> str:
    return json.dumps(document)


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)
