"""No message of others is touched, and none of ours is left."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from delivery.errors import RejectedError
from models.queues import ALL_QUEUES
from operator_console.probe.guard import why_not
from operator_console.probe.verdicts import Verdict
from tests.builders import NOW
from tests.fakes.probed_queue import Kept, MemoryQueue, a_memory_queue
from tests.unit.operator_console.probe.test_assumptions import BY_ID, probed

FOREIGN = "an-order"
WAITS = BY_ID["renewal-lasts"]
WAITS_AGAIN = BY_ID["expiry-counts"]


@pytest.mark.parametrize(
    "name",
    [
        *ALL_QUEUES,
        "SBQHigh",
        "sbqhigh/$deadletterqueue",
        "probe/$DeadLetterQueue",
        "/sbqhigh",
        "sbqhigh/",
        " sbqhigh",
        "%73bqhigh",
        "",
        "x" * 261,
    ],
)
def test_queues_of_the_app_and_what_is_no_queue_are_refused_by_name(name: str) -> None:
    assert why_not(name)


@pytest.mark.parametrize("name", ["probe", "gleichlauf-probe", "tests/probe_1", "sbqhigh2"])
def test_other_names_are_taken(name: str) -> None:
    assert why_not(name) == ""


@pytest.mark.parametrize(
    ("fill", "words"),
    [
        (lambda queue: queue.put(FOREIGN), "the queue of probe is not empty"),
        (lambda queue: queue.put(FOREIGN, dead=True), "the dead-letter queue of probe is not"),
        (lambda queue: queue.put(FOREIGN, due=NOW + timedelta(days=9)), "a scheduled message"),
    ],
)
def test_a_queue_that_holds_anything_is_refused_and_not_touched(
    fill: Callable[[MemoryQueue], Kept], words: str
) -> None:
    queue = a_memory_queue()
    before = replace(fill(queue))
    with pytest.raises(RejectedError, match=words) as info:
        probed(queue)
    assert "nothing was touched" in str(info.value)
    assert queue.kept == [before]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"forwards_to": "orders"}, "forwards its messages to orders"),
        ({"requires_sessions": True}, "requires sessions"),
        ({"max_delivery_count": 1}, "gives a message up after 1 deliveries"),
    ],
)
def test_a_queue_that_was_made_for_something_else_is_refused(
    changes: dict[str, object], words: str
) -> None:
    queue = a_memory_queue(**changes)
    with pytest.raises(RejectedError, match=words):
        probed(queue)
    assert queue.last == 0, "nothing was sent"


def test_a_foreign_message_on_the_way_ends_the_run_and_is_given_back() -> None:
    queue = a_memory_queue()

    def arrive() -> None:
        if queue.time.passed > timedelta(seconds=10) and queue.last < 1_000:
            queue.last = 1_000
            queue.put(FOREIGN)

    queue.time.on_sleep = arrive
    report = probed(queue, WAITS, WAITS_AGAIN, BY_ID["abandon-counts"])
    assert "is not of this run and was given back" in report.trouble
    assert not report.is_good
    [foreign] = queue.kept
    assert (foreign.parcel.message_id, foreign.failures, foreign.token) == (FOREIGN, 0, None)


def test_somebody_who_receives_ends_the_run_before_it_begins() -> None:
    queue = a_memory_queue()
    queue.time.on_sleep = queue.kept.clear
    with pytest.raises(RejectedError, match="somebody else receives from the queue"):
        probed(queue)
    assert queue.kept == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), ZeroDivisionError()])
def test_whatever_ends_the_run_its_messages_are_removed(error: BaseException) -> None:
    queue = a_memory_queue()

    def end() -> None:
        if queue.time.longest > timedelta(seconds=1):
            queue.time.on_sleep = lambda: None
            raise error

    queue.time.on_sleep = end
    report = probed(queue, BY_ID["abandon-counts"], WAITS, BY_ID["expiry-counts"])
    assert queue.kept == []
    assert report.left == ""
    assert not report.is_good
    assert report.findings[0].verdict is Verdict.HOLDS
    assert report.findings[1].verdict is Verdict.NOT_TESTED


def test_its_messages_are_removed_though_nobody_listens_any_more() -> None:
    """Whoever closes the terminal leaves neither stdout nor stderr."""
    queue = a_memory_queue()

    def gone(_: object) -> None:
        raise BrokenPipeError

    report = probed(queue, BY_ID["abandon-counts"], BY_ID["expiry-counts"], hear=gone)
    assert queue.kept == []
    assert report.left == ""
    assert report.trouble == "BrokenPipeError"


def test_what_cannot_be_removed_is_named() -> None:
    queue = a_memory_queue()

    def hold() -> None:
        """Somebody else takes one of our messages, and keeps it."""
        for kept in queue.kept:
            kept.token, kept.locked_until = None, kept.locked_until + timedelta(days=1)
            kept.is_scheduled = True
            kept.parcel = replace(kept.parcel, due=None)
        queue.quirks |= {"peek-tells-scheduled"}

    queue.time.on_sleep = lambda: hold() if queue.time.longest > timedelta(seconds=1) else None
    report = probed(queue, BY_ID["expiry-counts"], BY_ID["abandon-counts"])
    [left] = queue.kept
    assert report.left == f"queue: {left.number}"
    assert "could not be removed" in report.trouble
    assert [finding.seen for finding in report.findings[1:]] == ["the run ended before"]
