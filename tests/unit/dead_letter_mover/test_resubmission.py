"""SB4: only error properties go; the others keep value and type, and the body is identical."""

from typing import Any

from azure.servicebus._pyamqp.message import Properties
from hypothesis import given
from hypothesis import strategies as st

from dead_letter_mover.letters import Letter
from dead_letter_mover.resubmission import new_id, resubmitted
from models.message_properties import ERROR_PROPERTIES
from services.amqp_properties import application_properties
from services.amqp_sections import APPLICATION_PROPERTIES, DATA, pairs, sections
from tests.encoded_messages import an_encoded, decoded
from tests.unit.app.test_amqp_properties import DESCRIBED, NAMES, SIMPLE

#: Types that the SDK reads and cannot write.
COMPOSITE: dict[str, Any] = {"list": [1, [2]], "map": {"a": None}, "array": {"b": ["c"]}}


@given(
    foreign=st.dictionaries(NAMES, SIMPLE | DESCRIBED, max_size=5),
    errors=st.sets(st.sampled_from(sorted(ERROR_PROPERTIES))),
    body=st.binary(max_size=300),
)
def test_error_properties_go_and_nothing_else(
    foreign: dict[str, Any], errors: set[str], body: bytes
) -> None:
    encoded = an_encoded(
        body=body, beside={**foreign, **dict.fromkeys(errors, "x"), "JobName": "orders"}
    )
    result = resubmitted(encoded, "new")
    before = {
        name: value
        for name, value in application_properties(encoded).items()
        if name not in ERROR_PROPERTIES
    }
    previous = {"PreviousMessageId": {"TYPE": "STRING", "VALUE": b"m-1"}}
    assert application_properties(result) == {**before, **previous}
    assert _bodies(result) == _bodies(encoded)


def test_types_that_the_sdk_cannot_write_stay_as_they_are() -> None:
    encoded = an_encoded(beside=COMPOSITE)
    assert (
        _raw(resubmitted(encoded, "new")).items()
        >= {name: raw for name, raw in _raw(encoded).items() if name in COMPOSITE}.items()
    )


def _bodies(encoded: bytes) -> list[bytes]:
    return [part.whole for part in sections(encoded) if part.code == DATA]


def _raw(encoded: bytes) -> dict[str, bytes]:
    [found] = [part for part in sections(encoded) if part.code == APPLICATION_PROPERTIES]
    return {name[2:].decode(): value for name, value in pairs(found.value)}


def test_it_has_a_new_id_and_a_fresh_life_and_its_other_properties() -> None:
    # In AMQP's order: id, user, to, subject, reply-to, correlation, content type and encoding,
    # expiry, creation, group.
    texts = ("m-1", b"u", "t", "s", "r", "c", "application/json", "utf-8")
    old = an_encoded(properties=Properties(*texts, 1, 1, "session"))
    result = decoded(resubmitted(old, "new"))
    assert result.header is None
    assert result.message_annotations is None
    assert [*result.properties] == [
        b"new",
        *(text if isinstance(text, bytes) else text.encode() for text in texts[1:]),
        *(None, None, b"session", None, None),
    ]


def test_a_partition_key_comes_along() -> None:
    annotations = {"x-opt-partition-key": "p", "x-opt-deadletter-source": "q"}
    old = an_encoded(message_annotations=annotations)
    assert decoded(resubmitted(old, "new")).message_annotations == {b"x-opt-partition-key": b"p"}


def test_a_body_that_is_a_value_stays_one() -> None:
    encoded = an_encoded(data=None, value={"a": 1})
    assert decoded(resubmitted(encoded, "new")).value == {b"a": 1}


def test_a_message_without_any_properties_can_go_back() -> None:
    old = an_encoded(properties=None, application_properties=None)
    result = decoded(resubmitted(old, "new"))
    assert result.properties.message_id == b"new"
    assert result.application_properties is None


def test_of_an_id_only_the_last_one_is_kept() -> None:
    encoded = an_encoded(message_id="second", beside={"PreviousMessageId": "first"})
    properties = application_properties(resubmitted(encoded, "third"))
    assert properties["PreviousMessageId"] == {"TYPE": "STRING", "VALUE": b"second"}


def test_a_previous_id_stays_where_there_is_no_id() -> None:
    encoded = an_encoded(message_id=None, beside={"PreviousMessageId": "first"})
    properties = application_properties(resubmitted(encoded, "second"))
    assert properties["PreviousMessageId"] == {"TYPE": "STRING", "VALUE": b"first"}


def test_the_same_message_in_the_same_place_gets_the_same_id() -> None:
    letter = Letter.of(an_encoded(1))
    ids = {
        new_id("sbqlow", letter),
        new_id("sbqhigh", letter),
        new_id("sbqlow", Letter.of(an_encoded(2))),
        new_id("sbqlow", Letter.of(an_encoded(1, message_id="m-2"))),
    }
    assert len(ids) == 4
    assert new_id("sbqlow", letter) in ids
