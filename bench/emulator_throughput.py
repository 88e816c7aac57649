"""What keeping messages costs the Service Bus emulator: with its store against without.

Two emulators run side by side and take turns, one round each, so that both meet the same machine.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiver,
    ServiceBusSender,
)

from bench.rows import Row, compared
from devstack.stack import QUEUES, emulator, run_folder

QUEUE = "sbqnormal"
ROUNDS = 7
BATCHES, BATCH = 15, 200
REQUESTS = 600
BODY = b"x" * 500


class Bench:
    """One client on one emulator."""

    def __init__(self, sender: ServiceBusSender, receiver: ServiceBusReceiver) -> None:
        self._sender = sender
        self._receiver = receiver

    def send(self) -> int:
        """Send batches."""
        for _ in range(BATCHES):
            batch = self._sender.create_message_batch()
            for number in range(BATCH):
                properties: dict[str | bytes, str] = {"JobName": "job", "SourceKey": "key"}
                batch.add_message(
                    ServiceBusMessage(
                        BODY,
                        message_id=f"m{number}",
                        application_properties=properties,  # type: ignore[arg-type] # invariant
                    )
                )
            self._sender.send_messages(batch)
        return BATCHES * BATCH

    def receive_and_complete(self) -> int:
        """Take everything that was sent."""
        left = BATCHES * BATCH
        while left:
            # Asked for more than there is, a prefetching receiver of the SDK waits out its time.
            for message in self._receiver.receive_messages(min(16, left), max_wait_time=5):
                self._receiver.complete_message(message)
                left -= 1
        return BATCHES * BATCH

    def request(self) -> int:
        """Renew one lock again and again."""
        self._sender.send_messages(ServiceBusMessage(BODY))
        (message,) = self._receiver.receive_messages(1, max_wait_time=5)
        for _ in range(REQUESTS):
            self._receiver.renew_message_lock(message)
        self._receiver.complete_message(message)
        return REQUESTS


@contextmanager
def running(folder: Path, *options: str) -> Iterator[Bench]:
    """Start an emulator and connect to it."""
    folder.mkdir()
    server = emulator(folder, QUEUES, *options)
    connection_string = str(server.start()["connection_string"])
    try:
        with (
            ServiceBusClient.from_connection_string(connection_string) as client,
            client.get_queue_sender(QUEUE) as sender,
            client.get_queue_receiver(QUEUE, prefetch_count=32) as receiver,
        ):
            yield Bench(sender, receiver)
    finally:
        server.stop()


def _rate(step: Callable[[Bench], int], bench: Bench) -> float:
    started = time.perf_counter()
    count = step(bench)
    return count / (time.perf_counter() - started)


def measure() -> list[Row]:
    """Return messages or requests per second: ours keeps them, the other does not."""
    rates: dict[str, tuple[list[float], list[float]]] = {}
    with run_folder("bench") as folder, ExitStack() as stack:
        kept = stack.enter_context(running(folder / "kept"))
        unkept = stack.enter_context(running(folder / "unkept", "--in-memory"))
        for _ in range(ROUNDS):
            for step in (Bench.send, Bench.receive_and_complete, Bench.request):
                title = f"emulator: {step.__name__.replace('_', ' ')}"
                ours, other = rates.setdefault(title, ([], []))
                ours.append(_rate(step, kept))
                other.append(_rate(step, unkept))
    return [compared(name, ours, other, None) for name, (ours, other) in rates.items()]
