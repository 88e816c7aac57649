"""What goes wrong. Each fault returns, in words, what it did, once the servers are back."""

import random
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import psutil
from azure.servicebus import ServiceBusMessageState, ServiceBusReceivedMessage

from devstack.disasters import kill_emulator, kill_host, kill_worker, wait_for
from devstack.processes import kill
from models.message_properties import SOURCE_KEY
from services.azure_access import service_bus_client
from services.peeking import peek_all
from soak.broker_burials import bury
from soak.clock import Clock
from soak.people import People
from soak.scene import HANDLER_SECONDS, LOCK_SECONDS, QUEUE, TIME_OUT_SECONDS, Scene

_STORAGE_SAVES_WITHIN_SECONDS = 6.5
_LIMIT_SECONDS = 120.0

#: The host looks for changes every two seconds.
_DETECTED_WITHIN_SECONDS = 2.5

#: A full disk of the emulator leaves its log this much.
_ROOM_FOR_LAST_WORDS = 20_000

#: Our own clock does not jump, and the broker takes tokens of one hour from us.
_MOST_AHEAD = timedelta(minutes=50)

#: The app's clock is behind the broker's by up to so much: a copy for later waits that much longer.
#: Ahead it is by less than a lock lasts: the SDK, by which the local host settles, would take every
#: lock for lost, as Azure's host does not.
_MOST_BEHIND_SECONDS, _MOST_AHEAD_SECONDS = 6, 2


#: What the app says of a lock that it could not keep.
_LOST = "action=lock-lost"
#: What the host says of a function that was too slow.
_TIME_OUT = "ran over functionTimeout"


#: Fewer changes than there are threads, even of two jobs at once.
_FEW = 6


class FaultError(Exception):
    """A fault did not do what it was to do, or the app did what it must not under it."""


def worker_killed(scene: Scene, _people: People, _chance: random.Random) -> str:
    """Kill the worker with whatever is in flight."""
    kill_worker(scene.stack)
    return "worker killed"


def host_killed(scene: Scene, _people: People, _chance: random.Random) -> str:
    """Kill host and worker."""
    kill_host(scene.stack)
    return "host killed"


def emulator_killed(scene: Scene, _people: People, _chance: random.Random) -> str:
    """Kill the broker with its locks."""
    kill_emulator(scene.stack)
    return "emulator killed"


def broker_and_worker_killed(scene: Scene, people: People, _chance: random.Random) -> str:
    """Kill the broker, and then the worker, which has read changes that it cannot send."""
    broker = scene.stack.service_bus
    kill(int(broker.facts()["pid"]))
    broker.wait_for_end()
    try:
        done = people.work(max(_FEW, people.changes // 50))
        time.sleep(_DETECTED_WITHIN_SECONDS)
        kill_worker(scene.stack)
    finally:
        broker.start()
    return f"emulator killed, {done}, worker killed, emulator started"


def storage_killed(scene: Scene, people: People, chance: random.Random) -> str:
    """Let host and worker stand still, kill Azurite, and let it be away when they go on.

    Azurite keeps in memory for five seconds what it has acknowledged, which the service does not.
    """
    away = chance.uniform(0.5, 3)
    with app_halted(scene):
        time.sleep(_STORAGE_SAVES_WITHIN_SECONDS)
        scene.stack.azurite.kill()
    try:
        done = people.work(people.changes // 20)
        time.sleep(away)
    finally:
        scene.stack.azurite.start()
    return f"app halted, Azurite killed, away for {away:.1f} s while the app went on, and {done}"


def target_slow(scene: Scene, _people: People, chance: random.Random) -> str:
    """Let the target answer slowly."""
    delay, lasting = chance.uniform(0.05, 0.3), chance.uniform(2, 4)
    scene.proxy.slow_down(delay)
    time.sleep(lasting)
    scene.proxy.slow_down(0)
    return f"target slow for {lasting:.1f} s, {1000 * delay:.0f} ms in each direction"


def target_refusing(scene: Scene, _people: People, chance: random.Random) -> str:
    """Let nothing listen where the target was."""
    lasting = chance.uniform(2, 4)
    scene.proxy.refuse()
    time.sleep(lasting)
    scene.proxy.accept()
    return f"target refused connections for {lasting:.1f} s"


def target_hanging(scene: Scene, _people: People, chance: random.Random) -> str:
    """Let the target take everything and answer nothing."""
    lasting = chance.uniform(2, 5)
    scene.proxy.hang()
    time.sleep(lasting)
    scene.proxy.flow()
    return f"target hung for {lasting:.1f} s"


def target_dropping(scene: Scene, _people: People, chance: random.Random) -> str:
    """Reset the target's connections, several times, and until there was one."""
    before, times = scene.proxy.cut_off, chance.randint(3, 8)
    for _ in range(times):
        scene.proxy.cut()
        time.sleep(chance.uniform(0.05, 0.4))

    def was_cut() -> bool:
        scene.proxy.cut()
        return scene.proxy.cut_off > before

    wait_for(was_cut, _LIMIT_SECONDS)
    return f"target's connections dropped {times} times or more"


def clocks_forward(scene: Scene, _people: People, chance: random.Random) -> str:
    """Let the clocks of app and broker jump ahead, by seconds or minutes."""
    jump = timedelta(seconds=chance.choice([20, 120, 600]) * chance.uniform(1, 1.2))
    by = min(jump, _MOST_AHEAD - scene.broker_clock.offset)
    _jump(scene.app_clock, by)
    _jump(scene.broker_clock, by)
    return f"clocks of app and broker {by.total_seconds():+.0f} s"


def clocks_back(scene: Scene, _people: People, chance: random.Random) -> str:
    """Let the clocks of app and broker jump back."""
    by = max(timedelta(seconds=-chance.uniform(3, 7)), -scene.broker_clock.offset)
    _jump(scene.app_clock, by)
    _jump(scene.broker_clock, by)
    return f"clocks of app and broker {by.total_seconds():+.1f} s"


def clocks_apart(scene: Scene, _people: People, chance: random.Random) -> str:
    """Let the app's clock differ from the broker's, by more or less than before."""
    skew = timedelta(seconds=chance.uniform(-_MOST_BEHIND_SECONDS, _MOST_AHEAD_SECONDS))
    before = scene.app_clock.offset - scene.broker_clock.offset
    scene.app_clock.set(scene.broker_clock.offset + skew)
    return f"clock of the app {(skew - before).total_seconds():+.1f} s, apart from the broker's"


def disk_full(scene: Scene, people: People, _chance: random.Random) -> str:
    """Let the emulator's files grow no more: it must say so and end, acknowledging nothing."""
    broker = scene.stack.service_bus
    most = broker.log.stat().st_size + _ROOM_FOR_LAST_WORDS
    resource.prlimit(int(broker.facts()["pid"]), resource.RLIMIT_FSIZE, (most, most))
    people.work(max(100, people.changes // 50))
    status = broker.wait_for_end()
    broker.start()
    if status != 1 or "could not be kept" not in broker.log.read_text(encoding="utf-8"):
        msg = f"the emulator ended with {status} where its disk was full; see {broker.log}"
        raise FaultError(msg)
    return "disk of the emulator full, so it ended; started again with room"


def handlers_long(scene: Scene, people: People, _chance: random.Random) -> str:
    """Hold handlers for longer than a lock, then others for longer than the host lets them.

    The first must not lose their locks; for the others the host ends the worker.
    """
    log = scene.stack.host.log
    began = log.stat().st_size
    orders = wait_for(lambda: _orders_on_both_sides(scene), _LIMIT_SECONDS)
    with rows_held(scene, orders[1::2]):
        with rows_held(scene, orders[::2]) as holder:
            people.ship_these(orders)
            handlers, lost = _hold(scene, holder, orders[::2])
        if lost:
            msg = f"{lost} locks were lost while {handlers} handlers were held; see {log}"
            raise FaultError(msg)
        wait_for(lambda: _TIME_OUT in _read_from(log, began), _LIMIT_SECONDS)
    return (
        f"{handlers} handlers held for {HANDLER_SECONDS} s, no lock lost; "
        f"others for {TIME_OUT_SECONDS} s, and the host ended the worker"
    )


def broker_burying(scene: Scene, people: People, _chance: random.Random) -> str:
    """Kill the host, and let messages die by the broker's hand while it is away."""
    with scene.database("erp") as erp, erp.transaction():
        erp.execute("LOCK TABLE business_partner IN SHARE MODE")
        people.move(_FEW)
        wait_for(lambda: _count_held(scene, erp.info.backend_pid, 0), _LIMIT_SECONDS)
        kill(int(scene.stack.host.facts()["pid"]))
        scene.stack.host.wait_for_end()
    try:
        told = bury(scene)
    finally:
        scene.stack.host.start()
    return f"host killed; while it was away: {told}"


Fault = Callable[[Scene, People, random.Random], str]

#: By name, in no order that means anything.
FAULTS: Mapping[str, Fault] = {
    fault.__name__.replace("_", "-"): fault
    for fault in (
        worker_killed,
        host_killed,
        emulator_killed,
        broker_and_worker_killed,
        storage_killed,
        target_slow,
        target_refusing,
        target_hanging,
        target_dropping,
        clocks_forward,
        clocks_back,
        clocks_apart,
        disk_full,
        handlers_long,
        broker_burying,
    )
}

#: These need clocks that can be shifted.
CLOCK_FAULTS = frozenset(name for name in FAULTS if name.startswith("clocks-"))


@contextmanager
def app_halted(scene: Scene) -> Iterator[None]:
    """Let host and worker stand still."""
    host = psutil.Process(int(scene.stack.host.facts()["pid"]))
    processes = [host, *host.children(recursive=True)]
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            process.resume()


@contextmanager
def rows_held(scene: Scene, orders: list[str]) -> Iterator[int]:
    """Let nobody write these orders of the target; give the process id of who holds them."""
    with scene.database("erp") as erp, erp.transaction():
        query = "SELECT FROM sales_order WHERE document_number = ANY(%s) FOR UPDATE"
        erp.execute(query, [orders])
        yield erp.info.backend_pid


def _hold(scene: Scene, holder: int, orders: list[str]) -> tuple[int, int]:
    """Wait until handlers were held for long; return how many, and how many locks were lost.

    Where the host ended the worker meanwhile, for a message beside these, it begins again.
    """
    log = scene.stack.host.log
    while True:
        # What an earlier fault has left locked has come again by then.
        wait_for(lambda: _count_held(scene, holder, LOCK_SECONDS + 0.5), _LIMIT_SECONDS)
        before, mark = _deliveries(scene, orders), log.stat().st_size
        handlers = wait_for(lambda: _count_held(scene, holder, HANDLER_SECONDS), _LIMIT_SECONDS)
        after = _deliveries(scene, orders)
        if _TIME_OUT not in (said := _read_from(log, mark)):
            gone = sum(after.get(number) != count for number, count in before.items())
            return handlers, max(gone, said.count(_LOST))


def _deliveries(scene: Scene, orders: list[str]) -> dict[int | None, int | None]:
    """Return how often the broker has delivered the messages about these orders."""
    with (
        service_bus_client(scene.stack.app_settings()) as client,
        client.get_queue_receiver(QUEUE, keep_alive=0) as receiver,
    ):
        return {
            message.sequence_number: message.delivery_count
            for message in peek_all(receiver, page_size=250, timeout_seconds=8)
            if message.state is ServiceBusMessageState.ACTIVE and _key(message) in orders
        }


def _key(message: ServiceBusReceivedMessage) -> str:
    key = (message.application_properties or {}).get(SOURCE_KEY.encode(), b"")
    return key.decode() if isinstance(key, bytes) else str(key)


def _orders_on_both_sides(scene: Scene) -> list[str]:
    """Return some orders that have arrived and are not deleted; empty where there are too few."""
    with scene.database("crm") as crm, scene.database("erp") as erp:
        here = {key for (key,) in crm.execute("SELECT order_number FROM customer_order")}
        query = "SELECT document_number FROM sales_order ORDER BY 1 DESC"
        both = [key for (key,) in erp.execute(query) if key in here][:_FEW]
    return both if len(both) == _FEW else []


def _count_held(scene: Scene, holder: int, seconds: float) -> int:
    """Count the statements that have waited so long for a process."""
    with scene.database("erp") as erp:
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY(pg_blocking_pids(pid))"
            " AND clock_timestamp() - query_start > make_interval(secs => %s)"
        )
        [(count,)] = erp.execute(query, [holder, seconds]).fetchall()
        return int(count)


def _read_from(log: Path, position: int) -> str:
    with log.open("rb") as file:
        file.seek(position)
        return file.read().decode(errors="replace")


def _jump(clock: Clock, by: timedelta) -> None:
    clock.set(clock.offset + by)
