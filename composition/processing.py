"""The services that apply messages to targets."""

from collections.abc import Callable, Mapping
from functools import cached_property

from composition.shared import Shared, now
from delivery.errors import ConfigurationError
from delivery.retry import Squared
from models import settings
from models.queues import ALL_QUEUES, PROCESSING_QUEUES, QueueProperties
from services.processing.execution import ProcessQueueMessageService
from services.processing.lock_renewal import LockRenewalService
from services.processing.management_thread import ManagementThread
from services.processing.original_properties import OriginalPropertiesService
from services.processing.posting import PostingService
from services.processing.queue_items import QueueItemService
from services.processing.reports import DeliveryReports
from services.processing.settlement import SettlementService
from services.processing.turns import Turns


class Processing(Shared):
    """Behind the three functions `Process…QueueItems`."""

    def process_queue_items(self) -> QueueItemService:
        """Return the service behind the three functions `Process…QueueItems`."""
        with self._building:
            return self._queue_items

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
            now=now,
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
            now=now,
        )

    @cached_property
    def _processing_queues(self) -> Mapping[str, QueueProperties]:
        usual: Mapping[str, QueueProperties] = dict.fromkeys(ALL_QUEUES, QueueProperties())
        queues = _or(usual, lambda: self.queues)
        return {name: queues[name] for name in PROCESSING_QUEUES.values()}


def _or[T](usual: T, read: Callable[[], T]) -> T:
    """Return a setting, or what is usual where it is wrong."""
    try:
        return read()
    except ConfigurationError:
        return usual
