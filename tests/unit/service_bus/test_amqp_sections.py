"""Messages are cut and joined without touching what is the sender's."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Message as ProtonMessage
from proton import int32, symbol, timestamp, ubyte, ulong

from devstack.service_bus import amqp_values as amqp
from devstack.service_bus.amqp_sections import (
    MAX_BATCH,
    MAX_MESSAGE,
    PropertiesTooLargeError,
    TooLargeError,
    messages,
    render,
    with_properties,
)
from devstack.service_bus.messages import DeadLetter, Message, State

TYPED = {
    "ulong": ulong(7),
    "ubyte": ubyte(7),
    "int": int32(-7),
    "when": timestamp(1_700_000_000_000),
    "symbol": symbol("s"),
    "bytes": b"\x00\xff",
    "null": None,
    "float": 1.5,
}


def a_message(**fields: Any) -> ProtonMessage:
    defaults: dict[str, Any] = {"body": b"payload", "inferred": True}
    return ProtonMessage(**defaults | fields)


def encoded(**fields: object) -> bytes:
    return bytes(a_message(**fields).encode())


def delivered(raw: bytes, **fields: object) -> Any:
    (incoming,) = messages(raw)
    values = {"sequence": 5, "content": incoming.content, "message_id": None, "enqueued": 9}
    values |= {"ttl": incoming.ttl} | fields
    received = ProtonMessage()
    received.decode(render(Message(**values)))  # type: ignore[arg-type] # a test's overrides
    return received


def test_application_properties_keep_their_types() -> None:
    received = delivered(encoded(properties=TYPED))
    kinds = {name: type(value) for name, value in received.properties.items()}
    assert received.properties == TYPED
    # Proton shows received bytes as a view.
    expected = {name: type(value) for name, value in TYPED.items()} | {"bytes": memoryview}
    assert kinds == expected


def test_properties_and_body_keep_their_bytes() -> None:
    raw = encoded(id="i", subject="s", correlation_id=ulong(3), properties=TYPED)
    (incoming,) = messages(raw)
    assert raw.endswith(incoming.content.bare)
    assert incoming.message_id == "i"


def test_the_header_is_ours_but_for_what_the_sender_set() -> None:
    received = delivered(encoded(ttl=30, durable=True, priority=7), delivery_count=3)
    assert (received.ttl, received.durable, received.priority) == (30, True, 7)
    assert received.delivery_count == 3


def test_annotations_are_ours_but_for_what_is_the_senders() -> None:
    raw = encoded(
        annotations={
            symbol("x-opt-partition-key"): "p",
            symbol("x-opt-sequence-number"): 99,
            symbol("x-opt-scheduled-enqueue-time"): timestamp(77),
        }
    )
    assert messages(raw)[0].due == 77
    annotations = delivered(raw).annotations
    assert annotations[symbol("x-opt-partition-key")] == "p"
    assert annotations[symbol("x-opt-sequence-number")] == 5
    assert annotations[symbol("x-opt-enqueued-time")] == timestamp(9)


def test_a_locked_message_shows_its_lock_and_a_peeked_one_its_state() -> None:
    (incoming,) = messages(encoded())
    message = Message(1, incoming.content, None, 1, None, token=b"t" * 16, locked_until=44)
    locked: Any = ProtonMessage()
    peeked: Any = ProtonMessage()
    locked.decode(render(message))
    assert locked.annotations[symbol("x-opt-locked-until")] == timestamp(44)
    message.state = State.DEFERRED
    peeked.decode(render(message, peeked=True))
    assert symbol("x-opt-lock-token") not in peeked.annotations
    assert peeked.annotations[symbol("x-opt-message-state")] == 1


def test_a_dead_letter_tells_why_beside_the_senders_properties() -> None:
    why = DeadLetter("reason", "description", "orders")
    received = delivered(encoded(properties=TYPED), dead_letter=why)
    assert received.properties == TYPED | {
        "DeadLetterReason": "reason",
        "DeadLetterErrorDescription": "description",
    }
    assert received.annotations[symbol("x-opt-deadletter-source")] == "orders"


def a_batch(*inner: bytes, **fields: object) -> bytes:
    envelope = encoded(**fields)[: -len(amqp.described(0x75, amqp.binary(b"payload")))]
    return envelope + b"".join(amqp.described(0x75, amqp.binary(raw)) for raw in inner)


@given(st.lists(st.binary(max_size=400), min_size=1, max_size=5))
def test_a_batch_is_taken_apart(bodies: list[bytes]) -> None:
    batch = a_batch(*(encoded(body=body) for body in bodies))
    received: list[Any] = [ProtonMessage() for _ in bodies]
    for one, incoming in zip(received, messages(batch), strict=True):
        one.decode(incoming.content.bare)
    assert [bytes(one.body) for one in received] == bodies


def test_a_body_that_merely_starts_like_a_message_is_a_body() -> None:
    for body in (b"\x00\x53\x75", b"\x00\x53\x75\xa0\x05ab", b"\x00\x53garbage"):
        assert messages(encoded(body=body))[0].content.bare.endswith(body)


def test_a_body_of_several_data_sections_is_one_message() -> None:
    raw = a_batch(b"first", b"second")
    (incoming,) = messages(raw)
    assert incoming.content.bare.endswith(raw[raw.index(amqp.described(0x75, b"")) :])


def test_a_message_without_an_id_is_given_one_and_is_nobodys_duplicate() -> None:
    for fields in ({}, {"subject": "s", "reply_to": "r"}, {"user_id": b"u"}):
        first, second = messages(a_batch(encoded(**fields), encoded(**fields)))
        assert (first.message_id, second.message_id) == (None, None)
        read: list[Any] = [ProtonMessage(), ProtonMessage()]
        for one, incoming in zip(read, (first, second), strict=True):
            one.decode(incoming.content.bare)
            assert {name: getattr(one, name) for name in fields} == fields
            assert bytes(one.body) == b"payload"
        ids = {str(one.id) for one in read}
        assert len(ids) == 2
        assert all(len(made_up) == 32 for made_up in ids)


def test_an_empty_message_is_given_an_id_too() -> None:
    (incoming,) = messages(b"\x00\x53\x70\x45")
    assert incoming.content.bare.startswith(b"\x00\x53\x73")


def test_a_batch_whose_envelope_copies_the_first_message_is_taken_apart() -> None:
    copied = {"id": "i", "subject": "s", "properties": TYPED}
    batch = a_batch(encoded(**copied), encoded(body=b"second"), **copied)
    first, second = messages(batch)
    assert first.message_id == "i"
    assert second.content.bare.endswith(b"second")


def test_an_encoded_message_sent_as_a_body_with_properties_is_a_body() -> None:
    body = encoded()
    (incoming,) = messages(encoded(body=body, properties={"a": 1}))
    assert incoming.content.bare.endswith(body)


@pytest.mark.parametrize("section", ["value", "sequence"])
def test_other_bodies_pass_unchanged(section: str) -> None:
    body: object = {"a": 1} if section == "value" else "text"
    assert delivered(encoded(body=body, inferred=False)).body == body


def test_the_largest_message_passes_and_one_byte_more_does_not() -> None:
    overhead = len(encoded(body=b"x" * 1000)) - 1000
    assert messages(encoded(body=b"x" * (MAX_MESSAGE - overhead)))
    with pytest.raises(TooLargeError, match=str(MAX_MESSAGE)):
        messages(encoded(body=b"x" * (MAX_MESSAGE - overhead + 1)))


def test_a_batch_may_be_larger_than_a_message_up_to_its_own_limit() -> None:
    inner = encoded(body=b"x" * 200_000)
    assert len(messages(a_batch(*[inner] * 5))) == 5
    with pytest.raises(TooLargeError, match=str(MAX_BATCH)):
        messages(a_batch(*[inner] * 6))


def test_one_too_large_message_spoils_the_batch() -> None:
    with pytest.raises(TooLargeError):
        messages(a_batch(encoded(), encoded(body=b"x" * MAX_MESSAGE)))


@pytest.mark.parametrize(
    "properties",
    [{"one": "x" * 33_000}, {f"p{i}": "x" * 30_000 for i in range(3)}],
    ids=["one property", "all together"],
)
def test_too_large_properties_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(PropertiesTooLargeError):
        messages(encoded(properties=properties))


def test_properties_up_to_the_limits_pass() -> None:
    assert messages(encoded(properties={"a": "x" * 32_000, "b": "x" * 31_000}))


def test_changed_properties_replace_and_join_the_senders() -> None:
    (incoming,) = messages(encoded(id="i", properties=TYPED))
    changed = with_properties(
        incoming.content, {"ulong": amqp.text("new"), "ErrorMessage": amqp.text("boom")}
    )
    received = ProtonMessage()
    received.decode(changed.bare)
    assert received.properties == TYPED | {"ulong": "new", "ErrorMessage": "boom"}
    assert (received.id, bytes(received.body)) == ("i", b"payload")


def test_changed_properties_keep_to_the_limits() -> None:
    (small,) = messages(encoded())
    with pytest.raises(PropertiesTooLargeError, match="boom"):
        with_properties(small.content, {"boom": amqp.text("x" * 40_000)})
    (large,) = messages(encoded(body=b"x" * (MAX_MESSAGE - 300)))
    with pytest.raises(TooLargeError):
        with_properties(large.content, {"boom": amqp.text("x" * 1000)})


@given(st.binary(max_size=80))
def test_garbage_is_refused(garbage: bytes) -> None:
    with suppress(amqp.MalformedError):
        messages(garbage)


@given(st.data())
def test_a_damaged_message_is_refused_or_read_but_breaks_nothing(data: st.DataObject) -> None:
    raw = bytearray(encoded(id="i", ttl=5, properties=TYPED, annotations={symbol("a"): "b"}))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        incoming = messages(bytes(raw))
    except (amqp.MalformedError, TooLargeError, PropertiesTooLargeError):
        return
    for one in incoming:
        render(Message(1, one.content, one.message_id, 1, one.ttl))
