"""Nothing is said before it is kept, and everyone gets a turn."""

import asyncio
from collections.abc import Callable

from devstack.service_bus.broker import Broker, Entity
from devstack.service_bus.messages import QueueSettings
from devstack.service_bus.sas import AccessKey
from devstack.service_bus.store import MemoryStore, StoreError
from tests.unit.service_bus.builders import NOW, a_content


class Diary:
    """What happened, in order."""

    def __init__(self) -> None:
        self.entries: list[str] = []


class WatchedStore(MemoryStore):
    def __init__(self, diary: Diary, *, works: bool = True) -> None:
        self._diary = diary
        self._works = works

    def commit(self) -> None:
        self._diary.entries.append("commit")
        if not self._works:
            msg = "the disk is full"
            raise StoreError(msg)


class WatchedPeer:
    def __init__(self, diary: Diary) -> None:
        self._diary = diary

    def write(self) -> None:
        self._diary.entries.append("write")


class WatchedConsumer:
    def __init__(self, diary: Diary, name: str, entity: Entity, credit: int) -> None:
        self._diary, self._name, self._entity, self._credit = diary, name, entity, credit

    def deliver(self, now: int) -> bool | None:
        if not self._credit:
            return False
        if self._entity.queue.take(now) is None:
            return None
        self._credit -= 1
        self._diary.entries.append(self._name)
        return True

    def answer_drain(self) -> None:
        self._diary.entries.append(f"drain {self._name}")


class BrokenConsumer:
    def deliver(self, now: int) -> bool | None:
        raise RuntimeError(now)

    def answer_drain(self) -> None:
        """Never comes to this."""


def told(
    diary: Diary, act: Callable[[Broker, Entity], None], *, works: bool = True, turns: int = 3
) -> list[str]:
    """Let `act` mark things on a broker and return what the next turns of the loop did."""

    async def scenario() -> None:
        broker = Broker(
            [QueueSettings(name="orders")],
            WatchedStore(diary, works=works),
            AccessKey("root", "secret"),
            lambda: diary.entries.append("stop"),
            clock=lambda: NOW / 1000,
        )
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: diary.entries.append(repr(context["exception"]))
        )
        entity = broker.entity("orders")
        assert entity is not None
        act(broker, entity)
        for _ in range(turns):
            await asyncio.sleep(0)

    asyncio.run(scenario())
    return diary.entries


def test_writing_follows_the_commit_once_per_turn() -> None:
    diary = Diary()
    peer = WatchedPeer(diary)

    def act(broker: Broker, entity: Entity) -> None:
        for _ in range(3):
            broker.touch(entity)
            broker.talk(peer)

    assert told(diary, act) == ["commit", "write"]


def test_after_a_failed_commit_nothing_is_said_ever_again() -> None:
    diary = Diary()

    def act(broker: Broker, entity: Entity) -> None:
        broker.talk(WatchedPeer(diary))
        asyncio.get_running_loop().call_later(0, broker.touch, entity)

    assert told(diary, act, works=False, turns=6) == ["commit", "stop"]


def test_after_a_fault_nothing_is_said_either() -> None:
    diary = Diary()

    def act(broker: Broker, entity: Entity) -> None:
        entity.consumers.append(BrokenConsumer())
        broker.touch(entity)
        broker.talk(WatchedPeer(diary))

    assert told(diary, act) == ["stop", f"RuntimeError({NOW})"]


def test_a_peer_that_hung_up_is_not_written_to() -> None:
    diary = Diary()

    def act(broker: Broker, _: Entity) -> None:
        peer = WatchedPeer(diary)
        broker.talk(peer)
        broker.hang_up(peer)

    assert told(diary, act) == ["commit"]


def test_consumers_take_turns_and_one_without_credit_is_passed_over() -> None:
    diary = Diary()

    def act(broker: Broker, entity: Entity) -> None:
        queue = broker.queues["orders"]
        for _ in range(5):
            queue.send(a_content(), NOW)
        for name, credit in (("a", 9), ("b", 0), ("c", 1)):
            entity.consumers.append(WatchedConsumer(diary, name, entity, credit))
        broker.touch(entity)

    assert told(diary, act)[:5] == ["a", "c", "a", "a", "a"]


def test_draining_is_answered_after_the_handing_out() -> None:
    diary = Diary()

    def act(broker: Broker, entity: Entity) -> None:
        broker.queues["orders"].send(a_content(), NOW)
        entity.consumers.append(WatchedConsumer(diary, "a", entity, 9))
        broker.touch(entity)

    assert told(diary, act) == ["a", "drain a", "commit"]
