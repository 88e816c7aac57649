"""Builds the services of the function app, lazily and once.

The only place that reads the environment for the app, and the only one that knows which connector
serves which system.
"""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from threading import RLock

from connectors.sql import SqlConnector
from delivery.errors import ConfigurationError
from models.configuration import Configuration
from models.connection import Connection
from services.azure_access import blob_client, service_bus_client, table_client
from services.initialization import CONTAINER, InitializationService
from services.jobs import JobService
from services.processing import ProcessQueueMessageService
from services.queue_items import QueueItemService
from services.retrieval import ProcessJobsForRetrievalInOrderService
from services.service_bus import ServiceBusService
from services.settlement import SettlementService
from services.watermarks import TABLE, WatermarkService

#: Prefixes of app settings, resolved as the Functions host resolves them.
SERVICE_BUS = "SYNC_SERVICE_BUS"
STORAGE = "SYNC_STORAGE"


class Composition:
    """The object graph for one environment. Nothing connects before it is used."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._building = RLock()
        self._connectors: dict[str, SqlConnector] = {}

    def get_changes(self) -> ProcessJobsForRetrievalInOrderService:
        """Return the service behind the function `GetChanges`."""
        with self._building:
            return self._retrieval

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
            if connection.name not in self._connectors:
                self._connectors[connection.name] = self._connect(connection)
            return self._connectors[connection.name]

    @cached_property
    def _retrieval(self) -> ProcessJobsForRetrievalInOrderService:
        return ProcessJobsForRetrievalInOrderService(
            self._initialization,
            JobService(),
            WatermarkService(table_client(self._environ, STORAGE).get_table_client(TABLE)),
            source_of=self.connector,
            open_service_bus=lambda: ServiceBusService(
                service_bus_client(self._environ, SERVICE_BUS)
            ),
            now=_now,
        )

    @cached_property
    def _queue_items(self) -> QueueItemService:
        settlement = SettlementService(
            lambda: service_bus_client(self._environ, SERVICE_BUS, retry_total=0)
        )
        processing = ProcessQueueMessageService(self._initialization, target_of=self.connector)
        return QueueItemService(processing, settlement, now=_now)

    @cached_property
    def _initialization(self) -> InitializationService:
        return InitializationService(
            blob_client(self._environ, STORAGE).get_container_client(CONTAINER),
            table_client(self._environ, STORAGE).get_table_client(TABLE),
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
