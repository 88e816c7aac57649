"""Messages received and sent as they are encoded, which the SDK offers no way for.

This module uses private names of the SDK's batch and of its receiver. `azure-servicebus` is pinned
and the contract test of the mover's broker holds the behaviour.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from azure.servicebus import ServiceBusMessageBatch
from azure.servicebus._pyamqp import receiver
from azure.servicebus._pyamqp.message import Message

from delivery.errors import RejectedError
from services.amqp_properties import sequence_number

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceiver, ServiceBusSender

#: The name by which the SDK finds the sequence number.
_NUMBER = b"x-opt-sequence-number"

#: What a message in a batch costs beyond its own bytes, up to 255 of them and beyond.
_SHORT, _SHORT_COST, _COST = 256, 5, 8

#: Where a batch of the SDK keeps its messages.
_DATA = 5


@contextmanager
def anything_received() -> Iterator[None]:
    """Let the SDK receive messages that it cannot decode: of a char, for one, it makes an error.

    It would fail for all messages then, and again at every attempt. Of such a message the sequence
    number alone is received; the rest is to be peeked at.
    """
    known = receiver.decode_payload  # type: ignore[attr-defined] # as said above

    def decode(buffer: memoryview) -> Message:
        try:
            return known(buffer)
        except Exception:  # noqa: BLE001 - whatever it stumbles over, the message is locked
            return Message(message_annotations={_NUMBER: sequence_number(bytes(buffer))})

    receiver.decode_payload = decode  # type: ignore[attr-defined] # as said above
    try:
        yield
    finally:
        receiver.decode_payload = known  # type: ignore[attr-defined] # as said above


def undisturbed(receiver: "ServiceBusReceiver") -> "ServiceBusReceiver":
    """Return the receiver without the thread by which the SDK keeps its connection alive.

    That thread reads from the connection while a receive does, and both keep what they are in the
    midst of in one place: on a busy machine a message was seen with the lock token of another one,
    and whoever settles by such a token removes the wrong message. Without it a connection that is
    left alone for minutes may be closed by the broker; the next receive opens another.
    """
    create = receiver._create_handler  # noqa: SLF001 - as said above

    def create_without_thread(auth: object) -> None:
        create(auth)
        receiver._handler._keep_alive_interval = 0  # noqa: SLF001 - as said above

    receiver._create_handler = create_without_thread  # type: ignore[method-assign] # noqa: SLF001 - as said above
    return receiver


def batches(sender: "ServiceBusSender", messages: Sequence[bytes]) -> list[ServiceBusMessageBatch]:
    """Return as few batches as hold the messages, in order.

    Raise RejectedError where one is larger than the queue takes.
    """
    batches: list[ServiceBusMessageBatch] = []
    for encoded in messages:
        if not batches or not _fits(batches[-1], encoded):
            batches.append(sender.create_message_batch())
        batch = batches[-1]
        if not _fits(batch, encoded):
            msg = "it is larger than the queue takes"
            raise RejectedError(msg)
        batch._message[_DATA].append(encoded)  # noqa: SLF001 - as said above
        batch._size += _cost(encoded)  # noqa: SLF001 - as said above
        batch._count += 1  # noqa: SLF001 - as said above
    return batches


def _fits(batch: ServiceBusMessageBatch, encoded: bytes) -> bool:
    return batch.size_in_bytes + _cost(encoded) <= batch.max_size_in_bytes


def _cost(encoded: bytes) -> int:
    return len(encoded) + (_SHORT_COST if len(encoded) < _SHORT else _COST)
