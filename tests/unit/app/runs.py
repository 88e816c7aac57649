"""Runs of jobs over fakes: those of the timer, and those by hand."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import orjson

from models.configuration import Configuration
from models.connection import Connection
from models.queue_message import QueueMessage
from services.detection.execute_job import Answer, ExecuteJobService
from services.detection.job_run import JobRunner
from services.detection.jobs import JobService
from services.detection.reports import RunReports
from services.detection.retrieval import ProcessJobsForRetrievalInOrderService
from services.detection.service_bus import ServiceBusService
from services.detection.watermarks import StoredWatermark, WatermarkService
from services.operation.heartbeat import HeartbeatService
from services.payloads import PayloadService
from tests.builders import a_configuration, a_message
from tests.fakes.bus import MemoryServiceBus
from tests.fakes.services import Clock, FixedInitialization, MemoryMetrics, MemoryTraces
from tests.fakes.storage import MemoryBlobs, MemoryTable
from tests.fakes.systems import ListSource

JOB = "customers-to-erp"


def at(second: int) -> str:
    return f"2026-11-30T10:{second // 60:02}:{second % 60:02}+00:00"


def messages(count: int, **changes: object) -> list[QueueMessage]:
    return [a_message(source_key=f"D{n}", change_tracker=at(n), **changes) for n in range(count)]


class Runs:
    """What all runs need, with a source a connection."""

    def __init__(self, source_of: Callable[[Connection], ListSource]) -> None:
        self.table = MemoryTable()
        self.watermarks = WatermarkService(self.table, MemoryBlobs())  # type: ignore[arg-type] # the fakes' few methods
        self.bus = MemoryServiceBus()
        self.payloads = MemoryBlobs()
        self.metrics = MemoryMetrics()
        self.traces = MemoryTraces()
        self.runner = JobRunner(self.watermarks, source_of=source_of)

    def open_service_bus(self) -> ServiceBusService:
        return ServiceBusService(
            self.bus,  # type: ignore[arg-type] # as above
            PayloadService(self.payloads),  # type: ignore[arg-type] # as above
            self.metrics.service,
            self.traces.service,
        )

    def reports(self, clock: Clock) -> RunReports:
        return RunReports(self.metrics.service, self.traces.service, now=clock)

    def stored(self, job: str = JOB) -> StoredWatermark:
        return self.watermarks.get_watermark_by_job_name(job)

    def batches(self, queue: str = "sbqnormal") -> list[int]:
        return [len(batch) for batch in self.bus.sent.get(queue, [])]

    def sent(self) -> list[str]:
        """Return the source keys of everything that was sent, in order."""
        return [
            message.application_properties["SourceKey"]
            for batches in self.bus.sent.values()
            for batch in batches
            for message in batch
        ]


class Detection(Runs):
    """The timer's: all jobs that are due."""

    def __init__(
        self,
        sources: dict[str, ListSource],
        configuration: Configuration | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(lambda connection: sources[connection.name])
        clock = clock or Clock()
        self.heartbeat = HeartbeatService(self.table)  # type: ignore[arg-type] # as above
        self._service = ProcessJobsForRetrievalInOrderService(
            FixedInitialization(configuration or a_configuration()),  # type: ignore[arg-type] # as above
            JobService(self.watermarks, self.metrics.service),
            self.runner,
            open_service_bus=self.open_service_bus,
            reports=self.reports(clock),
            heartbeat=self.heartbeat,
            budget=timedelta(minutes=5),
            now=clock,
        )

    def run(self) -> None:
        self._service.execute()


class ByHand(Runs):
    """One job over HTTP."""

    def __init__(
        self,
        source: ListSource,
        configuration: Configuration | None = None,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(lambda _: source)
        clock = clock or Clock()
        self.service = ExecuteJobService(
            FixedInitialization(configuration or a_configuration()),  # type: ignore[arg-type] # as above
            self.runner,
            open_service_bus=self.open_service_bus,
            reports=self.reports(clock),
            now=clock,
        )

    def post(self, **body: Any) -> Answer:
        return self.service.execute(orjson.dumps(body))
