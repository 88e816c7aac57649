"""Settles by lock token what the host cannot settle for a Python function.

The host abandons a message after an exception, but without properties, and it never dead-letters.
So we do it, with the error properties, and raise: the host's own abandon then meets a lost lock and
changes nothing. See docs/decisions/0002-the-host-completes-we-abandon.md.
"""

import logging
from collections.abc import Callable, Mapping

from azure.servicebus.exceptions import MessageLockLostError

from services.broker_limits import DEAD_LETTER_TEXT_BYTES, cut
from services.event_log import Action, log_event, told
from services.management_node import ManagementNode
from services.processing.delivery import Delivery
from services.processing.management_thread import ManagementThread

_LOGGER = logging.getLogger(__name__)


class SettlementService:
    """Never raises: where it fails, the host's own abandon returns the message."""

    def __init__(self, thread: ManagementThread) -> None:
        self._thread = thread

    def abandon(self, delivery: Delivery, properties: Mapping[str, str | int]) -> bool:
        """Give the message back with `properties` on it; return whether that worked."""
        return self._settle(
            delivery, lambda node: node.abandon(delivery.lock_token, properties), "abandoned"
        )

    def dead_letter(
        self, delivery: Delivery, reason: str, text: str, properties: Mapping[str, str | int]
    ) -> bool:
        """Move the message to the dead-letter queue; return whether that worked."""
        description = cut(text, DEAD_LETTER_TEXT_BYTES)
        return self._settle(
            delivery,
            lambda node: node.dead_letter(delivery.lock_token, reason, description, properties),
            "dead-lettered",
        )

    def close(self) -> None:
        """Close the connections."""
        self._thread.close()

    def _settle(
        self, delivery: Delivery, operation: Callable[[ManagementNode], None], what: str
    ) -> bool:
        try:
            self._thread.run(delivery.queue, operation)
        except MessageLockLostError:
            # Or an earlier attempt got through, and only its answer was lost.
            _tell(delivery, f"the lock was lost before the message was {what}")
            return False
        except Exception as error:  # noqa: BLE001 - whatever it is, the host gives the message back
            _tell(
                delivery, f"it goes back without error properties, it was not {what}: {told(error)}"
            )
            return False
        return True


def _tell(delivery: Delivery, text: str) -> None:
    log_event(_LOGGER, logging.WARNING, Action.NOT_SETTLED, delivery.subject, text)
