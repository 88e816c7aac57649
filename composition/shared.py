"""What detection, processing and operation are built from: connections, stores, measures."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from connectors.sql import SqlConnector
from delivery.errors import ConfigurationError
from models import settings
from models.configuration import Configuration
from models.connection import Connection
from models.queues import ALL_QUEUES, QueueProperties, read_queues
from services.azure_access import (
    blob_client,
    service_bus_administration,
    service_bus_client,
    table_client,
)
from services.configuration_container import CONTAINER
from services.detection.service_bus import ServiceBusService
from services.detection.watermarks import BOUNDARIES, TABLE, WatermarkService
from services.initialization import InitializationService
from services.metrics import MetricsService
from services.operation.oldest_message import OldestMessageService
from services.operation.queue_depth import QueueDepthService
from services.operation.telemetry_export import open_meter, open_tracer
from services.payloads import PAYLOADS, PayloadService
from services.processing.deletions import DELETIONS, DeletionService
from services.processing.management_thread import ManagementThread
from services.tracing import TracingService

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient
    from opentelemetry.metrics import Meter

#: Who looks whether something is there does not wait for long, and looks again soon.
SHORT_TIMEOUTS: Mapping[str, Any] = {"connection_timeout": 3, "read_timeout": 4, "retry_total": 0}

#: Metrics are exported once a minute, and none of them may hold up the others for long.
_PATIENCE_OF_METRICS = timedelta(seconds=5)

_QUEUES_FILE = Path(__file__).parent.with_name("servicebus.json")


class Shared:
    """The services that more than one side uses. Nothing connects before it is used."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ
        self._building = RLock()
        self._connectors: dict[Connection, SqlConnector] = {}

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
    def watermarks(self) -> WatermarkService:
        """The watermarks of all jobs."""
        return WatermarkService(
            table_client(self._environ).get_table_client(TABLE),
            blob_client(self._environ).get_container_client(BOUNDARIES),
        )

    @cached_property
    def metrics(self) -> MetricsService:
        """What this process counts."""
        self._queue_depth.publish(self._meter)
        self._oldest_message.publish(self._meter)
        return MetricsService(self._meter)

    @cached_property
    def _meter(self) -> "Meter":
        return open_meter(self._environ)

    @cached_property
    def _tracing(self) -> TracingService:
        return TracingService(open_tracer(self._environ))

    @cached_property
    def _queue_depth(self) -> QueueDepthService:
        return QueueDepthService(
            lambda: service_bus_administration(self._environ, **SHORT_TIMEOUTS),
            ALL_QUEUES,
        )

    @cached_property
    def _oldest_message(self) -> OldestMessageService:
        thread = ManagementThread(
            "oldest-message", self._open_without_retries, patience=_PATIENCE_OF_METRICS
        )
        return OldestMessageService(thread, ALL_QUEUES, now=now)

    @cached_property
    def _deletions(self) -> DeletionService:
        return DeletionService(table_client(self._environ).get_table_client(DELETIONS), now=now)

    @cached_property
    def _payloads(self) -> PayloadService:
        return PayloadService(blob_client(self._environ).get_container_client(PAYLOADS))

    def open_service_bus(self) -> ServiceBusService:
        """Return a sender for one run."""
        client = service_bus_client(self._environ)
        return ServiceBusService(client, self._payloads, self.metrics, self._tracing)

    @cached_property
    def queues(self) -> Mapping[str, QueueProperties]:
        """The properties of all queues, from the file that they are made from."""
        path = Path(self._environ.get("SYNC_QUEUES_FILE") or _QUEUES_FILE)
        try:
            queues = read_queues(path.read_bytes())
            return {name: queues[name] for name in ALL_QUEUES}
        except (OSError, ValueError, LookupError) as error:
            msg = (
                f"the file {path.name} with the queues' properties cannot be read: {error!r}; "
                "deploy it beside function_app.py, or correct the app setting SYNC_QUEUES_FILE"
            )
            raise ConfigurationError(msg) from error

    def _open_without_retries(self) -> "ServiceBusClient":
        return service_bus_client(self._environ, retry_total=0)

    @cached_property
    def _initialization(self) -> InitializationService:
        return InitializationService(
            blob_client(self._environ).get_container_client(CONTAINER),
            [self.watermarks, self._payloads, self._deletions],
            now=now,
        )

    def _connect(self, connection: Connection) -> SqlConnector:
        url = self._environ.get(connection.url)
        if not url:
            msg = (
                f"connection {connection.name!r}: the app setting {connection.url} is missing; "
                "set it to the database's URL"
            )
            raise ConfigurationError(msg)
        # A function holds one connection at a time.
        return SqlConnector.from_url(
            connection.name, url, pool_size=settings.threads(self._environ)
        )


def now() -> datetime:
    """Return the time of this machine's clock."""
    return datetime.now(UTC)
