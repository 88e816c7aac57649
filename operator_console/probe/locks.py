"""How long locks last, for whom, and what the broker says once they are gone."""

import uuid
from collections.abc import Callable, Sequence

from delivery.errors import LockLostError
from operator_console.probe.ports import Held
from operator_console.probe.scene import Scene
from operator_console.probe.verdicts import Assumption, RefutedError, UntestedError, expect

#: Two such parts of a lock are more than the lock, and leave time for a slow machine.
_PART = 0.55


def _renewed(scene: Scene, held: Sequence[Held]) -> str:
    """Hold messages for longer than a lock, renewing once on the way."""
    scene.give_up_waiting_for_locks()
    tokens = [message.lock_token for message in held]
    taken = scene.waiting.elapsed()
    scene.waiting.sleep(scene.lock * _PART)
    renewing = scene.waiting.elapsed()
    scene.queue.renew(tokens)
    answered = scene.waiting.elapsed()
    scene.waiting.sleep(scene.lock * _PART)
    try:
        scene.queue.complete(tokens)
    except LockLostError:
        if answered - taken > scene.lock or scene.waiting.elapsed() - renewing > scene.lock:
            msg = "this machine stood still for longer than a lock; start again"
            raise UntestedError(msg) from None
        seen = "the locks were lost although they had been renewed"
        raise RefutedError(seen) from None
    expect(not scene.shown(), "what was completed after a renewal is still in the queue")
    return f"held for {2 * _PART:.0%} of a lock of {scene.lock.total_seconds():g} s, then completed"


def _renewal_lasts(scene: Scene) -> str:
    scene.send()
    return f"renewed once, a message was {_renewed(scene, scene.take())}"


def _renews_many(scene: Scene) -> str:
    scene.send(3)
    return f"three messages, renewed by one request, were {_renewed(scene, scene.take(3))}"


def _expiry_counts(scene: Scene) -> str:
    scene.send()
    held = scene.one()
    scene.let_lock_expire()
    again = scene.one()
    expect(
        again.failures == held.failures + 1,
        f"after its lock had ended a message came back with the count {again.failures}, not 1",
    )
    return "a message whose lock had ended came back with the count 1"


def _ended_lock_is_lost(scene: Scene) -> str:
    scene.send()
    token = scene.one().lock_token
    scene.let_lock_expire()
    _loses(lambda: scene.queue.renew([token]), "renewing an ended lock")
    _loses(lambda: scene.queue.complete([token]), "completing with an ended lock")
    expect(scene.shown(), "the message is gone although its lock had ended")
    return "renewing and completing were refused as lock lost, and the message stayed"


def _unknown_lock_is_lost(scene: Scene) -> str:
    token = uuid.uuid4()
    _loses(lambda: scene.queue.renew([token]), "renewing an unknown lock")
    _loses(lambda: scene.queue.abandon(token, {}), "abandoning with an unknown lock")
    scene.send()
    scene.queue.complete([scene.one().lock_token])
    expect(not scene.shown(), "after the refusals a message could not be completed")
    return "an unknown token is refused as lock lost, and the same link then completed a message"


def _lock_outlives_its_link(scene: Scene) -> str:
    scene.send()
    token = scene.one().lock_token
    scene.queue.close_receiver()
    try:
        scene.queue.complete([token])
    except LockLostError:
        seen = "the lock was gone once the receiver's connection was closed"
        raise RefutedError(seen) from None
    return "after its receiver's connection was closed, a message was completed by its token"


def _completes_many(scene: Scene) -> str:
    scene.send(3)
    scene.queue.complete([held.lock_token for held in scene.take(3)])
    left = len(scene.shown())
    expect(not left, f"of three messages completed by one request, {left} are still there")
    return "three messages were completed by one request"


def _completes_dead_letters(scene: Scene) -> str:
    scene.send(2)
    for held in scene.take(2):
        scene.queue.dead_letter(held.lock_token, "probe", "", {})
    scene.queue.complete([held.lock_token for held in scene.take(2, dead=True)], dead=True)
    left = len(scene.shown(dead=True))
    expect(not left, f"of two dead letters completed by one request, {left} are still there")
    return "two dead letters were completed by one request to $deadletterqueue/$management"


def _gives_back_many(scene: Scene) -> str:
    scene.send(3)
    scene.queue.give_back([held.lock_token for held in scene.take(3)])
    again = scene.take(3)
    counts = sorted(held.failures for held in again)
    expect(counts == [1, 1, 1], f"three messages given back by one request have counts {counts}")
    return "three messages given back by one request were handed out again, each with the count 1"


def _many_are_all_or_none(scene: Scene) -> str:
    scene.send(2)
    tokens = [held.lock_token for held in scene.take(2)]
    _loses(
        lambda: scene.queue.complete([*tokens, uuid.uuid4()]),
        "completing two messages and an unknown one by one request",
    )
    left = len(scene.shown())
    expect(left == 2, f"of two messages completed beside an unknown one, {left} are there")  # noqa: PLR2004 - as sent
    for token in tokens:
        scene.queue.complete([token])
    return "with an unknown token among them none was completed, and then each by itself"


def _loses(call: Callable[[], None], what: str) -> None:
    try:
        call()
    except LockLostError:
        return
    seen = f"{what} was accepted"
    raise RefutedError(seen)


_LOCKS = "delivery.md#locks"
_MOVER = "dead-letter-mover.md#what-goes-back-and-how"

LOCKS = (
    Assumption(
        "renewal-lasts",
        "Renewing over another connection makes a lock last its whole duration again.",
        "messages stay ours for as long as their handler runs",
        _LOCKS,
        _renewal_lasts,
    ),
    Assumption(
        "renews-many",
        "One request renews the locks of several messages.",
        "the dead-letter mover keeps what it has locked",
        _MOVER,
        _renews_many,
    ),
    Assumption(
        "expiry-counts",
        "A lock that ends by itself counts as a failed delivery.",
        "a message that ends its worker is recognised, and comes to its end",
        "decisions/0008-suspects-come-back-apart.md",
        _expiry_counts,
    ),
    Assumption(
        "ended-lock-is-lost",
        "What is asked for with an ended lock is refused as lock lost, and changes nothing.",
        "a handler that is late leaves the message to whoever has it now",
        _LOCKS,
        _ended_lock_is_lost,
    ),
    Assumption(
        "unknown-lock-is-lost",
        "An unknown lock token is refused as lock lost, and the link stays usable.",
        "one lost lock does not disturb the renewals of all others",
        _LOCKS,
        _unknown_lock_is_lost,
    ),
    Assumption(
        "lock-outlives-its-link",
        "A lock outlives the connection that received the message.",
        "messages of a host that died come back later, and not twice at once",
        "service-bus-emulator.md#how-it-differs-from-azure",
        _lock_outlives_its_link,
    ),
    Assumption(
        "completes-many",
        "One request completes several messages.",
        "the dead-letter mover's speed; where it is refused, it goes one by one",
        _MOVER,
        _completes_many,
    ),
    Assumption(
        "completes-dead-letters",
        "Dead letters are completed over the $management node of the dead-letter queue.",
        "the dead-letter mover",
        _MOVER,
        _completes_dead_letters,
    ),
    Assumption(
        "gives-back-many",
        "One request abandons several messages.",
        "what the dead-letter mover passes and does not move is free again at its end",
        _MOVER,
        _gives_back_many,
    ),
    Assumption(
        "many-are-all-or-none",
        "A request with one lost lock among several changes nothing.",
        "the dead-letter mover's sums: who is late is told from who is gone",
        _MOVER,
        _many_are_all_or_none,
    ),
)
