"""What keeping messages costs the Service Bus emulator: with its store against without.

Two emulators run side by side and take turns, one round each, so that both meet the same
machine. Run `python -m bench.emulator_throughput`.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceiver,
    ServiceBusSender,
)

from bench.rows import Row
from devstack import ready

ROOT = Path(__file__).parents[1]
ROUNDS = 7
BATCHES, BATCH = 15, 200
REQUESTS = 600
BODY = b"x" * 500
START_SECONDS = 30


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
    properties = {"LockDuration": "PT5M", "DefaultMessageTimeToLive": "P14D"}
    queues = [{"Name": "bench", "Properties": properties}]
    configuration = {"UserConfig": {"Namespaces": [{"Name": "bench", "Queues": queues}]}}
    folder.mkdir()
    (folder / "servicebus.json").write_text(json.dumps(configuration), encoding="utf-8")
    command = [sys.executable, "-m", "devstack.service_bus", "--config", "servicebus.json"]
    command += ["--data", "data", "--ready-file", "ready.json", *options]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, cwd=folder, env=environ, stderr=subprocess.DEVNULL)  # noqa: S603 - our own command
    try:
        with ServiceBusClient.from_connection_string(_connection_string(folder)) as client:
            sender = client.get_queue_sender("bench")
            receiver = client.get_queue_receiver("bench", prefetch_count=32)
            with sender, receiver:
                yield Bench(sender, receiver)
    finally:
        process.terminate()
        process.wait()


def _connection_string(folder: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        facts = ready.read(folder / "ready.json")
        if facts is not None:
            return str(facts["connection_string"])
        time.sleep(0.05)
    msg = "the emulator did not start in time"
    raise TimeoutError(msg)


def _rate(act: Callable[[], int]) -> float:
    started = time.perf_counter()
    count = act()
    return count / (time.perf_counter() - started)


def measure(rounds: int = ROUNDS) -> list[Row]:
    """Return messages or requests per second: ours keeps them, the other does not."""
    rates: dict[str, tuple[list[float], list[float]]] = {}
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        kept = stack.enter_context(running(folder / "kept"))
        unkept = stack.enter_context(running(folder / "unkept", "--in-memory"))
        for _ in range(rounds):
            for step in (Bench.send, Bench.receive_and_complete, Bench.request):
                title = f"emulator: {step.__name__.replace('_', ' ')}"
                ours, other = rates.setdefault(title, ([], []))
                ours.append(_rate(lambda act=step: act(kept)))  # type: ignore[misc] # mypy cannot infer the default
                other.append(_rate(lambda act=step: act(unkept)))  # type: ignore[misc] # as above
    return [_row(name, median(ours), median(other)) for name, (ours, other) in rates.items()]


def _row(name: str, ours: float, other: float) -> Row:
    return {"name": name, "ours": ours, "other": other, "ratio": ours / other, "bar": None}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    rows = measure(parser.parse_args().rounds)
    print(f"{'per second':<34}{'kept':>9}{'not kept':>10}{'ratio':>7}")
    for row in rows:
        print(f"{row['name']:<34}{row['ours']:>9.0f}{row['other']:>10.0f}{row['ratio']:>7.2f}")


if __name__ == "__main__":
    main()
