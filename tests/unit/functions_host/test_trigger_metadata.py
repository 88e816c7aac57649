import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from azure.servicebus.amqp import AmqpMessageBodyType

from devstack.functions_host.queue_trigger import shares
from devstack.functions_host.trigger_metadata import to_body, to_inputs


@dataclass
class Received:
    body_type: AmqpMessageBodyType = AmqpMessageBodyType.DATA
    body: Any = field(default_factory=lambda: [b"a", b"b"])
    application_properties: dict[str | bytes, Any] | None = None
    delivery_count: int | None = 0
    enqueued_time_utc: datetime | None = datetime(2026, 11, 30, 12, tzinfo=UTC)
    expires_at_utc: datetime | None = None
    sequence_number: int | None = 7
    lock_token: Any = field(default_factory=lambda: uuid.UUID(int=1))
    message_id: str | None = None
    content_type: str | None = None
    correlation_id: str | None = None
    subject: str | None = None
    reply_to: str | None = None
    reply_to_session_id: str | None = None
    session_id: str | None = None
    to: str | None = None
    partition_key: str | None = None
    dead_letter_source: str | None = None


def test_what_is_null_is_left_out_and_the_first_delivery_is_number_one() -> None:
    inputs = to_inputs(Received(), "m")
    assert inputs["texts"] == {"LockToken": "00000000-0000-0000-0000-000000000001"}
    assert inputs["jsons"]["DeliveryCount"] == "1"
    assert set(inputs["jsons"]) == {
        *("DeliveryCount", "SequenceNumber", "EnqueuedTimeUtc", "EnqueuedTime"),
        *("ExpiresAtUtc", "ExpiresAt", "ApplicationProperties", "UserProperties"),
    }
    assert inputs["jsons"]["EnqueuedTimeUtc"] == '"2026-11-30T12:00:00+00:00"'


def test_application_properties_become_json_twice() -> None:
    properties: dict[str | bytes, Any] = {
        b"k": b"text",
        "n": 1,
        "none": None,
        "raw": b"\xff",
        "id": uuid.UUID(int=2),
    }
    inputs = to_inputs(Received(application_properties=properties), "m")["jsons"]
    assert inputs["ApplicationProperties"] == inputs["UserProperties"]
    assert json.loads(inputs["UserProperties"]) == {
        "k": "text",
        "n": 1,
        "none": None,
        "raw": "/w==",
        "id": "00000000-0000-0000-0000-000000000002",
    }


def test_a_body_keeps_its_bytes_and_one_without_bytes_is_refused() -> None:
    assert to_body(Received()) == b"ab"
    value = AmqpMessageBodyType.VALUE
    assert to_body(Received(body_type=value, body="ä")) == "ä".encode()
    with pytest.raises(ValueError, match="VALUE"):
        to_body(Received(body_type=value, body={"a": 1}))


@pytest.mark.parametrize(
    ("total", "parts", "expected"),
    [(16, 3, [6, 5, 5]), (2, 3, [1, 1]), (1, 3, [1]), (48, 3, [16, 16, 16])],
)
def test_slots_are_shared_and_their_sum_is_the_limit(
    total: int, parts: int, expected: list[int]
) -> None:
    assert shares(total, parts) == expected
