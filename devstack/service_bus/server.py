"""The running emulator: opens the store, listens, says so, and stops in an orderly way."""

import asyncio
import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from devstack import ready
from devstack.service_bus.arrivals import ARRIVALS, Arrivals
from devstack.service_bus.atom import AtomApi
from devstack.service_bus.broker import Broker, Store
from devstack.service_bus.certificate import context_for
from devstack.service_bus.configuration import Namespace
from devstack.service_bus.connection import Connection
from devstack.service_bus.sas import AccessKey

_LOG = logging.getLogger(__name__)

_SWEEP_SECONDS = 1.0


class ListenError(Exception):
    """The emulator cannot listen. The message says where and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where to listen, how many may connect, how long a link may idle, and what to count."""

    host: str
    port: int
    admin_port: int
    idle_detach: float
    max_connections: int
    ready_file: Path | None
    data: Path
    count_by: str | None = None


class Server:
    """Serves one namespace until it is told to stop."""

    def __init__(
        self, namespace: Namespace, store: Store, key: AccessKey, settings: ServerSettings
    ) -> None:
        self._settings = settings
        self._namespace = namespace
        self._key = key
        self._peers: set[Connection] = set()
        self._stop = asyncio.Event()
        self._failed = False
        self._broker = Broker(namespace.queues, store, key, self._fail)
        if settings.count_by is not None:
            self._broker.arrivals = Arrivals(settings.data / ARRIVALS, settings.count_by)

    async def run(self) -> bool:
        """Serve; return whether it ended because it was asked to."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        amqp = await self._listen()
        atom, admin_port, certificate = await self._listen_for_atom()
        self._broker.start()
        sweeper = asyncio.create_task(self._sweep())
        self._announce(amqp.sockets[0].getsockname()[1], admin_port, certificate)
        await self._stop.wait()
        sweeper.cancel()
        amqp.close()
        self._hang_up()
        await atom.cleanup()
        return not self._failed

    async def _listen(self) -> asyncio.Server:
        host, port = self._settings.host, self._settings.port
        with _listening(host, port):
            return await asyncio.get_running_loop().create_server(
                self._connection, host, port, backlog=512
            )

    def _connection(self) -> Connection:
        return Connection(self._broker, self._peers, self._settings.max_connections)

    async def _listen_for_atom(self) -> tuple[web.AppRunner, int, Path]:
        host, port = self._settings.host, self._settings.admin_port
        context, certificate = context_for(self._settings.data)
        api = AtomApi(self._broker, self._namespace.name)
        runner = web.AppRunner(
            api.application(), access_log=None, handle_signals=False, shutdown_timeout=1
        )
        await runner.setup()
        with _listening(host, port):
            await web.TCPSite(runner, host, port, ssl_context=context).start()
        return runner, int(runner.addresses[0][1]), certificate

    def _announce(self, port: int, admin_port: int, certificate: Path) -> None:
        host = self._settings.host
        text = "AMQP on %s:%s, Atom on %s:%s, %s queues"
        _LOG.info(text, host, port, host, admin_port, len(self._broker.queues))
        if self._settings.ready_file is not None:
            ready.announce(
                self._settings.ready_file,
                port=port,
                admin_port=admin_port,
                connection_string=self._connection_string(port),
                admin_connection_string=self._connection_string(admin_port),
                certificate=str(certificate.absolute()),
            )

    def _connection_string(self, port: int) -> str:
        return (
            f"Endpoint=sb://{self._settings.host}:{port};SharedAccessKeyName={self._key.name};"
            f"SharedAccessKey={self._key.secret};UseDevelopmentEmulator=true;"
        )

    async def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            idle_since = loop.time() - self._settings.idle_detach
            for peer in list(self._peers):
                peer.sweep(idle_since)
            if self._broker.arrivals is not None:
                self._broker.arrivals.write()

    def _hang_up(self) -> None:
        if not self._failed:
            self._broker.flush()
        for peer in list(self._peers):
            if self._failed:
                peer.abort()
            else:
                peer.shut()

    def _fail(self) -> None:
        self._failed = True
        self._stop.set()


@contextmanager
def _listening(host: str, port: int) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        msg = (
            f"cannot listen on {host}:{port} ({error.strerror}): "
            "stop what listens there, or choose another port (0 picks a free one)."
        )
        raise ListenError(msg) from error
