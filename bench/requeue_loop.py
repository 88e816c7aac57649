"""The peer of the mover's benchmark: what one would write with the SDK in ten minutes.

200 messages a call; copies without error properties, sent as one batch, completed one by one.
"""

import os
import sys

from azure.servicebus import ServiceBusMessage, ServiceBusReceivedMessage

from services.azure_access import service_bus_client


def main() -> None:
    """Move messages; the arguments are the queues, from and to, and how many there are."""
    source, target, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
    client = service_bus_client(os.environ)
    with (
        client,
        client.get_queue_receiver(source) as receiver,
        client.get_queue_sender(target) as sender,
    ):
        while left:
            messages = receiver.receive_messages(200, max_wait_time=5)
            sender.send_messages([_copy(message) for message in messages])
            for message in messages:
                receiver.complete_message(message)
            left -= len(messages)


def _copy(message: ServiceBusReceivedMessage) -> ServiceBusMessage:
    properties = message.application_properties or {}
    return ServiceBusMessage(
        b"".join(message.body),
        content_type=message.content_type,
        message_id=f"{message.message_id}-again",
        application_properties={
            name: value
            for name, value in properties.items()
            if not bytes(name if isinstance(name, bytes) else name.encode()).startswith(b"Error")
        },
    )


if __name__ == "__main__":
    main()
