"""Looks through a queue without touching it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceivedMessage, ServiceBusReceiver


def peek_all(
    receiver: "ServiceBusReceiver", *, page_size: int, timeout_seconds: float
) -> Iterator["ServiceBusReceivedMessage"]:
    """Yield every message, whatever its state; holds one page at a time.

    `timeout_seconds` is for a page: one that takes longer says that the broker is away.
    """
    following = 1
    while page := receiver.peek_messages(
        page_size, sequence_number=following, timeout=timeout_seconds
    ):
        yield from page
        following = (page[-1].sequence_number or following) + 1
