"""The peer of the processing benchmark: what one would write without a host.

One receiver, 200 messages a call, the same upsert, completed one by one.
"""

import os
import sys

from bench.upserts import QUEUE, upsert
from services.azure_access import service_bus_client


def main() -> None:
    """Empty the queue of normal priority; the argument is how many messages it holds."""
    left = int(sys.argv[1])
    apply = upsert()
    client = service_bus_client(os.environ)
    with client, client.get_queue_receiver(QUEUE) as receiver:
        while left:
            for message in receiver.receive_messages(200, max_wait_time=5):
                apply(b"".join(message.body))
                receiver.complete_message(message)
                left -= 1


if __name__ == "__main__":
    main()
