from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from delivery.errors import RejectedError
from services.detection.job_run import JobRunner
from services.detection.jobs import lag_of
from services.detection.watermarks import StoredWatermark
from services.metrics import MOST_NAMES, OTHER, Outcome
from tests.builders import NOW, a_configuration, a_job
from tests.fakes.services import Clock, MemoryMetrics
from tests.fakes.systems import ListSource
from tests.unit.app.runs import JOB, ByHand, Detection, messages


def test_the_outcomes_are_the_words_of_the_specification() -> None:
    assert list(Outcome) == ["Success", "Transitive", "Ignored", "Failed"]


def test_deliveries_are_counted_by_job_and_outcome() -> None:
    metrics = MemoryMetrics()
    for outcome in Outcome:
        metrics.service.message_processed(JOB, outcome)
    metrics.service.message_processed(JOB, Outcome.SUCCESS)
    metrics.service.message_processed("", Outcome.FAILED)
    assert metrics.values("MessagesProcessed") == {
        (JOB, "Success"): 2,
        (JOB, "Transitive"): 1,
        (JOB, "Ignored"): 1,
        (JOB, "Failed"): 1,
        ("unknown", "Failed"): 1,
    }


def test_dead_letters_are_counted_apart_by_job_and_reason() -> None:
    metrics = MemoryMetrics()
    metrics.service.message_dead_lettered("", "unreadable")
    metrics.service.message_dead_lettered(JOB, "MaxDeliveryCountExceeded")
    assert metrics.values("MessagesDeadLettered") == {
        ("unknown", "unreadable"): 1,
        (JOB, "MaxDeliveryCountExceeded"): 1,
    }
    assert metrics.values("MessagesProcessed") == {}


def test_a_run_counts_what_it_sent_and_a_quiet_one_counts_as_0() -> None:
    detection = Detection({"crm": ListSource(messages(3))})
    detection.run()
    detection.run()
    assert detection.metrics.values("ChangesDetected") == {(JOB,): 3}
    quiet = Detection({"crm": ListSource([])})
    quiet.run()
    assert quiet.metrics.values("ChangesDetected") == {(JOB,): 0}, "a run, if without changes"


def test_each_job_counts_for_itself_and_one_that_failed_does_not() -> None:
    configuration = a_configuration(a_job(name="a"), a_job(name="b", source="erp"))
    failing = ListSource(messages(2), RejectedError("no"))
    detection = Detection({"crm": failing, "erp": ListSource(messages(2))}, configuration)
    detection.run()
    assert detection.metrics.values("ChangesDetected") == {("b",): 2}


def test_a_run_by_hand_counts_and_a_dry_one_does_not() -> None:
    runs = ByHand(ListSource(messages(3)))
    runs.post(job=JOB, dryRun=True)
    assert runs.metrics.values("ChangesDetected") == {}
    runs.post(job=JOB)
    runs.post(job=JOB, watermark="0001-01-01T00:00:00Z")
    assert runs.metrics.values("ChangesDetected") == {(JOB,): 6}


def test_every_tick_leaves_a_heartbeat_also_when_a_job_fails() -> None:
    detection = Detection({"crm": ListSource([], RejectedError("no"))})
    assert detection.heartbeat.last() is None
    detection.run()
    assert detection.heartbeat.last() is not None
    assert detection.watermarks.get_all_watermarks() == {}


def test_messages_cannot_invent_time_series_without_end() -> None:
    metrics = MemoryMetrics()
    for number in range(2 * MOST_NAMES):
        metrics.service.message_processed(f"job {number}", Outcome.FAILED)
    values = metrics.values("MessagesProcessed")
    assert len(values) == MOST_NAMES + 1
    assert values[OTHER, "Failed"] == MOST_NAMES
    metrics.service.message_processed("job 0", Outcome.FAILED)
    assert metrics.values("MessagesProcessed")["job 0", "Failed"] == 2


def test_no_count_is_lost_between_threads() -> None:
    metrics = MemoryMetrics()

    def count(_: int) -> None:
        for _ in range(500):
            metrics.service.message_processed(JOB, Outcome.SUCCESS)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(count, range(8)))
    assert metrics.values("MessagesProcessed") == {(JOB, "Success"): 4_000}


def test_a_batch_counts_its_messages_and_enters_them_into_the_balance() -> None:
    configuration = a_configuration(a_job(name="a"), a_job(name="b", source="erp"))
    sources = {"crm": ListSource(messages(201)), "erp": ListSource(messages(2))}
    detection = Detection(sources, configuration)
    detection.run()
    assert detection.batches() == [200, 1, 2]
    assert detection.metrics.values("BatchSize") == {("sbqnormal",): 203}
    assert detection.metrics.values("ChangeBalance") == {
        ("sent", JOB, "sbqnormal"): 203,  # the messages bear the job of whoever built them
    }


def test_what_the_broker_did_not_take_is_not_in_the_balance() -> None:
    detection = Detection({"crm": ListSource(messages(3))})
    detection.bus.failing = True
    detection.run()
    assert detection.metrics.values("ChangeBalance") == {}
    assert detection.metrics.values("BatchSize") == {}


def test_the_lag_is_the_age_of_what_was_sent_in_full() -> None:
    clock = Clock()
    detection = Detection({"crm": ListSource(messages(3))}, clock=clock)
    detection.run()
    assert detection.metrics.values("WatermarkLag") == {}, "nothing was ever read"
    clock.advance(90)
    detection.run()
    assert detection.metrics.values("WatermarkLag") == {(JOB,): 90}
    detection.metrics.clock.advance(30)
    assert detection.metrics.values("WatermarkLag") == {(JOB,): 120}, "the timer stands still"
    detection.bus.failing = True
    detection.runner = JobRunner(detection.watermarks, source_of=lambda _: ListSource([]))
    clock.advance(600)
    detection.run()
    assert detection.metrics.values("WatermarkLag") == {(JOB,): 600}


@pytest.mark.parametrize(
    ("watermark", "last_run", "lag"),
    [
        (None, None, None),
        ("2026-11-30T11:59:00+00:00", None, 60),
        ("2026-11-30T11:59:00+00:00", NOW - timedelta(seconds=20), 20),
        ("2026-11-30T11:59:50+00:00", NOW - timedelta(seconds=20), 10),
        ("2999-01-01T00:00:00+00:00", NOW - timedelta(seconds=20), 0),
        ("no time", NOW - timedelta(seconds=20), 20),
        ("no time", None, None),
        (None, NOW - timedelta(seconds=20), None),
    ],
)
def test_a_lag_by_watermark_and_last_run(
    watermark: str | None, last_run: datetime | None, lag: float | None
) -> None:
    rows = {JOB: StoredWatermark(watermark, last_run)}
    assert lag_of(a_job(), rows, NOW) == lag
