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
from services.initialization import InitializationService
from services.metrics import Entry, MetricsService
from services.outgoing import OutgoingMessage, to_service_bus
from services.payloads import PayloadService
from services.processing.deletions import DeletionService
from services.processing.turns import Postponed
from services.tracing import TracingService

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
    def mapping(self) -> Mapping:
        """The mapping that the job runs."""
        return self.configuration.mapping_of(self.job)

    @property
    def place(self) -> str:
        """The part of the target that is written to: others may be well when it is not."""
        part = self.job.action.name if self.job.action else self.mapping.target_entity
        return f"{self.job.target}/{part}"


class ProcessQueueMessageService:
    """Reads messages and applies them; every method raises a DeliveryError where it can tell why.

    What a connector could not foresee is raised as it is.
    """

    def __init__(  # noqa: PLR0913 - one parameter a participant of the specification's diagram
        self,
        initialization: InitializationService,
        *,
        payloads: PayloadService,
        deletions: DeletionService,
        post: Post,
        metrics: MetricsService,
        tracing: TracingService,
        target_of: Callable[[Connection], TargetConnector],
    ) -> None:
        self._initialization = initialization
        self._payloads = payloads
        self._deletions = deletions
        self._post = post
        self._metrics = metrics
        self._tracing = tracing
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
        work = Work(message, job, configuration)
        if message.action is not JobActionType.TIME_STAMP:  # which is about no record
            _check_keys(work)
        return work

    def apply(self, work: Work, turn: Callable[[], AbstractContextManager[None]]) -> None:
        """Let the target do it, each of its calls within a `turn`; returning means that it has.

        Raise Postponed where it is too early for that.
        """
        target = self._target_of(work.configuration.connections[work.job.target])
        match work.message.action:
            case JobActionType.NEW_UPDATE:
                self._upsert(work, target, turn)
            case JobActionType.DELETE:
                self._note_deletion(work)
                with turn():
                    target.delete(work.message, work.mapping, work.job)
            case JobActionType.INVOKE_ACTION:
                with turn():
                    target.invoke_action(work.message, work.job)
            case JobActionType.TIME_STAMP:
                pass  # it says how far a source was read, and asks the target for nothing
            case _ as never:
                assert_never(never)

    def _upsert(
        self, work: Work, target: TargetConnector, turn: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Upsert, and send the response, which goes out where the message lacks what it brings."""
        response = work.configuration.response_of(work.job)
        lacking = response.lacking(work.message) if response else ()
        wanted = response if lacking else None
        # Null would overwrite what the target has made up and the source does not know yet.
        message = work.message.without(lacking)
        with turn():
            answer = target.upsert(message, work.mapping, work.job, wanted)
        if work.mapping.deletions and work.job.skip_outdated:
            self._delete_again(work, target, turn)
        if wanted and answer:
            self._send(OutgoingMessage.of(answer, wanted.job.priority))

    def _send(self, response: OutgoingMessage) -> None:
        queue, job_name = response.queue, response.job_name
        trace_parent = self._tracing.answered(queue, job_name, response.source_key)
        self._post.post(queue, to_service_bus(response, self._payloads, trace_parent))
        self._metrics.enter(Entry.SENT, queue, job_name)

    def _note_deletion(self, work: Work) -> None:
        """Note a deletion, for those who come late; raise Postponed until all can know of it."""
        if work.job.skip_outdated and (wait := self._deletions.note(work.job, work.message)):
            raise Postponed(wait)

    def _delete_again(
        self, work: Work, target: TargetConnector, turn: Callable[[], AbstractContextManager[None]]
    ) -> None:
        """Undo an upsert that came after a later deletion; raise OutdatedError then."""
        deleted = self._deletions.later_than(work.job, work.message)
        if deleted is None:
            return
        name, key, keys = work.job.name, work.message.source_key, work.message.keys
        deletion = QueueMessage(name, JobActionType.DELETE, key, deleted, keys)
        with turn():
            target.delete(deletion, work.mapping, work.job)
        msg = f"job {name!r}: the record was deleted after this change"
        raise OutdatedError(msg)


def _check_keys(work: Work) -> None:
    """Refuse a message from before its mapping's keys were changed: it would hit other records."""
    expected = {pair.target for pair in work.mapping.keys}
    if work.message.keys.keys() != expected or None in work.message.keys.values():
        msg = (
            f"job {work.job.name!r}: the message has other keys than the mapping "
            f"{work.mapping.name!r} has now, which are {', '.join(sorted(expected))}, or null in "
            "one; send the record again, or remove the message"
        )
        raise ConfigurationError(msg)
