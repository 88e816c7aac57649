"""The broker: which entities there are, who consumes them, and when what happens.

Whatever changes a queue or wants to say something to a peer only marks it. Once per turn of the
event loop `flush` hands out messages, commits, and only then lets the connections write: nothing
is said before it is kept.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Protocol

from devstack.service_bus.messages import Journal, QueueSettings
from devstack.service_bus.queue import Queue
from devstack.service_bus.sas import AccessKey
from devstack.service_bus.shelf import DeadLetterQueue
from devstack.service_bus.store import StoreError

if TYPE_CHECKING:
    from devstack.service_bus.arrivals import Arrivals

_LOG = logging.getLogger(__name__)

DEAD_LETTER_SUFFIX = "/$deadletterqueue"


class Store(Journal, Protocol):
    """A journal that can be written and read."""

    def open_queue(self, settings: QueueSettings) -> Queue:
        """Return the queue with everything that was kept of it."""

    def commit(self) -> None:
        """Write everything collected since the last commit, whole or not at all."""

    def close(self) -> None:
        """Close the store."""


class Consumer(Protocol):
    """A link that takes an entity's messages."""

    def deliver(self, now: int) -> bool | None:
        """Send one message: False without credit, None where there is no message."""

    def answer_drain(self) -> None:
        """Use up the credit where the peer asked for that."""


class Peer(Protocol):
    """A connection that can write."""

    def write(self) -> None:
        """Send what is waiting to be sent."""


class Entity:
    """A queue or a dead-letter queue, with those who consume it."""

    def __init__(self, name: str, queue: Queue | DeadLetterQueue) -> None:
        self.name = name
        self.queue = queue
        self.consumers: deque[Consumer] = deque()
        self.timer: asyncio.TimerHandle | None = None
        self.dead_letters: Entity | None = None

    def hand_out(self, now: int) -> None:
        """Give the available messages to consumers with credit, in turn."""
        self.queue.advance(now)
        consumers = self.consumers
        without_credit = 0
        while without_credit < len(consumers):
            consumer = consumers[0]
            consumers.rotate(-1)
            delivered = consumer.deliver(now)
            if delivered is None:
                break
            without_credit = 0 if delivered else without_credit + 1
        for consumer in consumers:
            consumer.answer_drain()


class Broker:
    """All entities of the namespace, and the one place that commits."""

    def __init__(
        self,
        queues: Iterable[QueueSettings],
        store: Store,
        key: AccessKey,
        on_failure: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.key = key
        self.clock = clock
        self.queues: dict[str, Queue] = {}
        #: None: nobody wants to know what arrives.
        self.arrivals: Arrivals | None = None
        self._store = store
        self._on_failure = on_failure
        self._entities: dict[str, Entity] = {}
        self._changed: dict[Entity, None] = {}
        self._talking: dict[Peer, None] = {}
        self._flush_is_due = False
        for settings in queues:
            self._add(settings)

    def _add(self, settings: QueueSettings) -> None:
        queue = self._store.open_queue(settings)
        self.queues[settings.name] = queue
        entity = Entity(settings.name, queue)
        entity.dead_letters = Entity(f"{settings.name}/$DeadLetterQueue", queue.dead_letters)
        self._entities[settings.name.lower()] = entity
        self._entities[settings.name.lower() + DEAD_LETTER_SUFFIX] = entity.dead_letters

    def now(self) -> int:
        """Return the time in milliseconds since 1970."""
        return int(self.clock() * 1000)

    def start(self) -> None:
        """Set the timers for what the store brought back."""
        for entity in self._entities.values():
            self.touch(entity)

    def entity(self, path: str) -> Entity | None:
        """Return the entity with this path, in lower case."""
        return self._entities.get(path)

    def touch(self, entity: Entity) -> None:
        """Note that the entity may have messages to hand out or changes to keep."""
        self._changed[entity] = None
        if entity.dead_letters is not None:
            self._changed[entity.dead_letters] = None
        self._schedule_flush()

    def talk(self, peer: Peer) -> None:
        """Note that the peer has something to send."""
        self._talking[peer] = None
        self._schedule_flush()

    def hang_up(self, peer: Peer) -> None:
        """Forget a peer that is gone."""
        self._talking.pop(peer, None)

    def _schedule_flush(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def flush(self) -> None:
        """Hand out messages, commit, and let the connections write."""
        # Stays set if this fails: no later flush may tell what this one did not keep.
        self._flush_is_due = True
        try:
            self._hand_out()
            self._store.commit()
        except StoreError as error:
            _LOG.critical("stopping, because what clients sent could not be kept: %s", error)
            self._on_failure()
            return
        except Exception:
            _LOG.critical("stopping, because of a fault in the emulator", exc_info=True)
            self._on_failure()
            raise
        self._flush_is_due = False
        talking, self._talking = self._talking, {}
        for peer in talking:
            peer.write()

    def _hand_out(self) -> None:
        now = self.now()
        for entity in self._changed:
            entity.hand_out(now)
            self._set_timer(entity, now)
        self._changed.clear()

    def _set_timer(self, entity: Entity, now: int) -> None:
        due = entity.queue.next_due()
        if due is None:
            return
        loop = asyncio.get_running_loop()
        at = loop.time() + max(0, due - now) / 1000
        if entity.timer is not None:
            if not entity.timer.cancelled() and loop.time() < entity.timer.when() <= at:
                return
            entity.timer.cancel()
        entity.timer = loop.call_at(at, self.touch, entity)
