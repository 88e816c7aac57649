"""What the bare loop and the peers do with a message: the app's own upsert."""

import os
from collections.abc import Callable

from composition import Composition
from models.job import Priority
from models.queue_message import QueueMessage
from models.queues import PROCESSING_QUEUES

#: The queue that the processing benchmarks fill.
QUEUE = PROCESSING_QUEUES[Priority.NORMAL]


def upsert() -> Callable[[bytes], None]:
    """Return a function that upserts one message's body; several threads may call it."""
    composition = Composition(os.environ)
    configuration = composition.configuration()
    job = configuration.jobs["customers-to-erp"]
    mapping = configuration.mapping_of(job)
    target = composition.connector(configuration.connections[job.target])

    def apply(body: bytes) -> None:
        target.upsert(QueueMessage.from_body(body), mapping, job)

    return apply
