"""What must be true in the end, record by record: the rules of the scene, said again."""

from collections.abc import Iterator
from dataclasses import dataclass

from soak.ledger import told
from soak.places import BROKER, PLACES, Look
from soak.scene import CUSTOMERS, Change, Scene

#: Why the app may give a message up that nothing is wrong with: too much went wrong around it.
_AWAY = {"UnavailableError", "AbortedError", "LockLostError"}

_LAST = """
SELECT DISTINCT ON (job, key) job, key, change, is_deletion,
       (SELECT customer_number FROM customer_order WHERE order_number = key)
FROM changed ORDER BY job, key, change DESC, is_deletion
"""


@dataclass(frozen=True, slots=True)
class Last:
    """The last change of a record; `customer` is the one of an order that is there."""

    change: Change
    is_deletion: bool
    customer: str | None

    def may_be(self) -> set[str]:
        """Return the places that the rules allow where no server was away."""
        job, key, _ = self.change
        if self.is_deletion:
            return {"succeeded"}
        if job == CUSTOMERS:
            return {_place_of(key)}
        # An order may come before its customer: then it waits, and a repetition may succeed.
        is_refused = self.customer is not None and self.customer.endswith("7")
        return {"transitive"} if is_refused else {"transitive", "succeeded"}


def wrong_in_the_end(scene: Scene, look: Look) -> Iterator[str]:
    """Yield a sentence for each thing that is not as it must be, once nothing is queued."""
    lasts = _lasts(scene)
    reasons: dict[Change, set[str]] = {}
    for change, reason in look.reasons:
        reasons.setdefault(change, set()).add(reason)
        if not _is_fit(change, reason, scene):
            yield f"{told(change)} is a dead letter for {reason}, which nothing explains"
    for last in lasts:
        found = set(look.places_of(last.change))
        allowed = last.may_be() | ({"dead"} if last.change in reasons else set())
        # What was set aside or given up after it had been written once came twice.
        decided = {next(place for place in PLACES if place in found)} if found else set()
        if not decided or not decided <= allowed:
            where = ", ".join(sorted(found)) or "nowhere"
            yield f"{told(last.change)} is {where} and must be {' or '.join(sorted(allowed))}"
    yield from _disagreements(scene, look, lasts)


def given_up(look: Look, scene: Scene) -> dict[str, int]:
    """Count the dead letters by reason, without those that the target's rule refuses."""
    counts: dict[str, int] = {}
    for change, reason in look.reasons:
        if not (_is_refused(change) and reason == "RejectedError"):
            why = "by the broker or a person" if change in scene.buried else reason
            counts[why] = counts.get(why, 0) + 1
    return counts


def _disagreements(scene: Scene, look: Look, lasts: list[Last]) -> Iterator[str]:
    """Compare value by value: a record whose last change has arrived is the same on both sides."""
    disagree = scene.databases.disagreements()
    for last in lasts:
        _, key, _ = last.change
        if key in disagree and last.change in look.succeeded:
            # Also: a deleted record that is there.
            yield f"{told(last.change)} has arrived, and yet {key!r} differs in the ERP"
        disagree.discard(key)
    for key in disagree:
        if _is_written_later(key):
            continue  # by somebody who is not the CRM
        yield f"{key!r} is in the ERP and was never in the CRM"


def _lasts(scene: Scene) -> list[Last]:
    with scene.database("crm") as crm:
        return [
            Last((job, key, change.isoformat()), is_deletion, customer)
            for job, key, change, is_deletion, customer in crm.execute(_LAST)
        ]


def _is_fit(change: Change, reason: str, scene: Scene) -> bool:
    if reason.startswith(BROKER):
        return change in scene.buried
    return reason in _AWAY or (reason == "RejectedError" and _is_refused(change))


def _is_refused(change: Change) -> bool:
    job, key, _ = change
    return job == CUSTOMERS and key.endswith("7")


def _place_of(customer: str) -> str:
    if customer.endswith("7"):
        return "dead"
    return "ignored" if _is_written_later(customer) else "succeeded"


def _is_written_later(key: str) -> bool:
    return "D000010" <= key <= "D000100" and key.endswith("0")
