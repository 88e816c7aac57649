"""Links: what all have in common, a sender's to a queue, and a request-response node's two."""

import asyncio
from typing import TYPE_CHECKING, NamedTuple, Protocol

from proton import Link

from devstack.service_bus import engine
from devstack.service_bus.amqp_sections import MAX_BATCH, MAX_MESSAGE, TooLargeError, messages
from devstack.service_bus.queue import Queue
from devstack.service_bus.refusals import REFUSED, refusal

if TYPE_CHECKING:
    from devstack.service_bus.broker import Entity
    from devstack.service_bus.connection import Connection

CREDIT = 1000


class Desk(Protocol):
    """Answers the requests of a request-response node."""

    def answer(self, request: bytes) -> tuple[str, bytes]:
        """Return the address for the answer, and the answer, encoded."""


class Attach(NamedTuple):
    """Which link a client attaches, and the path that it names."""

    connection: "Connection"
    pointer: engine.Pointer
    link: Link
    path: str


class Endpoint:
    """A link, with the time when it was last used."""

    def __init__(self, attach: Attach) -> None:
        self._connection = attach.connection
        self._pointer = attach.pointer
        self._time = asyncio.get_running_loop().time
        self.name: str = attach.link.name
        self.path = attach.path
        self.active_at = self._time()
        engine.accept_link(attach.link, MAX_MESSAGE)

    def on_delivery(self, delivery: engine.Pointer) -> None:
        """Handle a transfer or a disposition."""

    def on_flow(self) -> None:
        """Handle new credit or a request to drain."""

    def on_close(self) -> None:
        """Forget the link, which is gone."""


class _Incoming(Endpoint):
    def __init__(self, attach: Attach) -> None:
        super().__init__(attach)
        engine.grant(attach.pointer, CREDIT)

    def on_delivery(self, delivery: engine.Pointer) -> None:
        """Take the message, once all of it has arrived."""
        self.active_at = self._time()
        if engine.is_aborted(delivery):
            engine.settle(delivery, engine.RELEASED)
            return
        if not engine.is_whole(delivery):
            if engine.size(delivery) > MAX_BATCH + MAX_MESSAGE:
                condition, _, text = refusal(TooLargeError("The delivery is far too large."))
                engine.detach(self._pointer, condition, text)
            return
        payload = engine.receive(self._pointer, delivery)
        self._take(delivery, payload)
        if engine.credit(self._pointer) < CREDIT // 2:
            engine.grant(self._pointer, CREDIT // 2)

    def _take(self, delivery: engine.Pointer, payload: bytes) -> None:
        raise NotImplementedError


class Production(_Incoming):
    """A sender's link to a queue."""

    def __init__(self, attach: Attach, entity: "Entity") -> None:
        super().__init__(attach)
        if not isinstance(entity.queue, Queue):
            raise TypeError
        self._entity = entity
        self._queue = entity.queue

    def _take(self, delivery: engine.Pointer, payload: bytes) -> None:
        broker = self._connection.broker
        now = broker.now()
        try:
            incoming = messages(payload)
        except REFUSED as error:
            condition, _, text = refusal(error)
            engine.reject(delivery, condition, text)
            return
        send = self._queue.send
        for one in incoming:
            send(one.content, now, message_id=one.message_id, ttl=one.ttl, due=one.due)
        if broker.arrivals is not None:
            broker.arrivals.note(self._queue.settings.name, incoming, now)
        broker.touch(self._entity)
        engine.settle(delivery, engine.ACCEPTED)


class Requests(_Incoming):
    """The link on which a request-response node is asked."""

    def __init__(self, attach: Attach, desk: Desk) -> None:
        super().__init__(attach)
        self._desk = desk
        self._session = engine.session_of(attach.pointer)

    def _take(self, delivery: engine.Pointer, payload: bytes) -> None:
        try:
            reply_to, answer = self._desk.answer(payload)
        except REFUSED as error:
            condition, _, text = refusal(error)
            engine.reject(delivery, condition, text)
            return
        engine.settle(delivery, engine.ACCEPTED)
        self._connection.reply(self._session, self.path, reply_to, answer)


class Replies(Endpoint):
    """The link on which a request-response node answers."""

    def __init__(self, attach: Attach) -> None:
        super().__init__(attach)
        self.target: str = attach.link.remote_target.address or ""
        self.session = engine.session_of(attach.pointer)
        self._sent = 0

    def send(self, answer: bytes) -> None:
        """Send an answer, settled: nobody waits to hear that it arrived."""
        self.active_at = self._time()
        self._sent += 1
        engine.send(self._pointer, self._sent.to_bytes(8), answer, settled=True)
