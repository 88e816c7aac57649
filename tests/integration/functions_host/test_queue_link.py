"""The host's connection to a queue."""

import pytest

from devstack.functions_host.queue_link import ConnectionReport, QueueLink
from devstack.stack import Announced

pytestmark = pytest.mark.integration


def test_no_thread_of_the_sdk_reads_beside_the_host(service_bus: Announced) -> None:
    """It would give messages each other's lock tokens."""
    connection = str(service_bus.facts()["connection_string"])
    link = QueueLink(connection, "sbqlow", ConnectionReport("sbqlow"))
    receiver = link.open()
    try:
        assert receiver._handler._keep_alive_thread is None  # noqa: SLF001 - what matters is not public
    finally:
        link.close()
