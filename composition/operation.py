"""The services that look after the app."""

from functools import cached_property

from composition.detection import Detection
from composition.shared import SHORT_TIMEOUTS, now
from models import settings
from models.queues import SIDE_QUEUES
from services.azure_access import blob_client, table_client
from services.detection.watermarks import TABLE
from services.operation import health_parts
from services.operation.expiry import ExpiryService
from services.operation.health import HealthService
from services.operation.heartbeat import HeartbeatService
from services.operation.maintenance import MaintenanceService
from services.operation.payload_removal import PayloadRemovalService, longest_life
from services.payloads import PAYLOADS


class Operation(Detection):
    """Behind `GetHealth` and `RunMaintenance`, which look at what detection does."""

    def health(self) -> HealthService:
        """Return the service behind the function `GetHealth`."""
        with self._building:
            return self._health

    def maintenance(self) -> MaintenanceService:
        """Return the service behind the function `RunMaintenance`."""
        with self._building:
            return self._maintenance

    @cached_property
    def _health(self) -> HealthService:
        storage = blob_client(self._environ, **SHORT_TIMEOUTS)
        table = table_client(self._environ, **SHORT_TIMEOUTS).get_table_client(TABLE)
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
            parts["getChanges"] = health_parts.get_changes(heartbeat, schedule, now=now)
        return HealthService(
            parts,
            health_parts.connections(self._initialization, self.connector),
            now=now,
        )

    @cached_property
    def _maintenance(self) -> MaintenanceService:
        payloads = PayloadRemovalService(
            self._payloads, self._open_without_retries, lambda: self.queues, now=now
        )
        return MaintenanceService(
            {
                # First, because a message that is gone refers to no payload.
                "expiry": ExpiryService(self._open_without_retries, SIDE_QUEUES, now=now).execute,
                "removal of payloads": payloads.execute,
                "removal of what durable runs left": self._durable_detection.remove_leftovers,
                "removal of notes of deletions": lambda: self._deletions.forget_old(
                    now() - longest_life(self.queues)
                ),
            }
        )
