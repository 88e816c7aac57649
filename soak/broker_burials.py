"""Messages that become dead letters without the app: no error properties are on them.

Done by the SDK while no host runs, to messages that wait in the queue.
"""

from datetime import timedelta

from azure.servicebus import (
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusReceivedMessage,
    ServiceBusReceiver,
)

from devstack.disasters import wait_for
from services.azure_access import service_bus_client
from services.peeking import peek_all
from soak.places import change_in
from soak.scene import LOCK_SECONDS, QUEUE, Scene

_LIFE = timedelta(seconds=1)
_LIMIT_SECONDS = 12 * LOCK_SECONDS


def bury(scene: Scene) -> str:
    """Let three messages die, in three ways; return how, in words."""
    with (
        service_bus_client(scene.stack.app_settings()) as client,
        client.get_queue_receiver(QUEUE, keep_alive=0) as receiver,
    ):
        bodies = [_by_hand(receiver), _expired(client, receiver), *_used_up(receiver)]
    scene.buried |= {change_in(body, scene) for body in bodies}
    return "one message dead-lettered by hand, one expired, one delivered until it was given up"


def _by_hand(receiver: ServiceBusReceiver) -> bytes:
    message = _take(receiver)
    receiver.dead_letter_message(message, reason="by hand")
    return _body(message)


def _expired(client: ServiceBusClient, receiver: ServiceBusReceiver) -> bytes:
    """Put a copy that lives for a second in the place of a message."""
    message = _take(receiver)
    copy = ServiceBusMessage(
        _body(message),
        application_properties=message.application_properties,
        content_type=message.content_type,
        message_id=message.message_id,
        time_to_live=_LIFE,
    )
    with client.get_queue_sender(QUEUE, keep_alive=0) as sender:
        sender.send_messages(copy)
    receiver.complete_message(message)
    # The broker expires messages where somebody looks.
    wait_for(lambda: all(each.time_to_live != _LIFE for each in _all(receiver)), _LIMIT_SECONDS)
    return _body(message)


def _used_up(receiver: ServiceBusReceiver) -> list[bytes]:
    """Give messages back, as the death of a worker does, until the broker gives one up."""
    given_back: dict[int | None, bytes] = {}
    while True:
        message = _take(receiver)
        given_back[message.sequence_number] = _body(message)
        receiver.abandon_message(message)
        there = {each.sequence_number for each in _all(receiver)}
        if gone := given_back.keys() - there:
            return [given_back[number] for number in gone]


def _take(receiver: ServiceBusReceiver) -> ServiceBusReceivedMessage:
    """Take what comes first, once the locks of the host that was killed have run out."""
    return wait_for(lambda: receiver.receive_messages(1, max_wait_time=1), _LIMIT_SECONDS)[0]


def _all(receiver: ServiceBusReceiver) -> list[ServiceBusReceivedMessage]:
    return list(peek_all(receiver, page_size=250, timeout_seconds=8))


def _body(message: ServiceBusReceivedMessage) -> bytes:
    return b"".join(message.body)
