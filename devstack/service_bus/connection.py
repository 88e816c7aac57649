"""One client's connection: its links, its permissions, its socket."""

import asyncio
import logging

from proton import Link, Terminus

from devstack.service_bus import engine
from devstack.service_bus.broker import DEAD_LETTER_SUFFIX, Broker, Entity
from devstack.service_bus.cbs import TokenDesk
from devstack.service_bus.consumption import Consumption
from devstack.service_bus.links import Attach, Endpoint, Production, Replies, Requests
from devstack.service_bus.management import ManagementDesk
from devstack.service_bus.sas import Grant, path_of

_LOG = logging.getLogger(__name__)

CONTAINER = "devstack.service_bus"
CBS = "$cbs"
#: How long a client that is refused may take to read why.
_REFUSED_SECONDS = 10.0
MANAGEMENT_SUFFIX = "/$management"

NOT_FOUND = "amqp:not-found"
NOT_IMPLEMENTED = "amqp:not-implemented"
NOT_ALLOWED = "amqp:not-allowed"
UNAUTHORIZED = "amqp:unauthorized-access"
RESOURCE_LIMIT_EXCEEDED = "amqp:resource-limit-exceeded"
DETACH_FORCED = "amqp:link:detach-forced"


class RefusedError(Exception):
    """A link cannot be had. Carries the AMQP condition."""

    def __init__(self, condition: str, description: str) -> None:
        super().__init__(description)
        self.condition = condition


class Connection(asyncio.Protocol):
    """Speaks AMQP with one client."""

    def __init__(self, broker: Broker, peers: set["Connection"], max_peers: int) -> None:
        self.broker = broker
        self._peers = peers
        self._max_peers = max_peers
        self._refused_at: float | None = None
        self._links: dict[engine.Pointer, Endpoint] = {}
        self._grants: dict[str, Grant] = {}
        self._socket: asyncio.Transport | None = None
        self._engine = engine.Engine(
            CONTAINER,
            {
                engine.DELIVERY: self._on_delivery,
                engine.LINK_FLOW: self._on_flow,
                engine.LINK_REMOTE_OPEN: self._on_attach,
                engine.LINK_REMOTE_CLOSE: self._on_detach,
                engine.LINK_REMOTE_DETACH: self._on_detach,
                engine.SESSION_REMOTE_OPEN: engine.open_session,
                engine.SESSION_REMOTE_CLOSE: self._on_end,
                engine.CONNECTION_REMOTE_OPEN: self._on_open,
                engine.CONNECTION_REMOTE_CLOSE: self._on_close,
            },
        )

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start with a client that has just connected."""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError
        self._socket = transport
        # Those that were refused and are not gone yet take nobody's place.
        held = sum(peer._refused_at is None for peer in self._peers)  # noqa: SLF001 - of this class
        if held >= self._max_peers:
            self._refused_at = asyncio.get_running_loop().time()
        self._peers.add(self)

    def data_received(self, data: bytes) -> None:
        """Take in what the client sent; the answer follows the next commit."""
        self._engine.feed(data)
        self.broker.talk(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the client. Locks that it holds stay until they lapse, as on the service."""
        _LOG.debug("connection lost: %s", exc)
        self._socket = None
        self._peers.discard(self)
        self.broker.hang_up(self)
        self._forget_links()
        self._engine.free()

    def write(self) -> None:
        """Send what is waiting to be sent."""
        if self._socket is None:
            return
        output = self._engine.output()
        if output:
            self._socket.write(output)
        # Who is refused closes first: it could not read why from a socket that is gone.
        if self._engine.finished and self._refused_at is None:
            self._socket.close()

    def abort(self) -> None:
        """Drop the client at once, saying nothing more."""
        if self._socket is not None:
            self._socket.abort()

    def shut(self) -> None:
        """Close the connection because the emulator stops."""
        self._engine.close("amqp:connection:forced", "The emulator is stopping.")
        self.write()
        if self._socket is not None:
            self._socket.close()

    def permit(self, grant: Grant) -> None:
        """Let the client use what a token grants."""
        self._grants[grant.path] = grant

    def sweep(self, idle_since: float) -> None:
        """Detach links that were idle since then, or whose token has expired."""
        now = asyncio.get_running_loop().time()
        if self._refused_at is not None and self._refused_at + _REFUSED_SECONDS < now:
            self.abort()
            return
        self._engine.tick(int(now * 1000))
        for pointer, link in list(self._links.items()):
            if link.path == CBS:
                continue
            if link.active_at < idle_since:
                text = f"The link to '{link.path}' was detached because it was idle for too long."
                self._drop(pointer, DETACH_FORCED, text)
            elif not self._may_use(link.path):
                self._drop(pointer, UNAUTHORIZED, f"The token for '{link.path}' has expired.")
        self.broker.talk(self)

    def reply(self, session: engine.Pointer, requests: str, reply_to: str, answer: bytes) -> None:
        """Send `answer` on the link that belongs to the request, if the client has one."""
        replies = [r for r in self._links.values() if isinstance(r, Replies) and r.path == requests]
        replies = [r for r in replies if r.session == session] or replies
        replies = [r for r in replies if r.target == reply_to] or replies
        if replies:
            replies[0].send(answer)
        else:
            _LOG.warning("a request on '%s' has no link for the answer", requests)

    def keep_alive(self, link_name: str) -> None:
        """Count a named link as in use."""
        for link in self._links.values():
            if isinstance(link, Consumption | Production) and link.name == link_name:
                link.active_at = asyncio.get_running_loop().time()

    def _on_delivery(self, event: engine.Pointer) -> None:
        delivery = engine.delivery_of(event)
        link = self._links.get(engine.link_of_delivery(delivery))
        if link is not None:
            link.on_delivery(delivery)

    def _on_flow(self, event: engine.Pointer) -> None:
        link = self._links.get(engine.link_of(event))
        if link is not None:
            link.on_flow()

    def _on_attach(self, event: engine.Pointer) -> None:
        if self._refused_at is not None:
            return
        pointer = engine.link_of(event)
        link = engine.wrapped(pointer)
        try:
            self._links[pointer] = self._attached(pointer, link)
        except RefusedError as error:
            engine.refuse_link(link, error.condition, str(error))

    def _on_detach(self, event: engine.Pointer) -> None:
        pointer = engine.link_of(event)
        link = self._links.pop(pointer, None)
        if link is not None:
            link.on_close()
        engine.free_link(pointer)

    def _on_end(self, event: engine.Pointer) -> None:
        session = engine.session_of_event(event)
        for pointer in [p for p in self._links if engine.session_of(p) == session]:
            self._links.pop(pointer).on_close()
        engine.close_session(session)

    def _on_open(self, _: engine.Pointer) -> None:
        self._engine.open()
        if self._refused_at is not None:
            text = (
                f"All connections that --max-connections allows ({self._max_peers}) are in use: "
                "share clients, or start the emulator with more."
            )
            _LOG.warning("refused a connection: %s", text)
            self._engine.close(RESOURCE_LIMIT_EXCEEDED, text)

    def _on_close(self, _: engine.Pointer) -> None:
        self._forget_links()
        self._engine.close()
        if self._refused_at is not None and self._socket is not None:
            self._socket.close()

    def _forget_links(self) -> None:
        for link in self._links.values():
            link.on_close()
        self._links.clear()

    def _drop(self, pointer: engine.Pointer, condition: str, description: str) -> None:
        self._links.pop(pointer).on_close()
        engine.detach(pointer, condition, description)

    def _attached(self, pointer: engine.Pointer, link: Link) -> Endpoint:
        _refuse_the_unsupported(link)
        address = link.remote_source.address if link.is_sender else link.remote_target.address
        path = path_of(address or "")
        attach = Attach(self, pointer, link, path)
        if path == CBS:
            return _attached_desk(attach, TokenDesk(self))
        entity = self._entity(path.removesuffix(MANAGEMENT_SUFFIX))
        if not self._may_use(path):
            raise RefusedError(UNAUTHORIZED, f"No valid token was put for '{path}'.")
        if path.endswith(MANAGEMENT_SUFFIX):
            return _attached_desk(attach, ManagementDesk(self, entity))
        if link.is_sender:
            return Consumption(attach, entity)
        if path.endswith(DEAD_LETTER_SUFFIX):
            raise RefusedError(NOT_ALLOWED, f"'{path}' takes no messages from senders.")
        return Production(attach, entity)

    def _entity(self, path: str) -> Entity:
        entity = self.broker.entity(path)
        if entity is not None:
            return entity
        if "/subscriptions/" in path:
            raise RefusedError(NOT_IMPLEMENTED, f"'{path}': subscriptions are not implemented.")
        if "$transfer" in path:
            raise RefusedError(NOT_IMPLEMENTED, f"'{path}': transfer queues are not implemented.")
        text = f"The messaging entity '{path}' could not be found."
        raise RefusedError(NOT_FOUND, text)

    def _may_use(self, path: str) -> bool:
        now = self.broker.clock()
        return any(grant.covers(path, now) for grant in self._grants.values())


def _attached_desk(attach: Attach, desk: TokenDesk | ManagementDesk) -> Endpoint:
    return Replies(attach) if attach.link.is_sender else Requests(attach, desk)


def _refuse_the_unsupported(link: Link) -> None:
    if link.remote_target.type == Terminus.COORDINATOR:
        raise RefusedError(NOT_IMPLEMENTED, "Transactions are not implemented.")
    wanted = link.remote_source.filter
    wanted.rewind()
    if wanted.next() is not None and "com.microsoft:session-filter" in wanted.get_object():
        raise RefusedError(NOT_IMPLEMENTED, "Sessions are not implemented.")
