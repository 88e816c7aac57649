"""The consumer that one would write with FastStream: `python -m bench.faststream_loop`.

A plain function is a handler; FastStream runs it in a thread, and completes the message after it.
"""

import asyncio
import os

from faststream import FastStream, StreamMessage
from faststream_azure_servicebus import ServiceBusBroker

from bench.upserts import QUEUE, upsert
from services.azure_access import SERVICE_BUS

# Without its two lines of log for each message, which the other sides do not write either.
broker = ServiceBusBroker(os.environ[SERVICE_BUS], logger=None)
app = FastStream(broker)
apply = upsert()


async def as_it_is(message: StreamMessage[object]) -> bytes:
    """Leave the body to the handler, which decodes it as on the other sides."""
    return bytes(message.body)


# The fastest of what was tried here: more handlers at once wait for each other's completions.
@broker.subscriber(QUEUE, decoder=as_it_is, prefetch_count=32)
def handle(body: bytes) -> None:
    """Upsert one message."""
    apply(body)


if __name__ == "__main__":
    asyncio.run(app.run())
