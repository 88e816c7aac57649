"""Builds the services of the function app, lazily and once.

The only place that reads the environment for the app, and the only one that knows which connector
serves which system.
"""

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from connectors.sql import SqlConnector
from delivery.errors import ConfigurationError
from delivery.retry import Squared
from models import settings
from models.configuration import Configuration
from models.connection import Connection
from models.queues import ALL_QUEUES, PROCESSING_QUEUES, SIDE_QUEUES, QueueProperties, read_queues
from services.azure_access import (
    blob_client,
    service_bus_administration,
    service_bus_client,
    table_client,
)
from services.configuration_container import CONTAINER
from services.detection.activity import DurableDetectionService
from services.detection.execute_job import ExecuteJobService
from services.detection.job_run import JobRunner
from services.detection.jobs import JobService
from services.detection.reports import RunReports
from services.detection.retrieval import ProcessJobsForRetrievalInOrderService
from services.detection.service_bus import ServiceBusService
from services.detection.watermarks import BOUNDARIES, TABLE, WatermarkService
from services.initialization import InitializationService
from services.metrics import MetricsService
from services.operation import health_parts
from services.operation.expiry import ExpiryService
from services.operation.health import HealthService
from services.operation.heartbeat import HeartbeatService
from services.operation.maintenance import MaintenanceService
from services.operation.oldest_message import OldestMessageService
from services.operation.payload_removal import PayloadRemovalService, longest_life
from services.operation.queue_depth import QueueDepthService
from services.operation.telemetry_export import open_meter, open_tracer
from services.payloads import PAYLOADS, PayloadService
from services.processing.deletions import DELETIONS, DeletionService
from services.processing.execution import ProcessQueueMessageService
from services.processing.lock_renewal import LockRenewalService
from services.processing.management_thread import ManagementThread
from services.processing.original_properties import OriginalPropertiesService
from services.processing.posting import PostingService
from services.processing.queue_items import QueueItemService
from services.processing.reports import DeliveryReports
from services.processing.settlement import SettlementService
from services.processing.turns import Turns
from services.tracing import TracingService

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient
    from opentelemetry.metrics import Meter

#: Who looks whether something is there does not wait for long, and looks again soon.
_SHORT_TIMEOUTS: Mapping[str, Any] = {"connection_timeout": 3, "read_timeout": 4, "retry_total": 0}

#: Metrics are exported once a minute, and none of them may hold up the others for long.
_PATIENCE_OF_METRICS = timedelta(seconds=5)

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

    def durable_detection(self) -> DurableDetectionService:
        """Return the service behind the activities of durable detection."""
        with self._building:
            return self._durable_detection

    def execute_job(self) -> ExecuteJobService:
        """Return the service behind the function `ExecuteJob`."""
        with self._building:
            return self._execute_job

    def process_queue_items(self) -> QueueItemService:
        """Return the service behind the three functions `Process…QueueItems`."""
        with self._building:
            return self._queue_items

    def health(self) -> HealthService:
        """Return the service behind the function `GetHealth`."""
        with self._building:
            return self._health

    def maintenance(self) -> MaintenanceService:
        """Return the service behind the function `RunMaintenance`."""
        with self._building:
            return self._maintenance

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
            self._jobs,
            self._job_runner,
            open_service_bus=self.open_service_bus,
            reports=self._run_reports,
            heartbeat=self._heartbeat,
            budget=TICK_BUDGET,
            now=_now,
        )

    @cached_property
    def _durable_detection(self) -> DurableDetectionService:
        return DurableDetectionService(
            self._initialization,
            self._jobs,
            self.watermarks,
            blob_client(self._environ).get_container_client(BOUNDARIES),
            source_of=self.connector,
            open_service_bus=self.open_service_bus,
            reports=self._run_reports,
            now=_now,
        )

    @cached_property
    def _execute_job(self) -> ExecuteJobService:
        return ExecuteJobService(
            self._initialization,
            self._job_runner,
            open_service_bus=self.open_service_bus,
            reports=self._run_reports,
            now=_now,
        )

    @cached_property
    def _jobs(self) -> JobService:
        return JobService(self.watermarks, self.metrics)

    @cached_property
    def _run_reports(self) -> RunReports:
        return RunReports(self.metrics, self._tracing, now=_now)

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
    def _heartbeat(self) -> HeartbeatService:
        return HeartbeatService(table_client(self._environ).get_table_client(TABLE))

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
            lambda: service_bus_administration(self._environ, **_SHORT_TIMEOUTS),
            ALL_QUEUES,
        )

    @cached_property
    def _oldest_message(self) -> OldestMessageService:
        thread = ManagementThread(
            "oldest-message", self._open_without_retries, patience=_PATIENCE_OF_METRICS
        )
        return OldestMessageService(thread, ALL_QUEUES, now=_now)

    @cached_property
    def _health(self) -> HealthService:
        storage = blob_client(self._environ, **_SHORT_TIMEOUTS)
        table = table_client(self._environ, **_SHORT_TIMEOUTS).get_table_client(TABLE)
        heartbeat = HeartbeatService(table)
        parts = {
            "tables": health_parts.tables(heartbeat),
            "blobs": health_parts.blobs(storage.get_container_client(PAYLOADS)),
            "serviceBus": health_parts.service_bus(self._open_without_retries),
            "queueDepth": health_parts.queue_depth(self._queue_depth),
            "configuration": health_parts.configuration(self._initialization),
        }
        if not settings.detects_durably(self._environ):
            schedule = self._environ.get("SYNC_GET_CHANGES_SCHEDULE")
            parts["getChanges"] = health_parts.get_changes(heartbeat, schedule, now=_now)
        return HealthService(
            parts,
            health_parts.connections(self._initialization, self.connector),
            now=_now,
        )

    @cached_property
    def _maintenance(self) -> MaintenanceService:
        payloads = PayloadRemovalService(
            self._payloads, self._open_without_retries, lambda: self.queues, now=_now
        )
        return MaintenanceService(
            {
                # First, because a message that is gone refers to no payload.
                "expiry": ExpiryService(self._open_without_retries, SIDE_QUEUES, now=_now).execute,
                "removal of payloads": payloads.execute,
                "removal of what durable runs left": self._durable_detection.remove_leftovers,
                "removal of notes of deletions": lambda: self._deletions.forget_old(
                    _now() - longest_life(self.queues)
                ),
            }
        )

    @cached_property
    def _deletions(self) -> DeletionService:
        return DeletionService(table_client(self._environ).get_table_client(DELETIONS), now=_now)

    @cached_property
    def _payloads(self) -> PayloadService:
        return PayloadService(blob_client(self._environ).get_container_client(PAYLOADS))

    def open_service_bus(self) -> ServiceBusService:
        """Return a sender for one run."""
        client = service_bus_client(self._environ)
        return ServiceBusService(client, self._payloads, self.metrics, self._tracing)

    @cached_property
    def _queue_items(self) -> QueueItemService:
        """Build what decides about messages, whatever the settings: they must not be the ones lost.

        A setting that is wrong shows in `_execution`, on the message.
        """
        settling = ManagementThread("settlement", self._open_without_retries)
        unit = _or(settings.DEFAULT_BACKOFF_UNIT, lambda: settings.backoff_unit(self._environ))
        threads = _or(settings.DEFAULT_THREADS, lambda: settings.threads(self._environ))
        policies = {
            name: Squared(unit, queue.max_delivery_count)
            for name, queue in self._processing_queues.items()
        }
        return QueueItemService(
            self._execution,
            locks=self._locks,
            turns=Turns(policies, threads=threads),
            post=self._post,
            originals=OriginalPropertiesService(settling),
            settlement=SettlementService(settling),
            policies=policies,
            reports=DeliveryReports(self.metrics, self._tracing),
            now=_now,
        )

    def _execution(self) -> ProcessQueueMessageService:
        """Return what executes messages; raise ConfigurationError where a setting is wrong."""
        with self._building:
            return self._executing

    @cached_property
    def _executing(self) -> ProcessQueueMessageService:
        settings.backoff_unit(self._environ)
        settings.threads(self._environ)
        _ = self.queues
        return ProcessQueueMessageService(
            self._initialization,
            payloads=self._payloads,
            deletions=self._deletions,
            post=self._post,
            metrics=self.metrics,
            tracing=self._tracing,
            target_of=self.connector,
        )

    @cached_property
    def _post(self) -> PostingService:
        return PostingService(self._open_without_retries)

    @cached_property
    def _locks(self) -> LockRenewalService:
        thread = ManagementThread("lock-renewal", self._open_without_retries)
        return LockRenewalService(
            lambda queue, token: thread.run(queue, lambda node: node.renew(token)),
            {name: queue.lock_duration for name, queue in self._processing_queues.items()},
            metrics=self.metrics,
            now=_now,
        )

    @cached_property
    def _processing_queues(self) -> Mapping[str, QueueProperties]:
        usual: Mapping[str, QueueProperties] = dict.fromkeys(ALL_QUEUES, QueueProperties())
        queues = _or(usual, lambda: self.queues)
        return {name: queues[name] for name in PROCESSING_QUEUES.values()}

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
        # A function holds one connection at a time.
        return SqlConnector.from_url(
            connection.name, url, pool_size=settings.threads(self._environ)
        )


_QUEUES_FILE = Path(__file__).with_name("servicebus.json")


def _or[T](usual: T, read: Callable[[], T]) -> T:
    """Return a setting, or what is usual where it is wrong."""
    try:
        return read()
    except ConfigurationError:
        return usual


def _now() -> datetime:
    return datetime.now(UTC)


#: The composition of this process, for the environment that it runs in.
APP = Composition(os.environ)
