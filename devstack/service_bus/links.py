"""The four kinds of link: a sender's, a receiver's, and the two of a request-response node."""

import asyncio
from typing import TYPE_CHECKING, Protocol

from proton import Link

from devstack.service_bus import engine
from devstack.service_bus.amqp_sections import (
    MAX_BATCH,
    MAX_MESSAGE,
    PropertiesTooLargeError,
    TooLargeError,
    messages,
    render,
    with_properties,
)
from devstack.service_bus.amqp_values import MalformedError, read
from devstack.service_bus.broker import Entity
from devstack.service_bus.queue import (
    Content,
    DeadLetter,
    LockLostError,
    Message,
    NotADeadLetterError,
    Queue,
)

if TYPE_CHECKING:
    from devstack.service_bus.connection import Connection

CREDIT = 1000
MAX_REASON = 4096

LOCK_LOST = "com.microsoft:message-lock-lost"
OUT_OF_RANGE = "com.microsoft:argument-out-of-range"
SIZE_EXCEEDED = "amqp:link:message-size-exceeded"
DECODE_ERROR = "amqp:decode-error"
NOT_ALLOWED = "amqp:not-allowed"
LOCK_LOST_TEXT = (
    "The lock supplied is invalid. Either the lock expired, or the message has already been "
    "removed from the queue."
)


class Desk(Protocol):
    """Answers the requests of a request-response node."""

    def answer(self, request: bytes) -> tuple[str, bytes] | None:
        """Return the address and the encoded answer, or None where it cannot be answered."""


class _Link:
    def __init__(
        self, connection: "Connection", pointer: engine.Pointer, link: Link, path: str
    ) -> None:
        self._connection = connection
        self._pointer = pointer
        self._time = asyncio.get_running_loop().time
        self.name: str = link.name
        self.path = path
        self.active_at = self._time()
        engine.accept_link(link, MAX_MESSAGE)

    def on_delivery(self, delivery: engine.Pointer) -> None:
        """Handle a transfer or a disposition."""

    def on_flow(self) -> None:
        """Handle new credit or a request to drain."""

    def on_close(self) -> None:
        """Forget the link, which is gone."""


class _Incoming(_Link):
    def __init__(
        self, connection: "Connection", pointer: engine.Pointer, link: Link, path: str
    ) -> None:
        super().__init__(connection, pointer, link, path)
        self._granted = CREDIT
        engine.grant(pointer, CREDIT)

    def on_delivery(self, delivery: engine.Pointer) -> None:
        """Take the message, once all of it has arrived."""
        self.active_at = self._time()
        if engine.is_aborted(delivery):
            engine.settle(delivery, engine.RELEASED)
            return
        if not engine.is_whole(delivery):
            if engine.size(delivery) > MAX_BATCH + MAX_MESSAGE:
                engine.detach(self._pointer, SIZE_EXCEEDED, "The delivery is far too large.")
            return
        payload = engine.receive(self._pointer, delivery)
        self._take(delivery, payload)
        if engine.credit(self._pointer) < CREDIT // 2:
            engine.grant(self._pointer, CREDIT // 2)

    def _take(self, delivery: engine.Pointer, payload: bytes) -> None:
        raise NotImplementedError


class Production(_Incoming):
    """A sender's link to a queue."""

    def __init__(
        self,
        connection: "Connection",
        pointer: engine.Pointer,
        link: Link,
        path: str,
        entity: Entity,
    ) -> None:
        super().__init__(connection, pointer, link, path)
        if not isinstance(entity.queue, Queue):
            raise TypeError
        self._entity = entity
        self._queue = entity.queue

    def _take(self, delivery: engine.Pointer, payload: bytes) -> None:
        broker = self._connection.broker
        now = broker.now()
        try:
            incoming = messages(payload)
        except PropertiesTooLargeError as error:
            engine.reject(delivery, OUT_OF_RANGE, str(error))
        except TooLargeError as error:
            engine.reject(delivery, SIZE_EXCEEDED, str(error))
        except MalformedError as error:
            engine.reject(delivery, DECODE_ERROR, str(error))
        else:
            send = self._queue.send
            for one in incoming:
                send(one.content, now, message_id=one.message_id, ttl=one.ttl, due=one.due)
            broker.touch(self._entity)
            engine.settle(delivery, engine.ACCEPTED)


class Consumption(_Link):
    """A receiver's link to a queue or a dead-letter queue."""

    def __init__(
        self,
        connection: "Connection",
        pointer: engine.Pointer,
        link: Link,
        path: str,
        entity: Entity,
    ) -> None:
        super().__init__(connection, pointer, link, path)
        self._entity = entity
        self._queue = entity.queue
        self._deletes = link.remote_snd_settle_mode == Link.SND_SETTLED
        entity.consumers.append(self)
        connection.broker.touch(entity)

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
        engine.drained(self._pointer)
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
        except LockLostError:
            engine.reject(delivery, LOCK_LOST, LOCK_LOST_TEXT)
        except NotADeadLetterError as error:
            engine.reject(delivery, NOT_ALLOWED, str(error))
        except PropertiesTooLargeError as error:
            engine.reject(delivery, OUT_OF_RANGE, str(error))
        else:
            engine.settle(delivery, state)
        broker.touch(self._entity)

    def _accepted(self, _: engine.Pointer, token: bytes, now: int) -> None:
        self._queue.complete(token, now)

    def _released(self, _: engine.Pointer, token: bytes, now: int) -> None:
        self._queue.release(token, now)

    def _modified(self, delivery: engine.Pointer, token: bytes, now: int) -> None:
        changes = engine.annotations(delivery)
        content = _changed(self._queue.locked(token, now), changes)
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


class Requests(_Incoming):
    """The link on which a request-response node is asked."""

    def __init__(
        self, connection: "Connection", pointer: engine.Pointer, link: Link, path: str, desk: Desk
    ) -> None:
        super().__init__(connection, pointer, link, path)
        self._desk = desk
        self._session = engine.session_of(pointer)

    def _take(self, delivery: engine.Pointer, payload: bytes) -> None:
        engine.settle(delivery, engine.ACCEPTED)
        answer = self._desk.answer(payload)
        if answer is not None:
            reply_to, encoded = answer
            self._connection.reply(self._session, self.path, reply_to, encoded)


class Replies(_Link):
    """The link on which a request-response node answers."""

    def __init__(
        self, connection: "Connection", pointer: engine.Pointer, link: Link, path: str
    ) -> None:
        super().__init__(connection, pointer, link, path)
        self.target: str = link.remote_target.address or ""
        self.session = engine.session_of(pointer)
        self._sent = 0

    def send(self, answer: bytes) -> None:
        """Send an answer, settled: nobody waits to hear that it arrived."""
        self.active_at = self._time()
        self._sent += 1
        engine.send(self._pointer, self._sent.to_bytes(8), answer, settled=True)


def bury(
    entity: Entity,
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
    content = _changed(entity.queue.locked(token, now), changes)
    entity.queue.dead_letter(token, now, DeadLetter(reason, description, entity.name), content)


def _changed(message: Message, changes: dict[str, bytes]) -> Content | None:
    return with_properties(message.content, changes) if changes else None


def _text(encoded: bytes | None) -> str | None:
    value = None if encoded is None else read(encoded)
    return None if value is None else str(value)


def _swapped(token: bytes) -> bytes:
    """Turn a token into a delivery tag or back: .NET orders a Guid's first fields the other way."""
    return token[3::-1] + token[5:3:-1] + token[7:5:-1] + token[8:]
