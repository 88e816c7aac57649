"""What becomes of a message: every outcome, and what is told to whom."""

from datetime import timedelta
from typing import Any

import pytest
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
from models.configuration import Configuration
from models.queue_message import JobActionType
from services.broker_limits import ERROR_STACK_TRACE_BYTES
from services.metrics import Outcome
from tests.builders import (
    NOW,
    a_configuration,
    a_connection,
    a_delivery,
    a_job,
    a_mapping,
    a_message,
)
from tests.unit.app.stage import SECOND, Stage, properties_of


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


def test_a_claim_check_is_redeemed(stage: Stage) -> None:
    large = a_message(fields={"partner_name": "x" * 200_000})
    stage.deliver(stage.payloads.check_in("some-id", large.to_body()))
    assert stage.target.records == {"D1": large}


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


def test_a_deep_stack_trace_is_cut_to_the_limit_and_ends_with_its_cause(stage: Stage) -> None:
    def descend(left: int) -> None:
        if left == 0:
            msg = "no"
            raise RejectedError(msg)
        ascend(left - 1)

    def ascend(left: int) -> None:
        descend(left)

    stage.target.on_call = lambda: descend(200)
    stage.fail(RejectedError)
    [(_, properties)] = stage.settlement.abandoned
    trace = str(properties["ErrorStackTrace"])
    assert len(trace.encode()) <= ERROR_STACK_TRACE_BYTES
    assert trace.endswith("raise RejectedError(msg)\n")


def test_the_log_quotes_no_error_but_our_own(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.target.error = ValueError("Erika Mustermann")
    stage.fail(ValueError)
    stage.target.error = RejectedError("column 'x' is gone")
    stage.fail(RejectedError)
    assert "ValueError in " in caplog.text
    assert "RejectedError: column 'x' is gone" in caplog.text
    assert "Mustermann" not in caplog.text


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


def test_a_dead_letter_that_was_not_one_in_the_end_is_not_counted(stage: Stage) -> None:
    stage.settlement.locks_are_lost = True
    stage.fail(UnreadableError, b"")
    assert stage.metrics.dead_lettered == []


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


def test_sb5_a_lock_lost_while_the_message_is_read_leaves_the_target_untouched(
    stage: Stage,
) -> None:
    reference = stage.payloads.check_in("a", a_message().to_body())
    stage.blobs.on_download = stage.locks.lose
    stage.fail(LockLostError, reference)
    assert stage.target.calls == 0


def test_sb5_a_lock_lost_while_processing_keeps_the_host_from_completing(stage: Stage) -> None:
    stage.target.on_call = stage.locks.lose
    stage.fail(LockLostError)
    assert not stage.settlement.abandoned
    assert not stage.settlement.dead_lettered
    assert stage.outcomes == [Outcome.FAILED]
