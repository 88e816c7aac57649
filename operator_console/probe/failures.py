"""What the SDK raises, as errors of the port and as sentences that say what to do."""

from collections.abc import Iterator
from contextlib import contextmanager

from azure.core.exceptions import AzureError, ClientAuthenticationError
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageSizeExceededError,
    MessagingEntityDisabledError,
    MessagingEntityNotFoundError,
    OperationTimeoutError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusCommunicationError,
    ServiceBusConnectionError,
    ServiceBusError,
    ServiceBusServerBusyError,
)

from delivery.errors import ConfigurationError, LockLostError, RejectedError, UnavailableError
from operator_console.probe.ports import RefusedError, TooLargeError
from services.azure_access import SERVICE_BUS

_DENIED = (
    f"{{queue}}: the broker refuses the credentials; check the key in {SERVICE_BUS}, or the "
    "identity: it needs the roles Azure Service Bus Data Sender and Data Receiver"
)

#: What the user has to put right, and how.
_SETTINGS: tuple[tuple[tuple[type[Exception], ...], str], ...] = (
    (
        (MessagingEntityNotFoundError,),
        "the namespace has no queue {queue!r}; make it, or correct the name",
    ),
    (
        (MessagingEntityDisabledError,),
        "the queue {queue!r} is disabled; enable it, or name another one",
    ),
    (
        (
            ServiceBusAuthenticationError,
            ServiceBusAuthorizationError,
            ClientAuthenticationError,
        ),
        _DENIED,
    ),
)
_AWAY = (
    OperationTimeoutError,
    ServiceBusCommunicationError,
    ServiceBusConnectionError,
    ServiceBusServerBusyError,
    ConnectionError,
    TimeoutError,
)

#: So much of the broker's words is shown.
_LONGEST = 160


@contextmanager
def translated(queue: str) -> Iterator[None]:
    """Raise what the SDK raises as an error of the port, or of ours."""
    try:
        yield
    except RejectedError as error:
        # The SDK's batch is smaller than the message: the broker was not asked.
        raise TooLargeError(str(error)) from error
    except (AzureError, OSError) as error:
        raise _to_error(queue, error) from error


def _to_error(queue: str, error: Exception) -> Exception:
    if isinstance(error, MessageLockLostError):
        return LockLostError(f"{queue}: the lock is gone")
    if isinstance(error, MessageSizeExceededError):
        return TooLargeError(words(error))
    for kinds, remedy in _SETTINGS:
        if isinstance(error, kinds):
            return ConfigurationError(remedy.format(queue=queue))
    if isinstance(error, ServiceBusError) and not isinstance(error, _AWAY):
        return RefusedError(words(error))
    return UnavailableError(
        f"{queue}: the broker does not answer ({type(error).__name__}); check the address in "
        f"{SERVICE_BUS}, the network, and that port 5671 is open"
    )


def words(error: Exception) -> str:
    """Return the first of the broker's words; those of the SDK hold no key."""
    first = str(error).partition("\n")[0] or type(error).__name__
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]}…"
