"""The `$management` nodes of all queues, on one thread."""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from azure.servicebus.exceptions import MessageLockLostError

from services.management_node import ManagementNode
from services.processing.owned_thread import OwnedThread

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient

#: For two requests and a new connection, and for those that stand before ours.
_PATIENCE = timedelta(seconds=30)


class ManagementThread:
    """Runs operations one after the other. Renewing and settling have a thread each.

    `open_client` must make clients with `retry_total=0`: one retry, on a new connection, is ours.
    """

    def __init__(
        self,
        name: str,
        open_client: "Callable[[], ServiceBusClient]",
        *,
        patience: timedelta = _PATIENCE,
    ) -> None:
        self._thread = OwnedThread(name, lambda: _Nodes(open_client), limit=patience)

    def run[Answer](self, queue: str, operation: Callable[[ManagementNode], Answer]) -> Answer:
        """Do `operation` on the queue's node; on a new one where the first attempt fails.

        Raise MessageLockLostError where the lock is gone, or whatever the second attempt raises.
        """
        return self._thread.run(lambda nodes: nodes.run(queue, operation))

    def close(self) -> None:
        """Close the connections."""
        self._thread.close(_Nodes.close)


class _Nodes:
    """The nodes that are open, by queue."""

    def __init__(self, open_client: "Callable[[], ServiceBusClient]") -> None:
        self._open_client = open_client
        self._open: dict[str, ManagementNode] = {}

    def run[Answer](self, queue: str, operation: Callable[[ManagementNode], Answer]) -> Answer:
        try:
            return self._attempt(queue, operation)
        except MessageLockLostError:
            raise
        except Exception:  # noqa: BLE001 - whatever it is, a new connection may help
            # The broker detaches idle links; the next request on one fails for good.
            return self._attempt(queue, operation)

    def close(self) -> None:
        for queue in list(self._open):
            self._forget(queue)

    def _forget(self, queue: str) -> None:
        """Close a node; where that fails it is gone all the same."""
        with suppress(Exception):
            self._open.pop(queue).close()

    def _attempt[Answer](self, queue: str, operation: Callable[[ManagementNode], Answer]) -> Answer:
        if queue not in self._open:
            self._open[queue] = ManagementNode(self._open_client(), queue)
        try:
            return operation(self._open[queue])
        except MessageLockLostError:
            raise
        except Exception:
            self._forget(queue)
            raise
