"""Stands between the app and its target, on loopback, and does to connections what it is told."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self

_CHUNK = 1 << 16
_LOOPBACK = "127.0.0.1"

#: Closing does not wait, and tells the other side so by a reset.
_RESET = struct.pack("ii", 1, 0)

#: Another process may hold our port for a moment while we do not listen on it.
_BIND_ATTEMPTS = 100
_BIND_PAUSE_SECONDS = 0.1


class Proxy:
    """Hands connections on to a port of this machine; its methods are for another thread."""

    def __init__(self, target: int) -> None:
        self.port = 0
        #: Connections that were made, and those that were cut by us.
        self.made = 0
        self.cut_off = 0
        self._target = target
        self._delay = 0.0
        self._connections: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._flows = asyncio.Event()
        self._flows.set()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def slow_down(self, seconds: float) -> None:
        """Let every piece of data wait, in both directions; 0 is as usual."""
        self._delay = seconds

    def hang(self) -> None:
        """Take connections and data, and hand nothing on, until `flow`."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def flow(self) -> None:
        """Hand on again, what came meanwhile too."""
        self._loop.call_soon_threadsafe(self._flows.set)

    def cut(self) -> None:
        """Reset every connection there is."""
        self._do(self._cut())

    def refuse(self) -> None:
        """Listen no more, and reset what there is, until `accept`."""
        self._do(self._close_server())
        self.cut()

    def accept(self) -> None:
        """Listen again, on the same port."""
        self._do(self._listen())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> None:
        for attempt in range(_BIND_ATTEMPTS):
            try:
                self._server = await asyncio.start_server(self._serve, _LOOPBACK, self.port)
                break
            except OSError:
                if attempt + 1 == _BIND_ATTEMPTS:
                    raise
                await asyncio.sleep(_BIND_PAUSE_SECONDS)
        if self._server is not None:
            self.port = self._server.sockets[0].getsockname()[1]

    async def _close_server(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _cut(self) -> None:
        for writer in list(self._connections):
            with contextlib.suppress(OSError):  # it may have been closed just now
                found = writer.get_extra_info("socket")
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            writer.transport.abort()
            self.cut_off += 1
        self._connections.clear()

    async def _end(self) -> None:
        self._flows.set()
        await self._close_server()
        await self._cut()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.made += 1
        try:
            their_reader, their_writer = await asyncio.open_connection(_LOOPBACK, self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, their_writer}
        self._connections |= both
        ways = (self._pump(reader, their_writer), self._pump(their_reader, writer))
        await asyncio.gather(*ways)
        self._connections -= both

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Hand on until one side ends, and tell the other side so."""
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                await asyncio.sleep(self._delay)
                await self._flows.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
