"""Which queues the probe keeps away from."""

import re
from datetime import timedelta

from delivery.errors import ConfigurationError, RejectedError
from models.queues import ALL_QUEUES
from operator_console.probe.ports import Held, NoRightError, ProbedQueue, QueueRules
from operator_console.probe.scene import ForeignMessageError, Scene, peek_all
from operator_console.probe.verdicts import RefutedError

#: Nothing of Service Bus: no dead-letter queue, no path to a part of a queue.
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,258}[A-Za-z0-9])?")

_FEWEST_DELIVERIES = 5

#: In this time somebody else who receives has taken the first message.
_TEMPTATION = timedelta(seconds=1)


def why_not(name: str) -> str:
    """Return why a queue of this name is not probed; empty where it may be.

    The app's own queues never are, whatever they hold: the app receives from them and would take
    the probe's messages, and the probe learns nothing there that a queue made alike does not tell.
    """
    if not _NAME.fullmatch(name):
        return f"{name!r} is no name of a queue; name one that was made for the probe"
    # Service Bus does not tell upper case from lower case.
    if name.lower() in ALL_QUEUES:
        return f"{name} is a queue of the app, which is never probed; make one for the probe"
    return ""


def examine(scene: Scene, name: str) -> None:
    """Look whether the queue can be used and is nobody's; learn its rules and its lock.

    Raise RejectedError where it is not to be touched, before anything is sent; ForeignMessageError
    where the first message shows that somebody else receives.
    """
    _refuse_a_queue_that_holds_something(scene.queue, name)
    try:
        scene.rules = scene.queue.rules()
        scene.why_no_rules = "the administration endpoint knows no such queue"
    except NoRightError as error:
        scene.why_no_rules = str(error)
    if scene.rules is not None:
        _refuse_unfit_rules(scene.rules, name)


def _refuse_a_queue_that_holds_something(queue: ProbedQueue, name: str) -> None:
    for dead in (False, True):
        place = "dead-letter queue" if dead else "queue"
        if first := next(peek_all(queue, dead=dead), None):
            kind = "a scheduled message" if first.is_scheduled else "a message"
            msg = (
                f"the {place} of {name} is not empty ({kind}, number {first.number}); nothing was "
                "touched; name a queue that was made for the probe"
            )
            raise RejectedError(msg)


def _refuse_unfit_rules(rules: QueueRules, name: str) -> None:
    if rules.forwards_to:
        trouble = f"forwards its messages to {rules.forwards_to}"
    elif rules.requires_sessions:
        trouble = "requires sessions, which the app does not use"
    elif rules.max_delivery_count < _FEWEST_DELIVERIES:
        trouble = f"gives a message up after {rules.max_delivery_count} deliveries"
    else:
        return
    msg = f"{name} {trouble}; nothing was touched; make a queue as docs/operator-console.md says"
    raise RejectedError(msg)


def try_out(scene: Scene) -> None:
    """Send one message through queue and dead-letter queue, and measure its lock."""
    scene.send()
    sent = scene.waiting.elapsed()
    scene.waiting.sleep(_TEMPTATION)
    try:
        held = scene.one()
        if scene.rules is None:
            scene.lock = _measured(held, scene.waiting.elapsed() - sent)
        else:
            scene.lock = scene.rules.lock_duration
        if held.failures:
            raise ForeignMessageError(_OTHERS)
        scene.queue.dead_letter(held.lock_token, "probe", "", {})
        scene.one(dead=True)
    except RefutedError as error:
        msg = f"{error}: {_OTHERS}, or the queue forwards its messages"
        raise ForeignMessageError(msg) from None


_OTHERS = "somebody else receives from the queue; take one that nobody uses"


def _measured(held: Held, since_sent: timedelta) -> timedelta:
    """Return how long a lock lasts; both times are of the broker's clock."""
    if held.locked_until is None or held.enqueued is None:
        msg = "the broker does not say until when a message is locked"
        raise ConfigurationError(msg)
    lock = held.locked_until - held.enqueued - since_sent
    return max(lock, timedelta(milliseconds=100))
