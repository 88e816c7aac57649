"""The second pass, on a broker in memory: nothing is lost wherever it ends."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dead_letter_mover.mover import Done, Locked, Moved, Mover
from dead_letter_mover.plan import Plan
from dead_letter_mover.rules import Rules
from delivery.errors import UnavailableError
from tests.encoded_messages import MemoryBroker, a_body, an_encoded, decoded

RULES = Rules.model_validate(
    {
        "rules": [
            {"pattern": "skip", "action": "Skip"},
            {"pattern": "stay", "action": "None"},
            {"pattern": ".", "action": "Resubmit"},
        ]
    }
)


@dataclass
class Shelf:
    """An archive that remembers, and fails on request."""

    kept: list[int] = field(default_factory=list)
    before: Callable[[], None] = lambda: None

    def write(self, removed: Sequence[Moved]) -> None:
        self.before()
        self.kept += [moved.letter.sequence_number for moved in removed]


def run(  # noqa: PLR0913 - as much as the mover takes
    broker: MemoryBroker,
    shelf: Shelf | None = None,
    *,
    queue: str = "sbqlow",
    limit: int = 1_000,
    at_once: int = 3,
    must_stop: Callable[[], bool] = lambda: False,
) -> list[Moved]:
    with Plan(queue, RULES) as plan:
        plan.fill(broker.letters())
        mover = Mover(queue, plan, broker, shelf or Shelf())
        return [moved for batch in mover.run(limit, at_once, must_stop) for moved in batch]


def numbers(moved: Sequence[Moved]) -> list[int]:
    return [item.letter.sequence_number for item in moved]


def several(count: int) -> list[bytes]:
    return [an_encoded(n, body=a_body(f"D{n}"), message_id=f"m-{n}") for n in range(1, count + 1)]


def test_messages_go_back_in_order_with_a_new_id_and_leave_the_queue() -> None:
    broker = MemoryBroker.of(*several(7))
    moved = run(broker)
    assert numbers(moved) == list(range(1, 8))
    assert broker.waiting == {}
    assert [queue for queue, _ in broker.sent] == ["sbqlow"] * 7
    ids = [decoded(message).properties.message_id.decode() for _, message in broker.sent]
    assert ids == [item.new_message_id for item in moved]
    assert [item.letter.message_id for item in moved] == [f"m-{n}" for n in range(1, 8)]


def test_each_goes_to_the_queue_that_it_came_from() -> None:
    origins = ["sbqlow", "sbqhigh", "sbqlow", "sbqnormal"]
    broker = MemoryBroker.of(
        *(
            an_encoded(n, body=a_body(f"D{n}"), beside={"OriginalQueue": origin})
            for n, origin in enumerate(origins, 1)
        )
    )
    moved = run(broker, queue="sbqtransitivelow", at_once=10)
    assert [item.target for item in moved] == origins
    assert sorted(queue for queue, _ in broker.sent) == sorted(origins)


def test_what_stays_is_passed_and_given_back_in_the_end() -> None:
    errors = ["stay", "stay", "stay", "stay", "refused", "stay", "skip"]
    broker = MemoryBroker.of(*(an_encoded(n, error) for n, error in enumerate(errors, 1)))
    shelf = Shelf()
    moved = run(broker, shelf, at_once=2)
    assert [(n, item.done) for n, item in zip(numbers(moved), moved, strict=True)] == [
        (5, Done.RESUBMITTED),
        (7, Done.SKIPPED),
    ]
    assert sorted(broker.waiting) == [1, 2, 3, 4, 6]
    assert broker.locks == {}
    assert shelf.kept == [7]


def test_older_changes_are_archived_and_only_the_newest_goes_back() -> None:
    days = ["2026-11-03", "2026-11-01", "2026-11-02"]
    broker = MemoryBroker.of(
        *(an_encoded(n, body=a_body(tracker=day)) for n, day in enumerate(days, 1))
    )
    shelf = Shelf()
    moved = run(broker, shelf)
    assert [item.done for item in moved] == [Done.RESUBMITTED, Done.SUPERSEDED, Done.SUPERSEDED]
    assert shelf.kept == [2, 3]
    assert len(broker.sent) == 1
    assert (broker.waiting, broker.locks) == ({}, {})


@pytest.mark.parametrize("obstacle", ["large", "limit", "held"])
def test_an_older_change_stays_where_the_newest_does_not_go_back(obstacle: str) -> None:
    """Otherwise nothing of the record would be on its way, and expiry might take the newest."""
    note = {"note": "x" * 10_000} if obstacle == "large" else {}
    broker = MemoryBroker.of(
        an_encoded(1, body=a_body(tracker="2026-11-01")),
        an_encoded(2, body=a_body("D2")),
        an_encoded(3, body=a_body(tracker="2026-11-02", fields=note)),
    )
    if obstacle == "held":
        broker.locks[3] = uuid.uuid4()
    shelf = Shelf()
    run(broker, shelf, limit=1 if obstacle == "limit" else 10)
    assert shelf.kept == []
    assert sorted(broker.waiting) == [1, 3]
    assert broker.locks.keys() == ({3} if obstacle == "held" else set())


def test_messages_that_come_while_it_runs_stay() -> None:
    """Also what it sends itself, where it sends into the very queue that it reads."""
    broker = MemoryBroker.of(*several(3))

    def echo(_queue: str, messages: Sequence[bytes]) -> None:
        for _ in messages:
            number = max(broker.waiting) + 1
            broker.waiting[number] = an_encoded(number, body=a_body(f"D{number}"))

    broker.before_sending = echo
    assert len(run(broker)) == 3
    assert sorted(broker.waiting) == [4, 5, 6]


def test_the_limit_counts_what_is_done_not_what_stays() -> None:
    errors = ["stay", "refused", "stay", "refused", "refused"]
    broker = MemoryBroker.of(
        *(an_encoded(n, error, body=a_body(f"D{n}")) for n, error in enumerate(errors, 1))
    )
    assert numbers(run(broker, limit=2, at_once=5)) == [2, 4]
    assert sorted(broker.waiting) == [1, 3, 5]
    assert broker.locks == {}


def test_the_limit_holds_over_several_batches() -> None:
    assert numbers(run(MemoryBroker.of(*several(9)), limit=5, at_once=2)) == [1, 2, 3, 4, 5]


def test_the_limit_does_not_count_what_could_not_be_sent() -> None:
    """Or the same ones would use it up at every run."""
    large = [
        an_encoded(n, body=a_body(f"D{n}", fields={"note": "x" * 10_000})) for n in range(1, 4)
    ]
    broker = MemoryBroker.of(*large, an_encoded(4, body=a_body("D4")))
    moved = run(broker, limit=1, at_once=1)
    assert [item.done for item in moved] == [Done.LEFT] * 3 + [Done.RESUBMITTED]


def test_a_stop_ends_after_the_batch_at_hand() -> None:
    broker = MemoryBroker.of(*several(9))
    answers = iter([False, True])
    assert numbers(run(broker, must_stop=lambda: next(answers))) == [1, 2, 3]
    assert (len(broker.waiting), broker.locks) == (6, {})


def test_a_message_too_large_is_left_and_its_neighbours_go() -> None:
    messages = several(5)
    messages[2] = an_encoded(3, body=a_body("D3", fields={"note": "x" * 10_000}))
    broker = MemoryBroker.of(*messages)
    moved = run(broker, at_once=5)
    left = [item for item in moved if item.done is Done.LEFT]
    assert numbers(left) == [3]
    assert left[0].why == "it is larger than the queue takes"
    assert sorted(broker.waiting) == [3]
    assert len(broker.sent) == 4
    assert broker.locks == {}


def test_a_message_that_is_taken_away_meanwhile_is_left() -> None:
    broker = MemoryBroker.of(*several(2))
    show = broker.encoded
    broker.encoded = lambda numbers: {n: m for n, m in show(numbers).items() if n != 1}  # type: ignore[method-assign, assignment]
    moved = run(broker)
    assert [item.done for item in moved] == [Done.LEFT, Done.RESUBMITTED]
    assert sorted(broker.waiting) == [1]


def test_what_others_hold_is_not_waited_for() -> None:
    broker = MemoryBroker.of(*several(3))
    broker.receive(2)
    assert numbers(run(broker)) == [3]


def test_a_message_whose_lock_ran_out_before_it_was_completed_is_not_sent_twice() -> None:
    broker = MemoryBroker.of(*several(6))
    lose = iter([True])

    def expire(_queue: str, _messages: Sequence[bytes]) -> None:
        if next(lose, False):
            broker.expire_locks()

    broker.before_sending = expire
    assert len(run(broker)) == 6
    assert broker.waiting == {}
    assert len(broker.sent) == 6


def test_the_last_batch_too_is_removed_when_it_comes_again() -> None:
    """Nothing else would be left to do, and the next run would send it again."""
    broker = MemoryBroker.of(*several(2), an_encoded(3, "skip"))
    lose = iter([True])
    broker.before_sending = lambda *_: broker.expire_locks() if next(lose, False) else None
    shelf = Shelf()
    assert len(run(broker, shelf)) == 3
    assert (broker.waiting, len(broker.sent), shelf.kept) == ({}, 2, [3])


def test_what_went_and_cannot_be_removed_is_counted() -> None:
    broker = MemoryBroker.of(*several(2))
    broker.before_sending = lambda *_: broker.locks.update(dict.fromkeys((1, 2), uuid.uuid4()))
    with Plan("sbqlow", RULES) as plan:
        plan.fill(broker.letters())
        mover = Mover("sbqlow", plan, broker, Shelf())
        list(mover.run(10, 10, lambda: False))
        assert mover.unremoved == 2


def test_what_was_not_handed_out_is_looked_for() -> None:
    broker = MemoryBroker.of(*several(4))
    broker.receive(2)
    with Plan("sbqlow", RULES) as plan:
        plan.fill(broker.letters())
        mover = Mover("sbqlow", plan, broker, Shelf())
        del broker.waiting[2]
        list(mover.run(10, 10, lambda: False))
        assert mover.unreached() == (1, 1)


def test_the_locks_of_what_stays_are_renewed_on_a_long_way() -> None:
    """At a rate, or in a long queue, the locks would end, and the same messages come again."""
    broker = MemoryBroker.of(*(an_encoded(n, "stay") for n in range(1, 9)), an_encoded(9))
    times = iter(range(0, 1_000, 6))
    with Plan("sbqlow", RULES) as plan:
        plan.fill(broker.letters())
        mover = Mover("sbqlow", plan, broker, Shelf(), clock=lambda: next(times))
        list(mover.run(10, 2, lambda: False))
    assert broker.renewed == [6]
    assert sorted(broker.waiting) == list(range(1, 9))


def test_locks_that_run_out_before_the_end_of_a_long_queue_do_not_make_it_endless() -> None:
    broker = MemoryBroker.of(*(an_encoded(n, "stay") for n in range(1, 9)), an_encoded(9))
    receive, rounds = broker.receive, 0

    def late(most: int) -> list[Locked]:
        nonlocal rounds
        rounds += 1
        if rounds == 3:
            broker.expire_locks()
        return receive(most)

    broker.receive = late  # type: ignore[method-assign]
    assert run(broker) == []
    assert rounds == 3
    assert broker.locks == {}


class Killed(BaseException):
    """The process ends here."""


@given(
    errors=st.lists(st.sampled_from(["refused", "skip", "stay"]), max_size=12),
    keys=st.lists(st.sampled_from(["D1", "D2", "D3"]), min_size=12, max_size=12),
    fuse=st.integers(1, 12),
    at_once=st.integers(1, 5),
)
def test_wherever_it_ends_no_message_is_lost_and_a_second_run_finishes(
    errors: list[str], keys: list[str], fuse: int, at_once: int
) -> None:
    bodies = [a_body(key, f"2026-11-{n + 1:02}") for n, key in enumerate(keys)]
    broker = MemoryBroker.of(
        *(an_encoded(n + 1, error, body=bodies[n]) for n, error in enumerate(errors))
    )
    shelf = Shelf()

    def burn(*_: object) -> None:
        nonlocal fuse
        fuse -= 1
        if fuse == 0:
            raise Killed

    broker.before_sending = broker.after_completing = shelf.before = burn
    try:
        run(broker, shelf, at_once=at_once)
    except Killed:
        assert _missing(errors, bodies, broker, shelf) == set()
    fuse = 0
    broker.expire_locks()
    run(broker, shelf, at_once=at_once)
    assert _missing(errors, bodies, broker, shelf) == set()
    assert {errors[n - 1] for n in broker.waiting} <= {"stay"}


def _missing(
    errors: Sequence[str], bodies: Sequence[bytes], broker: MemoryBroker, shelf: Shelf
) -> set[int]:
    sent = [_body_of(message) for _, message in broker.sent]
    found = {n + 1 for n, body in enumerate(bodies[: len(errors)]) if body in sent}
    return {*range(1, len(errors) + 1)} - found - broker.waiting.keys() - {*shelf.kept}


def _body_of(encoded: bytes) -> bytes:
    return bytes(decoded(encoded).data[0])


def test_a_broker_that_fails_ends_the_run_and_keeps_the_batch() -> None:
    broker = MemoryBroker.of(*several(5))

    def refuse(_queue: str, messages: Sequence[bytes]) -> None:
        if len(broker.sent) >= len(messages):
            msg = "the queue is full"
            raise UnavailableError(msg)

    broker.before_sending = refuse
    with pytest.raises(UnavailableError):
        run(broker)
    assert sorted(broker.waiting) == [4, 5]
    assert broker.locks == {}
