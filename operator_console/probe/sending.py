"""What is taken from senders, how it arrives, and whether links come back after a pause."""

from collections.abc import Callable
from datetime import timedelta

from delivery.errors import UnavailableError
from models.message_properties import DEAD_LETTER_REASON
from operator_console.probe.encoding import AWKWARD, NULL_VALUE, differing, text
from operator_console.probe.ports import RefusedError, TooLargeError
from operator_console.probe.scene import Scene
from operator_console.probe.verdicts import Assumption, RefutedError, UntestedError, expect, spoken
from services.broker_limits import LARGEST_BODY_BYTES, MESSAGES_PER_BATCH

#: The one that takes long.
LINKS_COME_BACK = "links-come-back"

#: What a message may have in the Standard tier.
_LARGEST = 256 * 1024

#: So much is sent to a broker that says it takes less; a premium namespace may take 100 MB.
_MOST_SENT = 4 * 1024 * 1024

_BODY_BYTES = 1_000
_SHORT = timedelta(seconds=1)
_SOON = timedelta(seconds=2)
_PATIENCE = timedelta(seconds=30)
_LONG_IDLE = timedelta(minutes=10)


def _largest_message_fits(scene: Scene) -> str:
    largest = scene.queue.largest()
    expect(largest >= _LARGEST, f"the broker takes messages of at most {largest:,} bytes")
    scene.send(body=bytes(LARGEST_BODY_BYTES))
    arrived = len(scene.the_one_shown().body)
    expect(arrived == LARGEST_BODY_BYTES, f"of the largest body {arrived:,} bytes arrived")
    return f"it takes {largest:,} bytes, and a body of {LARGEST_BODY_BYTES:,} arrived whole"


def _full_batch_arrives(scene: Scene) -> str:
    sent = scene.send(MESSAGES_PER_BATCH, body=bytes(_BODY_BYTES))
    shown = [message.message_id for message in scene.shown()]
    expect(
        shown == [parcel.message_id for parcel in sent],
        f"of a batch of {len(sent)} messages {len(shown)} arrived, or in another order",
    )
    return f"a batch of {len(sent)} messages of {_BODY_BYTES:,} bytes arrived whole and in order"


def _too_large_is_refused(scene: Scene) -> str:
    size = scene.queue.largest() + 16 * 1024
    if size > _MOST_SENT:
        msg = f"the broker takes up to {size:,} bytes, more than the probe sends"
        raise UntestedError(msg)
    try:
        scene.queue.send_alone(scene.parcel(body=bytes(size)))
    except TooLargeError:
        pass
    except RefusedError as error:
        seen = f"it was refused, but not as too large: {error}"
        raise RefutedError(seen) from None
    else:
        seen = f"a message of {size:,} bytes was accepted"
        raise RefutedError(seen)
    scene.send()
    scene.the_one_shown()
    return f"a message of {size:,} bytes was refused as too large, and the same sender went on"


def _same_id_arrives_twice(scene: Scene) -> str:
    parcel = scene.parcel()
    scene.queue.send([parcel])
    scene.queue.send([parcel])
    shown = len(scene.shown())
    expect(shown == 2, f"of two messages of one id {shown} arrived; duplicate detection is on")  # noqa: PLR2004 - as sent
    return "two messages of one id arrived both"


def _null_is_harmless(scene: Scene) -> str:
    scene.send(properties={"Nothing": NULL_VALUE})
    found = scene.the_one_shown().properties.get("Nothing")
    expect(found in {None, NULL_VALUE}, "a property without a value arrived with one")
    scene.one()
    kept = "as null" if found else "without it"
    return f"a message with a property that is null arrived {kept}, and was handed out"


def _awkward_types_pass(scene: Scene) -> str:
    scene.send(properties=AWKWARD)
    wrong = differing(AWKWARD, scene.the_one_shown().properties)
    expect(not wrong, f"these AMQP types did not come through: {', '.join(wrong)}")
    return f"{', '.join(AWKWARD)} came through byte for byte"


def _scheduled_comes_when_due(scene: Scene) -> str:
    parcel = scene.parcel(due=scene.waiting.now() + _SOON)
    scene.queue.send([parcel])
    number = scene.the_one_shown().number
    deadline = scene.waiting.elapsed() + _PATIENCE
    while scene.the_one_shown().is_scheduled:
        expect(scene.waiting.elapsed() < deadline, "30 s after a message was due it did not come")
        scene.waiting.sleep(_SHORT)
    held = scene.one()
    expect(held.message_id == parcel.message_id, "a scheduled message came under another id")
    expect(held.failures == 0, f"a scheduled message came with the count {held.failures}")
    return f"it came under its id with the count 0, number {held.number} after {number}"


def _expired_is_dead_lettered(scene: Scene) -> str:
    if scene.rules is not None and not scene.rules.dead_letters_expired:
        msg = "the queue drops expired messages; make it with dead-lettering on expiration"
        raise UntestedError(msg)
    scene.send(time_to_live=_SHORT)
    scene.waiting.sleep(_SOON)
    deadline = scene.waiting.elapsed() + _PATIENCE
    while not scene.shown(dead=True):
        expect(not scene.comes(), "a message was handed out after its time to live")
        expect(
            scene.waiting.elapsed() < deadline,
            "30 s after a message expired it is no dead letter, although somebody received",
        )
    reason = text(scene.the_one_shown(dead=True).properties.get(DEAD_LETTER_REASON))
    expect(reason == "TTLExpiredException", f"the reason on the dead letter is {reason!r}")
    return f"an expired message became a dead letter with the reason {reason}"


def _links_come_back(scene: Scene) -> str:
    if not scene.idle:
        msg = "left out by --idle 0"
        raise UntestedError(msg)
    scene.send()
    scene.queue.complete([scene.one().lock_token])
    scene.waiting.sleep(scene.idle)
    first: list[str] = []
    uses: dict[str, Callable[[], object]] = {
        "sending": scene.send,
        "peeking": scene.shown,
        "receiving": scene.one,
    }
    for name, use in uses.items():
        try:
            use()
        except (RefusedError, UnavailableError, RefutedError):
            first.append(name)
            _again(name, use)
    trouble = f"{', '.join(first)} failed once and then worked" if first else "all worked at once"
    note = "" if scene.idle > _LONG_IDLE else " (Azure detaches after 10 minutes: too short a gap)"
    return f"after {spoken(scene.idle)} without a word {trouble}{note}"


def _again(name: str, use: Callable[[], object]) -> None:
    try:
        use()
    except (RefusedError, UnavailableError, RefutedError) as error:
        seen = f"after the gap {name} failed twice: {error}"
        raise RefutedError(seen) from None


_DUPLICATES = "delivery.md#where-duplicates-come-from"
_LIMITS = "service-bus-emulator.md#what-it-does"
_BYTES = "decisions/0011-resubmitted-messages-are-made-of-their-own-bytes.md"

SENDING = (
    Assumption(
        "largest-message-fits",
        "A message may have 256 KB, and the largest body that we send fits.",
        "bodies travel inside the message up to 192 KB, by claim check beyond",
        _LIMITS,
        _largest_message_fits,
    ),
    Assumption(
        "full-batch-arrives",
        "A batch of 200 messages is accepted as a whole.",
        "detection counts a batch as sent, and then moves the watermark",
        "architecture.md#the-app",
        _full_batch_arrives,
    ),
    Assumption(
        "too-large-is-refused",
        "A message over the limit is refused as too large, and its sender stays usable.",
        "one record that is too large does not stop the others",
        _LIMITS,
        _too_large_is_refused,
    ),
    Assumption(
        "same-id-arrives-twice",
        "Two messages with one id both arrive.",
        "resets, resubmissions and repeats would be swallowed silently otherwise",
        _DUPLICATES,
        _same_id_arrives_twice,
    ),
    Assumption(
        "null-is-harmless",
        "A property that is null disturbs nobody.",
        "messages of others with such properties; ours have none",
        "delivery.md#properties",
        _null_is_harmless,
    ),
    Assumption(
        "awkward-types-pass",
        "Chars and small decimals pass through the broker as they are encoded.",
        "the dead-letter mover sends messages again byte for byte",
        _BYTES,
        _awkward_types_pass,
    ),
    Assumption(
        "scheduled-comes-when-due",
        "A scheduled message comes when it is due, under its own id and with the count 0.",
        "attempts that wait longer than 25 s, and suspects that come back apart",
        "delivery.md#how-long-it-waits",
        _scheduled_comes_when_due,
    ),
    Assumption(
        "expired-is-dead-lettered",
        "An expired message becomes a dead letter when somebody receives.",
        "maintenance lets transitive messages come to their end",
        "operations.md#maintenance",
        _expired_is_dead_lettered,
    ),
    Assumption(
        LINKS_COME_BACK,
        "After an idle gap, in which the broker detaches links, the second attempt works.",
        "settling, renewing and posting try once more on a new link",
        "service-bus-emulator.md#what-it-does",
        _links_come_back,
    ),
)
