"""Service Bus queue triggers: what a binding asks for, and the receivers that do it."""

import asyncio
import logging
import threading
import time
from typing import Any

from azure.servicebus import parse_connection_string

from devstack.functions_host.errors import SettingsError
from devstack.functions_host.invocations import Function
from devstack.functions_host.queue_link import ConnectionReport, QueueLink
from devstack.functions_host.queue_receiver import QueuePlan, QueueReceiver
from devstack.functions_host.settings import resolve_connection, resolve_names
from devstack.functions_host.triggers import NotByHandError, Services

_LOG = logging.getLogger("functions_host.queues")

#: How long a stopping host waits for the broker; settling takes milliseconds where it answers.
CLOSE_LIMIT_SECONDS = 3.0


class QueueTrigger:
    """Gives the messages of one queue to one function."""

    def __init__(self, function: Function, binding: dict[str, Any], services: Services) -> None:
        self.function = function
        _refuse_what_is_not_here(function, binding)
        environment, settings = services.environment, services.settings
        self._queue = resolve_names(binding["queueName"], environment, function=function.name)
        plan = QueuePlan(
            function=function,
            argument=binding["name"],
            auto_complete=_auto_complete(binding, default=settings.auto_complete_messages),
            max_lock_renewal=settings.max_auto_lock_renewal,
        )
        connection = _connection(function, binding, services)
        report = ConnectionReport(self._queue)
        self._receivers = [
            QueueReceiver(
                plan,
                slots,
                services.worker,
                services.admission,
                QueueLink(connection, self._queue, report),
            )
            for slots in shares(settings.max_concurrent_calls, services.receivers_per_queue)
        ]
        self._threads: list[threading.Thread] = []

    async def start(self) -> None:
        """Begin to receive, and never end because of a lost connection."""
        for number, receiver in enumerate(self._receivers):
            name = f"{self._queue}-{number}"
            thread = threading.Thread(target=receiver.run, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop_receiving(self) -> None:
        """Take no more messages; those in flight are settled as they end."""
        for receiver in self._receivers:
            receiver.stop()

    async def close(self) -> None:
        """Wait a while until every message in flight is settled and every connection closed.

        A broker that does not answer is left behind: its locks run out. The threads are daemons.
        """
        deadline = time.monotonic() + CLOSE_LIMIT_SECONDS
        if not await asyncio.to_thread(self._have_ended, deadline):
            _LOG.warning(
                "queue %s: the broker did not answer within %g s; what is not settled comes back "
                "when its lock runs out",
                self._queue,
                CLOSE_LIMIT_SECONDS,
            )

    def _have_ended(self, deadline: float) -> bool:
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def check_by_hand(self) -> None:
        """Refuse: a message by hand would have no lock to renew or settle."""
        msg = f"'{self.function.name}' is started by a message: send one to {self._queue}"
        raise NotByHandError(msg)

    async def run_by_hand(self, text: str) -> None:
        """Refuse, see `check_by_hand`."""
        _ = text
        self.check_by_hand()


def shares(total: int, parts: int) -> list[int]:
    """Return `total` slots spread over at most `parts` receivers, none without a slot."""
    parts = min(total, parts)
    return [total // parts + (number < total % parts) for number in range(parts)]


def _refuse_what_is_not_here(function: Function, binding: dict[str, Any]) -> None:
    asks_for = {
        "a topic": "topicName" in binding or "subscriptionName" in binding,
        "sessions": binding.get("isSessionsEnabled") is True,
        "cardinality many": str(binding.get("cardinality", "one")).lower() == "many",
    }
    for what, asked in asks_for.items():
        if asked:
            msg = (
                f"function '{function.name}': its serviceBusTrigger asks for {what}, which the "
                "local host has not; use a queue without sessions, one message a call."
            )
            raise SettingsError(msg)


def _auto_complete(binding: dict[str, Any], *, default: bool) -> bool:
    own = binding.get("autoCompleteMessages")
    return default if own is None else own is True


def _connection(function: Function, binding: dict[str, Any], services: Services) -> str:
    prefix = str(binding.get("connection") or "")
    text = resolve_connection(prefix, services.environment, function=function.name)
    try:
        parse_connection_string(text)
    except ValueError:
        msg = (
            f"function '{function.name}': the setting {prefix} is no Service Bus connection "
            "string; it looks like Endpoint=sb://HOST;SharedAccessKeyName=NAME;SharedAccessKey=KEY."
        )
        # Without the cause: its text may quote the key.
        raise SettingsError(msg) from None
    return text
