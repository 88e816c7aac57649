"""`JobState`: which orchestration has which job in hand.

The entity runs one operation at a time, so that to ask and to take is one step. A claim ends by
the entity's own clock: an orchestration that was terminated, or lost with its host, never gives it
back.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

#: Longer than an activity may take. Each one renews the claim when it has ended.
LEASE = timedelta(minutes=20)


class Operation(StrEnum):
    """What the entity is asked, in the specification's words."""

    IN_PROGRESS = "InProgress"
    ADD = "Add"
    REMOVE = "Remove"


@dataclass(frozen=True, slots=True)
class Claim:
    """The input of an operation; `owner` is the id of an orchestration's instance."""

    job: str
    owner: str

    def to_json(self) -> dict[str, str]:
        """Return what `from_json` reads."""
        return {"job": self.job, "owner": self.owner}

    @classmethod
    def from_json(cls, document: Mapping[str, str]) -> "Claim":
        """Read an operation's input."""
        return cls(document["job"], document["owner"])


#: By job: `owner`, and `until` as ISO 8601.
State = dict[str, dict[str, str]]


def operate(
    operation: str, claim: Claim, state: Mapping[str, Any], now: datetime
) -> tuple[State, bool | str]:
    """Return the new state and the answer; raise ValueError for an operation that is none.

    `InProgress` tells who else has the job, an empty text for nobody, `Add` whether the owner has
    it now, and renews what it has, `Remove` whether it was the owner's to give back.
    """
    held = {job: {**held} for job, held in state.items() if _until(held) > now}
    holder = held.get(claim.job, {}).get("owner", "")
    match Operation(operation):
        case Operation.IN_PROGRESS:
            return held, "" if holder == claim.owner else holder
        case Operation.ADD:
            if holder not in ("", claim.owner):
                return held, False
            until = (now + LEASE).isoformat()
            return {**held, claim.job: {"owner": claim.owner, "until": until}}, True
        case Operation.REMOVE:
            if holder != claim.owner:
                return held, False
            del held[claim.job]
            return held, True


def _until(held: Mapping[str, str]) -> datetime:
    return datetime.fromisoformat(held["until"])
