"""Builds the services of the function app, lazily and once.

The only place that reads the environment for the app, and the only one that knows which connector
serves which system.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from threading import RLock

from connectors.sql import SqlConnector
from delivery.errors import ConfigurationError
from models.configuration import Configuration
from models.connection import Connection
from services.azure_access import blob_client, service_bus_client, table_client
from services.detection.execute_job import ExecuteJobService
from services.detection.job_run import JobRunner
from services.detection.jobs import JobService
from services.detection.retrieval import ProcessJobsForRetrievalInOrderService
from services.detection.service_bus import ServiceBusService
from services.detection.watermarks import BOUNDARIES, TABLE, WatermarkService
from services.initialization import CONTAINER, InitializationService
from services.payloads import PAYLOADS, PayloadService
from services.processing.execution import ProcessQueueMessageService
from services.processing.queue_items import QueueItemService
from services.processing.settlement import SettlementService

#: A tick of detection ends after this time, and the next one goes on.
TICK_BUDGET = timedelta(minutes=5)


class Composition:
    """The object graph for one environment. Nothing connects before it is used."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._building = RLock()
        self._connectors: dict[Connection, SqlConnector] = {}

    def get_changes(self) -> ProcessJobsForRetrievalInOrderService:
        """Return the service behind the function `GetChanges`."""
        with self._building:
            return self._retrieval

    def execute_job(self) -> ExecuteJobService:
        """Return the service behind the function `ExecuteJob`."""
        with self._building:
            return self._execute_job

    def process_queue_items(self) -> QueueItemService:
        """Return the service behind the three functions `Process…QueueItems`."""
        with self._building:
            return self._queue_items

    def configuration(self) -> Configuration:
        """Return the configuration as the functions see it."""
        with self._building:
            return self._initialization.ensure_initialized()

    def connector(self, connection: Connection) -> SqlConnector:
        """Return the one connector of `connection`; raise ConfigurationError where it cannot be."""
        with self._building:
            if connection not in self._connectors:
                self._connectors[connection] = self._connect(connection)
            return self._connectors[connection]

    @cached_property
    def _retrieval(self) -> ProcessJobsForRetrievalInOrderService:
        return ProcessJobsForRetrievalInOrderService(
            self._initialization,
            JobService(self.watermarks),
            self._job_runner,
            open_service_bus=self.open_service_bus,
            budget=TICK_BUDGET,
            now=_now,
        )

    @cached_property
    def _execute_job(self) -> ExecuteJobService:
        return ExecuteJobService(
            self._initialization,
            self._job_runner,
            open_service_bus=self.open_service_bus,
            now=_now,
        )

    @cached_property
    def _job_runner(self) -> JobRunner:
        return JobRunner(self.watermarks, source_of=self.connector)

    @cached_property
    def watermarks(self) -> WatermarkService:
        """The watermarks of all jobs."""
        return WatermarkService(
            table_client(self._environ).get_table_client(TABLE),
            blob_client(self._environ).get_container_client(BOUNDARIES),
        )

    @cached_property
    def _payloads(self) -> PayloadService:
        return PayloadService(blob_client(self._environ).get_container_client(PAYLOADS))

    def open_service_bus(self) -> ServiceBusService:
        """Return a sender for one run."""
        return ServiceBusService(service_bus_client(self._environ), self._payloads)

    @cached_property
    def _queue_items(self) -> QueueItemService:
        settlement = SettlementService(lambda: service_bus_client(self._environ, retry_total=0))
        processing = ProcessQueueMessageService(
            self._initialization, payloads=self._payloads, target_of=self.connector
        )
        return QueueItemService(processing, settlement, now=_now)

    @cached_property
    def _initialization(self) -> InitializationService:
        return InitializationService(
            blob_client(self._environ).get_container_client(CONTAINER),
            [self.watermarks, self._payloads],
            now=_now,
        )

    def _connect(self, connection: Connection) -> SqlConnector:
        url = self._environ.get(connection.url)
        if not url:
            msg = (
                f"connection {connection.name!r}: the app setting {connection.url} is missing; "
                "set it to the database's URL"
            )
            raise ConfigurationError(msg)
        # A function holds one connection at a time, and there are as many threads as functions run.
        threads = int(self._environ.get("PYTHON_THREADPOOL_THREAD_COUNT") or _DEFAULT_THREADS)
        return SqlConnector.from_url(connection.name, url, pool_size=threads)


#: What the Functions worker uses at most where PYTHON_THREADPOOL_THREAD_COUNT is not set.
_DEFAULT_THREADS = 32


def _now() -> datetime:
    return datetime.now(UTC)


#: The composition of this process, for the environment that it runs in.
APP = Composition(os.environ)
