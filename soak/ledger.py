"""The books of a campaign: what was detected, where it is, and what is wrong with that."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from soak.places import PLACES, Look
from soak.scene import JOBS, Change

#: A change that was detected is somewhere at every moment. A look that misses one may be at fault
#: itself, so it must be missing in every look for this long.
NOWHERE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Row:
    """One job's line; `detected` is the sum of the places and of what is nowhere."""

    job: str
    detected: int
    places: dict[str, int]
    nowhere: int
    #: Messages and writes beyond the first of their change, over all places.
    duplicates: int

    @property
    def is_balanced(self) -> bool:
        """Tell whether every change is somewhere."""
        return self.nowhere == 0 and self.detected == sum(self.places.values())


@dataclass
class Ledger:
    """Judges look after look; `wrong` holds a sentence for each thing that must not be."""

    wrong: list[str] = field(default_factory=list)
    detected: set[Change] = field(default_factory=set)
    #: The look with the most messages in processing queues.
    busiest: Look | None = None
    looks: int = 0
    clock: Callable[[], float] = time.monotonic
    _missing: dict[Change, float] = field(default_factory=dict)

    def judge(self, look: Look) -> None:
        """Take a look into account."""
        self.looks += 1
        found = look.found()
        self.detected |= look.passed | found
        self._look_for_the_missing(found)
        if look.backwards:
            self._complain(f"{look.backwards} times an older change overwrote a newer one")
        for change in look.without_payload:
            self._complain(f"the payload of the message about {told(change)} is gone")
        if self.busiest is None or look.queued.total() > self.busiest.queued.total():
            self.busiest = look

    def rows(self, look: Look) -> list[Row]:
        """Return the books as of `look`, which is one that was judged."""
        found = look.found()
        detected = found | (self.detected if look is not self.busiest else look.passed)
        return [_row(job, look, [c for c in detected if c[0] == job], found) for job in JOBS]

    def _look_for_the_missing(self, found: set[Change]) -> None:
        now = self.clock()
        missing = self.detected - found
        self._missing = {change: self._missing.get(change, now) for change in missing}
        for change, since in self._missing.items():
            if now - since >= NOWHERE_SECONDS:
                self._complain(f"{told(change)} was detected and is nowhere")

    def _complain(self, sentence: str) -> None:
        if sentence not in self.wrong:
            self.wrong.append(sentence)


def told(change: Change) -> str:
    """Return a change in words."""
    job, key, moment = change
    return f"{job}: {key} of {moment}"


def _row(job: str, look: Look, detected: list[Change], found: set[Change]) -> Row:
    places = Counter(look.places_of(change)[0] for change in detected if change in found)
    messages = sum(
        getattr(look, place)[change] for change in detected for place in look.places_of(change)
    )
    there = sum(places.values())
    return Row(
        job,
        len(detected),
        {place: places[place] for place in PLACES},
        nowhere=len(detected) - there,
        duplicates=messages - there,
    )
