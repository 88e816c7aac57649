"""`$management`: what clients ask of a queue beside sending and receiving."""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from devstack.service_bus import amqp_values as amqp
from devstack.service_bus.amqp_sections import (
    PropertiesTooLargeError,
    TooLargeError,
    messages,
    render,
    with_properties,
)
from devstack.service_bus.broker import Entity
from devstack.service_bus.links import (
    LOCK_LOST,
    LOCK_LOST_TEXT,
    NOT_ALLOWED,
    OUT_OF_RANGE,
    SIZE_EXCEEDED,
    bury,
)
from devstack.service_bus.queue import (
    LockLostError,
    Message,
    MessageNotFoundError,
    NotADeadLetterError,
    Queue,
)
from devstack.service_bus.requests import Request, answer, parse

if TYPE_CHECKING:
    from devstack.service_bus.connection import Connection

_TIMESTAMP, _LONG = 0x83, 0x81
_RECEIVE_AND_DELETE = 0
_PEEKED_BYTES = 1024 * 1024


class RequestError(Exception):
    """The request cannot be fulfilled. Carries its status and condition."""

    def __init__(self, status: int, condition: str, description: str) -> None:
        super().__init__(description)
        self.status = status
        self.condition = condition


@dataclass(frozen=True, slots=True)
class Call:
    """A request's fields, for which entity and when."""

    entity: Entity
    now: int
    fields: dict[str, bytes]

    def value(self, name: str) -> amqp.Value:
        """Return a field's value; refuse where it is missing."""
        if name not in self.fields:
            raise _bad_argument(f"The field '{name}' is missing.")
        return amqp.read(self.fields[name])

    def number(self, name: str) -> int:
        """Return a field that must be a whole number."""
        value = self.value(name)
        if not isinstance(value, int):
            raise _bad_argument(f"The field '{name}' must be a number.")
        return value

    def numbers(self, name: str) -> list[int]:
        """Return a field that must hold whole numbers."""
        value = self.value(name)
        values = value if isinstance(value, list) else [value]
        numbers = [number for number in values if isinstance(number, int)]
        if len(numbers) != len(values):
            raise _bad_argument(f"The field '{name}' must hold numbers.")
        return numbers

    def tokens(self) -> list[bytes]:
        """Return the lock tokens."""
        value = self.value("lock-tokens")
        values = value if isinstance(value, list) else [value]
        tokens = [token.bytes for token in values if isinstance(token, UUID)]
        if len(tokens) != len(values):
            raise _bad_argument("The field 'lock-tokens' must hold UUIDs.")
        return tokens

    def text(self, name: str) -> str | None:
        """Return a field's text; None where it is missing or empty."""
        value = amqp.read(self.fields[name]) if name in self.fields else None
        return str(value) if value else None

    def changes(self) -> dict[str, bytes]:
        """Return the properties to modify, their values encoded."""
        encoded = self.fields.get("properties-to-modify", amqp.NULL)
        if encoded == amqp.NULL:
            return {}
        return {str(amqp.read(key)): value for key, value in amqp.pairs(encoded, 0)}


def _bad_argument(description: str) -> RequestError:
    return RequestError(400, "com.microsoft:argument-error", description)


def _renew(call: Call) -> bytes:
    tokens = call.tokens()
    for token in tokens:
        call.entity.queue.locked(token, call.now)
    expirations = [amqp.timestamp(call.entity.queue.renew(token, call.now)) for token in tokens]
    return amqp.mapping([amqp.text("expirations"), amqp.array(expirations, _TIMESTAMP)])


def _update_disposition(call: Call) -> bytes:
    status = call.text("disposition-status")
    settle = _DISPOSITIONS.get(status or "")
    if settle is None:
        raise RequestError(
            501, "amqp:not-implemented", f"The disposition '{status}' is not implemented."
        )
    tokens = call.tokens()
    for token in tokens:
        call.entity.queue.locked(token, call.now)
    for token in tokens:
        settle(call, token)
    return amqp.NULL


def _complete(call: Call, token: bytes) -> None:
    call.entity.queue.complete(token, call.now)


def _abandon(call: Call, token: bytes) -> None:
    content = call.entity.queue.locked(token, call.now).content
    call.entity.queue.abandon(token, call.now, with_properties(content, call.changes()))


def _defer(call: Call, token: bytes) -> None:
    content = call.entity.queue.locked(token, call.now).content
    call.entity.queue.defer(token, call.now, with_properties(content, call.changes()))


def _suspend(call: Call, token: bytes) -> None:
    why = (call.text("deadletter-reason"), call.text("deadletter-description"))
    bury(call.entity, token, call.now, why, call.changes())


_DISPOSITIONS: dict[str, Callable[[Call, bytes], None]] = {
    "completed": _complete,
    "abandoned": _abandon,
    "suspended": _suspend,
    "defered": _defer,
}


def _peek(call: Call) -> bytes:
    start, count = call.number("from-sequence-number"), call.number("message-count")
    peeked = []
    size = 0
    for message in call.entity.queue.peek(start, count, call.now):
        encoded = render(message, peeked=True)
        size += len(encoded)
        # As the service does: an answer carries what fits, and the client asks again.
        if peeked and size > _PEEKED_BYTES:
            break
        peeked.append(amqp.mapping([amqp.text("message"), amqp.binary(encoded)]))
    return _message_list(peeked)


def _receive_deferred(call: Call) -> bytes:
    delete = call.number("receiver-settle-mode") == _RECEIVE_AND_DELETE
    found = call.entity.queue.take_deferred(
        call.numbers("sequence-numbers"), call.now, delete=delete
    )
    return _message_list([_received(message) for message in found])


def _received(message: Message) -> bytes:
    fields = [amqp.text("message"), amqp.binary(render(message))]
    if message.token is not None:
        fields += [amqp.text("lock-token"), amqp.uuid(message.token)]
    return amqp.mapping(fields)


def _message_list(encoded: list[bytes]) -> bytes:
    return amqp.mapping([amqp.text("messages"), amqp.sequence(encoded)])


def _schedule(call: Call) -> bytes:
    queue = _sending(call)
    encoded = call.fields.get("messages", amqp.EMPTY_LIST)
    incoming = []
    for start, _ in amqp.items(encoded, 0):
        fields = {str(amqp.read(key)): value for key, value in amqp.pairs(encoded, start)}
        payload = amqp.read(fields.get("message", amqp.NULL))
        if not isinstance(payload, bytes):
            raise _bad_argument("An entry of 'messages' lacks its 'message'.")
        incoming += messages(payload)
    sequences = [
        queue.send(one.content, call.now, message_id=one.message_id, ttl=one.ttl, due=one.due)
        for one in incoming
    ]
    numbers = [amqp.long(sequence or 0) for sequence in sequences]
    return amqp.mapping([amqp.text("sequence-numbers"), amqp.array(numbers, _LONG)])


def _cancel(call: Call) -> bytes:
    _sending(call).cancel(call.numbers("sequence-numbers"), call.now)
    return amqp.NULL


def _sending(call: Call) -> Queue:
    if isinstance(call.entity.queue, Queue):
        return call.entity.queue
    raise RequestError(400, NOT_ALLOWED, "A dead-letter queue schedules no messages.")


OPERATIONS: dict[str, Callable[[Call], bytes]] = {
    "com.microsoft:cancel-scheduled-message": _cancel,
    "com.microsoft:peek-message": _peek,
    "com.microsoft:receive-by-sequence-number": _receive_deferred,
    "com.microsoft:renew-lock": _renew,
    "com.microsoft:schedule-message": _schedule,
    "com.microsoft:update-disposition": _update_disposition,
}


def perform(entity: Entity, request: Request, now: int) -> bytes:
    """Do what `request` asks of `entity` and return the answer's encoded body."""
    operation = str(request.properties.get("operation"))
    if operation not in OPERATIONS:
        raise RequestError(
            501, "amqp:not-implemented", f"The operation '{operation}' is not implemented."
        )
    try:
        return OPERATIONS[operation](Call(entity, now, request.fields()))
    except LockLostError as error:
        raise RequestError(410, LOCK_LOST, LOCK_LOST_TEXT) from error
    except MessageNotFoundError as error:
        text = "A message with this sequence number is not in the state for this."
        raise RequestError(404, "com.microsoft:message-not-found", text) from error
    except NotADeadLetterError as error:
        raise RequestError(400, NOT_ALLOWED, str(error)) from error
    except PropertiesTooLargeError as error:
        raise RequestError(400, OUT_OF_RANGE, str(error)) from error
    except TooLargeError as error:
        raise RequestError(400, SIZE_EXCEEDED, str(error)) from error
    except (amqp.MalformedError, IndexError, ValueError, struct.error) as error:
        raise _bad_argument("The request's body is not what the operation needs.") from error


class ManagementDesk:
    """Answers management requests for one entity."""

    def __init__(self, connection: "Connection", entity: Entity) -> None:
        self._connection = connection
        self._entity = entity

    def answer(self, request: bytes) -> tuple[str, bytes] | None:
        """Fulfil the request, or say why not."""
        try:
            parsed = parse(request)
        except amqp.MalformedError:
            return None
        self._connection.keep_alive(str(parsed.properties.get("associated-link-name")))
        broker = self._connection.broker
        broker.touch(self._entity)
        try:
            body = perform(self._entity, parsed, broker.now())
        except RequestError as error:
            return parsed.reply_to, answer(parsed, _failure(error))
        return parsed.reply_to, answer(parsed, _OK, body)


_OK = [
    amqp.text("statusCode"),
    amqp.integer(200),
    amqp.text("statusDescription"),
    amqp.text("OK"),
]


def _failure(error: RequestError) -> list[bytes]:
    return [
        amqp.text("statusCode"),
        amqp.integer(error.status),
        amqp.text("statusDescription"),
        amqp.text(str(error)),
        amqp.text("errorCondition"),
        amqp.symbol(error.condition),
    ]
