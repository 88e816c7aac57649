"""What no message refers to goes after two looks; what any message refers to stays."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from azure.core import MatchConditions
from azure.servicebus import ServiceBusSubQueue
from azure.servicebus.amqp import AmqpMessageBodyType
from azure.servicebus.exceptions import ServiceBusError
from hypothesis import given, settings
from hypothesis import strategies as st

from delivery.errors import UnreadableError
from devstack.processes import ROOT
from models.queues import ALL_QUEUES, SIDE_QUEUES, read_queues
from services.operation.payload_removal import PayloadRemovalService, longest_life
from services.payloads import PayloadService
from tests.fakes.services import Clock
from tests.fakes.storage import MemoryBlobs
from tests.memory_queues import MemoryQueues, Place

QUEUES = read_queues((ROOT / "servicebus.json").read_bytes())
DEAD = ServiceBusSubQueue.DEAD_LETTER
PLACES: list[Place] = [(queue, sub_queue) for queue in ALL_QUEUES for sub_queue in (None, DEAD)]


class Scene:
    def __init__(self) -> None:
        self.clock = Clock()
        self.blobs = MemoryBlobs(self.clock)
        self.payloads = PayloadService(self.blobs)  # type: ignore[arg-type] # the fakes' few methods
        self.queues = MemoryQueues(self.clock)
        self.removal = PayloadRemovalService(
            self.payloads,
            self.queues.open,  # type: ignore[arg-type] # as above
            lambda: QUEUES,
            now=self.clock,
        )

    def days(self, count: float) -> None:
        self.clock.advance(count * 24 * 3600)

    def daily(self, count: int) -> None:
        for _ in range(count):
            self.removal.execute()
            self.days(1)


def test_the_longest_life_is_both_queues_times_to_live_and_a_margin() -> None:
    assert longest_life(QUEUES) == timedelta(days=14 + 14 + 2)


def test_a_payload_without_a_message_is_marked_and_removed_a_day_later() -> None:
    scene = Scene()
    scene.payloads.check_in("a", b"body")
    scene.days(31)
    scene.daily(1)
    assert list(scene.blobs.blobs) == ["a"]
    scene.daily(1)
    assert scene.blobs.blobs == {}


def test_a_run_takes_ten_thousand_payloads_and_leaves_the_rest_to_later_ones() -> None:
    scene = Scene()
    for number in range(10_100):
        scene.payloads.check_in(f"{number}", b"body")
    scene.days(31)
    scene.daily(2)
    assert len(scene.blobs.blobs) == 100
    scene.daily(2)
    assert scene.blobs.blobs == {}


def test_a_second_run_on_the_same_day_removes_nothing() -> None:
    scene = Scene()
    scene.payloads.check_in("a", b"body")
    scene.days(31)
    for _ in range(3):
        scene.removal.execute()
    assert list(scene.blobs.blobs) == ["a"]


def test_a_young_payload_stays_and_no_queue_is_looked_through() -> None:
    scene = Scene()
    scene.payloads.check_in("a", b"body")
    scene.days(29)
    scene.daily(1)
    assert list(scene.blobs.blobs) == ["a"]
    assert scene.blobs.metadata == {"a": {}}
    assert scene.queues.peeks == 0


@pytest.mark.parametrize("place", PLACES)
def test_a_message_anywhere_keeps_its_payload(place: Place) -> None:
    scene = Scene()
    for number in range(250):
        scene.queues.send(place[0], b"small", sub_queue=place[1])
        if number == 170:
            reference = scene.payloads.check_in("a", b"body")
            scene.queues.send(place[0], reference, sub_queue=place[1])
    scene.days(31)
    scene.daily(70)
    assert scene.payloads.check_out(reference) == b"body"


def test_once_the_last_message_is_gone_the_payload_goes() -> None:
    scene = Scene()
    scene.queues.send("sbqlow", scene.payloads.check_in("a", b"body"), sub_queue=DEAD)
    scene.days(31)
    scene.daily(3)
    scene.queues.messages.clear()
    scene.daily(3)
    assert scene.blobs.blobs == {}


def test_the_same_content_written_again_is_as_if_it_were_new() -> None:
    scene = Scene()
    scene.payloads.check_in("a", b"body")
    scene.days(31)
    scene.daily(1)
    scene.payloads.check_in("a", b"body")
    scene.daily(29)
    assert scene.blobs.metadata == {"a": {}}


def test_a_payload_written_again_while_we_look_stays() -> None:
    scene = Scene()
    scene.payloads.check_in("a", b"body")
    scene.days(31)
    scene.daily(1)
    scene.queues.on_peek = lambda: _ignore(scene.payloads.check_in("a", b"body"))
    scene.daily(1)
    assert list(scene.blobs.blobs) == ["a"]


def test_a_message_that_moves_towards_us_in_every_run_keeps_its_payload() -> None:
    scene = Scene()
    first, last = PLACES[0], PLACES[-1]
    scene.queues.send(last[0], scene.payloads.check_in("a", b"body"), sub_queue=last[1])
    scene.days(31)
    for _ in range(3):
        # As a mover does that runs at the same time of day.
        scene.queues.on_peek = _once_after(2, lambda: scene.queues.move(last, first))
        scene.daily(1)
        scene.queues.on_peek = lambda: None
        scene.queues.move(first, last)
    assert list(scene.blobs.blobs) == ["a"]


def test_where_one_queue_cannot_be_looked_through_nothing_is_removed() -> None:
    scene = Scene()
    scene.payloads.check_in("a", b"body")
    scene.days(31)
    scene.daily(1)
    scene.queues.failing = {SIDE_QUEUES[-1]}
    with pytest.raises(ServiceBusError):
        scene.removal.execute()
    assert list(scene.blobs.blobs) == ["a"]


def test_looking_has_an_end_and_then_nothing_is_removed() -> None:
    scene = Scene()
    scene.payloads.check_in("a", b"body")
    scene.queues.send("sbqhigh", b"small")
    scene.days(31)
    scene.daily(1)
    scene.queues.on_peek = lambda: scene.clock.advance(400)
    with pytest.raises(TimeoutError):
        scene.removal.execute()
    assert list(scene.blobs.blobs) == ["a"]


def test_a_payload_that_is_removed_by_somebody_else_is_no_error() -> None:
    scene = Scene()
    scene.payloads.check_in("a", b"body")
    [payload] = scene.payloads.stored()
    scene.blobs.delete_blob("a", etag=payload.etag, match_condition=MatchConditions.IfNotModified)
    assert not scene.payloads.mark(payload, scene.clock())
    assert not scene.payloads.remove(payload)


_STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 4), st.sampled_from(PLACES)),
    st.tuples(st.just("move"), st.sampled_from(PLACES), st.sampled_from(PLACES)),
    st.tuples(st.just("move while looking"), st.sampled_from(PLACES), st.sampled_from(PLACES)),
    st.tuples(st.just("complete"), st.just(0), st.sampled_from(PLACES)),
    st.tuples(st.just("days"), st.sampled_from([1, 1, 29, 31]), st.just(0)),
    st.tuples(st.just("run"), st.just(0), st.just(0)),
)


@settings(max_examples=150)
@given(st.lists(_STEPS, max_size=40), st.integers(1, 14))
def test_a_payload_that_any_message_refers_to_is_never_removed(
    steps: list[tuple[str, object, object]], after_page: int
) -> None:
    scene = Scene()
    for step in steps:
        _take(scene, step, after_page)
        for messages in scene.queues.messages.values():
            for message in messages:
                assert scene.payloads.check_out(message.content) == b"body"


def _take(scene: Scene, step: tuple[str, object, object], after_page: int) -> None:
    match step:
        case ("send", name, (str(queue), sub_queue)):
            reference = scene.payloads.check_in(str(name), b"body")
            scene.queues.send(queue, reference, sub_queue=sub_queue)  # type: ignore[arg-type] # as drawn
        case ("move", source, target):
            scene.queues.move(source, target)  # type: ignore[arg-type] # as drawn
        case ("move while looking", source, target):
            move = lambda: scene.queues.move(source, target)  # type: ignore[arg-type] # noqa: E731 - as drawn
            scene.queues.on_peek = _once_after(after_page, move)
        case ("complete", _, place):
            scene.queues.messages.get(place, [])[:1] = []  # type: ignore[call-overload] # as drawn
        case ("days", int(count), _):
            scene.days(count)
        case _:
            scene.removal.execute()


def _once_after(calls: int, act: Callable[[], None]) -> Callable[[], None]:
    left = [calls]

    def count() -> None:
        left[0] -= 1
        if left[0] == 0:
            act()

    return count


def _ignore(_: object) -> None: ...


def test_a_reference_that_names_no_payload_is_unreadable() -> None:
    with pytest.raises(UnreadableError, match="names no payload"):
        Scene().payloads.check_out(b'{"schemaVersion":1,"payloadBlob":')


def test_a_message_of_somebody_else_stops_no_removal() -> None:
    scene = Scene()
    scene.payloads.check_in("a", b"body")
    foreign = scene.queues.send("sbqlow", sub_queue=DEAD)
    foreign.body_type = AmqpMessageBodyType.SEQUENCE
    scene.days(31)
    scene.daily(2)
    assert scene.blobs.blobs == {}
