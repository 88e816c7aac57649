"""Many threads post, one sends; each hears what became of its own message."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from azure.servicebus import ServiceBusMessage

from delivery.errors import RejectedError, UnavailableError
from services.processing.posting import PostingService
from tests.fakes.bus import MemoryServiceBus


def a_posting(bus: MemoryServiceBus) -> PostingService:
    return PostingService(lambda: bus)  # type: ignore[arg-type, return-value] # the fake's few methods


def test_what_many_threads_post_arrives_once_each_in_its_queue() -> None:
    bus = MemoryServiceBus()
    posting = a_posting(bus)
    with ThreadPoolExecutor(16) as threads:
        posts = [
            threads.submit(posting.post, queue, ServiceBusMessage(f"{queue}-{n}".encode()))
            for n in range(300)
            for queue in ("sbqnormal", "sbqignored")
        ]
        for post in posts:
            post.result()
    posting.close()
    for queue in ("sbqnormal", "sbqignored"):
        assert sorted(bus.bodies(queue)) == sorted(f"{queue}-{n}".encode() for n in range(300))
    assert bus.closed


def test_a_broken_link_is_opened_again_once() -> None:
    bus = MemoryServiceBus()
    bus.failures = 1
    posting = a_posting(bus)
    posting.post("sbqnormal", ServiceBusMessage(b"1"))
    posting.close()
    assert bus.bodies("sbqnormal") == [b"1"]


def test_a_broken_link_that_cannot_even_be_closed_is_left_behind() -> None:
    bus = MemoryServiceBus()
    bus.failures, bus.breaks_on_close = 1, True
    posting = a_posting(bus)
    posting.post("sbqnormal", ServiceBusMessage(b"1"))
    posting.close()
    assert bus.bodies("sbqnormal") == [b"1"]


def test_a_broker_that_is_away_is_told_to_whoever_posts_and_the_next_post_tries_again() -> None:
    bus = MemoryServiceBus()
    bus.failures = 2
    posting = a_posting(bus)
    with pytest.raises(UnavailableError, match="sbqnormal: no broker: "):
        posting.post("sbqnormal", ServiceBusMessage(b"1"))
    posting.post("sbqnormal", ServiceBusMessage(b"2"))
    posting.close()
    assert bus.bodies("sbqnormal") == [b"2"]


def test_a_client_that_cannot_be_made_is_told_too() -> None:
    def refuse() -> MemoryServiceBus:
        msg = "no such setting"
        raise ValueError(msg)

    posting = PostingService(refuse)  # type: ignore[arg-type] # as above
    with pytest.raises(UnavailableError, match="no such setting"):
        posting.post("sbqnormal", ServiceBusMessage(b"1"))
    posting.close()


@pytest.mark.parametrize(
    "make",
    [
        lambda: ServiceBusMessage(b"x" * 300_000),
        lambda: ServiceBusMessage(b"x", application_properties={"n": 2**70}),
    ],
    ids=["too large", "not encodable"],
)
def test_what_never_can_be_sent_is_refused_and_stops_no_neighbour(
    make: Callable[[], ServiceBusMessage],
) -> None:
    bus = MemoryServiceBus()
    posting = a_posting(bus)
    with ThreadPoolExecutor(3) as threads:
        first = threads.submit(posting.post, "sbqnormal", ServiceBusMessage(b"1"))
        bad = threads.submit(posting.post, "sbqnormal", make())
        last = threads.submit(posting.post, "sbqnormal", ServiceBusMessage(b"2"))
        first.result()
        last.result()
        with pytest.raises(RejectedError, match="a message cannot be sent"):
            bad.result()
    posting.close()
    assert sorted(bus.bodies("sbqnormal")) == [b"1", b"2"]


def test_one_message_that_the_broker_refuses_does_not_take_its_neighbours_along() -> None:
    bus = MemoryServiceBus()
    bus.refused.add(b"bad")
    posting = a_posting(bus)
    with ThreadPoolExecutor(9) as threads:
        posts = {
            body: threads.submit(posting.post, "sbqnormal", ServiceBusMessage(body))
            for body in (b"1", b"2", b"3", b"bad", b"4", b"5", b"6")
        }
        with pytest.raises(RejectedError, match="the broker refuses it"):
            posts.pop(b"bad").result()
        for post in posts.values():
            post.result()
    posting.close()
    assert sorted(bus.bodies("sbqnormal")) == sorted(posts)


def test_who_has_given_up_does_not_find_his_message_sent_later() -> None:
    bus = MemoryServiceBus()
    frozen = threading.Event()
    bus.before_send = frozen.wait
    posting = PostingService(lambda: bus, patience=timedelta(seconds=0.2))  # type: ignore[arg-type, return-value] # as above
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(posting.post, "sbqnormal", ServiceBusMessage(b"1"))
        late = [threads.submit(posting.post, "sbqnormal", ServiceBusMessage(b"2"))]
        for post in (first, *late):
            with pytest.raises(UnavailableError):
                post.result()
    bus.before_send = lambda: True
    posting.post("sbqnormal", ServiceBusMessage(b"3"))
    assert bus.bodies("sbqnormal") == [b"3"]
    frozen.set()
    posting.close()
