"""The consumer that one would write with taskiq: `taskiq worker bench.taskiq_loop:broker`.

A plain function is a task; taskiq runs it in a thread, and completes the message after it.
"""

import os

from taskiq import BrokerMessage, TaskiqFormatter, TaskiqMessage
from taskiq_service_bus import ServiceBusBroker

from bench.upserts import QUEUE, upsert
from services.azure_access import SERVICE_BUS

_TASK = "upsert"


class OurMessages(TaskiqFormatter):
    """Makes a call of the task from a message that taskiq did not send."""

    def dumps(self, message: TaskiqMessage) -> BrokerMessage:
        """Refuse: the benchmark sends nothing by taskiq."""
        msg = f"{message.task_name} is not to be sent"
        raise NotImplementedError(msg)

    def loads(self, message: bytes) -> TaskiqMessage:
        """Return the call that upserts the message."""
        return TaskiqMessage(task_id="", task_name=_TASK, labels={}, args=[message], kwargs={})


broker = ServiceBusBroker(os.environ[SERVICE_BUS], QUEUE).with_formatter(OurMessages())
apply = upsert()


@broker.task(task_name=_TASK)
def handle(body: bytes) -> None:
    """Upsert one message."""
    apply(body)
