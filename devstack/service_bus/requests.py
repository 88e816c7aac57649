"""What `$cbs` and `$management` have in common: reading a request, writing an answer."""

from dataclasses import dataclass

from devstack.service_bus import amqp_values as amqp
from devstack.service_bus.amqp_sections import message_spans

_PROPERTIES, _APPLICATION, _VALUE = 0x73, 0x74, 0x77
_MESSAGE_ID, _REPLY_TO = 0, 4


@dataclass(frozen=True, slots=True)
class Request:
    """A request, its id and body still encoded."""

    message_id: bytes
    reply_to: str
    properties: dict[str, amqp.Value]
    body: bytes

    def text(self, name: str) -> str:
        """Return a property's text; empty where it is missing or no text."""
        value = self.properties.get(name)
        return value if isinstance(value, str) else ""

    def fields(self) -> dict[str, bytes]:
        """Return the body's map, the values encoded."""
        return {amqp.name(key): value for key, value in amqp.pairs(self.body, 0)}


def parse(payload: bytes) -> Request:
    """Read a request."""
    try:
        return _parse(payload)
    except amqp.UNREADABLE as error:
        msg = "the request is not encoded as AMQP 1.0 says"
        raise amqp.MalformedError(msg) from error


def _parse(payload: bytes) -> Request:
    message_id, reply_to, body = amqp.NULL, "", amqp.NULL
    properties: dict[str, amqp.Value] = {}
    for code, _, value, end in message_spans(payload):
        if code == _PROPERTIES:
            fields = [payload[start:stop] for start, stop in amqp.items(payload, value)]
            fields += [amqp.NULL] * (_REPLY_TO + 1 - len(fields))
            message_id = fields[_MESSAGE_ID]
            address = amqp.read(fields[_REPLY_TO])
            reply_to = address if isinstance(address, str) else ""
        elif code == _APPLICATION:
            pairs = amqp.pairs(payload, value)
            properties = {amqp.name(key): amqp.read(content) for key, content in pairs}
        elif code == _VALUE:
            body = payload[value:end]
    return Request(message_id, reply_to, properties, body)


def answer(request: Request, properties: list[bytes], body: bytes = amqp.NULL) -> bytes:
    """Encode the answer to `request`: its application properties and body, both encoded."""
    correlation = amqp.sequence([amqp.NULL] * 5 + [request.message_id])
    return b"".join(
        (
            amqp.described(_PROPERTIES, correlation),
            amqp.described(_APPLICATION, amqp.mapping(properties)),
            amqp.described(_VALUE, body),
        )
    )
