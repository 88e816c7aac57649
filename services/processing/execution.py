"""Executes one queue message: finds its job, and calls the target connector."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, assert_never

from delivery.errors import ConfigurationError, MappingError, OutdatedError
from models.configuration import Configuration, Response
from models.connection import Connection
from models.job import Job
from models.mapping import Mapping
from models.queue_message import JobActionType, QueueMessage
from models.queues import PROCESSING_QUEUES
from services.initialization import InitializationService
from services.outgoing import OutgoingMessage, to_service_bus
from services.payloads import PayloadService
from services.processing.deletions import DeletionService
from services.processing.turns import Postponed

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusMessage


class TargetConnector(Protocol):
    """A system that changes are written to."""

    def upsert(
        self, message: QueueMessage, mapping: Mapping, job: Job, response: Response | None
    ) -> QueueMessage | None:
        """Write the record; return the response's message where `response` is given."""
        ...

    def delete(self, message: QueueMessage, mapping: Mapping, job: Job) -> None:
        """Remove the record; one that is gone already is fine."""
        ...

    def invoke_action(self, message: QueueMessage, job: Job) -> None:
        """Call the job's action."""
        ...


class Post(Protocol):
    """Sends single messages."""

    def post(self, queue_name: str, message: "ServiceBusMessage") -> None:
        """Return when the broker has accepted `message`; raise a DeliveryError otherwise."""
        ...


@dataclass(frozen=True, slots=True)
class Work:
    """A message and what the configuration says about it."""

    message: QueueMessage
    job: Job
    configuration: Configuration

    @property
    def response(self) -> Response | None:
        """What takes the target's answer back, where one is wanted."""
        response = self.configuration.response_of(self.job)
        return response if response and response.is_needed(self.message) else None


class ProcessQueueMessageService:
    """Reads messages and applies them; every method raises a DeliveryError where it can tell why.

    What a connector could not foresee is raised as it is.
    """

    def __init__(
        self,
        initialization: InitializationService,
        *,
        payloads: PayloadService,
        deletions: DeletionService,
        post: Post,
        target_of: Callable[[Connection], TargetConnector],
    ) -> None:
        self._initialization = initialization
        self._payloads = payloads
        self._deletions = deletions
        self._post = post
        self._target_of = target_of

    def read(self, body: bytes) -> Work:
        """Parse a body, or the blob that it refers to, and find its job."""
        message = QueueMessage.from_body(self._payloads.check_out(body))
        if message.mapping_error is not None:
            raise MappingError(message.mapping_error)
        configuration = self._initialization.configuration_with_job(message.job_name)
        job = configuration.jobs.get(message.job_name)
        if job is None:
            msg = (
                f"job {message.job_name!r} does not exist in the container 'configuration'; "
                "restore its file, or take its messages out of the queue"
            )
            raise ConfigurationError(msg)
        return Work(message, job, configuration)

    def apply(self, work: Work, turn: AbstractContextManager[None]) -> None:
        """Let the target do it, within `turn`; returning means that it has.

        Raise Postponed where it is too early for that.

        A response goes out whenever the message lacks what the response job would write back.
        """
        self._note_deletion(work)
        response = work.response
        with turn:
            answer = self._call_target(work, response)
        if response is not None and answer is not None:
            message = OutgoingMessage.of(answer, response.job.priority)
            queue = PROCESSING_QUEUES[message.priority]
            self._post.post(queue, to_service_bus(message, self._payloads))

    def _call_target(self, work: Work, response: Response | None) -> QueueMessage | None:
        message, job = work.message, work.job
        target = self._target_of(work.configuration.connections[job.target])
        mapping = work.configuration.mapping_of(job)
        match message.action:
            case JobActionType.NEW_UPDATE:
                answer = target.upsert(message, mapping, job, response)
                if mapping.deletions and job.skip_outdated:
                    self._delete_again(message, mapping, job, target)
                return answer
            case JobActionType.DELETE:
                target.delete(message, mapping, job)
            case JobActionType.INVOKE_ACTION:
                target.invoke_action(message, job)
            case JobActionType.TIME_STAMP:
                pass  # it says how far a source was read, and asks the target for nothing
            case _ as never:
                assert_never(never)
        return None

    def _note_deletion(self, work: Work) -> None:
        """Note a deletion, for those who come late; raise Postponed until all can know of it."""
        if work.message.action is JobActionType.DELETE and work.job.skip_outdated:
            wait = self._deletions.note(work.job, work.message)
            if wait:
                raise Postponed(wait)

    def _delete_again(
        self, message: QueueMessage, mapping: Mapping, job: Job, target: TargetConnector
    ) -> None:
        """Undo an upsert that came after a later deletion; raise OutdatedError then."""
        deleted = self._deletions.later_than(job, message)
        if deleted is None:
            return
        deletion = QueueMessage(
            job.name, JobActionType.DELETE, message.source_key, deleted, message.keys
        )
        target.delete(deletion, mapping, job)
        msg = f"job {job.name!r}: the record was deleted after this change"
        raise OutdatedError(msg)
