"""What the program prints: for people, or one JSON document a line."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Sums:
    """How a run went; what it is about besides what was done is in messages, too.

    `remaining` still await what was planned. Of these, some were taken by somebody else and are
    `gone`, or were `not_handed_out`. `stray` ones have no way back; `unremoved` ones went, and are
    in their queue as well, because their locks had run out.
    """

    done: Mapping[Done, int]
    remaining: int
    gone: int = 0
    not_handed_out: int = 0
    stray: int = 0
    unremoved: int = 0

    @property
    def is_short(self) -> bool:
        """Tell whether something is left that a rule wanted away."""
        left = self.done.get(Done.LEFT, 0)
        return bool(left or self.not_handed_out or self.stray or self.unremoved)


class Report(Protocol):
    """Turns what happens into lines of text."""

    def group(self, group: Group) -> str:
        """Return the lines about one group."""

    def moved(self, moved: Moved) -> str:
        """Return the audit line of one message."""

    def summary(self, sums: Sums) -> str:
        """Return the line with the sums."""


class ForPeople:
    """Text. Control characters are shown and never sent to a terminal."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now

    def group(self, group: Group) -> str:
        """Return the lines about one group."""
        since = f"{_utc(group.oldest):%Y-%m-%d %H:%M:%S} UTC" if group.oldest else "an unknown time"
        jobs = ", ".join(f"{job or '(no job)'} {count}" for job, count in group.jobs.most_common())
        lines = [
            f"{group.count:7}  {group.error}",
            f"{'':7}  {_WORDS[group.fate]}; since {since}; {jobs}",
        ]
        if group.example and group.example != group.error:
            lines.insert(1, f"{'':7}  for example: {group.example.partition('\n')[0]}")
        return printable(*lines)

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

    def summary(self, sums: Sums) -> str:
        """Return the line with the sums."""
        what = ", ".join(f"{sums.done.get(done, 0)} {done}" for done in Done)
        asides = {
            "gone meanwhile, by somebody else's hand": sums.gone,
            "not handed out: somebody else holds them": sums.not_handed_out,
            "without a way back": sums.stray,
            "went, and are still here, because their locks ran out": sums.unremoved,
        }
        more = "".join(f"; {count} {words}" for words, count in asides.items() if count)
        return f"{what}; {sums.remaining} still to do{more}"


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
            example=group.example,
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

    def summary(self, sums: Sums) -> str:
        """Return the last document."""
        return _line(
            kind="summary",
            queue=self._place,
            remaining=sums.remaining,
            gone=sums.gone,
            notHandedOut=sums.not_handed_out,
            stray=sums.stray,
            unremoved=sums.unremoved,
            **{done.value: sums.done.get(done, 0) for done in Done},
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
