"""Copies of a delivered message: set aside for people, or scheduled for a later attempt."""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from azure.servicebus import ServiceBusMessage
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport

from delivery.errors import DeliveryError
from models.message_properties import (
    CARRIED_ATTEMPTS,
    ERROR_MESSAGE,
    ERROR_PROPERTIES,
    ERROR_TYPE,
    ORIGINAL_QUEUE,
    POSTPONEMENTS,
)
from models.values import JSON_INTEGERS
from services.amqp_properties import TypedValue
from services.broker_limits import ERROR_MESSAGE_BYTES, cut
from services.processing.delivery import Delivery

_INTS = range(-(2**31), 2**31)

#: A copy must not be born dead: one of a message that is about to expire gets this long.
_SHORTEST_LIFE = timedelta(seconds=1)

#: AMQP counts a life in milliseconds with 32 bits; a longer one is left to the queue.
_LONGEST_LIFE = timedelta(milliseconds=2**32 - 1)

_NOTHING: Mapping[str, TypedValue] = MappingProxyType({})


def set_aside(
    delivery: Delivery, error: DeliveryError, typed: Mapping[str, TypedValue] = _NOTHING
) -> ServiceBusMessage:
    """Return the copy for a side queue, with the reason and the way back on it.

    It tells of no earlier failure and no attempt: whoever sends it again starts from the beginning.
    `typed` are properties of which more is known than the host told.
    """
    why = {
        ORIGINAL_QUEUE: delivery.queue,
        ERROR_MESSAGE: cut(str(error), ERROR_MESSAGE_BYTES),
        ERROR_TYPE: type(error).__name__,
    }
    kept = {n: v for n, v in delivery.properties.items() if n not in ERROR_PROPERTIES}
    return _copy(delivery, delivery.message_id, kept, {**typed, **why})


def postponed(
    delivery: Delivery,
    delay: timedelta,
    now: datetime,
    typed: Mapping[str, TypedValue] = _NOTHING,
) -> ServiceBusMessage:
    """Return the copy that comes back to the same queue after `delay`.

    This attempt did not take place, so it is not counted. The copy keeps what is left of the
    message's life, and its id differs: the same one would fall to duplicate detection.
    """
    carried = {
        CARRIED_ATTEMPTS: delivery.attempt - 1,
        POSTPONEMENTS: delivery.postponements + 1,
    }
    origin = f"{delivery.message_id}/{delivery.attempt}/{delivery.postponements}"
    message_id = hashlib.sha256(origin.encode()).hexdigest()
    copy = _copy(delivery, message_id, delivery.properties, {**typed, **carried})
    due = now + delay
    copy.scheduled_enqueue_time_utc = due
    if delivery.expires is not None and delivery.expires - due < _LONGEST_LIFE:
        copy.time_to_live = max(delivery.expires - due, _SHORTEST_LIFE)
    return copy


def _copy(
    delivery: Delivery,
    message_id: str,
    kept: Mapping[str, object],
    changes: Mapping[str, str | int | TypedValue],
) -> ServiceBusMessage:
    properties: dict[str | bytes, Any] = {
        name: _carried(value) for name, value in kept.items() if value is not None
    }
    properties.update(changes)
    return ServiceBusMessage(
        delivery.body,
        content_type=delivery.content_type,
        message_id=message_id,
        application_properties=properties,
    )


def _carried(value: object) -> Any:  # noqa: ANN401 - the SDK's own types among them
    """Return a property as the SDK sends it; what AMQP has no place for as JSON text.

    The host hands properties over as JSON, so that this is all that is known of their types.
    """
    if isinstance(value, bool | str | float):
        return value
    if isinstance(value, int) and value in JSON_INTEGERS:
        # The SDK takes an integer for one of 32 bits where nobody says otherwise.
        return value if value in _INTS else PyamqpTransport.AMQP_LONG_VALUE(value)
    return json.dumps(value, ensure_ascii=False)
