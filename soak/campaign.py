"""The campaign: changes in pieces, a fault after each, the books all along and in the end."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from devstack.processes import StackError
from soak.expectations import given_up, wrong_in_the_end
from soak.faults import CLOCK_FAULTS, FAULTS, FaultError
from soak.ledger import Ledger, Row
from soak.people import People
from soak.places import Look, Observer, wait_until_quiet
from soak.scene import Scene
from soak.watch import Watch

#: So many changes want one more round of all faults.
_CHANGES_OF_A_ROUND = 7_000

#: Until a fault comes, messages flow for a while.
_FLOW_SECONDS = 1.2

#: Fewer looks than one for so many faults would say too little.
_FAULTS_OF_A_LOOK = 3

#: How long it may take until nothing is queued any more, on a busy machine.
_QUIET_SECONDS = 180.0
_CHANGES_A_SECOND = 50

#: The others are mostly of the same kind.
_MOST_SENTENCES = 5

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the seed decides beforehand; it decides the times too, as the campaign goes on."""

    changes: int
    seed: int
    faults: tuple[str, ...]

    @classmethod
    def of(cls, changes: int, seed: int) -> "Plan":
        """Shuffle all faults, as many rounds of them as the changes ask for."""
        chance = random.Random(seed)  # noqa: S311 - not a secret
        rounds = 1 + changes // _CHANGES_OF_A_ROUND
        faults: list[str] = []
        for _ in range(rounds):
            faults += chance.sample(sorted(FAULTS), len(FAULTS))
        return cls(changes, seed, tuple(faults))


@dataclass(frozen=True, slots=True)
class Event:
    """Something that was done, and when, by the clock that never jumps."""

    at: datetime
    what: str


@dataclass
class Result:
    """What came of it."""

    plan: Plan
    events: list[Event] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    changes: int = 0
    seconds: float = 0
    looks: int = 0
    failed_looks: int = 0
    final: list[Row] = field(default_factory=list)
    #: The books while most was queued, and how much that was.
    live: list[Row] = field(default_factory=list)
    live_at: datetime | None = None
    given_up: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Tell whether the invariant held."""
        return not self.wrong and all(row.is_balanced for row in (*self.live, *self.final))

    def found_in(self, place: str) -> int:
        """Return how many changes were in a place in the end."""
        return sum(row.places[place] for row in self.final)


def must_hold(result: Result, folder: Path) -> None:
    """Raise StackError, so that the folder stays, where the invariant did not hold."""
    if not result.holds:
        sentences = "; ".join(result.wrong[:_MOST_SENTENCES]) or "the books do not balance"
        msg = f"seed {result.plan.seed}: the invariant did not hold; see {folder}: {sentences}"
        raise StackError(msg)


def run(scene: Scene, plan: Plan, tell: Tell) -> Result:
    """Play the plan on a scene whose host does not run yet, and judge."""
    began = time.monotonic()
    result, ledger = Result(plan), Ledger()
    chance = random.Random(plan.seed)  # noqa: S311 - not a secret
    people = People(scene, chance)
    with Watch(scene, ledger) as watch:
        for what in _acts(scene, plan, people, chance, result):
            result.events.append(Event(datetime.now().astimezone(), what))
            tell(what)
        tell("no more faults; waiting until nothing is queued")
        try:
            # After a death of the worker, what was in flight goes one at a time.
            wait_until_quiet(scene, _QUIET_SECONDS + plan.changes / _CHANGES_A_SECOND)
        except StackError as error:
            result.wrong.append(f"messages are still queued, or changes not detected: {error}")
    with Observer(scene) as observer:
        final = observer.look()
    ledger.judge(final)
    _conclude(scene, ledger, final, result)
    result.looks, result.failed_looks = ledger.looks, watch.failed
    if ledger.looks * _FAULTS_OF_A_LOOK < len(plan.faults):
        result.wrong.append(f"only {ledger.looks} looks succeeded; that is too few to judge by")
    result.changes, result.seconds = people.changes, time.monotonic() - began
    return result


def _acts(
    scene: Scene, plan: Plan, people: People, chance: random.Random, result: Result
) -> Iterator[str]:
    size = max(4, plan.changes // (len(plan.faults) + 2))
    yield people.begin(2 * size)
    scene.stack.host.start()
    yield "host started"
    for name in plan.faults:
        yield people.work(size)
        time.sleep(chance.uniform(0, _FLOW_SECONDS))
        if name in CLOCK_FAULTS and scene.app_clock.reason:
            result.skipped[name] = scene.app_clock.reason
            continue
        try:
            yield FAULTS[name](scene, people, chance)
        except (FaultError, StackError) as error:
            # The campaign goes on: what the books say then tells more.
            result.wrong.append(f"{name} did not go as it must: {error}")
            yield result.wrong[-1]


def _conclude(scene: Scene, ledger: Ledger, final: Look, result: Result) -> None:
    result.final = ledger.rows(final)
    if ledger.busiest is not None:
        result.live, result.live_at = ledger.rows(ledger.busiest), ledger.busiest.at
    result.given_up = given_up(final, scene)
    result.wrong += ledger.wrong
    result.wrong += wrong_in_the_end(scene, final)
