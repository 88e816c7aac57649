"""What the app and its operators do with queues, done by every SDK."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pytest

from devstack.disasters import wait_for
from tests.integration.servers import KEY, Emulator
from tests.integration.service_bus.conftest import EACH, KINDS
from tests.integration.service_bus.matrix.clients import (
    Administrator,
    Client,
    Meaning,
    Outgoing,
    Place,
    Sdk,
    Seen,
    ToldError,
)

FULL = Outgoing(
    body="body",
    message_id="id",
    subject="subject",
    correlation_id="correlation",
    content_type="text/plain",
    reply_to="back",
    to="there",
    partition_key="p",
    seconds_to_live=40,
    properties={"number": 1, "text": "t", "flag": True, "part": 0.5},
)


def send(client: Client, place: Place, *bodies: str) -> None:
    client.send_all(place.queue, [Outgoing(body=body) for body in bodies])


def one(client: Client, place: Place) -> Seen:
    (message,) = client.receive(place)
    return message


def taken(client: Client, place: Place, count: int) -> list[str]:
    """Take so many messages out of the queue, and see that no more are there."""
    deleting = place._replace(deletes=True)
    bodies = [one(client, deleting).body for _ in range(count)]
    assert client.peek(place) == []
    return bodies


def dead(place: Place) -> Place:
    return place._replace(dead=True)


def soon(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def test_a_message_arrives_at_every_sdk_with_all_that_it_was_sent_with(
    client: Client, place: Place, clients: dict[str, Client]
) -> None:
    client.send_all(place.queue, [FULL] * len(clients))
    numbers = []
    for name, receiver in clients.items():
        message = one(receiver, place)
        for field in fields(Outgoing):
            assert getattr(message, field.name) == getattr(FULL, field.name), (name, field.name)
        assert message.delivery_count == 0
        assert abs(message.enqueued - datetime.now(UTC)) < timedelta(seconds=60)
        numbers.append(message.sequence)
        receiver.complete(message)
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


def test_a_message_that_was_sent_without_an_id_has_one(client: Client, place: Place) -> None:
    client.send(place.queue, Outgoing(subject="kept"))
    first = one(client, place)
    assert first.message_id
    client.abandon(first)
    again = one(client, place)
    assert (again.message_id, again.subject) == (first.message_id, "kept")
    client.complete(again)


def test_lists_and_batches_arrive_in_order(client: Client, place: Place) -> None:
    send(client, place, "a", "b")
    assert client.fill(place.queue, Outgoing(body="c"), 3) == 3
    send(client, place, "alone in its batch")
    assert taken(client, place, 6) == ["a", "b", "c", "c", "c", "alone in its batch"]


def test_a_batch_takes_what_fits_and_no_more(client: Client, place: Place) -> None:
    assert client.fill(place.queue, Outgoing(body="x" * 60_000), 9) == 4
    assert [len(body) for body in taken(client, place, 4)] == [60_000] * 4


def test_too_large_a_message_is_refused_and_the_sender_stays_usable(
    client: Client, place: Place
) -> None:
    with pytest.raises(ToldError) as told:
        client.send(place.queue, Outgoing(body="x" * 256 * 1024))
    assert told.value.meaning == Meaning.TOO_LARGE
    client.send(place.queue, Outgoing(body="small"))
    assert taken(client, place, 1) == ["small"]


def test_a_scheduled_message_arrives_when_it_is_due(client: Client, place: Place) -> None:
    due = soon(0.5)
    client.schedule(place.queue, [Outgoing(body="a"), Outgoing(body="b")], due)
    for body in "ab":
        message = one(client, place)
        assert message.body == body
        assert message.enqueued >= due - timedelta(milliseconds=1)
        client.complete(message)


def test_a_cancelled_message_never_arrives(client: Client, place: Place) -> None:
    messages = [Outgoing(body="a"), Outgoing(body="b")]
    first, second = client.schedule(place.queue, messages, soon(3600))
    assert second == first + 1
    client.cancel(place.queue, first)
    assert [(message.body, message.state) for message in client.peek(place)] == [("b", "scheduled")]
    with pytest.raises(ToldError, match="no message with this sequence number"):
        client.cancel(place.queue, first)
    client.cancel(place.queue, second)


def test_peeking_shows_every_state_and_changes_nothing(client: Client, place: Place) -> None:
    send(client, place, "deferred", "locked", "active")
    put_off = one(client, place)
    client.defer(put_off)
    locked = one(client, place)
    (later,) = client.schedule(place.queue, [Outgoing(body="later")], soon(3600))
    found = [(message.body, message.state) for message in client.peek(place)]
    assert found == [
        ("deferred", "deferred"),
        ("locked", "active"),
        ("active", "active"),
        ("later", "scheduled"),
    ]
    (active,) = client.peek(place, start=locked.sequence + 1, count=1)
    assert active.body == "active"
    client.complete(locked)
    client.complete(one(client, place))
    client.complete(client.receive_deferred(place, put_off.sequence))
    client.cancel(place.queue, later)


def test_completing_removes_the_message(client: Client, place: Place) -> None:
    send(client, place, "a")
    message = one(client, place)
    assert message.locked_until is not None
    client.complete(message)
    assert client.peek(place) == []


def test_receiving_and_deleting_needs_no_settling(client: Client, place: Place) -> None:
    send(client, place, "a", "b")
    assert taken(client, place, 2) == ["a", "b"]


def test_abandoning_brings_it_back_at_once_in_its_place(client: Client, place: Place) -> None:
    send(client, place, "a", "b")
    client.abandon(one(client, place))
    again = one(client, place)
    assert (again.body, again.delivery_count) == ("a", 1)
    client.complete(again)
    assert taken(client, place, 1) == ["b"]


def test_abandoning_with_properties_keeps_the_senders(client: Client, place: Place) -> None:
    client.send(place.queue, Outgoing(properties={"kept": 1, "ErrorMessage": "old"}))
    client.abandon(one(client, place), {"ErrorMessage": "boom", "ErrorDeliveryCount": 1})
    again = one(client, place)
    assert again.properties == {"kept": 1, "ErrorMessage": "boom", "ErrorDeliveryCount": 1}
    assert again.delivery_count == 1
    client.complete(again)


def test_dead_lettering_with_reason_description_and_properties(
    client: Client, place: Place
) -> None:
    client.send(place.queue, Outgoing(properties={"kept": 1}))
    message = one(client, place)
    client.dead_letter(message, reason="why", description="more", properties={"ErrorType": "T"})
    letter = one(client, dead(place))
    assert (letter.reason, letter.description, letter.source) == ("why", "more", place.queue)
    assert letter.properties == {
        "kept": 1,
        "ErrorType": "T",
        "DeadLetterReason": "why",
        "DeadLetterErrorDescription": "more",
    }
    client.complete(letter)
    assert client.peek(dead(place)) == []
    assert client.peek(place) == []


def test_dead_lettering_needs_no_reason(client: Client, place: Place) -> None:
    send(client, place, "a")
    client.dead_letter(one(client, place))
    letter = one(client, dead(place))
    assert not letter.reason
    assert not letter.description
    client.complete(letter)


def test_a_reason_over_the_limit_is_refused(client: Client, hasty: Place) -> None:
    send(client, hasty, "a")
    message = one(client, hasty)
    with pytest.raises(ToldError, match="4096 are the limit"):
        client.dead_letter(message, reason="x" * 4097)
    assert client.peek(dead(hasty)) == []
    client.complete(one(client, hasty))


def test_a_dead_letter_is_not_dead_lettered_again(client: Client, hasty: Place) -> None:
    send(client, hasty, "a")
    client.dead_letter(one(client, hasty), reason="why")
    letter = one(client, dead(hasty))
    with pytest.raises(ToldError, match="cannot be dead-lettered again"):
        client.dead_letter(letter, reason="again")
    again = one(client, dead(hasty))
    assert again.reason == "why"
    client.complete(again)


def test_too_many_failures_lead_to_the_dead_letter_queue(client: Client, place: Place) -> None:
    send(client, place, "poison", "good")
    for _ in range(3):
        client.abandon(one(client, place))
    assert taken(client, place, 1) == ["good"]
    letter = one(client, dead(place))
    assert (letter.reason, letter.source) == ("MaxDeliveryCountExceeded", place.queue)
    client.complete(letter)


def deferred(client: Client, place: Place, body: str) -> Seen:
    send(client, place, body)
    message = one(client, place)
    client.defer(message)
    return client.receive_deferred(place, message.sequence)


def test_a_deferred_message_is_received_by_its_number_and_settled(
    client: Client, place: Place
) -> None:
    completed = deferred(client, place, "completed")
    client.renew(completed)
    client.complete(completed)
    with pytest.raises(ToldError):
        client.receive_deferred(place, completed.sequence)
    abandoned = deferred(client, place, "abandoned")
    client.abandon(abandoned, {"ErrorMessage": "boom"})
    again = client.receive_deferred(place, abandoned.sequence)
    assert again.properties == {"ErrorMessage": "boom"}
    client.dead_letter(again, reason="why", description="more", properties={"ErrorType": "T"})
    letter = one(client, dead(place))
    assert (letter.body, letter.reason, letter.description) == ("abandoned", "why", "more")
    assert letter.properties["ErrorType"] == "T"
    client.complete(letter)


def test_a_renewed_lock_holds(client: Client, hasty: Place) -> None:
    send(client, hasty, "a")
    message = one(client, hasty)
    first = message.locked_until
    assert first is not None

    def is_past_the_first() -> bool:
        assert client.renew(message) > first
        return datetime.now(UTC) > first + timedelta(seconds=0.2)

    wait_for(is_past_the_first)
    client.complete(message)
    assert client.peek(hasty) == []


def test_a_lapsed_lock_is_lost_and_the_message_comes_again(client: Client, hasty: Place) -> None:
    send(client, hasty, "a")
    lost = one(client, hasty)
    again = one(client, hasty)
    assert (again.body, again.delivery_count) == ("a", 1)
    for act in (client.renew, client.complete):
        with pytest.raises(ToldError) as told:
            act(lost)
        assert told.value.meaning == Meaning.LOCK_LOST
    client.complete(again)
    assert client.peek(hasty) == []


def sends(client: Client, place: Place) -> None:
    client.send(place.queue, Outgoing())


def receives(client: Client, place: Place) -> None:
    client.receive(place)


def peeks(client: Client, place: Place) -> None:
    # On a link of its own: the Python SDK's serve one thread at a time.
    client.peek(place._replace(dead=True))


def told(client: Client, place: Place) -> list[ToldError]:
    """Send, receive and peek, all at once, because a refusal takes the Python SDK half a second."""

    def refused(act: Callable[[Client, Place], None]) -> ToldError:
        with pytest.raises(ToldError) as error:
            act(client, place)
        return error.value

    with ThreadPoolExecutor() as pool:
        return list(pool.map(refused, (sends, receives, peeks)))


def test_a_wrong_key_is_refused(sdk: Sdk, emulator: Emulator, queue: str) -> None:
    client = sdk.client(emulator.connection_string.replace(KEY, "another-key"))
    with closing(client):
        errors = told(client, Place(queue))
    assert [error.meaning for error in errors] == [Meaning.UNAUTHORIZED] * 3


def test_an_unknown_queue_is_not_found(client: Client) -> None:
    errors = told(client, Place("nowhere"))
    assert [error.meaning for error in errors] == [Meaning.NOT_FOUND] * 3
    assert all("nowhere" in str(error) for error in errors)


#: Those with an administration client of their own; it is not asked over AMQP.
ADMINISTRATORS = pytest.mark.parametrize("name", ["javascript", "python"])


@ADMINISTRATORS
def test_run_time_counts(
    administrator: Administrator, emulator: Emulator, client: Client, place: Place
) -> None:
    send(client, place, *["x" * 100] * 3)
    (later,) = client.schedule(place.queue, [Outgoing(body="later")], soon(3600))
    client.dead_letter(one(client, place))
    counts = administrator.counts(str(emulator.facts()["admin_connection_string"]), place.queue)
    assert (counts.active, counts.scheduled, counts.dead, counts.total) == (2, 1, 1, 4)
    assert counts.size > 300
    client.cancel(place.queue, later)
    client.complete(one(client, dead(place)))
    taken(client, place, 2)


@ADMINISTRATORS
def test_listing_pages_through_all_queues(administrator: Administrator, emulator: Emulator) -> None:
    names = administrator.queues(str(emulator.facts()["admin_connection_string"]))
    assert names == [f"{kind}-{number}" for kind in KINDS for number in range(EACH)]


@ADMINISTRATORS
def test_the_namespace_has_a_name(administrator: Administrator, emulator: Emulator) -> None:
    assert administrator.namespace(str(emulator.facts()["admin_connection_string"])) == "tests"
