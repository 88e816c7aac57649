"""Many connections at once, and one too many."""

import asyncio
from collections.abc import Callable

import pytest
from azure.servicebus import ServiceBusClient as PlainClient
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient
from azure.servicebus.exceptions import ServiceBusError

from tests.integration.servers import Emulator


def sends(client: PlainClient) -> None:
    with client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("b"))


def receives(client: PlainClient) -> None:
    with client.get_queue_receiver("orders") as receiver:
        receiver.receive_messages(1, max_wait_time=1)


def peeks(client: PlainClient) -> None:
    with client.get_queue_receiver("orders") as receiver:
        receiver.peek_messages(1)


def test_a_connection_too_many_is_told_the_limit_and_hurts_nobody(
    started: Callable[..., Emulator],
) -> None:
    emulator = started({"orders": {}}, "--max-connections", "2")
    told = r"--max-connections allows \(2\).*amqp:resource-limit-exceeded"
    with emulator.client() as client, client.get_queue_sender("orders") as sender:
        sender.send_messages(ServiceBusMessage("a"))
        with client.get_queue_receiver("orders") as receiver:
            receiver.peek_messages(1)
            for act in (sends, receives, peeks):
                with pytest.raises(ServiceBusError, match=told):
                    act(client)
            sender.send_messages(ServiceBusMessage("c"))
        # One has gone: another may come.
        receives(client)
    lines = [line for line in emulator.log_text().splitlines() if "refused a connection" in line]
    assert len(lines) == 3
    assert "--max-connections allows (2)" in lines[0]
    assert emulator.end() == 0


def test_the_asynchronous_sdk_is_told_the_limit_too(started: Callable[..., Emulator]) -> None:
    emulator = started({"orders": {}}, "--max-connections", "1")

    async def run() -> None:
        string = emulator.connection_string
        async with (
            ServiceBusClient.from_connection_string(string, retry_total=0) as client,
            client.get_queue_sender("orders"),
        ):
            with pytest.raises(ServiceBusError, match=r"--max-connections allows \(1\)"):
                await client.get_queue_sender("orders").__aenter__()

    asyncio.run(run())


def test_two_hundred_connections_at_once(emulator: Emulator, queue: str) -> None:
    async def one(client: ServiceBusClient, number: int) -> None:
        async with client.get_queue_sender(queue) as sender:
            await sender.send_messages(ServiceBusMessage(str(number)))
            await all_are_here.wait()

    async def run() -> None:
        string = emulator.connection_string
        async with ServiceBusClient.from_connection_string(string) as client:
            await asyncio.gather(*(one(client, number) for number in range(200)))

    all_are_here = asyncio.Barrier(200)
    asyncio.run(run())
    with emulator.client() as client, client.get_queue_receiver(queue) as receiver:
        found = {str(message) for message in receiver.peek_messages(250, sequence_number=1)}
    assert found == {str(number) for number in range(200)}
