"""Proton's AMQP engine without its reactor: bytes in, events, bytes out.

This is the one module that knows Proton's C interface. Per-message calls go straight to it,
because the library's Python wrappers cost several times what the calls themselves do; what
happens once a link uses the wrappers.
"""

from collections.abc import Callable
from typing import Any

from cproton import ffi, lib  # type: ignore[attr-defined] # generated, re-exported untyped
from proton import Condition, Data, Delivery, Link, Terminus, symbol

#: A pointer of Proton's. Pointers to the same object are equal and hash alike.
type Pointer = Any

ACCEPTED: int = lib.PN_ACCEPTED
REJECTED: int = lib.PN_REJECTED
RELEASED: int = lib.PN_RELEASED
MODIFIED: int = lib.PN_MODIFIED

DELIVERY: int = lib.PN_DELIVERY
LINK_FLOW: int = lib.PN_LINK_FLOW
LINK_REMOTE_OPEN: int = lib.PN_LINK_REMOTE_OPEN
LINK_REMOTE_CLOSE: int = lib.PN_LINK_REMOTE_CLOSE
LINK_REMOTE_DETACH: int = lib.PN_LINK_REMOTE_DETACH
SESSION_REMOTE_OPEN: int = lib.PN_SESSION_REMOTE_OPEN
SESSION_REMOTE_CLOSE: int = lib.PN_SESSION_REMOTE_CLOSE
CONNECTION_REMOTE_OPEN: int = lib.PN_CONNECTION_REMOTE_OPEN
CONNECTION_REMOTE_CLOSE: int = lib.PN_CONNECTION_REMOTE_CLOSE

_wrap_link: Callable[[Pointer], Link] = Link.wrap
_wrap_delivery: Callable[[Pointer], Delivery] = Delivery.wrap

_MAX_FRAME = 64 * 1024
_CHUNK = 256 * 1024


class Engine:
    """One connection's protocol state."""

    def __init__(self, container: str, handlers: dict[int, Callable[[Pointer], None]]) -> None:
        self._handlers = handlers
        self._transport = lib.pn_transport()
        lib.pn_transport_set_server(self._transport)
        lib.pn_transport_set_max_frame(self._transport, _MAX_FRAME)
        lib.pn_transport_require_auth(self._transport, False)  # noqa: FBT003 - C's interface
        self._connection = lib.pn_connection()
        lib.pn_connection_set_container(self._connection, container.encode())
        self._collector = lib.pn_collector()
        lib.pn_connection_collect(self._connection, self._collector)
        lib.pn_transport_bind(self._transport, self._connection)
        self._buffer = bytearray(_CHUNK)
        self._view = memoryview(self._buffer)
        self._address = ffi.from_buffer(self._buffer)

    def feed(self, data: bytes) -> None:
        """Take in what the peer sent, and handle what comes of it."""
        position = 0
        while position < len(data):
            taken = lib.pn_transport_push(
                self._transport, ffi.from_buffer(data) + position, len(data) - position
            )
            self._dispatch()
            if taken <= 0:
                return
            position += taken

    def _dispatch(self) -> None:
        collector, handlers = self._collector, self._handlers
        while event := lib.pn_collector_peek(collector):
            handler = handlers.get(lib.pn_event_type(event))
            if handler is not None:
                handler(event)
            lib.pn_collector_pop(collector)

    def output(self) -> bytes:
        """Return what is to be sent to the peer now."""
        chunks = []
        while (pending := lib.pn_transport_pending(self._transport)) > 0:
            size = lib.pn_transport_peek(self._transport, self._address, min(pending, _CHUNK))
            if size <= 0:
                break
            chunks.append(bytes(self._view[:size]))
            lib.pn_transport_pop(self._transport, size)
        return b"".join(chunks)

    def tick(self, milliseconds: int) -> None:
        """Let time pass: keep the peer's idle timeout at bay."""
        lib.pn_transport_tick(self._transport, milliseconds)

    @property
    def finished(self) -> bool:
        """Whether nothing more can be sent, so that the socket should close."""
        return bool(lib.pn_transport_pending(self._transport) < 0)

    def open(self) -> None:
        """Answer the peer's open."""
        lib.pn_connection_open(self._connection)

    def close(self, condition: str = "", description: str = "") -> None:
        """Close the connection, with an error where one is named."""
        if condition:
            error = lib.pn_connection_condition(self._connection)
            _set_condition(error, condition, description)
        lib.pn_connection_close(self._connection)

    def free(self) -> None:
        """Give back Proton's memory."""
        lib.pn_transport_unbind(self._transport)
        lib.pn_collector_release(self._collector)
        for item in (self._transport, self._connection, self._collector):
            lib.pn_decref(item)


def open_session(event: Pointer) -> None:
    """Answer the peer's begin."""
    lib.pn_session_open(lib.pn_event_session(event))


def session_of_event(event: Pointer) -> Pointer:
    """Return the session that the event concerns."""
    return lib.pn_event_session(event)


def close_session(session: Pointer) -> None:
    """Answer the peer's end. The session's links end with it."""
    lib.pn_session_close(session)
    lib.pn_session_free(session)


def free_link(link: Pointer) -> None:
    """Give back Proton's memory of a link that both sides have closed."""
    lib.pn_link_close(link)
    lib.pn_link_free(link)


def link_of(event: Pointer) -> Pointer:
    """Return the link that the event concerns."""
    return lib.pn_event_link(event)


def session_of(link: Pointer) -> Pointer:
    """Return the session of a link."""
    return lib.pn_link_session(link)


def delivery_of(event: Pointer) -> Pointer:
    """Return the delivery that the event concerns."""
    return lib.pn_event_delivery(event)


def link_of_delivery(delivery: Pointer) -> Pointer:
    """Return the link that the delivery belongs to."""
    return lib.pn_delivery_link(delivery)


def wrapped(link: Pointer) -> Link:
    """Return the library's own object for a link."""
    return _wrap_link(link)


def accept_link(link: Link, max_message_size: int) -> None:
    """Answer an attach with what the peer asked for."""
    link.source.copy(link.remote_source)
    link.target.copy(link.remote_target)
    link.rcv_settle_mode = link.remote_rcv_settle_mode
    link.snd_settle_mode = link.remote_snd_settle_mode
    link.max_message_size = max_message_size
    link.open()


def refuse_link(link: Link, condition: str, description: str) -> None:
    """Answer an attach with none of what the peer asked for, and say why."""
    # An attach without a terminus announces the refusal. With one, a sender of the Python SDK
    # would count as attached for a moment, and lose the error that follows.
    terminus = link.source if link.is_sender else link.target
    terminus.type = Terminus.UNSPECIFIED
    link.open()
    link.condition = Condition(condition, description)
    link.close()


def detach(pointer: Pointer, condition: str = "", description: str = "") -> None:
    """Close a link, with an error where one is named."""
    link = _wrap_link(pointer)
    if condition:
        link.condition = Condition(condition, description)
    link.close()


def is_whole(delivery: Pointer) -> bool:
    """Tell whether all of an incoming delivery has arrived."""
    return not lib.pn_delivery_partial(delivery)


def is_aborted(delivery: Pointer) -> bool:
    """Tell whether the peer gave up on sending the delivery."""
    return bool(lib.pn_delivery_aborted(delivery))


def size(delivery: Pointer) -> int:
    """Return how many bytes of an incoming delivery have arrived."""
    return int(lib.pn_delivery_pending(delivery))


def receive(link: Pointer, delivery: Pointer) -> bytes:
    """Take the bytes of a whole incoming delivery."""
    count = lib.pn_delivery_pending(delivery)
    buffer = bytearray(count)
    if count:
        lib.pn_link_recv(link, ffi.from_buffer(buffer), count)
    lib.pn_link_advance(link)
    return bytes(buffer)


def credit(link: Pointer) -> int:
    """Return how many more deliveries the link may carry."""
    return int(lib.pn_link_credit(link))


def grant(link: Pointer, count: int) -> None:
    """Let the peer send `count` more deliveries."""
    lib.pn_link_flow(link, count)


def drained(link: Pointer) -> bool:
    """Use up the peer's credit where it asked to drain the link, and tell whether it did."""
    return bool(lib.pn_link_get_drain(link) and lib.pn_link_drained(link) > 0)


def send(link: Pointer, tag: bytes, payload: bytes, *, settled: bool) -> None:
    """Send a delivery."""
    delivery = lib.pn_delivery(link, (len(tag), ffi.from_buffer(tag)))
    lib.pn_link_send(link, ffi.from_buffer(payload), len(payload))
    lib.pn_link_advance(link)
    if settled:
        lib.pn_delivery_settle(delivery)


def tag(delivery: Pointer) -> bytes:
    """Return the delivery's tag."""
    raw = lib.pn_delivery_tag(delivery)
    return bytes(ffi.buffer(raw.start, raw.size))


def outcome(delivery: Pointer) -> int:
    """Return the state that the peer gave the delivery; 0 for none."""
    return int(lib.pn_delivery_remote_state(delivery))


def is_settled(delivery: Pointer) -> bool:
    """Tell whether the peer has settled the delivery."""
    return bool(lib.pn_delivery_settled(delivery))


def settle(delivery: Pointer, state: int) -> None:
    """Settle the delivery with an outcome."""
    lib.pn_delivery_update(delivery, state)
    lib.pn_delivery_settle(delivery)


def reject(delivery: Pointer, condition: str, description: str) -> None:
    """Settle the delivery as rejected, saying why."""
    error = lib.pn_disposition_condition(lib.pn_delivery_local(delivery))
    _set_condition(error, condition, description)
    settle(delivery, REJECTED)


def _set_condition(condition: Pointer, name: str, description: str) -> None:
    lib.pn_condition_set_name(condition, name.encode())
    lib.pn_condition_set_description(condition, description.encode())
    # Without info the Python SDK's sender hangs on an error, and its connection stumbles over it.
    Data(lib.pn_condition_info(condition)).put_object({symbol("emulator"): "devstack.service_bus"})


def is_undeliverable(delivery: Pointer) -> bool:
    """Tell whether a modified outcome asks not to deliver the message here again."""
    return bool(_wrap_delivery(delivery).remote.undeliverable)


def annotations(delivery: Pointer) -> dict[str, bytes]:
    """Return a modified outcome's annotations, the values encoded."""
    return _encoded(_wrap_delivery(delivery).remote.annotations)


def error_info(delivery: Pointer) -> tuple[str, dict[str, bytes]]:
    """Return a rejected outcome's description and info, the values encoded."""
    error = _wrap_delivery(delivery).remote.condition
    if error is None:
        return "", {}
    return error.description or "", _encoded(error.info)


def _encoded(values: object) -> dict[str, bytes]:
    encoded = {}
    for name, value in values.items() if isinstance(values, dict) else ():
        data = Data()
        data.put_object(value)
        encoded[str(name)] = bytes(data.encode())
    return encoded
