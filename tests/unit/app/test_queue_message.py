import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.errors import UnreadableError
from models.queue_message import QueueMessage, message_id
from tests.builders import a_message

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(codec="utf-8")),
)
FIELDS = st.dictionaries(st.text(st.characters(codec="utf-8"), min_size=1), VALUES, max_size=8)


@given(keys=FIELDS, fields=FIELDS)
def test_every_value_comes_back_as_it_was(
    keys: dict[str, object], fields: dict[str, object]
) -> None:
    message = a_message(keys=keys, fields=fields)
    back = QueueMessage.from_body(message.to_body())
    assert back == message
    assert [type(value) for value in back.fields.values()] == [type(v) for v in fields.values()]


def test_large_integers_and_decimals_keep_their_digits() -> None:
    message = a_message(fields={"id": 9007199254740993, "amount": "0.10"})
    assert QueueMessage.from_body(message.to_body()).fields == {
        "id": 9007199254740993,
        "amount": "0.10",
    }


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[]",
        b"\xff\xfe",
        b'{"schemaVersion": 2}',
        a_message().to_body().replace(b'"schemaVersion":1', b'"schemaVersion":2'),
        a_message().to_body().replace(b'"NewUpdate"', b'"Explode"'),
        a_message().to_body()[:-1] + b',"surprise":1}',
    ],
)
def test_a_body_that_is_not_ours_is_unreadable(body: bytes) -> None:
    with pytest.raises(UnreadableError, match="not a queue message of schema version 1"):
        QueueMessage.from_body(body)


def test_an_unreadable_body_is_never_quoted() -> None:
    body = (
        a_message(source_key="secret-person").to_body().replace(b'"NewUpdate"', b'"secret-person"')
    )
    with pytest.raises(UnreadableError) as caught:
        QueueMessage.from_body(body)
    assert "secret-person" not in str(caught.value)
    assert "action" in str(caught.value)
    assert caught.value.__suppress_context__


def test_the_message_id_tells_changes_apart_and_fits_the_broker() -> None:
    ids = {
        message_id(a_message(**change).to_body())
        for change in (
            {},
            {"job_name": "other"},
            {"source_key": "other"},
            {"change_tracker": "other"},
            {"fields": {"partner_name": "other"}},
        )
    }
    assert len(ids) == 5
    assert all(len(one) <= 128 for one in ids)
    assert message_id(a_message().to_body()) in ids
