import logging
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from opentelemetry.metrics import NoOpMeter

from delivery.errors import RejectedError
from devstack.processes import ROOT
from services.metrics import MOST_NAMES, OTHER, Outcome
from services.operation.metric_export import open_meter
from tests.builders import a_configuration, a_job
from tests.fakes.services import MemoryMetrics
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


@pytest.mark.parametrize("connection_string", [None, ""])
def test_without_a_destination_nothing_is_counted_and_no_thread_runs(
    connection_string: str | None,
) -> None:
    before = threading.active_count()
    assert isinstance(open_meter(connection_string), NoOpMeter)
    assert threading.active_count() == before


def test_a_destination_that_is_no_good_is_logged_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        meter = open_meter("InstrumentationKey=s3cret;IngestionEndpoint=nonsense")
    assert isinstance(meter, NoOpMeter)
    assert "APPLICATIONINSIGHTS_CONNECTION_STRING cannot be used" in caplog.text
    assert "s3cret" not in caplog.text


def test_without_a_destination_the_sdk_is_not_even_loaded() -> None:
    statement = (
        "import sys; from services.metrics import *; from services.operation.metric_export import *"
        "; MetricsService(open_meter(None)).changes_detected('job', 1); print(*sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", statement],
        cwd=ROOT,
        env={},
        check=True,
        capture_output=True,
        text=True,
    )
    assert "opentelemetry.metrics" in run.stdout.split()
    assert not {"opentelemetry.sdk", "azure.monitor"} & set(run.stdout.split())
