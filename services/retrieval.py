"""Detection: reads the changes of every due job and sends them to the queues."""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Protocol

from models.configuration import Configuration
from models.connection import Connection
from models.job import Job
from models.mapping import Mapping
from models.queue_message import QueueMessage
from models.watermark import WatermarkValue
from services.initialization import InitializationService
from services.jobs import JobService
from services.service_bus import ServiceBusService
from services.watermarks import WatermarkService

_LOGGER = logging.getLogger(__name__)


class SourceConnector(Protocol):
    """A system that changes are read from."""

    def retrieve_changes(
        self, mapping: Mapping, job: Job, watermark: WatermarkValue
    ) -> Iterator[QueueMessage]:
        """Yield what changed at or after `watermark`, in the order of the cursor."""
        ...


class ProcessJobsForRetrievalInOrderService:
    """Runs the due jobs one after the other; one that fails does not stop those after it."""

    def __init__(  # noqa: PLR0913 - one parameter a participant of the specification's diagram
        self,
        initialization: InitializationService,
        jobs: JobService,
        watermarks: WatermarkService,
        *,
        source_of: Callable[[Connection], SourceConnector],
        open_service_bus: Callable[[], ServiceBusService],
        now: Callable[[], datetime],
    ) -> None:
        self._initialization = initialization
        self._jobs = jobs
        self._watermarks = watermarks
        self._source_of = source_of
        self._open_service_bus = open_service_bus
        self._now = now

    def execute(self) -> None:
        """Run every due job; a job's failure is logged with its cause."""
        configuration = self._initialization.ensure_initialized()
        with self._open_service_bus() as service_bus:
            for job in self._jobs.get_jobs_to_run(configuration):
                try:
                    count = self._run(job, configuration, service_bus)
                except Exception:
                    # Its watermark stays as it was: the next run reads the same changes again.
                    service_bus.discard()
                    _LOGGER.exception("job %s failed; its watermark is unchanged", job.name)
                else:
                    _LOGGER.info("job %s: %d changes detected and sent", job.name, count)

    def _run(self, job: Job, configuration: Configuration, service_bus: ServiceBusService) -> int:
        started = self._now()
        stored = self._watermarks.get_watermark_by_job_name(job.name)
        watermark = WatermarkValue.initialize(job.watermark.type, stored.watermark)
        source = self._source_of(configuration.connections[job.source])
        count = 0
        changes = source.retrieve_changes(configuration.mapping_of(job), job, watermark)
        for message in changes:
            service_bus.add_message_or_send(message, job.priority)
            watermark = watermark.advance(message.change_tracker)
            count += 1
        # Everything is with the broker before the watermark says that it was read.
        service_bus.flush_batch()
        self._watermarks.update_watermark_by_job_name(job.name, watermark.text, started)
        return count
