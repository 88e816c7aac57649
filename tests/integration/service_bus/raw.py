"""A plain AMQP client, for what the Python SDK never does but other SDKs do."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from azure.servicebus._pyamqp.utils import generate_sas_token
from proton import Message
from proton.utils import BlockingConnection

from tests.integration.servers import KEY, Emulator


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


def put_token(
    connection: BlockingConnection,
    emulator: Emulator,
    queue: str,
    *,
    seconds: int = 3600,
    key: str = KEY,
) -> int:
    """Put a token that expires in so many seconds, and return the answer's status."""
    uri = f"sb://127.0.0.1:{emulator.port}/{queue}"
    return put(connection, token(emulator, queue, seconds=seconds, key=key), uri)


def token(emulator: Emulator, queue: str, *, seconds: int = 3600, key: str = KEY) -> str:
    """Return a token for `queue` that expires in so many seconds."""
    uri = f"sb://127.0.0.1:{emulator.port}/{queue}"
    signed: Any = generate_sas_token  # untyped
    return str(signed(uri, "RootManageSharedAccessKey", key, int(time.time()) + seconds))


def put(connection: BlockingConnection, signed: str, name: str) -> int:
    replies: Any = connection.create_receiver("$cbs", credit=5, name=f"r{time.monotonic_ns()}")
    sender: Any = connection.create_sender("$cbs", name=f"s{time.monotonic_ns()}")
    properties = {"operation": "put-token", "type": "servicebus.windows.net:sastoken", "name": name}
    sender.send(Message(id="1", body=signed, properties=properties))
    answer = replies.receive(timeout=5)
    sender.close()
    replies.close()
    return int(answer.properties["status-code"])
