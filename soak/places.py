"""Where changes are found: a look at source, queues, target and storage, in an order that counts.

A change leaves its processing queue only once it is somewhere else, and what is somewhere else
stays there. So a look that begins with the watermark, goes on with the processing queues and ends
with all other places must find every change that the watermark had passed, at whatever moment.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus import ServiceBusClient, ServiceBusReceivedMessage, ServiceBusSubQueue

from devstack.disasters import wait_for
from models.message_properties import ERROR_TYPE
from models.queue_message import QueueMessage
from models.queues import IGNORED_QUEUE, PROCESSING_QUEUES, TRANSITIVE_QUEUES
from services.azure_access import blob_client, service_bus_client, table_client
from services.detection.watermarks import BOUNDARIES, TABLE, WatermarkService
from services.payloads import PAYLOADS, PayloadService, reference_in
from services.peeking import peek_all
from services.processing.deletions import DELETIONS, place_of
from soak.scene import JOBS, Change, Scene

if TYPE_CHECKING:
    from azure.servicebus import ServiceBusReceiver

_PAGE = 250
_TIMEOUT_SECONDS = 8.0

#: Who looks again soon need not wait for long.
_HTTP: dict[str, Any] = {"connection_timeout": 3, "read_timeout": 5, "retry_total": 0}

#: What the source held at this very moment, and what it noted as deleted, up to the watermark.
_PASSED = """
SELECT key, change FROM changed
WHERE job = %s AND change <= %s AND (until IS NULL OR until > %s)
"""
_DELETIONS = "SELECT job, key, change FROM changed WHERE is_deletion"

#: How a dead letter tells its reason where the app has not: by the broker's own.
BROKER = "broker: "


@dataclass
class Look:
    """What was found, by change; the counters count messages."""

    at: datetime
    watermarks: dict[str, str | None] = field(default_factory=dict)
    #: What the watermark had passed while the source held it: detected for certain.
    passed: set[Change] = field(default_factory=set)
    queued: Counter[Change] = field(default_factory=Counter)
    transitive: Counter[Change] = field(default_factory=Counter)
    ignored: Counter[Change] = field(default_factory=Counter)
    dead: Counter[Change] = field(default_factory=Counter)
    #: Why each of the dead letters is one: the class of the error, or what the broker says.
    reasons: list[tuple[Change, str]] = field(default_factory=list)
    #: What the target wrote, how often; deletions that were noted, once.
    succeeded: Counter[Change] = field(default_factory=Counter)
    #: All that the source noted, sent or not. No record is deleted twice.
    deletions: set[Change] = field(default_factory=set)
    #: Writes of something older over something newer.
    backwards: int = 0
    #: Changes of messages whose payload is gone.
    without_payload: list[Change] = field(default_factory=list)

    def places_of(self, change: Change) -> list[str]:
        """Return where the change is, the place that decides first."""
        return [name for name in PLACES if change in getattr(self, name)]

    def found(self) -> set[Change]:
        """Return all changes that are somewhere."""
        return set().union(*(getattr(self, name) for name in PLACES))


#: A change counts for the first of these in which it is.
PLACES = ("succeeded", "ignored", "transitive", "dead", "queued")


class Observer:
    """Looks, and keeps its connections for the next look; `close` after an error."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._settings = scene.stack.app_settings()
        self._client: ServiceBusClient | None = None
        self._receivers: dict[tuple[str, bool], ServiceBusReceiver] = {}
        #: By the name of its payload: a change that was too large for the bus.
        self._large: dict[str, Change] = {}
        storage = blob_client(self._settings, **_HTTP)
        tables = table_client(self._settings, **_HTTP)
        self._blobs = storage.get_container_client(PAYLOADS)
        self._notes = tables.get_table_client(DELETIONS)
        self._watermarks = WatermarkService(
            tables.get_table_client(TABLE), storage.get_container_client(BOUNDARIES)
        )
        self._closing = (storage, tables)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        for client in self._closing:
            client.close()

    def look(self) -> Look:
        """Look everywhere; raises whatever comes of servers that are not there."""
        look = self._source(self._read_watermarks())
        referring: list[tuple[str, Change]] = []
        processing = PROCESSING_QUEUES.values()
        for queues, dead, counter in (
            (processing, False, look.queued),
            (TRANSITIVE_QUEUES.values(), False, look.transitive),
            ([IGNORED_QUEUE], False, look.ignored),
            (processing, True, look.dead),
        ):
            for message, change in self._messages(queues, referring, dead=dead):
                counter[change] += 1
                if dead:
                    look.reasons.append((change, _reason(message)))
        self._target(look)
        self._deletions(look)
        there = {blob.name for blob in self._blobs.list_blobs()} if referring else set()
        look.without_payload = [change for name, change in referring if name not in there]
        return look

    def is_quiet(self) -> bool:
        """Tell whether the watermarks have passed all that the source holds, and nothing is queued.

        A run that is going on cannot send anything then that was not sent before.
        """
        with self._scene.database("crm") as crm:
            query = "SELECT job, max(change) FROM changed GROUP BY job"
            ends = {job: change.isoformat() for job, change in crm.execute(query)}
        watermarks = self._read_watermarks()
        if any(watermarks[job] != end for job, end in ends.items()):
            return False
        return not any(self._messages(PROCESSING_QUEUES.values(), [], dead=False))

    def close(self) -> None:
        """Close what is connected to the broker."""
        for receiver in self._receivers.values():
            receiver.close()
        self._receivers = {}
        if self._client is not None:
            self._client.close()
        self._client = None

    def _read_watermarks(self) -> dict[str, str | None]:
        return {job: self._watermarks.get_watermark_by_job_name(job).watermark for job in JOBS}

    def _source(self, watermarks: dict[str, str | None]) -> Look:
        with self._scene.database("crm") as crm:
            # After the watermarks were read: what the source still holds now, it held before.
            [(now,)] = crm.execute("SELECT clock_timestamp()").fetchall()
            look = Look(now, watermarks)
            for job, watermark in watermarks.items():
                if watermark is None:
                    continue
                for key, change in crm.execute(_PASSED, [job, watermark, now]):
                    look.passed.add((job, key, change.isoformat()))
            for job, key, change in crm.execute(_DELETIONS):
                look.deletions.add((job, key, change.isoformat()))
        return look

    def _target(self, look: Look) -> None:
        with self._scene.database("erp") as erp:
            query = "SELECT job, key, change, count(*) FROM written GROUP BY job, key, change"
            for job, key, change, count in erp.execute(query):
                look.succeeded[job, key, change.isoformat()] = count
            backwards = "SELECT count(*) FROM written WHERE change < before"
            [(look.backwards,)] = erp.execute(backwards).fetchall()

    def _deletions(self, look: Look) -> None:
        """Count a deletion as done where it, or a later one, is noted and no message of it left."""
        noted = self._noted() if look.deletions else {}
        for change in look.deletions:
            job, key, moment = change
            found = noted.get(place_of(job, key)[1])
            is_noted = found is not None and _time(found) >= _time(moment)
            if is_noted and not look.places_of(change):
                look.succeeded[change] += 1

    def _noted(self) -> dict[str, str]:
        try:
            rows = list(self._notes.list_entities())
        except ResourceNotFoundError:  # nothing was prepared yet
            return {}
        return {row["RowKey"]: row["ChangeTracker"] for row in rows if "ChangeTracker" in row}

    def _messages(
        self, queues: Iterable[str], referring: list[tuple[str, Change]], *, dead: bool
    ) -> Iterator[tuple[ServiceBusReceivedMessage, Change]]:
        for queue in queues:
            receiver = self._receiver(queue, dead=dead)
            for message in peek_all(receiver, page_size=_PAGE, timeout_seconds=_TIMEOUT_SECONDS):
                body = b"".join(message.body)
                name = reference_in(body)
                change = _change(body) if name is None else self._large_change(name, body)
                if name is not None:
                    referring.append((name, change))
                yield message, change

    def _large_change(self, name: str, body: bytes) -> Change:
        if name not in self._large:
            self._large[name] = _change(PayloadService(self._blobs).check_out(body))
        return self._large[name]

    def _receiver(self, queue: str, *, dead: bool) -> "ServiceBusReceiver":
        if self._client is None:
            self._client = service_bus_client(self._settings, retry_total=0)
        if (queue, dead) not in self._receivers:
            sub_queue = ServiceBusSubQueue.DEAD_LETTER if dead else None
            # Without the thread that keeps a link alive: it delays each close by a second.
            receiver = self._client.get_queue_receiver(queue, sub_queue=sub_queue, keep_alive=0)
            self._receivers[queue, dead] = receiver
        return self._receivers[queue, dead]


def wait_until_quiet(scene: Scene, seconds: float) -> None:
    """Wait until there is nothing left to do for the app; raise StackError after that."""
    with Observer(scene) as observer:
        wait_for(observer.is_quiet, seconds)


def change_in(body: bytes, scene: Scene) -> Change:
    """Return the change that a message is about, wherever its content lies."""
    with blob_client(scene.stack.app_settings(), **_HTTP) as blobs:
        payloads = PayloadService(blobs.get_container_client(PAYLOADS))
        return _change(payloads.check_out(body))


def _change(body: bytes) -> Change:
    message = QueueMessage.from_body(body)
    return message.job_name, message.source_key, message.change_tracker


def _reason(message: ServiceBusReceivedMessage) -> str:
    properties = message.application_properties or {}
    error = properties.get(ERROR_TYPE) or properties.get(ERROR_TYPE.encode())
    if error is None:
        return f"{BROKER}{message.dead_letter_reason}"
    return error.decode() if isinstance(error, bytes) else str(error)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)
