import logging

import pytest

from delivery.errors import RejectedError
from models.configuration import Configuration
from models.job import Priority
from models.queue_message import QueueMessage
from services.jobs import JobService
from services.retrieval import ProcessJobsForRetrievalInOrderService
from services.service_bus import ServiceBusService
from services.watermarks import StoredWatermark, WatermarkService
from tests.builders import a_configuration, a_job, a_message
from tests.fakes import (
    NOW,
    FixedInitialization,
    ListSource,
    MemoryServiceBus,
    MemoryTable,
)


def messages(count: int, **changes: object) -> list[QueueMessage]:
    return [
        a_message(
            source_key=f"D{number}",
            change_tracker=f"2026-11-30T10:00:00.{number:06}+00:00",
            **changes,
        )
        for number in range(count)
    ]


class Detection:
    """The retrieval service over fakes, with a source a connection."""

    def __init__(self, configuration: Configuration, sources: dict[str, ListSource]) -> None:
        self.table = MemoryTable()
        self.watermarks = WatermarkService(self.table)  # type: ignore[arg-type] # the fake's few methods
        self.bus = MemoryServiceBus()
        self._service = ProcessJobsForRetrievalInOrderService(
            FixedInitialization(configuration),  # type: ignore[arg-type] # as above
            JobService(),
            self.watermarks,
            source_of=lambda connection: sources[connection.name],
            open_service_bus=lambda: ServiceBusService(self.bus),  # type: ignore[arg-type] # as above
            now=lambda: NOW,
        )

    def run(self) -> None:
        self._service.execute()


def test_changes_go_out_in_batches_of_200_and_then_the_watermark_is_written() -> None:
    detection = Detection(a_configuration(), {"crm": ListSource(messages(401))})
    detection.run()
    assert [len(batch) for batch in detection.bus.sent["sbqnormal"]] == [200, 200, 1]
    stored = detection.watermarks.get_watermark_by_job_name("customers-to-erp")
    assert stored == StoredWatermark("2026-11-30T10:00:00.000400+00:00", NOW)


def test_the_next_run_reads_from_the_stored_watermark() -> None:
    source = ListSource(messages(3))
    detection = Detection(a_configuration(), {"crm": source})
    detection.run()
    detection.run()
    assert [watermark.text for watermark in source.watermarks] == [
        "0001-01-01T00:00:00Z",
        "2026-11-30T10:00:00.000002+00:00",
    ]


def test_a_failing_job_keeps_its_watermark_and_does_not_stop_the_next(
    caplog: pytest.LogCaptureFixture,
) -> None:
    broken = ListSource(messages(3, job_name="first"), RejectedError("column 'x' is gone"))
    configuration = a_configuration(
        a_job(name="first", order=1, source="crm"), a_job(name="second", order=2, source="erp")
    )
    detection = Detection(configuration, {"crm": broken, "erp": ListSource(messages(2))})
    with caplog.at_level(logging.ERROR):
        detection.run()
    assert detection.watermarks.get_watermark_by_job_name("first") == StoredWatermark()
    assert detection.watermarks.get_watermark_by_job_name("second").last_cron_run == NOW
    assert [len(batch) for batch in detection.bus.sent["sbqnormal"]] == [2]
    assert "job first failed" in caplog.text
    assert "column 'x' is gone" in caplog.text


def test_a_broker_that_refuses_leaves_the_watermark_alone() -> None:
    detection = Detection(a_configuration(), {"crm": ListSource(messages(3))})
    detection.bus.failing = True
    detection.run()
    assert detection.watermarks.get_all_watermarks() == {}


def test_the_links_are_closed_after_a_run() -> None:
    detection = Detection(a_configuration(), {"crm": ListSource([])})
    detection.run()
    assert detection.bus.closed


@pytest.mark.parametrize(
    ("priority", "queue"),
    [(Priority.HIGH, "sbqhigh"), (Priority.NORMAL, "sbqnormal"), (Priority.LOW, "sbqlow")],
)
def test_each_priority_has_its_queue(priority: Priority, queue: str) -> None:
    configuration = a_configuration(a_job(priority=priority))
    detection = Detection(configuration, {"crm": ListSource(messages(1))})
    detection.run()
    assert list(detection.bus.sent) == [queue]


def test_the_size_limit_ends_a_batch_before_200() -> None:
    bus = MemoryServiceBus(batch_bytes=4_000)
    service = ServiceBusService(bus)  # type: ignore[arg-type] # the fake's few methods
    for message in messages(20, fields={"partner_name": "x" * 500}):
        service.add_message_or_send(message, Priority.LOW)
    service.flush_batch()
    assert sum(len(batch) for batch in bus.sent["sbqlow"]) == 20
    assert len(bus.sent["sbqlow"]) > 2


def test_a_message_that_no_batch_holds_names_its_record_and_keeps_its_neighbours() -> None:
    bus = MemoryServiceBus(batch_bytes=2_000)
    service = ServiceBusService(bus)  # type: ignore[arg-type] # the fake's few methods
    service.add_message_or_send(a_message(), Priority.LOW)
    with pytest.raises(RejectedError, match="job 'customers-to-erp', record 'D9'"):
        service.add_message_or_send(
            a_message(source_key="D9", fields={"partner_name": "x" * 3_000}), Priority.LOW
        )
    assert [len(batch) for batch in bus.sent["sbqlow"]] == [1]
