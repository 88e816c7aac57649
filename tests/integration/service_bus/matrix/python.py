"""The Python SDK, synchronous and asynchronous: the same calls, but for who waits for them."""

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiveMode,
    ServiceBusSubQueue,
    aio,
)
from azure.servicebus._common import mgmt_handlers
from azure.servicebus._transport._pyamqp_transport import PyamqpTransport
from azure.servicebus.exceptions import (
    MessageLockLostError,
    MessageSizeExceededError,
    MessagingEntityNotFoundError,
    ServiceBusAuthenticationError,
    ServiceBusAuthorizationError,
    ServiceBusConnectionError,
    ServiceBusError,
)
from azure.servicebus.management import ServiceBusAdministrationClient

from tests.integration.servers import PromptClient
from tests.integration.service_bus.matrix.clients import (
    Counts,
    Meaning,
    Outgoing,
    Place,
    Seen,
    ToldError,
)

_MEANINGS: dict[type[ServiceBusError], Meaning] = {
    MessageLockLostError: Meaning.LOCK_LOST,
    MessageSizeExceededError: Meaning.TOO_LARGE,
    MessagingEntityNotFoundError: Meaning.NOT_FOUND,
    ServiceBusAuthenticationError: Meaning.UNAUTHORIZED,
    ServiceBusAuthorizationError: Meaning.UNAUTHORIZED,
    ServiceBusConnectionError: Meaning.CUT_OFF,
}
_PATIENCE = 60

#: Calls a function of the SDK and waits for what it returns.
type Call = Callable[..., Any]


def _translated(call: Call) -> Call:
    def calling(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        try:
            return call(function, *arguments, **options)
        except ServiceBusError as error:
            raise ToldError(_MEANINGS.get(type(error), Meaning.OTHER), str(error)) from error

    return calling


def _call(function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return function(*arguments, **options)


class Python:
    """The synchronous SDK."""

    name = "python"

    def __init__(self, certificate: str) -> None:
        self._certificate = certificate

    def counts(self, connection_string: str, queue: str) -> Counts:
        with self._administration(connection_string) as administration:
            found = administration.get_queue_runtime_properties(queue)
        numbers = (
            found.active_message_count,
            found.scheduled_message_count,
            found.dead_letter_message_count,
            found.total_message_count,
            found.size_in_bytes,
        )
        return Counts(*(int(number or 0) for number in numbers))

    def queues(self, connection_string: str) -> list[str]:
        with self._administration(connection_string) as administration:
            return [queue.name for queue in administration.list_queues()]

    def namespace(self, connection_string: str) -> str:
        with self._administration(connection_string) as administration:
            return str(administration.get_namespace_properties().name)

    def _administration(self, connection_string: str) -> ServiceBusAdministrationClient:
        return ServiceBusAdministrationClient.from_connection_string(
            connection_string, connection_verify=self._certificate, retry_total=0
        )

    def client(self, connection_string: str) -> "PythonClient":
        sdk = PromptClient.from_connection_string(connection_string, retry_total=0)
        return PythonClient(_translated(_call), sdk)

    def end(self) -> None: ...


class PythonAio:
    """The asynchronous SDK, on a loop that runs in a thread of its own."""

    name = "python-aio"

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()

    def client(self, connection_string: str) -> "PythonClient":
        open_client = aio.ServiceBusClient.from_connection_string
        sdk = self._call(open_client, connection_string, retry_total=0)
        return PythonClient(_translated(self._call), sdk)

    def _call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        async def calling() -> Any:
            answer = function(*arguments, **options)
            return await answer if inspect.isawaitable(answer) else answer

        return asyncio.run_coroutine_threadsafe(calling(), self._loop).result(_PATIENCE)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()


class PythonClient:
    """Implements `Client` with either SDK."""

    def __init__(self, call: Call, sdk: ServiceBusClient | aio.ServiceBusClient) -> None:
        self._call = call
        self._sdk = sdk
        self._senders: dict[str, Any] = {}
        self._receivers: dict[Place, Any] = {}
        self._received: dict[int, tuple[Any, Any]] = {}
        self._handles = count(1)

    def send(self, queue: str, message: Outgoing) -> None:
        self._call(self._sender(queue).send_messages, _message(message))

    def send_all(self, queue: str, messages: Sequence[Outgoing]) -> None:
        self._call(self._sender(queue).send_messages, [_message(one) for one in messages])

    def fill(self, queue: str, message: Outgoing, most: int) -> int:
        sender = self._sender(queue)
        batch = self._call(sender.create_message_batch)
        fitted = 0
        try:
            while fitted < most:
                batch.add_message(_message(message))
                fitted += 1
        except MessageSizeExceededError:
            pass  # the next one does not fit any more
        self._call(sender.send_messages, batch)
        return fitted

    def schedule(self, queue: str, messages: Sequence[Outgoing], due: datetime) -> list[int]:
        written = [_message(one) for one in messages]
        return list(self._call(self._sender(queue).schedule_messages, written, due))

    def cancel(self, queue: str, number: int) -> None:
        self._call(self._sender(queue).cancel_scheduled_messages, number)

    def peek(self, place: Place, *, start: int = 1, count: int = 10) -> list[Seen]:
        receiver = self._receiver(place)
        found = self._call(receiver.peek_messages, count, sequence_number=start)
        return [self._seen(message, receiver) for message in found]

    def receive(self, place: Place, *, seconds: float = 5) -> list[Seen]:
        receiver = self._receiver(place)
        found = self._call(receiver.receive_messages, 1, max_wait_time=seconds)
        return [self._seen(message, receiver) for message in found]

    def receive_deferred(self, place: Place, number: int) -> Seen:
        receiver = self._receiver(place)
        (message,) = self._call(receiver.receive_deferred_messages, number)
        return self._seen(message, receiver)

    def complete(self, message: Seen) -> None:
        receiver, received = self._received[message.handle]
        self._call(receiver.complete_message, received)

    def abandon(self, message: Seen, properties: Mapping[str, str | int] | None = None) -> None:
        receiver, received = self._received[message.handle]
        if properties is None:
            self._call(receiver.abandon_message, received)
        else:
            fields = {"disposition-status": "abandoned", "properties-to-modify": dict(properties)}
            self._update(message, fields)

    def defer(self, message: Seen) -> None:
        receiver, received = self._received[message.handle]
        self._call(receiver.defer_message, received)

    def dead_letter(
        self,
        message: Seen,
        *,
        reason: str | None = None,
        description: str | None = None,
        properties: Mapping[str, str | int] | None = None,
    ) -> None:
        receiver, received = self._received[message.handle]
        if properties is None:
            why = {"reason": reason, "error_description": description}
            self._call(receiver.dead_letter_message, received, **why)
        else:
            fields = {
                "disposition-status": "suspended",
                "deadletter-reason": reason,
                "deadletter-description": description,
                "properties-to-modify": dict(properties),
            }
            self._update(message, fields)

    def renew(self, message: Seen) -> datetime:
        receiver, received = self._received[message.handle]
        until = self._call(receiver.renew_message_lock, received)
        assert isinstance(until, datetime)
        return until

    def close(self) -> None:
        # Each takes this SDK half a second.
        with ThreadPoolExecutor() as pool:
            for link in (*self._senders.values(), *self._receivers.values()):
                pool.submit(self._call, link.close)
        self._call(self._sdk.close)

    def _update(self, message: Seen, fields: Mapping[str, Any]) -> None:
        # As the app does it: this SDK offers properties on no settlement.
        receiver, received = self._received[message.handle]
        tokens = PyamqpTransport.AMQP_ARRAY_VALUE([received.lock_token])
        self._call(
            receiver._mgmt_request_response_with_retry,  # noqa: SLF001 - see above
            b"com.microsoft:update-disposition",
            {"lock-tokens": tokens, **fields},
            mgmt_handlers.default,
        )

    def _sender(self, queue: str) -> Any:
        if queue not in self._senders:
            self._senders[queue] = self._call(self._sdk.get_queue_sender, queue)
        return self._senders[queue]

    def _receiver(self, place: Place) -> Any:
        if place not in self._receivers:
            mode = ServiceBusReceiveMode
            self._receivers[place] = self._call(
                self._sdk.get_queue_receiver,
                place.queue,
                sub_queue=ServiceBusSubQueue.DEAD_LETTER if place.dead else None,
                receive_mode=mode.RECEIVE_AND_DELETE if place.deletes else mode.PEEK_LOCK,
            )
        return self._receivers[place]

    def _seen(self, message: Any, receiver: Any) -> Seen:
        handle = next(self._handles)
        self._received[handle] = (receiver, message)
        life = message.time_to_live
        return Seen(
            handle=handle,
            body=str(message),
            message_id=message.message_id,
            subject=message.subject,
            correlation_id=message.correlation_id,
            content_type=message.content_type,
            reply_to=message.reply_to,
            to=message.to,
            partition_key=message.partition_key,
            seconds_to_live=life and life.total_seconds(),
            properties={
                _text(k): _text(v) for k, v in (message.application_properties or {}).items()
            },
            sequence=message.sequence_number,
            delivery_count=message.delivery_count,
            state=message.state.name.lower(),
            enqueued=message.enqueued_time_utc.astimezone(UTC),
            locked_until=getattr(message, "locked_until_utc", None),
            reason=message.dead_letter_reason,
            description=message.dead_letter_error_description,
            source=message.dead_letter_source,
        )


def _text(value: Any) -> Any:
    """Return an AMQP string as text; the SDK leaves it as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def _message(message: Outgoing) -> ServiceBusMessage:
    life = message.seconds_to_live
    return ServiceBusMessage(
        message.body.encode(),
        message_id=message.message_id,
        subject=message.subject,
        correlation_id=message.correlation_id,
        content_type=message.content_type,
        reply_to=message.reply_to,
        to=message.to,
        partition_key=message.partition_key,
        time_to_live=None if life is None else timedelta(seconds=life),
        application_properties=dict(message.properties) or None,  # type: ignore[arg-type] # the SDK's dict is invariant
    )
