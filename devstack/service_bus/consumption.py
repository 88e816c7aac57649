"""A receiver's link: hands out an entity's messages and does what the receiver decides."""

from typing import TYPE_CHECKING

from proton import Link

from devstack.service_bus import engine
from devstack.service_bus.amqp_sections import PropertiesTooLargeError, render, with_properties
from devstack.service_bus.amqp_values import read
from devstack.service_bus.links import Attach, Endpoint
from devstack.service_bus.messages import DeadLetter
from devstack.service_bus.queue import Queue
from devstack.service_bus.refusals import REFUSED, DeadLetterAgainError, refusal

if TYPE_CHECKING:
    from devstack.service_bus.broker import Entity

MAX_REASON = 4096


class Consumption(Endpoint):
    """A receiver's link to a queue or a dead-letter queue."""

    def __init__(self, attach: Attach, entity: "Entity") -> None:
        super().__init__(attach)
        self._entity = entity
        self._queue = entity.queue
        self._deletes = attach.link.remote_snd_settle_mode == Link.SND_SETTLED
        entity.consumers.append(self)
        attach.connection.broker.touch(entity)

    def deliver(self, now: int) -> bool | None:
        """Send one message: False without credit, None where there is no message."""
        if engine.credit(self._pointer) <= 0:
            return False
        queue = self._queue
        message = queue.take_and_delete(now) if self._deletes else queue.take(now)
        if message is None:
            return None
        tag = message.sequence.to_bytes(8) if message.token is None else _swapped(message.token)
        engine.send(self._pointer, tag, render(message), settled=self._deletes)
        self.active_at = self._time()
        self._connection.broker.talk(self._connection)
        return True

    def answer_drain(self) -> None:
        """Use up the credit where the peer asked for that."""
        if engine.drained(self._pointer):
            self._connection.broker.talk(self._connection)

    def on_flow(self) -> None:
        """Hand out messages for the new credit."""
        self.active_at = self._time()
        self._connection.broker.touch(self._entity)

    def on_close(self) -> None:
        """Stop handing out messages here; locks stay until they lapse."""
        self._entity.consumers.remove(self)

    def on_delivery(self, delivery: engine.Pointer) -> None:
        """Do to the message what the receiver decided, and tell it what was done."""
        state = engine.outcome(delivery)
        if state not in _OUTCOMES:
            if engine.is_settled(delivery):
                engine.settle(delivery, 0)
            return
        self.active_at = self._time()
        broker = self._connection.broker
        try:
            _OUTCOMES[state](self, delivery, _swapped(engine.tag(delivery)), broker.now())
        except REFUSED as error:
            condition, _, text = refusal(error)
            engine.reject(delivery, condition, text)
        else:
            engine.settle(delivery, state)
        broker.touch(self._entity)

    def _accepted(self, _: engine.Pointer, token: bytes, now: int) -> None:
        self._queue.complete(token, now)

    def _released(self, _: engine.Pointer, token: bytes, now: int) -> None:
        self._queue.release(token, now)

    def _modified(self, delivery: engine.Pointer, token: bytes, now: int) -> None:
        content = self._queue.locked(token, now).content
        content = with_properties(content, engine.annotations(delivery))
        if engine.is_undeliverable(delivery):
            self._queue.defer(token, now, content)
        else:
            self._queue.abandon(token, now, content)

    def _rejected(self, delivery: engine.Pointer, token: bytes, now: int) -> None:
        text, info = engine.error_info(delivery)
        reason = _text(info.pop("DeadLetterReason", None))
        description = _text(info.pop("DeadLetterErrorDescription", None)) or text or None
        bury(self._entity, token, now, (reason, description), info)


_OUTCOMES = {
    engine.ACCEPTED: Consumption._accepted,  # noqa: SLF001 - its own table
    engine.RELEASED: Consumption._released,  # noqa: SLF001 - its own table
    engine.MODIFIED: Consumption._modified,  # noqa: SLF001 - its own table
    engine.REJECTED: Consumption._rejected,  # noqa: SLF001 - its own table
}


def bury(
    entity: "Entity",
    token: bytes,
    now: int,
    why: tuple[str | None, str | None],
    changes: dict[str, bytes],
) -> None:
    """Move a locked message to the dead-letter queue, for a reason with a description."""
    reason, description = why
    for what, value in (("reason", reason), ("description", description)):
        if value is not None and len(value) > MAX_REASON:
            msg = f"The dead-letter {what} has {len(value)} characters; {MAX_REASON} are the limit."
            raise PropertiesTooLargeError(msg)
    queue = entity.queue
    content = with_properties(queue.locked(token, now).content, changes)
    if not isinstance(queue, Queue):
        raise DeadLetterAgainError
    queue.dead_letter(token, now, DeadLetter(reason, description, entity.name), content)


def _text(encoded: bytes | None) -> str | None:
    value = None if encoded is None else read(encoded)
    return value if isinstance(value, str) else None


def _swapped(token: bytes) -> bytes:
    """Turn a token into a delivery tag or back: .NET orders a Guid's first fields the other way."""
    return token[3::-1] + token[5:3:-1] + token[7:5:-1] + token[8:]
