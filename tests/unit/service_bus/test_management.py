"""Every management operation, and every way to refuse one."""

from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Message as ProtonMessage

from devstack.service_bus import amqp_values as amqp
from devstack.service_bus.broker import Entity
from devstack.service_bus.management import OPERATIONS, RequestError, perform
from devstack.service_bus.messages import State
from devstack.service_bus.queue import Queue
from devstack.service_bus.requests import Request, answer, parse
from tests.unit.service_bus.builders import NOW, a_content, a_queue, sequences, token_of


def an_entity(count: int = 1) -> tuple[Entity, Queue]:
    queue = a_queue()
    for _ in range(count):
        queue.send(a_content(), NOW)
    return Entity("orders", queue), queue


def ask(entity: Entity, operation: str, **fields: bytes) -> amqp.Value:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    body = amqp.mapping([part for n, v in named.items() for part in (amqp.text(n), v)])
    request = Request(amqp.NULL, "", {"operation": f"com.microsoft:{operation}"}, body)
    return amqp.read(perform(entity, request, NOW))


def refused(entity: Entity, operation: str, **fields: bytes) -> tuple[int, str]:
    with pytest.raises(RequestError) as error:
        ask(entity, operation, **fields)
    assert str(error.value)
    return error.value.status, error.value.condition


def tokens(*raw: bytes) -> bytes:
    return amqp.array([amqp.uuid(token) for token in raw], 0x98)


def numbers(*values: int) -> bytes:
    return amqp.array([amqp.long(value) for value in values], 0x81)


def test_renewing_answers_the_new_expiry_per_token() -> None:
    entity, queue = an_entity(2)
    held = [token_of(queue.take(NOW)) for _ in range(2)]
    assert ask(entity, "renew-lock", lock_tokens=tokens(*held)) == {"expirations": [NOW + 1000] * 2}


@pytest.mark.parametrize("operation", ["renew-lock", "update-disposition"])
def test_one_lost_lock_refuses_the_whole_request(operation: str) -> None:
    entity, queue = an_entity()
    held = token_of(queue.take(NOW))
    fields = {"lock_tokens": tokens(held, b"?" * 16), "disposition_status": amqp.text("completed")}
    assert refused(entity, operation, **fields) == (410, "com.microsoft:message-lock-lost")
    assert len(queue) == 1


def test_completing_by_token_removes_the_message() -> None:
    entity, queue = an_entity()
    held = token_of(queue.take(NOW))
    ask(
        entity,
        "update-disposition",
        lock_tokens=tokens(held, held),
        disposition_status=amqp.text("completed"),
    )
    assert len(queue) == 0


def settle(entity: Entity, queue: Queue, status: str, **fields: bytes) -> None:
    changes = amqp.mapping([amqp.text("ErrorMessage"), amqp.text("boom")])
    ask(
        entity,
        "update-disposition",
        lock_tokens=tokens(token_of(queue.take(NOW))),
        disposition_status=amqp.text(status),
        properties_to_modify=changes,
        **fields,
    )


def property_of(bare: bytes) -> Any:
    message: Any = ProtonMessage()
    message.decode(bare)
    return message.properties["ErrorMessage"]


@pytest.mark.parametrize(
    ("status", "state"), [("abandoned", State.ACTIVE), ("defered", State.DEFERRED)]
)
def test_settling_by_token_can_modify_properties(status: str, state: State) -> None:
    entity, queue = an_entity()
    settle(entity, queue, status)
    (message,) = queue.peek(1, 1, NOW)
    assert message.state is state
    assert property_of(message.content.bare) == "boom"


def test_suspending_dead_letters_with_reason_description_and_properties() -> None:
    entity, queue = an_entity()
    settle(
        entity,
        queue,
        "suspended",
        deadletter_reason=amqp.text("r"),
        deadletter_description=amqp.text("d"),
    )
    (dead,) = queue.dead_letters.peek(1, 1, NOW)
    assert dead.dead_letter == ("r", "d", "orders")
    assert property_of(dead.content.bare) == "boom"


def test_a_reason_over_the_limit_is_refused_and_the_lock_kept() -> None:
    entity, queue = an_entity()
    held = token_of(queue.take(NOW))
    fields = {
        "lock_tokens": tokens(held),
        "disposition_status": amqp.text("suspended"),
        "deadletter_reason": amqp.text("x" * 4097),
    }
    status, _ = refused(entity, "update-disposition", **fields)
    assert status == 400
    queue.complete(held, NOW)


def test_a_dead_letter_cannot_be_dead_lettered_again() -> None:
    entity, queue = an_entity()
    settle(entity, queue, "suspended")
    dead = Entity("orders/$DeadLetterQueue", queue.dead_letters)
    held = token_of(queue.dead_letters.take(NOW))
    fields = {"lock_tokens": tokens(held), "disposition_status": amqp.text("suspended")}
    assert refused(dead, "update-disposition", **fields) == (400, "amqp:not-allowed")
    queue.dead_letters.complete(held, NOW)


def peek(entity: Entity, start: int, count: int) -> amqp.Value:
    return ask(
        entity,
        "peek-message",
        from_sequence_number=amqp.long(start),
        message_count=amqp.integer(count),
    )


def test_peeking_answers_encoded_messages_or_no_content() -> None:
    entity, _ = an_entity(3)
    found = peek(entity, 2, 9)
    assert isinstance(found, dict)
    assert isinstance(found["messages"], list)
    assert len(found["messages"]) == 2
    with pytest.raises(RequestError) as error:
        peek(entity, 9, 1)
    assert error.value.status == 204


def test_one_answer_to_a_peek_stays_within_a_megabyte() -> None:
    queue = a_queue()
    for _ in range(9):
        queue.send(a_content("x" * 200_000), NOW)
    found = peek(Entity("orders", queue), 1, 9)
    assert isinstance(found, dict)
    assert isinstance(found["messages"], list)
    assert len(found["messages"]) == 5


def test_scheduling_and_cancelling() -> None:
    entity, queue = an_entity(0)
    raw = ProtonMessage(body=b"later", inferred=True)
    raw.annotations = {"x-opt-scheduled-enqueue-time": NOW + 500}
    entry = amqp.mapping([amqp.text("message"), amqp.binary(raw.encode())])
    answered = ask(entity, "schedule-message", messages=amqp.sequence([entry]))
    assert answered == {"sequence-numbers": [1]}
    ask(entity, "cancel-scheduled-message", sequence_numbers=numbers(1))
    assert len(queue) == 0
    again = refused(entity, "cancel-scheduled-message", sequence_numbers=numbers(1))
    assert again == (404, "com.microsoft:message-not-found")


@pytest.mark.parametrize(("mode", "left"), [(0, 0), (1, 1)])
def test_deferred_messages_are_received_by_number(mode: int, left: int) -> None:
    entity, queue = an_entity()
    queue.defer(token_of(queue.take(NOW)), NOW)
    found = ask(
        entity,
        "receive-by-sequence-number",
        sequence_numbers=numbers(1),
        receiver_settle_mode=amqp.unsigned(mode),
    )
    assert isinstance(found, dict)
    assert isinstance(found["messages"], list)
    (one,) = found["messages"]
    assert isinstance(one, dict)
    assert isinstance(one.get("lock-token"), UUID) is bool(left)
    assert len(queue) == left


@pytest.mark.parametrize(
    "operation",
    ["renew-session-lock", "get-session-state", "add-rule", "get-message-sessions", "dance"],
)
def test_an_unknown_operation_is_refused_by_name(operation: str) -> None:
    entity, _ = an_entity()
    with pytest.raises(RequestError, match=operation) as error:
        ask(entity, operation)
    assert (error.value.status, error.value.condition) == (501, "amqp:not-implemented")


def test_an_unknown_disposition_is_refused_by_name() -> None:
    entity, queue = an_entity()
    held = token_of(queue.take(NOW))
    with pytest.raises(RequestError, match="danced"):
        ask(
            entity,
            "update-disposition",
            lock_tokens=tokens(held),
            disposition_status=amqp.text("danced"),
        )


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_a_missing_field_is_a_bad_request(name: str) -> None:
    entity, _ = an_entity()
    operation = name.removeprefix("com.microsoft:")
    if operation == "schedule-message":
        assert ask(entity, operation) == {"sequence-numbers": []}
    else:
        assert refused(entity, operation)[0] in {400, 501}


@given(st.sampled_from(sorted(OPERATIONS)), st.binary(max_size=60))
def test_a_garbled_body_is_refused(operation: str, body: bytes) -> None:
    entity, queue = an_entity()
    with suppress(RequestError, amqp.MalformedError):
        perform(entity, Request(amqp.NULL, "", {"operation": operation}, body), NOW)
    assert sequences(queue.peek(1, 9, NOW)) == [1]


@given(st.binary(max_size=80))
def test_a_garbled_request_is_refused(payload: bytes) -> None:
    with suppress(amqp.MalformedError):
        parse(payload)


def test_a_request_is_read_and_its_answer_finds_the_way_back() -> None:
    message = ProtonMessage(id="id-1", reply_to="back", properties={"operation": "o"})
    message.body = {"a": 1}
    request = parse(message.encode())
    assert (request.reply_to, request.text("operation")) == ("back", "o")
    answered = ProtonMessage()
    answered.decode(answer(request, [amqp.text("statusCode"), amqp.integer(200)]))
    assert answered.correlation_id == "id-1"
    assert answered.properties == {"statusCode": 200}


def test_a_message_in_a_schedule_request_keeps_to_the_limits() -> None:
    entity, _ = an_entity()
    raw = ProtonMessage(body=b"x" * 300_000, inferred=True).encode()
    assert len(raw) > 262_144
    entry = amqp.mapping([amqp.text("message"), amqp.binary(raw)])
    status, condition = refused(entity, "schedule-message", messages=amqp.sequence([entry]))
    assert (status, condition) == (400, "amqp:link:message-size-exceeded")
