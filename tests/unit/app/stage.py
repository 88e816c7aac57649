"""The processing side of the app with everything outside the process replaced."""

from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from hypothesis import strategies as st

from delivery.retry import Squared
from models.configuration import Configuration
from models.queue_message import QueueMessage
from models.queues import PROCESSING_QUEUES
from services.metrics import MetricsService, Outcome
from services.payloads import PayloadService
from services.processing.deletions import DeletionService
from services.processing.execution import ProcessQueueMessageService
from services.processing.queue_items import QueueItemService
from services.processing.reports import DeliveryReports
from services.processing.turns import Turns
from tests.builders import a_configuration, a_delivery
from tests.fakes.bus import FixedOriginals, RecordingPost, RecordingSettlement, TimedLocks
from tests.fakes.services import Clock, FixedInitialization, MemoryMetrics, MemoryTraces
from tests.fakes.storage import MemoryBlobs, MemoryTable
from tests.fakes.systems import MemoryTarget

SECOND = timedelta(seconds=1)

#: What somebody may have put onto a message.
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


class CountingMetrics(MetricsService):
    """The service, and in which order it was told."""

    def __init__(self) -> None:
        self.memory = MemoryMetrics()
        super().__init__(self.memory.meter)
        self.processed: list[tuple[str, Outcome]] = []
        self.dead_lettered: list[tuple[str, str]] = []

    def message_processed(self, job_name: str, outcome: Outcome) -> None:
        super().message_processed(job_name, outcome)
        self.processed.append((job_name, outcome))

    def message_dead_lettered(self, job_name: str, reason: str) -> None:
        super().message_dead_lettered(job_name, reason)
        self.dead_lettered.append((job_name, reason))


class Stage:
    def __init__(self, configuration: Configuration | None = None) -> None:
        self.clock = Clock()
        self.target = MemoryTarget()
        self.blobs = MemoryBlobs()
        self.post = RecordingPost()
        self.locks = TimedLocks(self.clock)
        self.originals = FixedOriginals()
        self.settlement = RecordingSettlement()
        self.metrics = CountingMetrics()
        self.traces = MemoryTraces()
        self.policies = {name: Squared(SECOND, 10) for name in PROCESSING_QUEUES.values()}
        self.payloads = PayloadService(self.blobs)  # type: ignore[arg-type] # the fake's few methods
        self.processing = ProcessQueueMessageService(
            FixedInitialization(configuration or a_configuration()),  # type: ignore[arg-type] # as above
            payloads=self.payloads,
            deletions=DeletionService(MemoryTable(), now=self.clock, clock=self.clock.monotonic),  # type: ignore[arg-type] # as above
            post=self.post,
            metrics=self.metrics,
            tracing=self.traces.service,
            target_of=lambda _connection: self.target,
        )
        self.setup_error: Exception | None = None
        self.service = QueueItemService(
            self._open_processing,
            locks=self.locks,
            turns=Turns(self.policies, threads=4),
            post=self.post,
            originals=self.originals,
            settlement=self.settlement,
            policies=self.policies,
            reports=DeliveryReports(self.metrics, self.traces.service),
            now=self.clock,
        )

    def _open_processing(self) -> ProcessQueueMessageService:
        if self.setup_error is not None:
            raise self.setup_error
        return self.processing

    def deliver(self, message: QueueMessage | bytes | None = None, **changes: Any) -> None:
        if message is not None:
            changes["body"] = message if isinstance(message, bytes) else message.to_body()
        self.service.execute(a_delivery(**changes))

    def fail(
        self,
        error: type[Exception],
        message: QueueMessage | bytes | None = None,
        **changes: Any,
    ) -> None:
        with pytest.raises(error):
            self.deliver(message, **changes)

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for _, outcome in self.metrics.processed]

    def posted(self, queue: str) -> ServiceBusMessage:
        [message] = self.post.posted[queue]
        return message


def properties_of(message: ServiceBusMessage) -> dict[Any, Any]:
    return message.application_properties or {}


def a_retry(attempt: int) -> dict[str, Any]:
    """Return how a delivery differs after a failure that was written onto the message."""
    return {
        "delivery_count": attempt,
        "properties": {"JobName": "customers-to-erp", "ErrorDeliveryCount": attempt - 1},
    }
