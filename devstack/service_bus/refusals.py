"""Which AMQP condition tells a client which error, on a link and over `$management`."""

from devstack.service_bus.amqp_sections import PropertiesTooLargeError, TooLargeError
from devstack.service_bus.amqp_values import MalformedError
from devstack.service_bus.messages import LockLostError, MessageNotFoundError


class DeadLetterAgainError(Exception):
    """A message of a dead-letter queue cannot be dead-lettered again."""


_LOCK_LOST = (
    "The lock supplied is invalid. Either the lock expired, or the message has already been "
    "removed from the queue."
)
_NOT_FOUND = "There is no message with this sequence number in the state that this needs."
_AGAIN = "A message of a dead-letter queue cannot be dead-lettered again."

#: Condition, status over `$management`, and text where the error brings none.
_REFUSALS: dict[type[Exception], tuple[str, int, str]] = {
    LockLostError: ("com.microsoft:message-lock-lost", 410, _LOCK_LOST),
    MessageNotFoundError: ("com.microsoft:message-not-found", 404, _NOT_FOUND),
    DeadLetterAgainError: ("amqp:not-allowed", 400, _AGAIN),
    PropertiesTooLargeError: ("com.microsoft:argument-out-of-range", 400, ""),
    TooLargeError: ("amqp:link:message-size-exceeded", 400, ""),
    MalformedError: ("amqp:decode-error", 400, ""),
}

#: The errors that a client is told of. Any other is a fault of ours.
REFUSED = tuple(_REFUSALS)


def refusal(error: Exception) -> tuple[str, int, str]:
    """Return the condition, the status and the text that tell of `error`."""
    condition, status, text = _REFUSALS[type(error)]
    return condition, status, text or str(error)
