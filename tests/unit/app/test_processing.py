"""What becomes of a message: every outcome, and what is told to whom."""

from datetime import timedelta
from typing import Any

import pytest
from azure.servicebus import ServiceBusMessage
from hypothesis import given
from hypothesis import strategies as st

from delivery.errors import (
    ConfigurationError,
    DeliveryError,
    LockLostError,
    MappingError,
    OutdatedError,
    RejectedError,
    TransitiveError,
    UnavailableError,
    UnreadableError,
)
from delivery.retry import ATTEMPTS_EXHAUSTED, Squared
from models.configuration import Configuration
from models.queue_message import JobActionType, QueueMessage
from services.metrics import Outcome
from services.payloads import PayloadService
from services.processing.deletions import DeletionService
from services.processing.execution import ProcessQueueMessageService
from services.processing.queue_items import AbortedError, QueueItemService
from services.processing.turns import Turns
from tests.builders import (
    NOW,
    a_configuration,
    a_configuration_with_a_response,
    a_connection,
    a_delivery,
    a_job,
    a_mapping,
    a_message,
)
from tests.fakes import (
    Clock,
    FixedInitialization,
    FixedOriginals,
    MemoryBlobs,
    MemoryTable,
    MemoryTarget,
    RecordingPost,
    RecordingSettlement,
    TimedLocks,
)

SECOND = timedelta(seconds=1)


class CountingMetrics:
    def __init__(self) -> None:
        self.processed: list[tuple[str, Outcome]] = []
        self.dead_lettered: list[tuple[str, str]] = []

    def message_processed(self, job_name: str, outcome: Outcome) -> None:
        self.processed.append((job_name, outcome))

    def message_dead_lettered(self, job_name: str, reason: str) -> None:
        self.dead_lettered.append((job_name, reason))


class Stage:
    """The processing side with everything outside the process replaced."""

    def __init__(self, configuration: Configuration | None = None) -> None:
        self.clock = Clock()
        self.target = MemoryTarget()
        self.blobs = MemoryBlobs()
        self.post = RecordingPost()
        self.locks = TimedLocks(self.clock)
        self.originals = FixedOriginals()
        self.settlement = RecordingSettlement()
        self.metrics = CountingMetrics()
        self.policies = {name: Squared(SECOND, 10) for name in ("sbqhigh", "sbqnormal", "sbqlow")}
        self.payloads = PayloadService(self.blobs)  # type: ignore[arg-type] # the fake's few methods
        self.processing = ProcessQueueMessageService(
            FixedInitialization(configuration or a_configuration()),  # type: ignore[arg-type] # as above
            payloads=self.payloads,
            deletions=DeletionService(MemoryTable(), now=self.clock),  # type: ignore[arg-type] # as above
            post=self.post,
            target_of=lambda _connection: self.target,
        )
        self.setup_error: Exception | None = None
        self.service = QueueItemService(
            self._open_processing,
            locks=self.locks,
            turns=Turns(self.policies, threads=4),
            post=self.post,
            originals=self.originals,
            settlement=self.settlement,
            policies=self.policies,
            metrics=self.metrics,  # type: ignore[arg-type] # as above
            now=self.clock,
        )

    def _open_processing(self) -> ProcessQueueMessageService:
        if self.setup_error is not None:
            raise self.setup_error
        return self.processing

    def deliver(self, message: QueueMessage | bytes | None = None, **changes: Any) -> None:
        if message is not None:
            changes["body"] = message if isinstance(message, bytes) else message.to_body()
        self.service.execute(a_delivery(**changes))

    def fail(
        self,
        error: type[Exception],
        message: QueueMessage | bytes | None = None,
        **changes: Any,
    ) -> None:
        with pytest.raises(error):
            self.deliver(message, **changes)

    @property
    def outcomes(self) -> list[Outcome]:
        return [outcome for _, outcome in self.metrics.processed]

    def posted(self, queue: str) -> ServiceBusMessage:
        [message] = self.post.posted[queue]
        return message


@pytest.fixture
def stage() -> Stage:
    return Stage()


def properties_of(message: ServiceBusMessage) -> dict[Any, Any]:
    return message.application_properties or {}


def test_a_success_is_left_to_the_host_to_complete_and_counted(stage: Stage) -> None:
    stage.deliver()
    assert stage.target.records == {"D1": a_message()}
    assert stage.metrics.processed == [("customers-to-erp", Outcome.SUCCESS)]
    assert not stage.settlement.abandoned
    assert not stage.settlement.dead_lettered
    assert not stage.post.posted


def test_a_deletion_reaches_the_target_and_a_time_stamp_asks_nothing_of_it(stage: Stage) -> None:
    stage.deliver()
    stage.deliver(a_message(action=JobActionType.TIME_STAMP, keys={}))
    assert stage.target.records == {"D1": a_message()}
    stage.deliver(a_message(action=JobActionType.DELETE, fields={}))
    assert stage.target.records == {}
    assert stage.outcomes == [Outcome.SUCCESS] * 3


def test_a_deletion_of_a_job_that_skips_what_is_outdated_waits_until_all_know_of_it() -> None:
    fields = [{"source": "modified_at", "target": "crm_modified_at"}]
    stage = Stage(
        Configuration.of(
            [a_connection(), a_connection(name="erp", url="${ERP_DATABASE_URL}")],
            [a_mapping(fields=fields, deletions={"field": "is_deleted"})],
            [a_job(skipOutdated="crm_modified_at")],
        )
    )
    deletion = a_message(action=JobActionType.DELETE, fields={})
    stage.deliver(deletion)
    assert stage.target.calls == 0
    copy = stage.posted("sbqnormal")
    assert copy.scheduled_enqueue_time_utc == NOW + 5 * SECOND
    stage.clock.advance(5)
    stage.deliver(deletion, properties=properties_of(copy))
    assert (stage.target.calls, stage.outcomes) == (1, [Outcome.SUCCESS])
    stage.deliver(a_message(change_tracker="2026-11-30T09:00:00+00:00"))
    assert stage.target.records == {}
    assert stage.outcomes == [Outcome.SUCCESS, Outcome.IGNORED]


def test_an_action_is_invoked_with_the_message() -> None:
    stage = Stage(a_configuration(a_job(action={"name": "post_receipt"})))
    message = a_message(action=JobActionType.INVOKE_ACTION)
    stage.deliver(message)
    assert stage.target.actions == [("post_receipt", message)]


@pytest.mark.parametrize("reason", ["refused", "ü" * 40_000], ids=["short", "sb6"])
def test_a_failure_is_written_onto_the_message_within_the_limits_and_raised(
    stage: Stage, reason: str
) -> None:
    stage.target.error = RejectedError(reason)
    stage.fail(RejectedError)
    [(delivery, properties)] = stage.settlement.abandoned
    assert delivery == a_delivery()
    assert str(properties["ErrorMessage"]).startswith(reason[:7])
    assert properties["ErrorType"] == "RejectedError"
    assert properties["ErrorTime"] == NOW.isoformat()
    assert properties["ErrorDeliveryCount"] == 1
    assert "in upsert" in str(properties["ErrorStackTrace"])
    assert len("".join(map(str, properties.values())).encode()) < 32_000
    assert stage.outcomes == [Outcome.FAILED]


def a_retry(attempt: int) -> dict[str, Any]:
    return {
        "delivery_count": attempt,
        "properties": {"JobName": "customers-to-erp", "ErrorDeliveryCount": attempt - 1},
    }


def test_sb7_a_redelivery_waits_before_it_touches_the_target(stage: Stage) -> None:
    stage.target.error = UnavailableError("down")
    stage.fail(UnavailableError)
    stage.fail(UnavailableError, **a_retry(2))
    stage.fail(UnavailableError, **a_retry(3))
    assert stage.clock.now - NOW == 13 * SECOND
    assert [d.delivery_count for d, _ in stage.settlement.abandoned] == [1, 2, 3]


def test_a_long_wait_goes_back_as_a_scheduled_copy_before_the_message_is_completed(
    stage: Stage,
) -> None:
    expires = NOW + timedelta(days=10)
    stage.deliver(**a_retry(6), expires=expires)
    copy = stage.posted("sbqnormal")
    assert stage.target.calls == 0
    assert copy.scheduled_enqueue_time_utc == NOW + 36 * SECOND
    assert copy.time_to_live == expires - NOW - 36 * SECOND
    assert copy.message_id != a_delivery().message_id
    assert copy.content_type == "application/json"
    assert b"".join(copy.body) == a_delivery().body
    assert properties_of(copy) == {
        "JobName": "customers-to-erp",
        "ErrorDeliveryCount": 5,
        "CarriedAttempts": 5,
        "Postponements": 1,
    }
    assert stage.outcomes == [], "an attempt that did not take place is not counted"


def test_sb7_ten_attempts_take_384_seconds_and_end_with_the_dead_letters(stage: Stage) -> None:
    """Follow one message as a broker would hand it out, copies included."""
    stage.target.error = UnavailableError("down")
    changes: dict[str, Any] = {"delivery_count": 1}
    while not stage.settlement.dead_lettered:
        failures = len(stage.settlement.abandoned)
        try:
            stage.deliver(**changes)
        except UnavailableError:
            if len(stage.settlement.abandoned) > failures:
                delivery, error = stage.settlement.abandoned[-1]
                changes["properties"] = {**delivery.properties, **error}
                changes["delivery_count"] = delivery.delivery_count + 1
        else:
            [copy] = stage.post.posted.pop("sbqnormal")
            assert copy.scheduled_enqueue_time_utc is not None
            stage.clock.now = copy.scheduled_enqueue_time_utc
            changes = {
                "delivery_count": 1,
                "message_id": copy.message_id,
                "properties": properties_of(copy),
            }
    assert stage.target.calls == 10
    assert stage.clock.now - NOW == 384 * SECOND
    [(_, reason, properties)] = stage.settlement.dead_lettered
    assert reason == ATTEMPTS_EXHAUSTED
    assert properties["ErrorDeliveryCount"] == 10
    assert stage.metrics.dead_lettered == [("customers-to-erp", ATTEMPTS_EXHAUSTED)]


@pytest.mark.parametrize(
    ("error", "changes", "queue"),
    [
        (None, a_retry(6), "sbqnormal"),
        (TransitiveError("not yet"), {}, "sbqtransitivenormal"),
        (OutdatedError("the target is newer"), {}, "sbqignored"),
    ],
)
def test_sb4_every_copy_has_what_others_put_onto_the_message_with_its_types(
    stage: Stage, error: DeliveryError | None, changes: dict[str, Any], queue: str
) -> None:
    stage.originals.typed = {"sent": {"TYPE": "TIMESTAMP", "VALUE": 7}}
    stage.target.error = error
    stage.deliver(**changes)
    copy = stage.posted(queue)
    assert properties_of(copy)["sent"] == {"TYPE": "TIMESTAMP", "VALUE": 7}
    assert b"".join(copy.body) == a_delivery().body


def test_a_postponement_that_cannot_be_sent_is_a_failure(stage: Stage) -> None:
    stage.post.error = UnavailableError("the broker is away")
    stage.fail(UnavailableError, **a_retry(6))
    assert len(stage.settlement.abandoned) == 1


@pytest.mark.parametrize(
    ("error", "queue", "outcome"),
    [
        (TransitiveError("no customer D9 yet"), "sbqtransitivenormal", Outcome.TRANSITIVE),
        (OutdatedError("the target is newer"), "sbqignored", Outcome.IGNORED),
    ],
)
def test_a_message_is_set_aside_with_its_reason_and_the_way_back(
    stage: Stage, error: DeliveryError, queue: str, outcome: Outcome
) -> None:
    stage.target.error = error
    stage.deliver(expires=NOW + timedelta(days=1))
    copy = stage.posted(queue)
    assert b"".join(copy.body) == a_delivery().body
    assert copy.message_id == "m-1"
    assert copy.time_to_live is None, "the side queue's own"
    assert copy.scheduled_enqueue_time_utc is None
    assert properties_of(copy) == {
        "JobName": "customers-to-erp",
        "SourceKey": "D1",
        "OriginalQueue": "sbqnormal",
        "ErrorMessage": str(error),
        "ErrorType": type(error).__name__,
    }
    assert stage.outcomes == [outcome]


@pytest.mark.parametrize("priority", ["high", "normal", "low"])
def test_each_priority_has_a_transitive_queue_of_its_own(stage: Stage, priority: str) -> None:
    stage.target.error = TransitiveError("not yet")
    stage.deliver(queue=f"sbq{priority}")
    assert list(stage.post.posted) == [f"sbqtransitive{priority}"]


def test_a_copy_that_cannot_be_sent_leaves_the_message_in_its_queue(stage: Stage) -> None:
    stage.target.error = TransitiveError("not yet")
    stage.post.error = UnavailableError("the broker is away")
    stage.fail(UnavailableError)
    assert len(stage.settlement.abandoned) == 1
    assert stage.outcomes == [Outcome.FAILED]


UNREADABLE = {
    "empty": b"",
    "no JSON": b"\x00\xff",
    "a list": b"[]",
    "another version": a_message().to_body().replace(b'"schemaVersion":1', b'"schemaVersion":2'),
    "an action of the future": a_message().to_body().replace(b"NewUpdate", b"Merge"),
    "a field that is a list": a_message().to_body().replace(b'"D1"', b"[]", 1),
    "a lost payload": b'{"schemaVersion":1,"payloadBlob":"gone"}',
    "a payload without a name": b'{"schemaVersion":1,"payloadBlob":',
    "a payload and nothing": b'{"schemaVersion":1,"payloadBlob":null}',
    "a payload of no name": b'{"schemaVersion":1,"payloadBlob":""}',
    "a payload elsewhere": b'{"schemaVersion":1,"payloadBlob":"../configuration/x"}',
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_what_cannot_be_read_goes_to_the_dead_letters_at_once(stage: Stage, body: bytes) -> None:
    stage.fail(UnreadableError, body)
    [(_, reason, properties)] = stage.settlement.dead_lettered
    assert reason == "unreadable"
    assert properties["ErrorMessage"]
    assert stage.settlement.abandoned == []
    assert stage.metrics.dead_lettered == [("customers-to-erp", "unreadable")]


@given(body=st.binary() | st.text().map(str.encode))
def test_any_body_that_is_none_of_ours_has_a_defined_outcome(body: bytes) -> None:
    stage = Stage()
    stage.fail(UnreadableError, body)
    assert len(stage.settlement.dead_lettered) == 1


def test_a_record_that_could_not_be_mapped_goes_to_the_dead_letters_with_its_reason(
    stage: Stage,
) -> None:
    stage.fail(MappingError, a_message(mapping_error="field 'credit': not a number"))
    [(_, reason, properties)] = stage.settlement.dead_lettered
    assert (reason, properties["ErrorMessage"]) == ("mapping", "field 'credit': not a number")


def test_a_job_that_nobody_knows_is_an_ordinary_error(stage: Stage) -> None:
    stage.fail(ConfigurationError, a_message(job_name="unknown"))
    assert len(stage.settlement.abandoned) == 1


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"country": "DE"},
        {"partner_number": "D1", "line": 1},
        {"Partner_number": "D1"},
        {"partner_number": None},
    ],
)
@pytest.mark.parametrize("action", [JobActionType.NEW_UPDATE, JobActionType.DELETE])
def test_a_message_with_other_keys_than_the_mapping_hits_no_record(
    stage: Stage, keys: dict[str, Any], action: JobActionType
) -> None:
    stage.fail(ConfigurationError, a_message(keys=keys, action=action))
    assert stage.target.calls == 0
    [(_, properties)] = stage.settlement.abandoned
    assert "keys than the mapping 'customers' has now" in str(properties["ErrorMessage"])


def test_sb7_what_fails_before_the_target_waits_as_well(stage: Stage) -> None:
    unknown = a_message(job_name="unknown")
    stage.fail(ConfigurationError, unknown)
    stage.fail(ConfigurationError, unknown, **a_retry(2))
    stage.fail(ConfigurationError, unknown, **a_retry(3))
    assert stage.clock.now - NOW == 13 * SECOND


def test_an_app_that_is_set_up_wrongly_keeps_its_messages_and_tells_them_why(stage: Stage) -> None:
    stage.setup_error = ConfigurationError("the app setting SYNC_STORAGE is missing")
    stage.fail(ConfigurationError)
    stage.fail(ConfigurationError, **a_retry(2))
    assert stage.clock.now - NOW == 4 * SECOND
    [_, (_, properties)] = stage.settlement.abandoned
    assert properties["ErrorMessage"] == "the app setting SYNC_STORAGE is missing"
    stage.setup_error = None
    stage.deliver(**a_retry(3))
    assert stage.outcomes[-1] is Outcome.SUCCESS


def test_sb12_a_suspect_is_put_apart_before_it_is_read(stage: Stage) -> None:
    stage.deliver(b"what ends the worker", delivery_count=2)
    assert list(stage.post.posted) == ["sbqnormal"]
    assert not stage.settlement.dead_lettered


def test_sb5_a_lock_lost_while_the_message_is_read_leaves_the_target_untouched(
    stage: Stage,
) -> None:
    reference = stage.payloads.check_in("a", a_message().to_body())
    stage.blobs.on_download = stage.locks.lose
    stage.fail(LockLostError, reference)
    assert stage.target.calls == 0


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
NAMES = st.sampled_from(
    ["JobName", "ErrorDeliveryCount", "CarriedAttempts", "Postponements", "Other"]
)


@given(properties=st.dictionaries(NAMES, ODD), count=st.integers(1, 12))
def test_properties_of_odd_types_never_stop_a_message(
    properties: dict[str, object], count: int
) -> None:
    """It is applied, put off, or told to have used up its attempts; nothing else can happen."""
    stage = Stage()
    try:
        stage.deliver(properties=properties, delivery_count=count)
    except AbortedError:
        assert len(stage.settlement.dead_lettered) == 1
    else:
        assert (stage.target.calls == 1) != ("sbqnormal" in stage.post.posted)


def test_sb12_a_message_that_ends_the_worker_every_time_reaches_the_dead_letters(
    stage: Stage,
) -> None:
    """Each delivery that comes to the target ends without a word, as a dead worker's does."""
    changes: dict[str, Any] = {"delivery_count": 1}
    for _ in range(100):
        calls = stage.target.calls
        try:
            stage.deliver(**changes)
        except AbortedError:
            break
        if stage.target.calls > calls:
            changes["delivery_count"] = 2
            continue
        [copy] = stage.post.posted.pop("sbqnormal")
        changes = {"delivery_count": 1, "properties": properties_of(copy)}
    assert stage.target.calls == 10
    [(_, reason, properties)] = stage.settlement.dead_lettered
    assert reason == ATTEMPTS_EXHAUSTED
    assert "ended without a word" in str(properties["ErrorMessage"])


def test_sb5_a_lock_lost_while_processing_keeps_the_host_from_completing(stage: Stage) -> None:
    stage.target.on_call = stage.locks.lose
    stage.fail(LockLostError)
    assert not stage.settlement.abandoned
    assert not stage.settlement.dead_lettered
    assert stage.outcomes == [Outcome.FAILED]


def test_a_dead_letter_and_what_is_set_aside_begin_anew_when_they_are_sent_again(
    stage: Stage,
) -> None:
    earlier = {
        "JobName": "customers-to-erp",
        "CarriedAttempts": 9,
        "Postponements": 4,
        "ErrorStackTrace": "in upsert",
        "ErrorDeliveryCount": 9,
        "Other": 1,
    }
    stage.target.error = RejectedError("no")
    stage.fail(RejectedError, properties=earlier)
    [(_, _, properties)] = stage.settlement.dead_lettered
    assert (properties["CarriedAttempts"], properties["Postponements"]) == (0, 0)
    stage.target.error = TransitiveError("not yet")
    stage.deliver(properties=earlier)
    assert properties_of(stage.posted("sbqtransitivenormal")) == {
        "JobName": "customers-to-erp",
        "Other": 1,
        "OriginalQueue": "sbqnormal",
        "ErrorMessage": "not yet",
        "ErrorType": "TransitiveError",
    }


def test_a_message_that_says_it_was_tried_a_thousand_times_gets_its_attempt(stage: Stage) -> None:
    stage.deliver(properties={"CarriedAttempts": 1_000})
    assert stage.outcomes == [Outcome.SUCCESS]


def test_a_dead_letter_that_was_not_one_in_the_end_is_not_counted(stage: Stage) -> None:
    stage.settlement.locks_are_lost = True
    stage.fail(UnreadableError, b"")
    assert stage.metrics.dead_lettered == []


def test_a_claim_check_is_redeemed(stage: Stage) -> None:
    large = a_message(fields={"partner_name": "x" * 200_000})
    stage.deliver(stage.payloads.check_in("some-id", large.to_body()))
    assert stage.target.records == {"D1": large}


@pytest.fixture
def answering() -> Stage:
    return Stage(a_configuration_with_a_response())


def test_a_message_without_the_target_s_key_is_answered_at_the_response_job_s_priority(
    answering: Stage,
) -> None:
    answering.deliver()
    answer = answering.posted("sbqhigh")
    message = QueueMessage.from_body(b"".join(answer.body))
    assert (message.job_name, message.fields) == ("numbers-to-crm", {"erp_number": "N1"})
    assert properties_of(answer)["JobName"] == "numbers-to-crm"


def test_a_message_that_has_the_target_s_key_is_not_answered(answering: Stage) -> None:
    answering.deliver(a_message(fields={"partner_name": "Müller", "erp_number": "N1"}))
    assert answering.post.posted == {}


def test_null_does_not_overwrite_what_the_target_has_made_up(answering: Stage) -> None:
    answering.deliver(a_message(fields={"partner_name": "Müller", "erp_number": None}))
    assert answering.target.records["D1"].fields == {"partner_name": "Müller"}
    assert "sbqhigh" in answering.post.posted


def test_a_large_answer_goes_by_claim_check(answering: Stage) -> None:
    answering.deliver(a_message(source_key="x" * 200_000))
    assert len(answering.blobs.blobs) == 1
    assert len(b"".join(answering.posted("sbqhigh").body)) < 300


def test_an_answer_that_cannot_be_sent_is_tried_again_with_its_message(answering: Stage) -> None:
    answering.post.error = UnavailableError("the broker is away")
    answering.fail(UnavailableError)
    assert len(answering.settlement.abandoned) == 1
