"""Settles by lock token what the host cannot settle for a Python function.

The host abandons a message after an exception, but without properties. So we abandon it ourselves,
with the error properties, and raise: the host's own abandon then meets a lost lock and changes
nothing. See docs/decisions/0002-the-host-completes-we-abandon.md.
"""

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from azure.servicebus.exceptions import MessageLockLostError

from services.processing.management_node import ManagementNode
from services.processing.queue_items import Delivery

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient

_LOGGER = logging.getLogger(__name__)


class SettlementService:
    """Owns one management node a queue, all on one thread: SDK clients are not thread-safe."""

    def __init__(self, open_client: "Callable[[], ServiceBusClient]") -> None:
        self._open_client = open_client
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="settlement")
        self._nodes: dict[str, ManagementNode] = {}

    def abandon(self, delivery: Delivery, properties: Mapping[str, str | int]) -> None:
        """Give the message back with `properties` on it; a failure is logged, never raised.

        Where it fails, the host's own abandon returns the message; only the properties are lost.
        """
        self._thread.submit(self._abandon, delivery, properties).result()

    def close(self) -> None:
        """Close the connections, on the thread that owns them."""
        self._thread.submit(self._close_nodes).result()
        self._thread.shutdown()

    def _close_nodes(self) -> None:
        for queue in list(self._nodes):
            self._forget(queue)

    def _abandon(self, delivery: Delivery, properties: Mapping[str, str | int]) -> None:
        for first in (True, False):
            try:
                self._node(delivery.queue).abandon(delivery.lock_token, properties)
            except MessageLockLostError:
                if first:
                    _LOGGER.warning("%s: the lock was lost before the abandon", delivery.queue)
                # At the second attempt: the first got through, only its answer was lost.
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, the host gives the message back
                # The broker detaches idle links; the next request on one fails for good.
                self._forget(delivery.queue)
                reason = error
            else:
                return
        _LOGGER.warning(
            "%s: the message goes back without error properties: %s", delivery.queue, reason
        )

    def _forget(self, queue: str) -> None:
        node = self._nodes.pop(queue, None)
        if node is not None:
            node.close()

    def _node(self, queue: str) -> ManagementNode:
        if queue not in self._nodes:
            self._nodes[queue] = ManagementNode(self._open_client(), queue)
        return self._nodes[queue]
