"""Sends single messages for many threads; what they send at the same time travels together."""

from collections import defaultdict
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from azure.servicebus.exceptions import MessageSizeExceededError, ServiceBusError

from delivery.errors import RejectedError, UnavailableError
from services.processing.owned_thread import OwnedThread

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure.servicebus import (
        ServiceBusClient,
        ServiceBusMessage,
        ServiceBusMessageBatch,
        ServiceBusSender,
    )

_SEND_TIMEOUT_SECONDS = 8

#: For two attempts, and for those that stand before ours.
_PATIENCE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class _Letter:
    queue: str
    message: "ServiceBusMessage"
    sent: "Future[None]" = field(default_factory=Future)

    def tell(self, error: Exception | None) -> None:
        """Tell the sender, if he still waits, that it was sent, or why not."""
        with suppress(InvalidStateError):
            if error is None:
                self.sent.set_result(None)
            else:
                self.sent.set_exception(error)


class PostingService:
    """Safe for several threads.

    `open_client` must make clients with `retry_total=0`: one retry, on a new connection, is ours.
    """

    def __init__(
        self,
        open_client: "Callable[[], ServiceBusClient]",
        *,
        patience: timedelta = _PATIENCE,
    ) -> None:
        self._thread = OwnedThread("posting", lambda: _Office(open_client), limit=patience)
        self._inbox: SimpleQueue[_Letter] = SimpleQueue()

    def post(self, queue_name: str, message: "ServiceBusMessage") -> None:
        """Send `message`; on return the broker has accepted it.

        Raise UnavailableError where it may or may not have, RejectedError where it never will.
        """
        letter = _Letter(queue_name, message)
        self._inbox.put(letter)
        try:
            # Whoever comes first sends for all; the others find nothing left to do.
            self._thread.run(lambda office: office.send_all(self._inbox))
            letter.sent.result(timeout=0)
        except TimeoutError:
            # A thread that hangs has taken it along.
            msg = f"{queue_name}: the broker has not said that it accepted a message"
            raise UnavailableError(msg) from None
        finally:
            letter.sent.cancel()  # who has given up must not find it sent later

    def close(self) -> None:
        """Close the connection."""
        self._thread.close(_Office.disconnect)


class _Office:
    """The connection and a sender a queue."""

    def __init__(self, open_client: "Callable[[], ServiceBusClient]") -> None:
        self._open_client = open_client
        self._client: ServiceBusClient | None = None
        self._senders: dict[str, ServiceBusSender] = {}

    def send_all(self, inbox: SimpleQueue[_Letter]) -> None:
        """Send what has been posted by now; each letter learns what became of it."""
        waiting: defaultdict[str, list[_Letter]] = defaultdict(list)
        with suppress(Empty):
            while letter := inbox.get_nowait():
                waiting[letter.queue].append(letter)
        for queue_name, letters in waiting.items():
            unsent = letters
            while unsent:
                self._send_some(queue_name, unsent)
                unsent = [letter for letter in unsent if not letter.sent.done()]

    def disconnect(self) -> None:
        """Forget the connection, also where closing it fails: what is broken must not stay."""
        opened = [*self._senders.values(), self._client]
        self._senders, self._client = {}, None
        for each in opened:
            with suppress(Exception):
                if each is not None:
                    each.close()

    def _send_some(self, queue_name: str, letters: list[_Letter]) -> None:
        """Send as many as one batch takes, and tell them what became of them."""
        try:
            self._send_with_one_retry(queue_name, letters)
        except Exception as error:  # noqa: BLE001 - whatever it is, those who wait must hear of it
            if type(error) is not ServiceBusError:
                _tell_all(letters, UnavailableError(f"{queue_name}: no broker: {error}"))
            elif len(letters) == 1:
                _tell_all(letters, _rejected(letters[0], f"the broker refuses it: {error}"))
            else:
                # The broker refuses the batch for one of them.
                for letter in letters:
                    self._send_some(queue_name, [letter])

    def _send_with_one_retry(self, queue_name: str, letters: list[_Letter]) -> None:
        try:
            self._send(queue_name, letters)
        except Exception:  # noqa: BLE001 - the broker detaches idle links: a new one may do
            self.disconnect()
            self._send(queue_name, letters)

    def _send(self, queue_name: str, letters: list[_Letter]) -> None:
        sender = self._sender(queue_name)
        batch = sender.create_message_batch()
        taken = _fill(batch, letters)
        sender.send_messages(batch, timeout=_SEND_TIMEOUT_SECONDS)
        for letter in taken:
            letter.tell(None)

    def _sender(self, queue_name: str) -> "ServiceBusSender":
        if self._client is None:
            self._client = self._open_client()
        if queue_name not in self._senders:
            self._senders[queue_name] = self._client.get_queue_sender(queue_name)
        return self._senders[queue_name]


def _fill(batch: "ServiceBusMessageBatch", letters: list[_Letter]) -> list[_Letter]:
    """Add letters from the front; return those that went in, and refuse what never will."""
    taken: list[_Letter] = []
    for letter in letters:
        if letter.sent.done():
            continue
        try:
            batch.add_message(letter.message)
        except MessageSizeExceededError:
            if taken:
                break
            letter.tell(_rejected(letter, "it is larger than the queue takes"))
        except Exception as error:  # noqa: BLE001 - the SDK's encoder raises many kinds
            letter.tell(_rejected(letter, f"the SDK refuses it: {error}"))
        else:
            taken.append(letter)
    return taken


def _tell_all(letters: list[_Letter], error: Exception) -> None:
    for letter in letters:
        letter.tell(error)


def _rejected(letter: _Letter, why: str) -> RejectedError:
    return RejectedError(f"{letter.queue}: a message cannot be sent: {why}")
