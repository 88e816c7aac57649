"""The `$management` node of one queue, reached without opening a link to the queue itself.

The SDK offers this only for browsing sessions, so this is the one module that uses private names of
it; `azure-servicebus` is pinned and a contract test holds the behaviour. Operations: "AMQP in Azure
Service Bus: request/response-based operations", Microsoft Learn.
"""

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from azure.servicebus._common import mgmt_handlers
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient

#: Well below any function timeout; the SDK's own default is a minute.
REQUEST_TIMEOUT = timedelta(seconds=8)

_UPDATE_DISPOSITION = b"com.microsoft:update-disposition"


class ManagementNode:
    """Sends requests by lock token, one token each. Belongs to one thread.

    `client` must have been made with `retry_total=0`: who calls decides about a second attempt.
    Every method raises `azure.servicebus.exceptions.ServiceBusError`, of which
    `MessageLockLostError` says that the lock is gone.
    """

    def __init__(self, client: "ServiceBusClient", queue: str) -> None:
        self._handler = client._create_session_browser(queue)  # type: ignore[no-untyped-call]  # noqa: SLF001 - as said above

    def abandon(self, lock_token: uuid.UUID, properties: Mapping[str, str | int]) -> None:
        """Give the message back to its queue, with `properties` merged into its own."""
        self._request(
            _UPDATE_DISPOSITION,
            {
                "disposition-status": "abandoned",
                "lock-tokens": PyamqpTransport.AMQP_ARRAY_VALUE([lock_token]),
                "properties-to-modify": dict(properties),
            },
        )

    def close(self) -> None:
        """Close the connection."""
        self._handler.close()

    def _request(self, operation: bytes, body: dict[str, Any]) -> None:
        self._handler._mgmt_request_response_with_retry(  # noqa: SLF001 - as said above
            operation,
            body,
            mgmt_handlers.default,
            keep_alive_associated_link=False,
            timeout=REQUEST_TIMEOUT.total_seconds(),
        )
