"""Messages that are in a queue for the same reason, whatever their records."""

import re

from dead_letter_mover.letters import Letter

#: The reason of messages without any recorded error.
UNRECORDED = "(no recorded error)"

#: So many reasons are told apart; what comes beyond is one. It bounds the memory.
MOST_REASONS = 1_000
OTHER = "(other errors)"

UNREADABLE = "(not encoded as AMQP says)"

#: A reason is cut to so many characters.
_LONGEST = 300

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
    return _cut(line) or UNRECORDED


class Reasons:
    """The reasons that a queue has shown so far, by number, each with an error as it stands."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._examples: list[str | None] = []

    def of(self, letter: Letter) -> int:
        """Return the number of why the message is here."""
        reason = UNRECORDED if letter.error is None else normalised(letter.error)
        if not letter.is_readable:
            reason = UNREADABLE
        if reason not in self._numbers and len(self._numbers) >= MOST_REASONS:
            reason = OTHER
        number = self._numbers.setdefault(reason, len(self._numbers))
        if number == len(self._examples):
            self._examples.append(letter.error and _cut(letter.error.strip()))
        return number

    def text(self, number: int) -> str:
        """Return the words."""
        return list(self._numbers)[number]

    def example(self, number: int) -> str | None:
        """Return the first error that was seen, cut; patterns of rules are searched in these."""
        return self._examples[number]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
