"""What `GetHealth` looks at. A check returns a finding, or raises where its part is not there."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Protocol

from models.connection import Connection
from models.queues import IGNORED_QUEUE
from models.schedule import Schedule
from services.initialization import InitializationService
from services.operation.health import Finding, Part, State
from services.operation.heartbeat import HeartbeatService
from services.operation.queue_depth import QueueDepthService

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusClient
    from azure.storage.blob import ContainerClient

#: `GetChanges` counts as late after three of its intervals, but never sooner than this.
_LATE_AFTER = timedelta(minutes=15)
_INTERVALS = 3

_PEEK_TIMEOUT = timedelta(seconds=5)


class Checked(Protocol):
    """A remote system that can say whether it is there."""

    def check(self) -> None:
        """Return where the system answers, within a few seconds; raise a DeliveryError if not."""
        ...


def tables(heartbeat: HeartbeatService) -> Part:
    """Read one row."""

    def check() -> Finding:
        heartbeat.last()
        return Finding()

    return Part(
        check, "check SYNC_STORAGE, the firewall and the role Storage Table Data Contributor"
    )


def blobs(container: "ContainerClient") -> Part:
    """Ask for a container; that there is none yet is an answer too."""

    def check() -> Finding:
        container.exists()
        return Finding()

    return Part(
        check, "check SYNC_STORAGE, the firewall and the role Storage Blob Data Contributor"
    )


def service_bus(open_client: "Callable[[], ServiceBusClient]") -> Part:
    """Peek into the queue that nobody reads."""

    def check() -> Finding:
        with (
            open_client() as client,
            client.get_queue_receiver(IGNORED_QUEUE) as receiver,
        ):
            receiver.peek_messages(1, timeout=_PEEK_TIMEOUT.total_seconds())
        return Finding()

    return Part(
        check,
        f"check SYNC_SERVICE_BUS, that the queue {IGNORED_QUEUE} exists, and the roles Azure "
        "Service Bus Data Receiver and Data Sender",
    )


def queue_depth(depths: QueueDepthService) -> Part:
    """Show the depths; where the right to read them is missing, the app works all the same."""

    def check() -> Finding:
        answer = depths.read()
        figures = {"queues": {queue: depth.by_kind() for queue, depth in answer.known.items()}}
        if not answer.trouble:
            return Finding(figures=figures)
        return Finding(State.DEGRADED, f"unknown: {answer.trouble}", figures)

    return Part(check, "check that the namespace's HTTPS endpoint is reached")


def configuration(initialization: InitializationService) -> Part:
    """Look for newer files; refused ones degrade, since the last good ones stay in force."""

    def check() -> Finding:
        summary = initialization.refresh().summary()
        if not initialization.refusal:
            return Finding(figures={"summary": summary})
        detail = (
            "the newest files are refused, the last good ones stay in force: "
            f"{initialization.refusal}"
        )
        return Finding(State.DEGRADED, detail, {"summary": summary})

    return Part(check, "check that the container 'configuration' can be read")


def connections(
    initialization: InitializationService, connector_of: Callable[[Connection], Checked]
) -> Callable[[], Mapping[str, Part]]:
    """Return what lists the remote systems of the configuration that is in force."""

    def parts() -> Mapping[str, Part]:
        found = initialization.ensure_initialized().connections
        return {
            f"connection {name}": _connection(connection, connector_of)
            for name, connection in sorted(found.items())
        }

    return parts


def _connection(connection: Connection, connector_of: Callable[[Connection], Checked]) -> Part:
    def check() -> Finding:
        connector_of(connection).check()
        return Finding()

    return Part(check, f"check the app setting {connection.url} and the way to the system")


def get_changes(
    heartbeat: HeartbeatService, schedule: str | None, *, now: Callable[[], datetime]
) -> Part:
    """Judge when `GetChanges` ended last; `schedule` is its app setting."""

    def check() -> Finding:
        last = heartbeat.last()
        if last is None:
            return Finding(
                State.DEGRADED,
                "GetChanges has never run to its end; wait for its schedule, and if nothing "
                "happens, look at the function's log and at SYNC_GET_CHANGES_SCHEDULE",
            )
        figures = {"lastEnded": last.isoformat()}
        if now() <= _late_from(last, schedule):
            return Finding(figures=figures)
        minutes = (now() - last) // timedelta(minutes=1)
        return Finding(
            State.DEGRADED,
            f"GetChanges ended {minutes} minutes ago for the last time; look at its log, and "
            "restart the app where the timer stands still",
            figures,
        )

    return Part(check, "see the part tables")


def _late_from(last: datetime, schedule: str | None) -> datetime:
    earliest = last + _LATE_AFTER
    try:
        timer = Schedule.parse(schedule or "", "UTC")
        due = last
        for _ in range(_INTERVALS):
            due = timer.next_after(due)
    except ValueError:
        return earliest
    return max(earliest, due)
