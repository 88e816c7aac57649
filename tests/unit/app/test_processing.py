import pytest

from delivery.errors import ConfigurationError, RejectedError, UnreadableError
from models.queue_message import JobActionType
from services.payloads import PayloadService
from services.processing.execution import ProcessQueueMessageService
from services.processing.queue_items import QueueItemService
from tests.builders import a_configuration, a_delivery, a_message
from tests.fakes import NOW, FixedInitialization, MemoryBlobs, MemoryTarget, RecordingSettlement


def processing(
    target: MemoryTarget, payloads: MemoryBlobs | None = None
) -> ProcessQueueMessageService:
    return ProcessQueueMessageService(
        FixedInitialization(a_configuration()),  # type: ignore[arg-type] # the fake's one method
        payloads=PayloadService(payloads or MemoryBlobs()),  # type: ignore[arg-type] # as above
        target_of=lambda _connection: target,
    )


def test_a_message_reaches_its_target() -> None:
    target = MemoryTarget()
    processing(target).execute(a_message().to_body())
    assert target.records == {"D1": a_message()}


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", UnreadableError),
        (a_message(job_name="unknown").to_body(), ConfigurationError),
    ],
)
def test_what_cannot_be_applied_raises(body: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        processing(MemoryTarget()).execute(body)


def test_a_success_is_left_to_the_host_to_complete() -> None:
    settlement = RecordingSettlement()
    QueueItemService(processing(MemoryTarget()), settlement, now=lambda: NOW).execute(a_delivery())
    assert settlement.abandoned == []


@pytest.mark.parametrize("reason", ["refused", "ü" * 40_000], ids=["short", "long"])
def test_a_failure_is_written_onto_the_message_within_the_limits_and_raised(
    reason: str,
) -> None:
    settlement = RecordingSettlement()
    target = MemoryTarget(RejectedError(reason))
    service = QueueItemService(processing(target), settlement, now=lambda: NOW)
    with pytest.raises(RejectedError):
        service.execute(a_delivery(delivery_count=3))
    [(delivery, properties)] = settlement.abandoned
    assert delivery == a_delivery(delivery_count=3)
    assert str(properties["ErrorMessage"]).startswith(reason[:7])
    assert properties["ErrorType"] == "RejectedError"
    assert properties["ErrorTime"] == NOW.isoformat()
    assert properties["ErrorDeliveryCount"] == 3
    assert "in upsert" in str(properties["ErrorStackTrace"])
    assert len("".join(map(str, properties.values())).encode()) < 32_000


def test_a_claim_check_is_redeemed_and_a_lost_one_is_named() -> None:
    blobs, target = MemoryBlobs(), MemoryTarget()
    large = a_message(fields={"partner_name": "x" * 200_000})
    reference = PayloadService(blobs).check_in("some-id", large.to_body())  # type: ignore[arg-type] # the fake's few methods
    processing(target, blobs).execute(reference)
    assert target.records == {"D1": large}
    with pytest.raises(UnreadableError, match="'some-id' is not in the container 'payloads'"):
        processing(target).execute(reference)


def test_a_record_that_could_not_be_mapped_is_rejected_with_its_reason() -> None:
    body = a_message(mapping_error="field 'credit': not a number").to_body()
    with pytest.raises(RejectedError, match="field 'credit'"):
        processing(MemoryTarget()).execute(body)


def test_a_deletion_reaches_the_target_and_a_time_stamp_asks_nothing_of_it() -> None:
    target = MemoryTarget()
    processing(target).execute(a_message().to_body())
    processing(target).execute(a_message(action=JobActionType.TIME_STAMP).to_body())
    assert target.records == {"D1": a_message()}
    processing(target).execute(a_message(action=JobActionType.DELETE, fields={}).to_body())
    assert target.records == {}
