"""The peer of the processing benchmark: what one would write without a host.

One receiver, 200 messages a call, the same upsert, completed one by one.
"""

import os
import sys

from composition import Composition
from models.queue_message import QueueMessage
from models.queues import PROCESSING_QUEUES
from services.azure_access import service_bus_client


def main() -> None:
    """Empty the queue of normal priority; the argument is how many messages it holds."""
    left = int(sys.argv[1])
    composition = Composition(os.environ)
    configuration = composition.configuration()
    job = configuration.jobs["customers-to-erp"]
    mapping = configuration.mapping_of(job)
    target = composition.connector(configuration.connections[job.target])
    client = service_bus_client(os.environ)
    with client, client.get_queue_receiver(PROCESSING_QUEUES[job.priority]) as receiver:
        while left:
            for message in receiver.receive_messages(200, max_wait_time=5):
                target.upsert(QueueMessage.from_body(b"".join(message.body)), mapping, job)
                receiver.complete_message(message)
                left -= 1


if __name__ == "__main__":
    main()
