"""What the three functions `Process…QueueItems` do with the message that the host hands them."""

import logging
import traceback
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from delivery.errors import DeliveryError
from services.broker_limits import ERROR_MESSAGE_BYTES, ERROR_STACK_TRACE_BYTES, cut, cut_front
from services.processing.execution import ProcessQueueMessageService

_LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One delivery of one message; `delivery_count` is 1 at the first."""

    queue: str
    body: bytes
    lock_token: uuid.UUID
    delivery_count: int


class Settlement(Protocol):
    """What the host cannot do for a Python function."""

    def abandon(self, delivery: Delivery, properties: dict[str, str | int]) -> None:
        """Give the message back to its queue with `properties` set on it; never raise."""
        ...


class QueueItemService:
    """Processes a delivery; a failure is written onto the message before the host sees it."""

    def __init__(
        self,
        processing: ProcessQueueMessageService,
        settlement: Settlement,
        *,
        now: Callable[[], datetime],
    ) -> None:
        self._processing = processing
        self._settlement = settlement
        self._now = now

    def execute(self, delivery: Delivery) -> None:
        """Return when the host may complete the message; raise when it must not."""
        try:
            self._processing.execute(delivery.body)
        except Exception as error:
            _LOGGER.warning(
                "%s: delivery %d failed: %s: %s",
                delivery.queue,
                delivery.delivery_count,
                type(error).__name__,
                error if isinstance(error, DeliveryError) else "see the dead letter's stack trace",
            )
            properties = error_properties(error, delivery.delivery_count, self._now())
            self._settlement.abandon(delivery, properties)
            raise


def error_properties(error: Exception, delivery_count: int, now: datetime) -> dict[str, str | int]:
    """Describe `error` within the broker's limits.

    The stack trace holds frames only: the texts of causes may quote people's data.
    """
    stack = "".join(traceback.format_tb(error.__traceback__))
    return {
        "ErrorMessage": cut(str(error) or type(error).__name__, ERROR_MESSAGE_BYTES),
        "ErrorType": type(error).__name__,
        "ErrorStackTrace": cut_front(stack, ERROR_STACK_TRACE_BYTES),
        "ErrorTime": now.isoformat(),
        "ErrorDeliveryCount": delivery_count,
    }
