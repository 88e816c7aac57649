"""How queues were made and what they hold, by the administration endpoint."""

from dataclasses import fields
from datetime import timedelta

from models.queues import PROCESSING_QUEUES
from operator_console.probe.ports import Counts, NoRightError, QueueRules
from operator_console.probe.scene import Scene
from operator_console.probe.verdicts import Assumption, UntestedError, expect

#: The administration may be late.
_PATIENCE, _STEP = timedelta(seconds=30), timedelta(seconds=1)

_NAMES = {
    "lock_duration": "LockDuration",
    "max_delivery_count": "MaxDeliveryCount",
    "time_to_live": "DefaultMessageTimeToLive",
    "dead_letters_expired": "DeadLetteringOnMessageExpiration",
    "detects_duplicates": "RequiresDuplicateDetection",
    "requires_sessions": "RequiresSession",
    "forwards_to": "ForwardTo",
}


def _this_queue_is_like_ours(scene: Scene) -> str:
    if scene.rules is None:
        raise UntestedError(scene.why_no_rules)
    name = next(iter(PROCESSING_QUEUES.values()))
    wanted = scene.wanted[name]
    wrong = [
        text
        for key, text in _differences(wanted, scene.rules).items()
        # The probe waits for locks: a short one is what it asks for.
        if key != "lock_duration" or scene.rules.lock_duration > wanted.lock_duration
    ]
    expect(not wrong, f"it differs from {name} in servicebus.json: {', '.join(wrong)}")
    lock = scene.rules.lock_duration.total_seconds()
    return f"it is made like {name} in servicebus.json, with a lock of {lock:g} s"


def _our_queues_are_as_written(scene: Scene) -> str:
    wrong: list[str] = []
    missing: list[str] = []
    for name, wanted in scene.wanted.items():
        found = _rules(scene, name)
        if found is None:
            missing.append(name)
        elif differences := _differences(wanted, found):
            wrong.append(f"{name}: {', '.join(differences.values())}")
    expect(not wrong, f"these differ from servicebus.json: {'; '.join(wrong)}")
    if len(missing) == len(scene.wanted):
        msg = "the namespace has none of the app's queues"
        raise UntestedError(msg)
    expect(not missing, f"these queues of servicebus.json are missing: {', '.join(missing)}")
    return f"{len(scene.wanted)} queues are as servicebus.json says"


def _rules(scene: Scene, name: str) -> QueueRules | None:
    try:
        return scene.queue.rules(name)
    except NoRightError as error:
        raise UntestedError(str(error)) from None


def _differences(wanted: QueueRules, found: QueueRules) -> dict[str, str]:
    names = [field.name for field in fields(QueueRules)]
    pairs = {name: (getattr(wanted, name), getattr(found, name)) for name in names}
    return {
        name: f"{_NAMES[name]} is {there}, not {here}"
        for name, (here, there) in pairs.items()
        if here != there
    }


def _counts_are_right(scene: Scene) -> str:
    if scene.rules is None:
        raise UntestedError(scene.why_no_rules)
    scene.send(3)
    scene.queue.dead_letter(scene.one().lock_token, "probe", "", {})
    scene.one()
    scene.send(due=scene.waiting.now() + timedelta(hours=1))
    wanted = Counts(active=2, scheduled=1, dead_letters=1)
    started = scene.waiting.elapsed()
    while (found := _counts(scene)) != wanted:
        expect(
            scene.waiting.elapsed() - started < _PATIENCE,
            f"for 30 s it says {_words(found)} of {_words(wanted)}",
        )
        scene.waiting.sleep(_STEP)
    late = (scene.waiting.elapsed() - started).total_seconds()
    return f"{_words(wanted)} were counted right, after {late:.1f} s; a locked one is active"


def _counts(scene: Scene) -> Counts:
    try:
        return scene.queue.counts()
    except NoRightError as error:
        raise UntestedError(str(error)) from None


def _words(counts: Counts) -> str:
    return (
        f"{counts.active} active, {counts.scheduled} scheduled and {counts.dead_letters} "
        "dead-lettered messages"
    )


_BEFORE = "operations.md#before-the-first-run"

ADMINISTRATION = (
    Assumption(
        "this-queue-is-like-ours",
        "The probed queue is made as servicebus.json says of sbqhigh; its lock may be shorter.",
        "what the probe finds here is true of the app's queues, too",
        _BEFORE,
        _this_queue_is_like_ours,
    ),
    Assumption(
        "our-queues-are-as-written",
        "The app's queues in this namespace are made as servicebus.json says (only looked at).",
        "backoff, renewal and the last attempt go by the numbers in that file",
        _BEFORE,
        _our_queues_are_as_written,
    ),
    Assumption(
        "counts-are-right",
        "The administration counts active (also locked), scheduled and dead-lettered messages.",
        "the metric QueueDepth, and the alarms on it",
        "operations.md#metrics",
        _counts_are_right,
    ),
)
