"""`$management`: what clients ask of a queue beside sending and receiving."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn
from uuid import UUID

from devstack.service_bus import amqp_values as amqp
from devstack.service_bus.amqp_sections import (
    messages,
    render,
    with_properties,
)
from devstack.service_bus.broker import Entity
from devstack.service_bus.consumption import bury
from devstack.service_bus.messages import Message
from devstack.service_bus.queue import Queue
from devstack.service_bus.refusals import REFUSED, refusal
from devstack.service_bus.requests import Request, answer, parse

if TYPE_CHECKING:
    from devstack.service_bus.connection import Connection

_TIMESTAMP, _LONG = 0x83, 0x81
_RECEIVE_AND_DELETE = 0
_PEEKED_BYTES = 1024 * 1024
_NOT_FOUND = "com.microsoft:message-not-found"
_NOTHING_TO_PEEK = "There are no messages from this sequence number on."


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
            _refuse(f"The field '{name}' is missing.")
        return amqp.read(self.fields[name])

    def number(self, name: str) -> int:
        """Return a field that must be a whole number."""
        value = self.value(name)
        if not isinstance(value, int):
            _refuse(f"The field '{name}' must be a number.")
        return value

    def numbers(self, name: str) -> list[int]:
        """Return a field that must hold whole numbers."""
        value = self.value(name)
        values = value if isinstance(value, list) else [value]
        numbers = [number for number in values if isinstance(number, int)]
        if len(numbers) != len(values):
            _refuse(f"The field '{name}' must hold numbers.")
        return numbers

    def tokens(self) -> list[bytes]:
        """Return the lock tokens."""
        value = self.value("lock-tokens")
        values = value if isinstance(value, list) else [value]
        tokens = [token.bytes for token in values if isinstance(token, UUID)]
        if len(tokens) != len(values):
            _refuse("The field 'lock-tokens' must hold UUIDs.")
        return list(dict.fromkeys(tokens))

    def text(self, name: str) -> str | None:
        """Return a field's text; None where it is missing or empty."""
        value = amqp.read(self.fields[name]) if name in self.fields else None
        return value if isinstance(value, str) and value else None

    def changes(self) -> dict[str, bytes]:
        """Return the properties to modify, their values encoded."""
        encoded = self.fields.get("properties-to-modify", amqp.NULL)
        if encoded == amqp.NULL:
            return {}
        return {amqp.name(key): value for key, value in amqp.pairs(encoded, 0)}


def _refuse(description: str) -> NoReturn:
    raise RequestError(400, "com.microsoft:argument-error", description)


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
    peeked: list[bytes] = []
    size = 0
    for message in call.entity.queue.peek(start, count, call.now):
        encoded = render(message, peeked=True)
        size += len(encoded)
        # As the service does: an answer carries what fits, and the client asks again.
        if peeked and size > _PEEKED_BYTES:
            break
        peeked.append(amqp.mapping([amqp.text("message"), amqp.binary(encoded)]))
    if not peeked:
        raise RequestError(204, _NOT_FOUND, _NOTHING_TO_PEEK)
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
        fields = {amqp.name(key): value for key, value in amqp.pairs(encoded, start)}
        payload = amqp.read(fields.get("message", amqp.NULL))
        if not isinstance(payload, bytes):
            _refuse("An entry of 'messages' lacks its 'message'.")
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
    if not isinstance(call.entity.queue, Queue):
        _refuse("A dead-letter queue schedules no messages.")
    return call.entity.queue


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
    operation = request.text("operation")
    if operation not in OPERATIONS:
        raise RequestError(
            501, "amqp:not-implemented", f"The operation '{operation}' is not implemented."
        )
    try:
        return OPERATIONS[operation](Call(entity, now, request.fields()))
    except REFUSED as error:
        condition, status, text = refusal(error)
        raise RequestError(status, condition, text) from error
    except amqp.UNREADABLE:
        _refuse("The request's body is not what the operation needs.")


class ManagementDesk:
    """Answers management requests for one entity."""

    def __init__(self, connection: "Connection", entity: Entity) -> None:
        self._connection = connection
        self._entity = entity

    def answer(self, request: bytes) -> tuple[str, bytes]:
        """Fulfil the request, or say why not."""
        parsed = parse(request)
        self._connection.keep_alive(parsed.text("associated-link-name"))
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
