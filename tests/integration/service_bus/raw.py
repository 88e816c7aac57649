"""A plain AMQP client, for what the Python SDK never does but other SDKs do."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from azure.servicebus._base_handler import _generate_sas_token
from proton import Message
from proton.utils import BlockingConnection

from tests.integration.service_bus.emulator import KEY, Emulator


@contextmanager
def connected(emulator: Emulator, queue: str | None = None) -> Iterator[Any]:
    """Connect, and put a token for `queue` where one is named."""
    connection = BlockingConnection(
        f"amqp://127.0.0.1:{emulator.port}", timeout=5, allowed_mechs="ANONYMOUS"
    )
    try:
        if queue is not None:
            assert put_token(connection, emulator, queue) == 202
        yield connection
    finally:
        connection.close()


def put_token(connection: BlockingConnection, emulator: Emulator, queue: str) -> int:
    uri = f"sb://127.0.0.1:{emulator.port}/{queue}"
    token = str(_generate_sas_token(uri, "RootManageSharedAccessKey", KEY).token)
    return put(connection, token, uri)


def put(connection: BlockingConnection, token: str, name: str) -> int:
    replies = connection.create_receiver("$cbs", credit=5, name=f"r{time.monotonic_ns()}")
    sender = connection.create_sender("$cbs", name=f"s{time.monotonic_ns()}")
    properties = {"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": name}
    sender.send(Message(id="1", body=token, properties=properties))
    answer: Any = replies.receive(timeout=5)
    return int(answer.properties["status-code"])
