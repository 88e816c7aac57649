"""Activities of durable detection: what a chain of them sends, and what it leaves behind."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from azure.core.exceptions import ServiceRequestError
from hypothesis import given
from hypothesis import strategies as st

from delivery.errors import ConfigurationError
from models.boundary import Boundary
from models.configuration import Configuration
from models.queue_message import JobActionType, QueueMessage
from services.detection.activity import (
    DurableDetectionService,
    JobFailedError,
)
from services.detection.job_run import RunOptions
from services.detection.jobs import JobService
from services.metrics import Metric
from tests.builders import NOW, a_configuration, a_job, a_message
from tests.fakes.services import Clock, FixedInitialization
from tests.fakes.storage import MemoryBlobs
from tests.fakes.systems import ListSource
from tests.unit.app.runs import JOB, Runs, at, messages


class Durable(Runs):
    """Activities, as an orchestration calls them: by JSON."""

    def __init__(self, source: ListSource, configuration: Configuration | None = None) -> None:
        super().__init__(lambda _: source)
        self.clock = Clock()
        self.scratch = MemoryBlobs(self.clock)
        self.configuration = configuration or a_configuration()
        self.initialization = FixedInitialization(self.configuration)
        self._service = DurableDetectionService(
            self.initialization,  # type: ignore[arg-type] # the fakes' few methods
            JobService(self.watermarks, self.metrics.service),
            self.watermarks,
            self.scratch,  # type: ignore[arg-type] # as above
            source_of=lambda _: source,
            open_service_bus=self.open_service_bus,
            reports=self.reports(self.clock),
            now=self.clock,
        )

    def execute(self, page: int = 0, cookie: str | None = None, **changes: object) -> Any:
        param = {"job": JOB, "owner": "i", "page": page, "cookie": cookie, "maxBatchSize": 1}
        text = json.dumps(param | changes)
        result = self._service.execute(json.loads(text))
        return json.loads(json.dumps(result))

    def remove_leftovers(self) -> None:
        self._service.remove_leftovers()

    def list_jobs(self) -> list[list[Any]]:
        return self._service.list_jobs()

    def chain(
        self,
        between: Callable[[], object] = lambda: None,
        repeats: Callable[[], bool] = lambda: False,
        **changes: object,
    ) -> list[Any]:
        """Call activity after activity until the job is read, and return their results."""
        results: list[Any] = []
        page, cookie = 0, None
        while not results or results[-1]["hasMore"]:
            assert len(results) < 200
            result = self.execute(page, cookie, **changes)
            if repeats():
                result = self.execute(page, cookie, **changes)
            results.append(result)
            page, cookie = result["page"], result["cookie"]
            between()
        return results


def at_seconds(*seconds: int, **changes: object) -> list[QueueMessage]:
    """Return records with these cursor values, in their order."""
    return [
        a_message(source_key=f"D{n}", change_tracker=at(second), **changes)
        for n, second in enumerate(sorted(seconds))
    ]


_SECONDS = st.lists(st.integers(0, 5), max_size=30)
_FEW = st.integers(1, 4)


def test_what_an_ended_instance_left_goes_after_a_day_and_what_runs_stays() -> None:
    durable = Durable(ListSource(messages(5), page_size=2))
    durable.execute(owner="ended")
    durable.clock.advance(24 * 3600)
    durable.execute(owner="running")
    durable.scratch.upload_blob("durable/0", b"of a job with that name")
    durable.clock.advance(1)
    durable.remove_leftovers()
    assert len(durable.scratch.blobs) == 2
    assert durable.execute(2, at(1), owner="running")["detected"] == 2
    assert "durable/0" in durable.scratch.blobs


@given(_SECONDS, _FEW, _FEW)
def test_a_chain_of_activities_sends_every_message_once_whatever_ties_there_are(
    seconds: list[int], page_size: int, pages: int
) -> None:
    durable = Durable(ListSource(at_seconds(*seconds), page_size=page_size))
    results = durable.chain(maxBatchSize=pages)
    assert durable.sent() == [f"D{n}" for n in range(len(seconds))]
    assert [result["page"] for result in results] == [pages * (n + 1) for n in range(len(results))]
    # Where more is promised, something was sent; where not, all was.
    assert all(result["detected"] == page_size * pages for result in results[:-1])
    assert len(results) <= len(seconds) // (page_size * pages) + 1
    assert durable.scratch.blobs == {}


@given(_SECONDS, _FEW, st.lists(st.booleans(), max_size=20))
def test_an_activity_that_runs_twice_leads_to_repeats_and_never_to_gaps(
    seconds: list[int], page_size: int, repeated: list[bool]
) -> None:
    durable = Durable(ListSource(at_seconds(*seconds), page_size=page_size))
    answers = iter(repeated)
    durable.chain(repeats=lambda: next(answers, False))
    assert set(durable.sent()) == {f"D{n}" for n in range(len(seconds))}
    assert durable.scratch.blobs == {}


@given(_SECONDS, _FEW, st.integers(0, 10), st.integers(0, 10))
def test_an_activity_whose_twin_runs_late_leads_to_no_gaps(
    seconds: list[int], page_size: int, which: int, when: int
) -> None:
    durable = Durable(ListSource(at_seconds(*seconds), page_size=page_size))
    page, cookie, has_more = 0, None, True
    params: list[tuple[int, str | None]] = []
    while has_more:
        params.append((page, cookie))
        result = durable.execute(page, cookie)
        if len(params) == when and which < when:
            durable.execute(*params[which])
        page, cookie, has_more = result["page"], result["cookie"], result["hasMore"]
        assert len(params) < 200
    assert set(durable.sent()) == {f"D{n}" for n in range(len(seconds))}


@given(_SECONDS, _FEW, st.integers(0, 10), st.sampled_from([None, b"", b"{}", b'{"value": 1}']))
def test_a_scratch_blob_that_is_lost_or_broken_costs_repeats_and_no_gaps(
    seconds: list[int], page_size: int, when: int, content: bytes | None
) -> None:
    durable = Durable(ListSource(at_seconds(*seconds), page_size=page_size))
    passed = count()

    def lose() -> None:
        if next(passed) == when:
            for name in list(durable.scratch.blobs):
                if content is None:
                    del durable.scratch.blobs[name]
                else:
                    durable.scratch.blobs[name] = content

    durable.chain(between=lose)
    assert set(durable.sent()) == {f"D{n}" for n in range(len(seconds))}


def test_id1_a_record_that_appears_between_two_activities_at_the_cookie_is_sent() -> None:
    source = ListSource(at_seconds(0, 1, 1, 2, 2), page_size=2)
    durable = Durable(source)
    late = [a_message(source_key="late", change_tracker=at(1))]

    def appears() -> None:
        source.messages[1:1] = late
        late.clear()

    durable.chain(between=appears)
    assert sorted(durable.sent()) == ["D0", "D1", "D2", "D3", "D4", "late"]


def test_the_stored_watermark_is_read_and_never_written() -> None:
    source = ListSource(at_seconds(0, 1, 1, 1, 2, 3), page_size=2)
    durable = Durable(source)
    hashed = Boundary(at(1)).with_sent({})
    durable.watermarks.update_watermark_by_job_name(JOB, at(1), hashed, NOW)
    before = {key: dict(row) for key, row in durable.table.rows.items()}
    results = durable.chain()
    assert {key: dict(row) for key, row in durable.table.rows.items()} == before
    assert durable.sent() == ["D1", "D2", "D3", "D4", "D5"]
    assert results[0]["watermark"] == source.watermarks[0] == at(1)


def test_what_the_timer_sent_at_the_stored_watermark_is_not_sent_again() -> None:
    source = ListSource(at_seconds(0, 1, 1), page_size=1)
    durable = Durable(source)
    ByTimer(durable, source).run()
    source.messages += [
        a_message(source_key=key, change_tracker=at(1)) for key in ("D3", "D4", "D5")
    ]
    durable.chain()
    assert durable.sent() == ["D0", "D1", "D2", "D3", "D4", "D5"]


class ByTimer:
    """A timer's run beside the activities, on the same stored watermark."""

    def __init__(self, durable: Durable, source: ListSource) -> None:
        self._durable = durable
        self._source = source

    def run(self) -> None:
        with self._durable.open_service_bus() as bus:
            configuration = self._durable.configuration
            job = configuration.jobs[JOB]
            self._durable.runner.run(job, configuration, bus, RunOptions(), NOW)


def test_a_second_start_sends_all_again_because_the_watermark_stays() -> None:
    durable = Durable(ListSource(messages(3)))
    durable.chain()
    durable.chain(owner="j")
    assert durable.sent() == ["D0", "D1", "D2"] * 2


def test_two_instances_share_no_scratch_blob() -> None:
    durable = Durable(ListSource(at_seconds(1, 1, 1, 1), page_size=2))
    first = durable.execute(owner="i")
    durable.chain(owner="j")
    assert len(durable.scratch.blobs) == 1
    durable.execute(first["page"], first["cookie"], owner="i")
    assert durable.sent() == ["D0", "D1", "D0", "D1", "D2", "D3", "D2", "D3"]


def test_d6_a_result_has_no_records_and_stays_small() -> None:
    name_of_a_customer = "Müller-Lüdenscheidt"
    source = ListSource(
        at_seconds(*range(3_000), *range(2_000), fields={"partner_name": name_of_a_customer}),
        page_size=5_000,
    )
    result = Durable(source).execute(maxBatchSize=3)
    assert set(result) == {"page", "cookie", "watermark", "hasMore", "detected", "reading"}
    assert result["detected"] == 5_000
    assert result["hasMore"] is False
    assert len(json.dumps(result, ensure_ascii=False)) < 300
    assert name_of_a_customer not in json.dumps(result, ensure_ascii=False)


def test_an_empty_source_has_no_more() -> None:
    result = Durable(ListSource([])).execute()
    assert result["hasMore"] is False
    assert result["detected"] == 0


def test_a_source_that_cannot_stop_midway_is_read_in_one_activity() -> None:
    durable = Durable(ListSource(messages(10), page_size=2, can_stop_midway=False))
    assert [result["hasMore"] for result in durable.chain()] == [False]
    assert len(durable.sent()) == 10


def test_time_stamps_move_the_cookie_and_are_not_sent() -> None:
    source = ListSource(
        [*messages(1), a_message(action=JobActionType.TIME_STAMP, change_tracker=at(9))]
    )
    durable = Durable(source)
    assert durable.execute()["cookie"] == at(9)
    assert durable.sent() == ["D0"]


def test_the_changes_of_all_activities_are_counted() -> None:
    durable = Durable(ListSource(messages(7), page_size=2))
    durable.chain()
    assert durable.metrics.values(Metric.CHANGES_DETECTED) == {(JOB,): 7}


# Failures


@pytest.mark.parametrize("text", ["why", "x" * 70_000, "ü" * 70_000])
def test_d3_a_failing_source_fails_the_activity_with_a_short_text(text: str) -> None:
    durable = Durable(ListSource(messages(3), RuntimeError(text)))
    with pytest.raises(JobFailedError) as failed:
        durable.execute()
    assert len(str(failed.value).encode()) <= 2_000
    assert str(failed.value)[:3] in {"why", "xxx", "üüü"}


def test_what_was_flushed_before_a_failure_are_whole_batches() -> None:
    durable = Durable(ListSource(messages(450), RuntimeError("why")))
    with pytest.raises(JobFailedError, match="why"):
        durable.execute()
    assert durable.batches() == [200, 200]
    assert durable.bus.closed


def test_a_broker_that_is_away_fails_the_activity() -> None:
    durable = Durable(ListSource(messages(3)))
    durable.bus.failing = True
    with pytest.raises(JobFailedError, match="the broker is away"):
        durable.execute()
    assert durable.scratch.blobs == {}


def test_a_job_that_fails_midway_leaves_no_scratch_blob() -> None:
    source = ListSource(messages(5), RuntimeError("why"), page_size=2)
    durable = Durable(source)
    with pytest.raises(JobFailedError, match="why"):
        durable.chain()
    assert durable.scratch.blobs == {}


def test_a_scratch_blob_that_cannot_be_removed_hides_no_error_and_makes_none() -> None:
    def away(_name: str) -> None:
        msg = "the storage is away"
        raise ServiceRequestError(msg)

    durable = Durable(ListSource(messages(3), page_size=2))
    durable.scratch.delete_blob = away  # type: ignore[method-assign, assignment] # storage fails here only
    assert durable.chain()[-1]["hasMore"] is False
    durable.bus.failing = True
    with pytest.raises(JobFailedError, match="the broker is away"):
        durable.execute()


def test_a_job_that_is_gone_fails_by_its_name() -> None:
    durable = Durable(ListSource([]))
    with pytest.raises(JobFailedError, match="there is no job 'gone' any more"):
        durable.execute(job="gone")


# The list


def test_the_due_jobs_are_listed_in_their_order_with_what_they_depend_on() -> None:
    configuration = a_configuration(
        a_job(name="b", order=2, dependsOn=["a"]),
        a_job(name="a", order=1),
        a_job(name="off", enabled=False),
    )
    durable = Durable(ListSource([]), configuration)
    assert durable.list_jobs() == [["a", []], ["b", ["a"]]]


def test_an_activity_sees_a_job_that_another_worker_has_seen_first() -> None:
    durable = Durable(ListSource(messages(1)), a_configuration(a_job(name="another")))
    durable.initialization.newer = a_configuration()
    assert durable.execute()["detected"] == 1


@pytest.mark.parametrize(
    "change",
    [
        {"filter": {"field": "name", "operator": "isNotNull"}},
        {"watermark": {"field": "created_at", "type": "datetime"}},
        {"source": "erp"},
    ],
)
def test_a_job_that_was_changed_in_the_middle_fails_and_is_not_read_on(
    change: dict[str, Any],
) -> None:
    durable = Durable(ListSource(messages(5), page_size=2))
    first = durable.execute()
    durable.initialization.newer = a_configuration(a_job(**change))
    with pytest.raises(JobFailedError, match="was changed while it was read; start again"):
        durable.execute(first["page"], first["cookie"], reading=first["reading"])
    assert len(durable.sent()) == 2


def test_a_job_that_was_moved_in_the_middle_is_read_on() -> None:
    durable = Durable(ListSource(messages(5), page_size=2))
    first = durable.execute()
    durable.initialization.newer = a_configuration(a_job(order=7, schedule="0 0 * * *"))
    assert durable.execute(2, first["cookie"], reading=first["reading"])["detected"] == 2


@pytest.mark.parametrize("kind", ["datetime", "text", "unheard-of"])
def test_a_source_whose_order_is_not_the_watermark_s_fails_instead_of_going_on_for_ever(
    kind: str,
) -> None:
    """As where a database sorts texts without regard to case, and for types that nobody knows."""
    trackers = [at(59), *(at(n) for n in range(9))]
    changes = [a_message(source_key=f"D{n}", change_tracker=t) for n, t in enumerate(trackers)]
    job = a_job(watermark={"field": "modified_at", "type": kind})
    durable = Durable(Unsorted(changes, page_size=2), a_configuration(job))
    with pytest.raises(JobFailedError, match="does not get beyond the cursor value"):
        durable.chain()
    assert len(durable.sent()) <= 4


class Unsorted(ListSource):
    """Takes every change for one at or after any watermark."""

    def retrieve_changes(self, *_: object) -> Iterator[QueueMessage]:
        yield from self.messages


def test_d3_whatever_goes_wrong_before_a_job_is_read_is_told_in_few_words() -> None:
    durable = Durable(ListSource([]))
    durable.initialization.error = ConfigurationError("x" * 90_000)
    for ask in (durable.list_jobs, durable.execute):
        with pytest.raises(JobFailedError) as failed:
            ask()
        assert len(str(failed.value)) <= 2_000
    with pytest.raises(JobFailedError, match="maxBatchSize"):
        durable.execute(maxBatchSize="x" * 90_000)
