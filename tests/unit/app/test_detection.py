"""What a tick sends, and what it remembers of that."""

import logging
from collections.abc import Iterator
from datetime import timedelta

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from delivery.errors import RejectedError
from models.queue_message import JobActionType, QueueMessage
from services.detection import job_run
from services.detection.watermarks import StoredWatermark
from tests.builders import NOW, a_configuration, a_job, a_message
from tests.fakes.services import Clock
from tests.fakes.systems import ListSource
from tests.unit.app.runs import JOB, Detection, at, messages


def test_the_next_run_reads_from_the_stored_watermark() -> None:
    source = ListSource(messages(3))
    detection = Detection({"crm": source})
    detection.run()
    detection.run()
    assert source.watermarks == ["0001-01-01T00:00:00Z", at(2)]


def test_a_run_without_changes_sends_nothing() -> None:
    detection = Detection({"crm": ListSource(messages(3))})
    detection.run()
    detection.run()
    detection.run()
    assert detection.sent() == ["D0", "D1", "D2"]


def test_id1_a_record_that_appears_later_with_the_same_cursor_value_is_sent() -> None:
    source = ListSource([a_message(source_key="A", change_tracker=at(5))])
    detection = Detection({"crm": source})
    detection.run()
    source.messages.append(a_message(source_key="B", change_tracker=at(5)))
    detection.run()
    detection.run()
    assert detection.sent() == ["A", "B"]


def test_id3_seven_fraction_digits_are_kept_and_each_change_is_sent_once() -> None:
    first, second = "2026-11-30T10:00:48.3386171Z", "2026-11-30T10:00:48.3386179Z"
    source = ListSource([a_message(source_key="A", change_tracker=first)])
    detection = Detection({"crm": source})
    detection.run()
    source.messages.append(a_message(source_key="B", change_tracker=second))
    detection.run()
    detection.run()
    assert detection.sent() == ["A", "B"]
    assert detection.stored().watermark == second


def test_a_record_that_changes_back_within_one_cursor_value_is_sent_each_time() -> None:
    source = ListSource([])
    detection = Detection({"crm": source})
    for name in ("old", "new", "old"):
        source.messages = [a_message(change_tracker=at(5), fields={"partner_name": name})]
        detection.run()
        detection.run()
    names = [
        orjson.loads(b"".join(message.body))["fields"]["partner_name"]
        for batch in detection.bus.sent["sbqnormal"]
        for message in batch
    ]
    assert names == ["old", "new", "old"]


def test_id9_an_empty_source_keeps_the_watermark_and_ends_the_run() -> None:
    detection = Detection({"crm": ListSource([])})
    detection.watermarks.set_watermark(JOB, at(7))
    detection.run()
    assert detection.stored() == StoredWatermark(at(7), NOW)
    assert detection.sent() == []


def test_a_time_stamp_moves_the_watermark_and_is_neither_sent_nor_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    stamp = a_message(action=JobActionType.TIME_STAMP, change_tracker=at(9))
    detection = Detection({"crm": ListSource([*messages(1), stamp])})
    with caplog.at_level(logging.INFO):
        detection.run()
    assert detection.sent() == ["D0"]
    assert detection.stored().watermark == at(9)
    assert "1 changes detected and sent" in caplog.text


def test_a_watermark_that_a_person_spelt_otherwise_means_the_same_value() -> None:
    detection = Detection({"crm": ListSource(messages(3))})
    detection.watermarks.set_watermark(JOB, "2026-11-30T11:00:02.0+01:00")
    detection.run()
    detection.run()
    assert detection.sent() == ["D2"]


def test_a_reset_starts_over() -> None:
    detection = Detection({"crm": ListSource(messages(3))})
    detection.run()
    detection.watermarks.set_watermark(JOB, "")
    detection.run()
    assert detection.sent() == ["D0", "D1", "D2"] * 2


@pytest.mark.parametrize("error", [RejectedError, KeyError])
def test_a_failing_job_keeps_its_row_and_does_not_stop_the_next(
    caplog: pytest.LogCaptureFixture, error: type[Exception]
) -> None:
    broken = ListSource(messages(3, job_name="first"), error("the column is gone"))
    configuration = a_configuration(
        a_job(name="first", order=1, source="crm"), a_job(name="second", order=2, source="erp")
    )
    detection = Detection({"crm": broken, "erp": ListSource(messages(2))}, configuration)
    with caplog.at_level(logging.ERROR):
        detection.run()
    assert detection.stored("first") == StoredWatermark()
    assert detection.stored("second").last_cron_run == NOW
    assert detection.sent() == ["D0", "D1"]
    assert "action=run-failed job=first: its watermark is unchanged" in caplog.text
    assert ("the column is gone" in caplog.text) == (error is not KeyError)


def test_what_depends_on_a_failed_job_is_skipped_all_the_way() -> None:
    configuration = a_configuration(
        a_job(name="a", order=1, source="crm"),
        a_job(name="b", order=2, source="erp", dependsOn=["a"]),
        a_job(name="c", order=3, source="erp", dependsOn=["b"]),
        a_job(name="d", order=4, source="erp"),
    )
    sources = {"crm": ListSource([], RejectedError("no")), "erp": ListSource(messages(1))}
    detection = Detection(sources, configuration)
    detection.run()
    assert [job for job in "abcd" if detection.stored(job).last_cron_run] == ["d"]


def test_a_broker_that_refuses_leaves_the_watermark_alone() -> None:
    detection = Detection({"crm": ListSource(messages(3))})
    detection.bus.failing = True
    detection.run()
    assert detection.watermarks.get_all_watermarks() == {}
    detection.bus.failing = False
    detection.run()
    assert detection.sent() == ["D0", "D1", "D2"]


def test_a_job_that_is_not_due_waits_and_one_query_tells() -> None:
    clock = Clock()
    jobs = [a_job(name=f"job{n}", order=n, schedule="0 * * * *") for n in range(20)]
    detection = Detection({"crm": ListSource(messages(1))}, a_configuration(*jobs), clock)
    detection.run()
    assert len(detection.sent()) == 20
    assert detection.table.queries == 1
    clock.advance(59 * 60)
    detection.run()
    assert detection.stored("job0").last_cron_run == NOW
    clock.advance(60)
    detection.run()
    assert detection.stored("job0").last_cron_run == NOW + timedelta(hours=1)


def test_a_job_out_of_time_goes_on_where_it_was_and_holds_up_its_dependants() -> None:
    clock = Clock()
    slow = ListSource(messages(10), on_message=lambda: clock.advance(30))
    configuration = a_configuration(
        a_job(name="slow", order=1, schedule="0 0 1 1 *"),
        a_job(name="after", order=2, source="erp", dependsOn=["slow"]),
        a_job(name="other", order=3, source="erp"),
    )
    detection = Detection({"crm": slow, "erp": ListSource([])}, configuration, clock)
    detection.run()
    # A third of five minutes, at 30 seconds a message.
    assert detection.sent() == ["D0", "D1", "D2", "D3"]
    assert detection.stored("slow") == StoredWatermark(at(3), None)
    assert detection.stored("after").last_cron_run is None
    assert detection.stored("other").last_cron_run is not None
    for _ in range(5):
        detection.run()
    assert detection.sent() == [f"D{n}" for n in range(10)]
    assert detection.stored("slow").last_cron_run is not None
    assert detection.stored("after").last_cron_run is not None


def test_what_was_sent_before_never_uses_up_the_time_for_what_is_new() -> None:
    clock = Clock()
    alike = [a_message(source_key=f"D{n}", change_tracker=at(5)) for n in range(6)]
    source = ListSource(alike, on_message=lambda: clock.advance(90))
    detection = Detection({"crm": source}, clock=clock)
    for _ in range(4):
        detection.run()
    assert detection.sent() == [f"D{n}" for n in range(6)]
    assert detection.stored().last_cron_run is not None


def test_beyond_the_most_records_of_one_cursor_value_further_ones_repeat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_run, "MOST_RECORDS", 3)
    alike = [a_message(source_key=f"D{n}", change_tracker=at(5)) for n in range(5)]
    detection = Detection({"crm": ListSource(alike)})
    detection.run()
    detection.run()
    assert detection.sent() == ["D0", "D1", "D2", "D3", "D4", "D3", "D4"]


def test_a_source_that_cannot_stop_midway_is_read_to_its_end() -> None:
    clock = Clock()
    source = ListSource(messages(5), can_stop_midway=False, on_message=lambda: clock.advance(400))
    detection = Detection({"crm": source}, clock=clock)
    detection.run()
    assert len(detection.sent()) == 5
    assert detection.stored().last_cron_run == NOW


WRITES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=12)


@settings(max_examples=200)
@given(data=st.data(), rounds=st.lists(WRITES, min_size=1, max_size=6))
def test_no_change_is_lost_whatever_ties_kills_and_time_budgets(
    data: st.DataObject, rounds: list[list[tuple[int, int]]]
) -> None:
    """Writers, stops, kills and refusals at random; afterwards the last content of all is there."""
    clock = Clock()
    source = ListSource([], on_message=lambda: clock.advance(data.draw(st.integers(0, 90))))
    detection = Detection({"crm": source}, clock=clock)
    second, version = 0, 0
    current: dict[str, QueueMessage] = {}
    for writes in rounds:
        for record, step in writes:
            second, version = second + step, version + 1
            key = f"R{record}"
            current[key] = a_message(
                source_key=key, change_tracker=at(second), fields={"partner_name": str(version)}
            )
        source.messages = sorted(current.values(), key=lambda m: (m.change_tracker, m.source_key))
        source._error = data.draw(st.sampled_from([None, RejectedError("killed")]))  # noqa: SLF001 - the fake's own
        detection.bus.failing = data.draw(st.booleans())
        detection.run()
    source._error, detection.bus.failing = None, False  # noqa: SLF001 - as above
    for _ in range(12):
        detection.run()
    arrived = {
        message.application_properties["SourceKey"]: orjson.loads(b"".join(message.body))["fields"]
        for batch in detection.bus.sent.get("sbqnormal", [])
        for message in batch
    }
    assert arrived == {key: message.fields for key, message in current.items()}
    settled = len(detection.sent())
    detection.run()
    assert len(detection.sent()) == settled


@pytest.mark.parametrize(
    ("kind", "reached", "warned"),
    [
        ("datetime", "2026-12-01T12:00:00Z", False),
        ("datetime", "2026-12-01T12:00:01+00:00", True),
        ("datetime", "2206-11-30T10:00:00", True),
        ("date", "2026-12-02", True),
        ("date", "2026-12-01", False),
        ("integer", "9999", False),
        ("text", "2206-11-30T10:00:00", False),
    ],
)
def test_a_watermark_in_the_future_is_warned_of(
    kind: str,
    reached: str,
    warned: bool,  # noqa: FBT001 - an expectation
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Whatever changes today is older than it, and would be passed over in silence."""
    job = a_job(watermark={"field": "modified_at", "type": kind})
    source = ListSource([a_message(change_tracker=reached)])
    detection = Detection({"crm": source}, a_configuration(job))
    detection.run()
    assert detection.stored().watermark == reached
    assert ("is in the future" in caplog.text) == warned


def test_a_watermark_type_that_does_not_fit_its_field_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cursor = {"field": "modified_at", "type": "integer"}
    configuration = a_configuration(a_job(watermark=cursor))

    class Times(ListSource):
        def retrieve_changes(self, *_: object) -> Iterator[QueueMessage]:
            yield from messages(2)

    detection = Detection({"crm": Times([])}, configuration)
    detection.run()
    assert "watermark type integer does not fit" in caplog.text
    assert "Traceback" not in caplog.text
    assert detection.stored() == StoredWatermark()
