"""Processing: applies one queue message to its job's target."""

from collections.abc import Callable
from typing import Protocol, assert_never

from delivery.errors import ConfigurationError, RejectedError
from models.connection import Connection
from models.mapping import Mapping
from models.queue_message import JobActionType, QueueMessage
from services.initialization import InitializationService
from services.payloads import PayloadService


class TargetConnector(Protocol):
    """A system that changes are written to."""

    def upsert(self, message: QueueMessage, mapping: Mapping) -> None:
        """Write the record: insert it, or update it where its key exists."""
        ...

    def delete(self, message: QueueMessage, mapping: Mapping) -> None:
        """Remove the record; one that is gone already is fine."""
        ...


class ProcessQueueMessageService:
    """Reads a message, finds its job and mapping, and calls the target connector."""

    def __init__(
        self,
        initialization: InitializationService,
        *,
        payloads: PayloadService,
        target_of: Callable[[Connection], TargetConnector],
    ) -> None:
        self._initialization = initialization
        self._payloads = payloads
        self._target_of = target_of

    def execute(self, body: bytes) -> None:
        """Apply the change in `body`; returning means that the target has it.

        Raises a DeliveryError, or whatever the connector could not foresee.
        """
        message = QueueMessage.from_body(self._payloads.check_out(body))
        if message.mapping_error is not None:
            raise RejectedError(message.mapping_error)
        configuration = self._initialization.configuration_with_job(message.job_name)
        job = configuration.jobs.get(message.job_name)
        if job is None:
            msg = (
                f"job {message.job_name!r} does not exist in the container 'configuration'; "
                "restore its file, or take its messages out of the queue"
            )
            raise ConfigurationError(msg)
        target = self._target_of(configuration.connections[job.target])
        mapping = configuration.mapping_of(job)
        match message.action:
            case JobActionType.NEW_UPDATE:
                target.upsert(message, mapping)
            case JobActionType.DELETE:
                target.delete(message, mapping)
            case JobActionType.TIME_STAMP:
                return  # it says how far a source was read, and asks the target for nothing
            case _ as never:
                assert_never(never)
