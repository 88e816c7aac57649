"""A received message as the Service Bus extension describes it to a worker.

The names are those of the extension's single dispatch, no more and no fewer; like Azure's host we
leave out what is null. Texts go as texts, everything else as JSON.
"""

import base64
from datetime import UTC, datetime
from typing import Any, Protocol

import orjson
from azure.servicebus.amqp import AmqpMessageBodyType

#: .NET's DateTimeOffset.MaxValue, cut to Python's six digits: the message does not expire.
_NEVER = "9999-12-31T23:59:59.999999+00:00"


class Message(Protocol):
    """What is read of the SDK's received message."""

    body_type: AmqpMessageBodyType
    body: Any
    application_properties: dict[str | bytes, Any] | None
    delivery_count: int | None
    enqueued_time_utc: datetime | None
    expires_at_utc: datetime | None
    sequence_number: int | None
    lock_token: Any
    message_id: str | None
    content_type: str | None
    correlation_id: str | None
    subject: str | None
    reply_to: str | None
    reply_to_session_id: str | None
    session_id: str | None
    to: str | None
    partition_key: str | None
    dead_letter_source: str | None


def to_inputs(message: Message, argument: str) -> dict[str, Any]:
    """Return what a call's frame says about `message`, all but its body."""
    return {
        "argument": argument,
        "kind": "bytes",
        "texts": {name: str(value) for name, value in _texts(message) if value is not None},
        "jsons": _jsons(message),
    }


def to_body(message: Message) -> bytes:
    """Return the message's exact bytes, or raise ValueError for AMQP values that have none."""
    body = message.body
    if message.body_type is AmqpMessageBodyType.DATA:
        return b"".join(body)
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    msg = f"a body of AMQP type {message.body_type.name} holding {type(body).__name__}"
    raise ValueError(msg)


def _texts(message: Message) -> tuple[tuple[str, Any], ...]:
    return (
        ("LockToken", message.lock_token),
        ("MessageId", message.message_id),
        ("ContentType", message.content_type),
        ("CorrelationId", message.correlation_id),
        ("Subject", message.subject),
        ("Label", message.subject),
        ("ReplyTo", message.reply_to),
        ("ReplyToSessionId", message.reply_to_session_id),
        ("SessionId", message.session_id),
        ("To", message.to),
        ("PartitionKey", message.partition_key),
        ("DeadLetterSource", message.dead_letter_source),
        ("TransactionPartitionKey", None),  # needs transactions, which the SDK has not
    )


def _jsons(message: Message) -> dict[str, str]:
    # AMQP counts the deliveries that failed, the extension counts this one too.
    jsons = {"DeliveryCount": str((message.delivery_count or 0) + 1)}
    if message.sequence_number is not None:
        jsons["SequenceNumber"] = str(message.sequence_number)
    if message.enqueued_time_utc is not None:
        jsons["EnqueuedTimeUtc"] = jsons["EnqueuedTime"] = _moment(message.enqueued_time_utc)
    expires = message.expires_at_utc
    jsons["ExpiresAtUtc"] = jsons["ExpiresAt"] = _moment(expires) if expires else f'"{_NEVER}"'
    properties = message.application_properties
    text = orjson.dumps(_plain(properties)).decode() if properties else "{}"
    jsons["ApplicationProperties"] = jsons["UserProperties"] = text
    return jsons


def _moment(moment: datetime) -> str:
    return f'"{moment.astimezone(UTC).isoformat()}"'


def _plain(value: Any) -> Any:  # noqa: ANN401 - AMQP values of any type
    match value:
        case dict():
            return {_text(name): _plain(item) for name, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case bytes():
            return _text(value)
        case datetime():
            return value.isoformat()
        case None | bool() | int() | float() | str():
            return value
        case _:
            return str(value)


def _text(value: object) -> str:
    if not isinstance(value, bytes):
        return str(value)
    try:
        return value.decode()
    except UnicodeDecodeError:
        # The SDK gives texts as bytes too; only what is no text was bytes on the wire for sure.
        return base64.b64encode(value).decode()
