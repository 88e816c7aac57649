"""How changes travel: in batches, in queues, and aside where they are large."""

import pytest

from delivery.errors import RejectedError
from models.job import Priority
from models.queue_message import QueueMessage
from services.broker_limits import LARGEST_BODY_BYTES
from services.detection.watermarks import StoredWatermark
from services.outgoing import OutgoingMessage
from services.payloads import PayloadService
from tests.builders import NOW, a_configuration, a_job, a_message
from tests.fakes.bus import MemoryServiceBus
from tests.fakes.systems import ListSource
from tests.unit.app.runs import Detection, at, messages


def test_changes_go_out_in_batches_of_200_and_then_the_watermark_is_written() -> None:
    detection = Detection({"crm": ListSource(messages(401))})
    detection.run()
    assert detection.batches() == [200, 200, 1]
    assert detection.stored() == StoredWatermark(at(400), NOW)


@pytest.mark.parametrize("priority", Priority)
def test_each_priority_has_its_queue(priority: Priority) -> None:
    configuration = a_configuration(a_job(priority=priority))
    detection = Detection({"crm": ListSource(messages(1))}, configuration)
    detection.run()
    assert list(detection.bus.sent) == [f"sbq{priority}"]


def test_sb2_the_size_limit_ends_a_batch_before_200() -> None:
    detection = Detection({"crm": ListSource(messages(200, fields={"partner_name": "x" * 5_000}))})
    detection.run()
    assert sum(detection.batches()) == 200
    assert len(detection.batches()) > 2


def test_sb2_a_large_record_goes_by_claim_check_and_all_its_neighbours_arrive() -> None:
    changes = messages(200)
    large = a_message(
        source_key="D57", change_tracker=at(57), fields={"partner_name": "ü" * 150_000}
    )
    changes[57] = large
    detection = Detection({"crm": ListSource(changes)})
    detection.run()
    detection.run()
    assert detection.sent() == [f"D{n}" for n in range(200)]
    payloads = PayloadService(detection.payloads)  # type: ignore[arg-type] # the fake's few methods
    bodies = [
        QueueMessage.from_body(payloads.check_out(b"".join(message.body)))
        for batch in detection.bus.sent["sbqnormal"]
        for message in batch
    ]
    assert bodies == changes
    assert len(detection.payloads.blobs) == 1


def test_bodies_up_to_the_limit_travel_on_the_bus_itself() -> None:
    room = LARGEST_BODY_BYTES - len(a_message(fields={"partner_name": ""}).to_body())
    for extra, put_aside in ((0, 0), (1, 1)):
        change = a_message(fields={"partner_name": "x" * (room + extra)})
        detection = Detection({"crm": ListSource([change])})
        detection.run()
        assert detection.sent() == ["D1"]
        assert len(detection.payloads.blobs) == put_aside


def test_a_message_too_large_for_any_batch_fails_the_job_and_names_the_record() -> None:
    detection = Detection({})
    detection.bus = MemoryServiceBus(batch_bytes=2_000)
    with detection.open_service_bus() as service_bus:
        service_bus.add_message_or_send(OutgoingMessage.of(a_message(), Priority.LOW))
        large = a_message(source_key="D9", fields={"partner_name": "x" * 3_000})
        with pytest.raises(RejectedError, match="record 'D9'"):
            service_bus.add_message_or_send(OutgoingMessage.of(large, Priority.LOW))
    assert detection.batches("sbqlow") == [1]


def test_the_links_are_closed_after_a_run() -> None:
    detection = Detection({"crm": ListSource([])})
    detection.run()
    assert detection.bus.closed
