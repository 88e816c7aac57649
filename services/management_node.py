"""The `$management` node of a queue or dead-letter queue, reached without a link to it.

The SDK offers this only for browsing sessions, so this module uses private names of it;
`azure-servicebus` is pinned and a contract test holds the behaviour. Operations: "AMQP in Azure
Service Bus: request/response-based operations", Microsoft Learn.
"""

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from azure.servicebus._common import mgmt_handlers
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport

from services.amqp_properties import sequence_number

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient

#: Well below any function timeout; the SDK's own default is a minute.
REQUEST_TIMEOUT = timedelta(seconds=8)

_UPDATE_DISPOSITION = b"com.microsoft:update-disposition"
_RENEW_LOCK = b"com.microsoft:renew-lock"
_PEEK = b"com.microsoft:peek-message"

#: What a peek answers where nothing is left from the number on.
_NO_CONTENT = 204


class ManagementNode:
    """Sends requests. Belongs to one thread; a dead-letter queue is named `QUEUE/$deadletterqueue`.

    How often a request is tried is `retry_total` of the client.
    Every method raises `azure.servicebus.exceptions.ServiceBusError`, of which
    `MessageLockLostError` says that the lock is gone.
    """

    def __init__(self, client: "ServiceBusClient", queue: str) -> None:
        self._handler = client._create_session_browser(queue)  # type: ignore[no-untyped-call]  # noqa: SLF001 - as said above

    def abandon(self, lock_token: uuid.UUID, properties: Mapping[str, str | int]) -> None:
        """Give the message back to its queue, with `properties` merged into its own."""
        self._request_by_token(
            _UPDATE_DISPOSITION,
            lock_token,
            {"disposition-status": "abandoned", "properties-to-modify": dict(properties)},
        )

    def dead_letter(
        self,
        lock_token: uuid.UUID,
        reason: str,
        description: str,
        properties: Mapping[str, str | int],
    ) -> None:
        """Move the message to the dead-letter queue, with `properties` merged into its own."""
        self._request_by_token(
            _UPDATE_DISPOSITION,
            lock_token,
            {
                "disposition-status": "suspended",
                "deadletter-reason": reason,
                "deadletter-description": description,
                "properties-to-modify": dict(properties),
            },
        )

    def renew(self, lock_token: uuid.UUID) -> None:
        """Let the lock run for its whole duration again, from now on."""
        self._request_by_token(_RENEW_LOCK, lock_token, {}, mgmt_handlers.message_lock_renew_op)

    def complete(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        """Remove several messages."""
        self._settle(lock_tokens, "completed")

    def give_back(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        """Abandon several messages as they are."""
        self._settle(lock_tokens, "abandoned")

    def renew_all(self, lock_tokens: Sequence[uuid.UUID]) -> None:
        """Let the locks of several messages run for their whole duration again."""
        tokens = PyamqpTransport.AMQP_ARRAY_VALUE(list(lock_tokens))
        self._request(_RENEW_LOCK, {"lock-tokens": tokens}, mgmt_handlers.message_lock_renew_op)

    def peek_encoded(self, number: int) -> bytes | None:
        """Return the message with this sequence number as it is encoded, None where it is gone."""
        page = self.peek_page(number, 1)
        # The broker answers with the next one where this one is gone.
        return page[0] if page and sequence_number(page[0]) == number else None

    def peek_page(self, number: int, most: int) -> list[bytes]:
        """Return messages from this sequence number on as they are encoded; empty at the end.

        They may be locked, by whomever: "Message browsing", Microsoft Learn.
        """
        body = {
            "from-sequence-number": PyamqpTransport.AMQP_LONG_VALUE(number),
            "message-count": most,
        }
        page: list[bytes] = self._request(_PEEK, body, _peeked)
        return page

    def close(self) -> None:
        """Close the connection."""
        self._handler.close()

    def _settle(self, lock_tokens: Sequence[uuid.UUID], status: str) -> None:
        tokens = PyamqpTransport.AMQP_ARRAY_VALUE(list(lock_tokens))
        body = {"lock-tokens": tokens, "disposition-status": status}
        self._request(_UPDATE_DISPOSITION, body, mgmt_handlers.default)

    def _request_by_token(
        self,
        operation: bytes,
        lock_token: uuid.UUID,
        body: dict[str, Any],
        on_answer: Callable[..., Any] = mgmt_handlers.default,
    ) -> None:
        tokens = PyamqpTransport.AMQP_ARRAY_VALUE([lock_token])
        self._request(operation, {"lock-tokens": tokens, **body}, on_answer)

    def _request(
        self, operation: bytes, body: dict[str, Any], on_answer: Callable[..., Any]
    ) -> Any:  # noqa: ANN401 - each operation has an answer of its own
        return self._handler._mgmt_request_response_with_retry(  # noqa: SLF001 - as said above
            operation,
            body,
            on_answer,
            keep_alive_associated_link=False,
            timeout=REQUEST_TIMEOUT.total_seconds(),
        )


def _peeked(status_code: int, *answered: Any, **transport: Any) -> list[bytes]:  # noqa: ANN401 - the SDK's own
    """Take the messages' bytes from an answer; the SDK's own function would decode them."""
    if status_code == _NO_CONTENT:
        return []
    answer = mgmt_handlers.default(status_code, *answered, **transport)  # type: ignore[no-untyped-call]
    return [message[b"message"] for message in answer[b"messages"]]
