"""The administration endpoint, only read."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING

from azure.core.exceptions import (
    AzureError,
    ClientAuthenticationError,
    HttpResponseError,
    ResourceNotFoundError,
)

from delivery.errors import DeliveryError
from operator_console.probe.ports import Counts, NoRightError, QueueRules

if TYPE_CHECKING:
    from azure.servicebus.management import QueueProperties, ServiceBusAdministrationClient

_MISSING_RIGHT = (
    "the right to look at queues is missing; grant Azure Service Bus Data Owner, or use a key with "
    "Manage"
)


class Namespace:
    """How queues were made and what they hold. One client, opened when first asked."""

    def __init__(self, open_administration: "Callable[[], ServiceBusAdministrationClient]") -> None:
        self._open = open_administration

    def rules(self, queue: str) -> QueueRules | None:
        """Return how a queue was made, None where there is none. Raise NoRightError."""
        try:
            with _explained(), self._open() as administration:
                return _rules(administration.get_queue(queue))
        except ResourceNotFoundError:
            return None

    def counts(self, queue: str) -> Counts:
        """Return what is counted in a queue. Raise NoRightError."""
        with _explained(), self._open() as administration:
            found = administration.get_queue_runtime_properties(queue)
        return Counts(
            found.active_message_count or 0,
            found.scheduled_message_count or 0,
            found.dead_letter_message_count or 0,
        )


def _rules(found: "QueueProperties") -> QueueRules:
    return QueueRules(
        _duration(found.lock_duration),
        found.max_delivery_count or 0,
        _duration(found.default_message_time_to_live),
        bool(found.dead_lettering_on_message_expiration),
        bool(found.requires_duplicate_detection),
        bool(found.requires_session),
        found.forward_to or found.forward_dead_lettered_messages_to or "",
    )


def _duration(value: object) -> timedelta:
    """Return what the service says, which the SDK hands over as it is where it is too long."""
    return value if isinstance(value, timedelta) else timedelta.max


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except ResourceNotFoundError:
        raise
    except DeliveryError as error:
        raise NoRightError(str(error)) from error
    except ClientAuthenticationError as error:
        raise NoRightError(_MISSING_RIGHT) from error
    except HttpResponseError as error:
        if error.status_code == HTTPStatus.FORBIDDEN:
            raise NoRightError(_MISSING_RIGHT) from error
        msg = f"the administration endpoint answers with HTTP {error.status_code}"
        raise NoRightError(msg) from error
    except (AzureError, OSError, ValueError) as error:
        # The texts of others may hold addresses or keys.
        msg = f"the administration endpoint was not reached ({type(error).__name__})"
        raise NoRightError(msg) from error
