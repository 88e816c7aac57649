"""What others put onto a message, with the AMQP types that the host does not hand over."""

import logging
from typing import TYPE_CHECKING

from delivery.errors import UnreadableError
from models.message_properties import OUR_PROPERTIES
from services.amqp_properties import TypedValue, application_properties
from services.event_log import Action, log_event, told
from services.processing.delivery import Delivery

if TYPE_CHECKING:
    from services.processing.management_thread import ManagementThread

_LOGGER = logging.getLogger(__name__)


class OriginalPropertiesService:
    """Peeks at the message while it is locked. Never raises: a copy matters more than its types."""

    def __init__(self, thread: "ManagementThread") -> None:
        self._thread = thread

    def foreign(self, delivery: Delivery) -> dict[str, TypedValue]:
        """Return the properties that are not ours, as the SDK sends them again.

        Empty where there are none, without asking the broker, and where they cannot be had.
        """
        if delivery.properties.keys() <= OUR_PROPERTIES:
            return {}
        try:
            properties = self._peek(delivery)
        except Exception as error:  # noqa: BLE001 - whatever it is, the copy goes without the types
            text = f"its copy has no AMQP types, as the host tells none: {told(error)}"
            log_event(_LOGGER, logging.WARNING, Action.TYPES_LOST, delivery.subject, text)
            return {}
        return {name: value for name, value in properties.items() if name not in OUR_PROPERTIES}

    def _peek(self, delivery: Delivery) -> dict[str, TypedValue]:
        number = delivery.sequence_number
        if number is None:
            msg = "the host told no sequence number"
            raise UnreadableError(msg)
        encoded = self._thread.run(delivery.queue, lambda node: node.peek_encoded(number))
        if encoded is None:
            msg = "the message is not in its queue any more"
            raise UnreadableError(msg)
        return application_properties(encoded)
