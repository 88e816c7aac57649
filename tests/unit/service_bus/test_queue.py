"""What a queue does, one promise a test."""

from collections.abc import Callable
from typing import Any

import pytest

from devstack.service_bus.messages import (
    DeadLetter,
    LockLostError,
    MessageNotFoundError,
    State,
)
from devstack.service_bus.queue import Queue
from tests.unit.service_bus.builders import (
    NOW,
    RecordingJournal,
    a_content,
    a_queue,
    sequences,
    token_of,
)


def filled(count: int, **settings: Any) -> Queue:
    queue = a_queue(**settings)
    for _ in range(count):
        queue.send(a_content(), NOW)
    return queue


def taken(queue: Queue, now: int = NOW) -> list[int]:
    numbers = []
    while (message := queue.take(now)) is not None:
        numbers.append(message.sequence)
    return numbers


def test_messages_are_taken_in_the_order_of_their_numbers() -> None:
    assert taken(filled(3)) == [1, 2, 3]


def test_a_locked_message_is_not_taken_again() -> None:
    queue = filled(1)
    queue.take(NOW)
    assert queue.take(NOW + 999) is None


def test_an_abandoned_message_returns_to_its_place_with_a_higher_count() -> None:
    queue = filled(3)
    first = queue.take(NOW)
    queue.take(NOW)
    queue.abandon(token_of(first), NOW)
    message = queue.take(NOW)
    assert message is not None
    assert (message.sequence, message.delivery_count) == (1, 1)
    assert taken(queue) == [3]


def test_a_lapsed_lock_counts_as_a_failed_delivery_and_its_token_is_lost() -> None:
    queue = filled(1)
    token = token_of(queue.take(NOW))
    message = queue.take(NOW + 1000)
    assert message is not None
    assert message.delivery_count == 1
    with pytest.raises(LockLostError):
        queue.complete(token, NOW + 1000)


def test_a_renewed_lock_outlives_one_taken_later() -> None:
    queue = filled(2)
    renewed, other = token_of(queue.take(NOW)), token_of(queue.take(NOW))
    assert queue.renew(renewed, NOW + 900) == NOW + 1900
    assert queue.next_due() == NOW + 1000
    queue.complete(renewed, NOW + 1500)
    with pytest.raises(LockLostError):
        queue.complete(other, NOW + 1500)


def test_a_released_message_keeps_its_count() -> None:
    queue = filled(1)
    queue.release(token_of(queue.take(NOW)), NOW)
    message = queue.take(NOW)
    assert message is not None
    assert message.delivery_count == 0


def test_a_completed_message_is_gone() -> None:
    journal = RecordingJournal()
    queue = a_queue(journal)
    queue.send(a_content(), NOW)
    queue.complete(token_of(queue.take(NOW)), NOW)
    assert queue.peek(1, 10, NOW) == []
    assert journal.kept == {}


def test_receive_and_delete_needs_no_settling() -> None:
    queue = filled(1)
    assert queue.take_and_delete(NOW) is not None
    assert len(queue) == 0


def test_the_last_allowed_delivery_that_fails_leads_to_the_dead_letter_queue() -> None:
    queue = filled(1)
    for _ in range(3):
        queue.abandon(token_of(queue.take(NOW)), NOW)
    (dead,) = queue.dead_letters.peek(1, 10, NOW)
    assert dead.dead_letter is not None
    assert dead.dead_letter.reason == "MaxDeliveryCountExceeded"
    assert dead.dead_letter.source == "orders"
    assert len(queue) == 0


def test_dead_letters_are_delivered_as_often_as_it_takes_and_never_expire() -> None:
    queue = filled(1, default_ttl=5000, dead_letter_expired=True)
    queue.dead_letter(token_of(queue.take(NOW)), NOW, DeadLetter("no", "nope", "orders"))
    far = NOW + 10**9
    for _ in range(20):
        queue.dead_letters.abandon(token_of(queue.dead_letters.take(far)), far)
    message = queue.dead_letters.take(far)
    assert message is not None
    assert message.delivery_count == 20


def test_abandoning_and_dead_lettering_can_change_the_content() -> None:
    queue = filled(1)
    queue.abandon(token_of(queue.take(NOW)), NOW, a_content("changed"))
    message = queue.take(NOW)
    queue.dead_letter(token_of(message), NOW, DeadLetter(None, None, "orders"), a_content("again"))
    (dead,) = queue.dead_letters.peek(1, 1, NOW)
    assert dead.content == a_content("again")


def test_a_deferred_message_is_found_only_by_its_number() -> None:
    queue = filled(2)
    queue.defer(token_of(queue.take(NOW)), NOW)
    assert taken(queue) == [2]
    (message,) = queue.take_deferred([1], NOW)
    queue.abandon(token_of(message), NOW)
    assert queue.take(NOW) is None
    (again,) = queue.take_deferred([1, 1], NOW, delete=True)
    assert again.delivery_count == 1


def test_deferred_messages_come_all_or_none() -> None:
    queue = filled(2)
    queue.defer(token_of(queue.take(NOW)), NOW)
    with pytest.raises(MessageNotFoundError):
        queue.take_deferred([1, 2], NOW)
    assert sequences(queue.take_deferred([1], NOW)) == [1]


def test_a_deferred_message_does_not_expire() -> None:
    queue = filled(1, default_ttl=2000)
    queue.defer(token_of(queue.take(NOW)), NOW)
    assert sequences(queue.peek(1, 10, NOW + 9000)) == [1]


def test_a_scheduled_message_waits_and_then_joins_the_end_under_a_new_number() -> None:
    queue = a_queue()
    assert queue.send(a_content(), NOW, due=NOW + 500) == 1
    queue.send(a_content(), NOW)
    assert queue.next_due() == NOW + 500
    assert taken(queue, NOW + 499) == [2]
    (message,) = queue.peek(3, 1, NOW + 500)
    assert (message.state, message.enqueued) == (State.ACTIVE, NOW + 500)
    assert taken(queue, NOW + 500) == [3]


def test_a_time_in_the_past_schedules_nothing() -> None:
    queue = a_queue()
    queue.send(a_content(), NOW, due=NOW)
    assert taken(queue) == [1]


def test_cancelling_removes_scheduled_messages_all_or_none() -> None:
    queue = a_queue()
    queue.send(a_content(), NOW, due=NOW + 500)
    queue.send(a_content(), NOW)
    with pytest.raises(MessageNotFoundError):
        queue.cancel([1, 2], NOW)
    queue.cancel([1, 1], NOW)
    assert sequences(queue.peek(1, 10, NOW + 900)) == [2]
    with pytest.raises(MessageNotFoundError):
        queue.cancel([1], NOW)


def test_the_time_to_live_of_a_scheduled_message_starts_when_it_is_due() -> None:
    queue = a_queue()
    queue.send(a_content(), NOW, ttl=1000, due=NOW + 5000)
    assert queue.take(NOW + 5999) is not None


@pytest.mark.parametrize(("own", "default"), [(1000, 5000), (5000, 1000), (None, 1000)])
def test_the_smaller_time_to_live_counts(own: int | None, default: int) -> None:
    queue = a_queue(default_ttl=default)
    queue.send(a_content(), NOW, ttl=own)
    assert sequences(queue.peek(1, 1, NOW + 999)) == [1]
    assert queue.take(NOW + 1000) is None


def test_an_expired_message_is_dead_lettered_where_the_queue_says_so() -> None:
    queue = filled(1, default_ttl=1000, dead_letter_expired=True)
    assert queue.take(NOW + 1000) is None
    (dead,) = queue.dead_letters.peek(1, 1, NOW + 1000)
    assert dead.dead_letter is not None
    assert dead.dead_letter.reason == "TTLExpiredException"


def test_an_expired_message_behind_a_living_one_goes_too() -> None:
    queue = filled(1)
    queue.send(a_content(), NOW, ttl=100)
    queue.take(NOW + 100)
    assert len(queue) == 1


def test_nothing_expires_while_nobody_looks() -> None:
    queue = filled(1, default_ttl=1000)
    queue.advance(NOW + 5000)
    assert len(queue) == 1
    assert queue.next_due() is None


def test_a_locked_message_can_be_completed_after_it_expired_but_not_delivered_again() -> None:
    queue = filled(2, default_ttl=500)
    first, second = token_of(queue.take(NOW)), token_of(queue.take(NOW))
    assert queue.take(NOW + 600) is None
    queue.complete(first, NOW + 600)
    queue.abandon(second, NOW + 700)
    assert queue.take(NOW + 700) is None
    assert len(queue) == 0


def expired_while_locked(dead_letter_expired: bool = True) -> tuple[Queue, bytes]:  # noqa: FBT001, FBT002 - a queue property
    """Return a queue whose message expires at NOW + 500, and the token of its lock."""
    queue = filled(1, default_ttl=500, dead_letter_expired=dead_letter_expired)
    return queue, token_of(queue.take(NOW))


def reasons(queue: Queue, now: int) -> list[str | None]:
    dead = queue.dead_letters.peek(1, 10, now)
    return [m.dead_letter.reason for m in dead if m.dead_letter is not None]


def test_a_message_that_expired_while_locked_and_is_completed_is_no_dead_letter() -> None:
    queue, token = expired_while_locked()
    assert sequences(queue.peek(1, 10, NOW + 600)) == [1]
    queue.complete(token, NOW + 600)
    assert queue.take(NOW + 600) is None
    assert reasons(queue, NOW + 600) == []


@pytest.mark.parametrize("give_back", [Queue.abandon, Queue.release])
def test_a_message_that_expired_while_locked_and_is_given_back_is_dead_lettered(
    give_back: Callable[[Queue, bytes, int], None],
) -> None:
    queue, token = expired_while_locked()
    assert queue.take(NOW + 600) is None
    give_back(queue, token, NOW + 600)
    assert queue.take(NOW + 600) is None
    assert reasons(queue, NOW + 600) == ["TTLExpiredException"]


def test_a_message_whose_lock_lapses_after_it_expired_is_dead_lettered_once() -> None:
    queue, token = expired_while_locked()
    assert queue.renew(token, NOW + 700) == NOW + 1700
    assert sequences(queue.peek(1, 10, NOW + 1699)) == [1]
    assert queue.take(NOW + 1700) is None
    assert reasons(queue, NOW + 1700) == ["TTLExpiredException"]
    assert len(queue) == 0


def test_an_expired_message_that_failed_too_often_is_dead_lettered_for_that() -> None:
    queue, token = expired_while_locked(dead_letter_expired=False)
    for _ in range(2):
        queue.abandon(token, NOW)
        token = token_of(queue.take(NOW))
    queue.abandon(token, NOW + 600)
    assert reasons(queue, NOW + 600) == ["MaxDeliveryCountExceeded"]


def test_an_expired_message_that_its_receiver_gives_up_keeps_the_receivers_reason() -> None:
    queue, token = expired_while_locked()
    queue.dead_letter(token, NOW + 600, DeadLetter("mine", None, "orders"))
    assert queue.take(NOW + 600) is None
    assert reasons(queue, NOW + 600) == ["mine"]


def test_an_expired_message_that_is_deferred_stays() -> None:
    queue, token = expired_while_locked()
    queue.defer(token, NOW + 600)
    assert queue.take(NOW + 600) is None
    assert sequences(queue.take_deferred([1], NOW + 600)) == [1]


def test_a_repeated_message_id_is_dropped_inside_the_window_only() -> None:
    journal = RecordingJournal()
    queue = a_queue(journal, duplicate_window=1000)
    assert queue.send(a_content(), NOW, message_id="a") == 1
    assert queue.send(a_content(), NOW + 999, message_id="a") is None
    assert queue.send(a_content(), NOW + 999) == 2
    assert queue.send(a_content(), NOW + 1000, message_id="a") == 3
    assert journal.history == {"a": NOW + 1000}


def test_without_duplicate_detection_ids_may_repeat() -> None:
    queue = a_queue()
    sent = [queue.send(a_content(), NOW, message_id="a") for _ in range(2)]
    assert sent == [1, 2]


def test_peeking_shows_every_state_from_a_number_on() -> None:
    queue = filled(3)
    queue.defer(token_of(queue.take(NOW)), NOW)
    queue.take(NOW)
    queue.send(a_content(), NOW, due=NOW + 9000)
    states = [message.state for message in queue.peek(1, 10, NOW)]
    assert states == [State.DEFERRED, State.ACTIVE, State.ACTIVE, State.SCHEDULED]
    assert sequences(queue.peek(2, 2, NOW)) == [2, 3]


def test_counts_tell_active_from_scheduled() -> None:
    queue = filled(2)
    queue.take(NOW)
    queue.send(a_content(), NOW, due=NOW + 1)
    counts = queue.counts()
    assert (counts.active, counts.scheduled) == (2, 1)
    assert counts.size == 3 * sum(map(len, a_content()))


def test_dead_letters_are_peeked_and_taken_in_the_order_of_their_numbers() -> None:
    queue = filled(3)
    first, second = queue.take(NOW), queue.take(NOW)
    for message in (second, first):
        queue.dead_letter(token_of(message), NOW, DeadLetter(None, None, "orders"))
    assert sequences(queue.dead_letters.peek(1, 9, NOW)) == [1, 2]
    message = queue.dead_letters.take(NOW)
    assert message is not None
    assert message.sequence == 1


def test_long_use_leaves_no_trail() -> None:
    queue = a_queue(default_ttl=10**9)
    for _ in range(5000):
        queue.send(a_content(), NOW)
        queue.complete(token_of(queue.take(NOW)), NOW)
    assert len(queue._order) < 3000  # noqa: SLF001 - memory is the promise
    assert len(queue._expiring) < 3000  # noqa: SLF001 - memory is the promise
