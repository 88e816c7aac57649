"""Who is tried again when, and when that ends."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from delivery.errors import (
    ConfigurationError,
    DeliveryError,
    OutdatedError,
    RejectedError,
    TransitiveError,
    UnavailableError,
)
from delivery.retry import ATTEMPTS_EXHAUSTED
from services.metrics import Outcome
from services.processing.queue_items import AbortedError
from tests.builders import (
    NOW,
    a_delivery,
    a_message,
)
from tests.unit.app.stage import ODD, SECOND, Stage, a_retry, properties_of


def test_sb7_a_redelivery_waits_before_it_touches_the_target(stage: Stage) -> None:
    stage.target.error = UnavailableError("down")
    stage.fail(UnavailableError)
    stage.fail(UnavailableError, **a_retry(2))
    stage.fail(UnavailableError, **a_retry(3))
    assert stage.clock.now - NOW == 13 * SECOND
    assert [d.delivery_count for d, _ in stage.settlement.abandoned] == [1, 2, 3]


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


def test_a_postponement_that_cannot_be_sent_is_a_failure(stage: Stage) -> None:
    stage.post.error = UnavailableError("the broker is away")
    stage.fail(UnavailableError, **a_retry(6))
    assert len(stage.settlement.abandoned) == 1


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


def test_sb7_ten_attempts_take_384_seconds_and_end_with_the_dead_letters(stage: Stage) -> None:
    """Follow one message as a broker would hand it out, copies included."""
    stage.target.error = UnavailableError("down")
    changes: dict[str, Any] = {"delivery_count": 1}
    for _ in range(40):
        try:
            stage.deliver(**changes)
        except UnavailableError:
            if stage.settlement.dead_lettered:
                break
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


def test_sb12_a_suspect_is_put_apart_before_it_is_read(stage: Stage) -> None:
    stage.deliver(b"what ends the worker", delivery_count=2)
    assert list(stage.post.posted) == ["sbqnormal"]
    assert not stage.settlement.dead_lettered


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
