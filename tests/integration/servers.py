"""Servers of the stack for a test alone: it may signal them, and read what they say."""

import json
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from azure.servicebus import ServiceBusClient, ServiceBusReceiver, ServiceBusSender

from devstack.stack import Announced

KEY = "a-key-for-tests"


class Running(Announced):
    def log_text(self) -> str:
        return self.log.read_text(encoding="utf-8")

    def send_signal(self, number: int) -> None:
        os.kill(int(self.facts()["pid"]), number)

    def end(self, number: int = signal.SIGTERM) -> int:
        """Signal it, wait, and return its exit status."""
        self.send_signal(number)
        return self.wait_for_end()


class PromptClient(ServiceBusClient):
    """The SDK's client, without the keep-alive threads that delay each close by a second."""

    def get_queue_sender(self, queue_name: str, **options: Any) -> ServiceBusSender:
        return super().get_queue_sender(queue_name, **{"keep_alive": 0} | options)

    def get_queue_receiver(self, queue_name: str, **options: Any) -> ServiceBusReceiver:
        return super().get_queue_receiver(queue_name, **{"keep_alive": 0} | options)


class Emulator(Running):
    """The Service Bus emulator with the queues of a test."""

    def __init__(
        self, folder: Path, queues: Mapping[str, Mapping[str, object]], *options: str
    ) -> None:
        entries = [{"Name": name, "Properties": dict(rules)} for name, rules in queues.items()]
        config = folder / "servicebus.json"
        namespaces = [{"Name": "tests", "Queues": entries}]
        config.write_text(json.dumps({"UserConfig": {"Namespaces": namespaces}}), "utf-8")
        arguments = ["--config", str(config), *options]
        super().__init__("service_bus", folder, arguments, SERVICE_BUS_EMULATOR_KEY=KEY)

    @property
    def port(self) -> int:
        return int(self.facts()["port"])

    @property
    def connection_string(self) -> str:
        return str(self.facts()["connection_string"])

    def client(self, **options: Any) -> ServiceBusClient:
        settings = {"retry_total": 0} | options
        return PromptClient.from_connection_string(self.connection_string, **settings)
