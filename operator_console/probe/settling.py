"""What settling over another connection does, by lock token alone."""

from delivery.errors import LockLostError, UnavailableError
from delivery.retry import ATTEMPTS_EXHAUSTED
from models.message_properties import (
    DEAD_LETTER_ERROR_DESCRIPTION,
    DEAD_LETTER_REASON,
    ERROR_DELIVERY_COUNT,
    ERROR_MESSAGE,
    ERROR_STACK_TRACE,
)
from operator_console.probe.encoding import EVERY_TYPE, differing, integer, text
from operator_console.probe.ports import RefusedError, Seen
from operator_console.probe.scene import Scene
from operator_console.probe.verdicts import Assumption, RefutedError, UntestedError, expect
from services.amqp_sections import string
from services.broker_limits import (
    DEAD_LETTER_TEXT_BYTES,
    ERROR_MESSAGE_BYTES,
    ERROR_STACK_TRACE_BYTES,
)

_FIRST = {"ErrorMessage": "first", "Kept": "as it was"}
_CHANGES: dict[str, str | int] = {ERROR_MESSAGE: "second", ERROR_DELIVERY_COUNT: 1}
_TWO_BYTES = "ü"
_TOO_LONG = "x" * 70_000

#: Higher than what `servicebus.json` says for processing queues; the side queues have 2,000.
_MOST_ROUNDS = 20


def _abandoned(scene: Scene) -> Seen:
    scene.send(properties={**EVERY_TYPE, **{name: string(v) for name, v in _FIRST.items()}})
    scene.queue.abandon(scene.one().lock_token, _CHANGES)
    return scene.the_one_shown()


def _abandon_merges(scene: Scene) -> str:
    seen = _abandoned(scene)
    wanted = {ERROR_MESSAGE: string("second"), "Kept": string("as it was")}
    wrong = differing({**wanted, ERROR_DELIVERY_COUNT: integer(1)}, seen.properties)
    expect(not wrong, f"after the abandon these properties are not as expected: {', '.join(wrong)}")
    expect(seen.body == b"probe", "the body had changed after the abandon")
    return "a new property was added, one of the same name replaced, and the others stayed"


def _abandon_keeps_types(scene: Scene) -> str:
    seen = _abandoned(scene)
    wrong = differing(EVERY_TYPE, seen.properties)
    expect(not wrong, f"these AMQP types or values were lost: {', '.join(wrong)}")
    return f"{len(EVERY_TYPE)} properties of as many AMQP types came through unchanged"


def _abandon_counts(scene: Scene) -> str:
    scene.send()
    first = scene.one()
    scene.queue.abandon(first.lock_token, _CHANGES)
    second = scene.one()
    counts = f"the count was {first.failures} at the first delivery and {second.failures} after"
    expect((first.failures, second.failures) == (0, 1), f"{counts} the abandon, not 0 and 1")
    return f"{counts} one abandon"


def _release_does_not_count(scene: Scene) -> str:
    scene.send()
    scene.queue.release_here(scene.one())
    again = scene.one()
    expect(again.failures == 0, f"a released message came back with the count {again.failures}")
    return "a released message came back with the count 0"


def _late_abandon_is_harmless(scene: Scene) -> str:
    scene.send()
    held = scene.one()
    scene.queue.abandon(held.lock_token, _CHANGES)
    try:
        scene.queue.abandon_here(held)
    except LockLostError:
        pass
    else:
        msg = "the abandon on the receiver's own link was accepted after ours"
        raise RefutedError(msg)
    seen = scene.the_one_shown()
    wrong = differing({ERROR_MESSAGE: string("second")}, seen.properties)
    expect(seen.failures == 1, f"two abandons of one delivery counted {seen.failures} times")
    expect(not wrong, "the second abandon took the first one's properties away")
    scene.one()
    return "the second abandon met a lost lock, changed nothing, and the link went on receiving"


def _dead_letter_carries_all(scene: Scene) -> str:
    scene.send(properties=EVERY_TYPE)
    scene.queue.dead_letter(scene.one().lock_token, "unreadable", "größer", _CHANGES)
    seen = scene.the_one_shown(dead=True)
    wanted = {DEAD_LETTER_REASON: "unreadable", DEAD_LETTER_ERROR_DESCRIPTION: "größer"}
    texts = {name: string(value) for name, value in {**wanted, ERROR_MESSAGE: "second"}.items()}
    wrong = differing({**EVERY_TYPE, **texts}, seen.properties)
    expect(not wrong, f"on the dead letter these are missing or differ: {', '.join(wrong)}")
    expect(not scene.shown(), "the message is still in the queue, too")
    scene.one(dead=True)
    return f"reason, description and properties arrived; its delivery count is {seen.failures}"


def _attempts_end(scene: Scene) -> str:
    most = scene.rules.max_delivery_count if scene.rules else _MOST_ROUNDS
    if most > _MOST_ROUNDS:
        msg = f"the queue delivers {most} times; give it a maximum delivery count of 10"
        raise UntestedError(msg)
    scene.send()
    rounds = 0
    while rounds < most and not scene.shown(dead=True):
        scene.queue.abandon(scene.one().lock_token, {ERROR_DELIVERY_COUNT: (rounds := rounds + 1)})
    expect(scene.shown(dead=True), f"after {rounds} failed deliveries it is still no dead letter")
    found = scene.the_one_shown(dead=True)
    reason = text(found.properties.get(DEAD_LETTER_REASON))
    expect(reason == ATTEMPTS_EXHAUSTED, f"the reason on the dead letter is {reason!r}")
    wrong = differing({ERROR_DELIVERY_COUNT: integer(rounds)}, found.properties)
    expect(not wrong, "the last abandon's properties are not on the dead letter")
    expect(
        scene.rules is None or rounds == most,
        f"it became a dead letter after {rounds} deliveries, and the queue's maximum is {most}",
    )
    return f"after {rounds} failed deliveries it was a dead letter with the reason {reason}"


def _longest_texts_are_taken(scene: Scene) -> str:
    scene.send()
    texts: dict[str, str | int] = {
        ERROR_MESSAGE: _TWO_BYTES * (ERROR_MESSAGE_BYTES // 2),
        ERROR_STACK_TRACE: _TWO_BYTES * (ERROR_STACK_TRACE_BYTES // 2),
    }
    scene.queue.abandon(scene.one().lock_token, texts)
    description = _TWO_BYTES * (DEAD_LETTER_TEXT_BYTES // 2)
    scene.queue.dead_letter(scene.one().lock_token, "unreadable", description, texts)
    found = scene.the_one_shown(dead=True).properties
    whole = text(found.get(DEAD_LETTER_ERROR_DESCRIPTION)) == description
    expect(whole, "the description on the dead letter is not the whole one")
    for name, wanted in texts.items():
        expect(text(found.get(name)) == wanted, f"{name} on the dead letter is not the whole one")
    return "the longest message, stack trace and description that we write arrived whole"


def _too_long_is_refused(scene: Scene) -> str:
    scene.send()
    held = scene.one()
    try:
        scene.queue.abandon(held.lock_token, {ERROR_STACK_TRACE: _TOO_LONG})
    except RefusedError as error:
        answer = str(error)
    else:
        seen = "a property of 70,000 characters was accepted with an abandon"
        raise RefutedError(seen)
    try:
        scene.queue.complete([held.lock_token])
    except (RefusedError, UnavailableError):
        # The refusal has closed the link: the next attempt opens another, as in the app.
        scene.queue.complete([held.lock_token])
    expect(not scene.shown(), "after the refusal the message was completed, and is still there")
    return f"it was refused ({answer}); the message stayed locked, and was completed then"


_PAGE = "delivery.md#properties"
_DECISION_2 = "decisions/0002-the-host-completes-we-abandon.md"

SETTLING = (
    Assumption(
        "abandon-merges",
        "Abandoning by lock token over another connection merges properties into the message's.",
        "the reason of a failure stands on the message while it is tried again",
        _DECISION_2,
        _abandon_merges,
    ),
    Assumption(
        "abandon-keeps-types",
        "Properties that an abandon does not name keep their values and AMQP types.",
        "what others put onto a message reaches its copies and resubmissions",
        _PAGE,
        _abandon_keeps_types,
    ),
    Assumption(
        "abandon-counts",
        "An abandoned message comes back with a delivery count that is one higher.",
        "the number of the attempt, and so the backoff and the end after ten",
        "delivery.md#how-long-it-waits",
        _abandon_counts,
    ),
    Assumption(
        "release-does-not-count",
        "A message that a receiver releases comes back with the same delivery count.",
        "what the host gives back on its way down is no suspect of having ended a worker",
        "decisions/0008-suspects-come-back-apart.md",
        _release_does_not_count,
    ),
    Assumption(
        "late-abandon-is-harmless",
        "After we have abandoned a message, the host's own abandon meets a lost lock.",
        "a failure counts once, and our properties stay",
        _DECISION_2,
        _late_abandon_is_harmless,
    ),
    Assumption(
        "dead-letter-carries-all",
        "A dead letter made by lock token has our reason, description and properties, and its own.",
        "the mover groups dead letters by them, and brings them back",
        _PAGE,
        _dead_letter_carries_all,
    ),
    Assumption(
        "attempts-end",
        "After the queue's maximum of deliveries the broker makes a dead letter of the message.",
        "a message that ends every worker does not come back for ever",
        "delivery.md#what-happens-to-a-message",
        _attempts_end,
    ),
    Assumption(
        "longest-texts-are-taken",
        "The longest texts that we write fit onto a message, and into a dead letter's description.",
        "the lengths in services/broker_limits.py; a refused one would lose the reason",
        "service-bus-emulator.md#what-it-does",
        _longest_texts_are_taken,
    ),
    Assumption(
        "too-long-is-refused",
        "Properties over the limit are refused, and the message stays locked for us.",
        "a failure whose details are refused still ends in an abandon",
        "service-bus-emulator.md#how-it-differs-from-azure",
        _too_long_is_refused,
    ),
)
