"""What a peek shows: of locked and scheduled messages, of dead letters, and where one is gone."""

from datetime import timedelta

from operator_console.probe.encoding import EVERY_TYPE, differing
from operator_console.probe.scene import Scene
from operator_console.probe.verdicts import Assumption, RefutedError, UntestedError, expect, spoken

#: A tenth of the lock duration of `servicebus.json`.
_CLOCKS_APART = timedelta(seconds=30)

_A_YEAR = timedelta(days=365)


def _peek_shows_locked(scene: Scene) -> str:
    scene.send(properties=EVERY_TYPE)
    held = scene.one()
    seen = scene.the_one_shown()
    expect(seen.number == held.number, f"message {held.number} is shown as {seen.number}")
    wrong = differing(EVERY_TYPE, seen.properties)
    expect(not wrong, f"a peek does not show these as they were sent: {', '.join(wrong)}")
    return f"a locked message is shown, with {len(EVERY_TYPE)} properties of as many AMQP types"


def _peek_goes_on_with_the_next(scene: Scene) -> str:
    scene.send(2)
    first, second = scene.take(2)
    scene.queue.complete([first.lock_token])
    found = [message.number for message in scene.queue.peek(first.number, 1)]
    expect(found == [second.number], f"asked for {first.number}, which is gone, it shows {found}")
    return "asked for a number that is gone, a peek answers with the next message"


def _peek_has_an_end(scene: Scene) -> str:
    scene.send()
    last = scene.one().number
    found = [message.number for message in scene.queue.peek(last + 1, 10)]
    expect(not found, f"beyond the last number {last} a peek shows {found}")
    return "beyond the last number a peek answers with nothing, and that is no error"


def _peek_tells_scheduled(scene: Scene) -> str:
    scene.send(due=scene.waiting.now() + timedelta(hours=1))
    scheduled = scene.the_one_shown()
    expect(scheduled.is_scheduled, "a scheduled message is shown as any other")
    expect(not scene.comes(), "a message that is due in an hour was handed out")
    scene.queue.cancel([scheduled.number])
    expect(not scene.shown(), "a scheduled message is still there after it was cancelled")
    return "a scheduled message is shown as such, was not handed out, and was cancelled"


def _dead_letters_ascend(scene: Scene) -> str:
    scene.send(3)
    held = scene.take(3)
    for message in reversed(held):
        scene.queue.dead_letter(message.lock_token, "probe", "", {})
    shown = [message.number for message in scene.shown(dead=True)]
    expect(len(shown) == len(held), f"of three dead letters a peek shows {len(shown)}")
    expect(shown == sorted(set(shown)), f"dead letters are shown in the order {shown}")
    received = [message.number for message in scene.take(3, dead=True)]
    expect(received == shown, f"dead letters {shown} are received as {received}")
    same = "keep the number" if shown == [m.number for m in held] else "do not have the number"
    return f"they are shown in ascending order and {same} that they had in the queue"


def _life_is_shown(scene: Scene) -> str:
    if scene.rules is not None and scene.rules.time_to_live > _A_YEAR:
        msg = "the queue has no time to live worth the name; give it 14 days"
        raise UntestedError(msg)
    scene.send()
    life = scene.the_one_shown().time_to_live
    if life is None:
        msg = "a message that was sent without one is shown without a time to live"
        raise RefutedError(msg)
    wanted = scene.rules.time_to_live if scene.rules else None
    expect(
        wanted is None or life == wanted,
        f"a message without a time to live is shown with {spoken(life)}, which is not the queue's",
    )
    return f"a message that was sent without one is shown with the queue's, {spoken(life)}"


def _clocks_agree(scene: Scene) -> str:
    before = scene.waiting.now()
    scene.send()
    after = scene.waiting.now()
    enqueued = scene.the_one_shown().enqueued
    if enqueued is None:
        msg = "a peek shows no enqueued time"
        raise UntestedError(msg)
    apart = max(before - enqueued, enqueued - after, timedelta(0))
    expect(
        apart <= _CLOCKS_APART,
        f"the broker's clock and this machine's are {apart.total_seconds():.0f} s apart",
    )
    return f"the broker's clock and this machine's are {apart.total_seconds():.1f} s apart"


_OPERATIONS = "operations.md#maintenance"
_MOVER = "dead-letter-mover.md"
_PROPERTIES = "delivery.md#properties"

PEEKING = (
    Assumption(
        "peek-shows-locked",
        "A peek shows locked messages too, with their properties' AMQP types.",
        "copies keep the types of properties that are not ours, and the mover those of all",
        _PROPERTIES,
        _peek_shows_locked,
    ),
    Assumption(
        "peek-goes-on-with-the-next",
        "Where a number is gone, a peek answers with the next message.",
        "a copy never gets the properties of another message, and no page ends too early",
        _PROPERTIES,
        _peek_goes_on_with_the_next,
    ),
    Assumption(
        "peek-has-an-end",
        "Beyond the last message a peek answers with nothing.",
        "who looks through a queue comes to an end: the mover, and the removal of payloads",
        _OPERATIONS,
        _peek_has_an_end,
    ),
    Assumption(
        "peek-tells-scheduled",
        "A peek tells scheduled messages from others, and nobody receives them before.",
        "the dead-letter mover leaves them alone; backoff is waited for",
        f"{_MOVER}#rules",
        _peek_tells_scheduled,
    ),
    Assumption(
        "dead-letters-ascend",
        "Dead letters are peeked at in the order of their numbers, and received under them.",
        "the dead-letter mover decides on what it has peeked at, and moves what it receives",
        _MOVER,
        _dead_letters_ascend,
    ),
    Assumption(
        "life-is-shown",
        "A message that is sent without a time to live shows the queue's.",
        "maintenance sees what has expired; a scheduled copy lives no longer than its original",
        _OPERATIONS,
        _life_is_shown,
    ),
    Assumption(
        "clocks-agree",
        "The broker's clock and ours differ by less than 30 s.",
        "a lock that must be young is not renewed before the target is touched",
        "delivery.md#locks",
        _clocks_agree,
    ),
)
