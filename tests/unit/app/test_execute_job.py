from typing import Any

import orjson
import pytest
from azure.servicebus.exceptions import ServiceBusQuotaExceededError

from delivery.errors import UnavailableError
from models.configuration import Configuration
from services.detection.execute_job import Answer, ExecuteJobService
from services.detection.job_run import JobRunner
from services.detection.service_bus import ServiceBusService
from services.detection.watermarks import StoredWatermark, WatermarkService
from services.payloads import PayloadService
from tests.builders import a_configuration, a_configuration_with_a_response, a_job
from tests.fakes import (
    Clock,
    FixedInitialization,
    ListSource,
    MemoryBlobs,
    MemoryMetrics,
    MemoryServiceBus,
    MemoryTable,
)
from tests.unit.app.test_detection import JOB, at, messages


class Scene:
    def __init__(
        self,
        source: ListSource,
        configuration: Configuration | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.bus = MemoryServiceBus()
        self.payloads = MemoryBlobs()
        self.metrics = MemoryMetrics()
        self.watermarks = WatermarkService(MemoryTable(), MemoryBlobs())  # type: ignore[arg-type] # the fakes' few methods
        self._service = ExecuteJobService(
            FixedInitialization(configuration or a_configuration()),  # type: ignore[arg-type] # as above
            JobRunner(self.watermarks, source_of=lambda _: source),
            open_service_bus=lambda: ServiceBusService(self.bus, PayloadService(self.payloads)),  # type: ignore[arg-type] # as above
            metrics=self.metrics.service,
            now=clock or Clock(),
        )

    def post(self, **body: Any) -> Answer:
        return self._service.execute(orjson.dumps(body))

    def sent(self) -> int:
        return sum(len(batch) for batches in self.bus.sent.values() for batch in batches)

    def stored(self) -> StoredWatermark:
        return self.watermarks.get_watermark_by_job_name(JOB)


def test_a_plain_run_writes_the_watermark_but_never_when_the_job_ran_last() -> None:
    scene = Scene(ListSource(messages(3)))
    answer = scene.post(job=JOB)
    assert answer == Answer(
        200,
        {
            "job": JOB,
            "detected": 3,
            "sent": 3,
            "watermarkBefore": "0001-01-01T00:00:00Z",
            "watermarkAfter": at(2),
            "finished": True,
        },
    )
    assert scene.stored() == StoredWatermark(at(2), None)


def test_a_given_watermark_sends_again_and_leaves_the_row_alone() -> None:
    scene = Scene(ListSource(messages(5)))
    scene.post(job=JOB)
    answer = scene.post(job=JOB, watermark=at(3))
    assert (answer.content["detected"], answer.content["sent"]) == (2, 2)
    assert scene.stored().watermark == at(4)
    assert scene.sent() == 7


def test_a_filter_replaces_the_jobs_own_and_leaves_the_row_alone() -> None:
    source = ListSource(messages(2))
    own = {"field": "country", "operator": "equals", "value": "DE"}
    scene = Scene(source, a_configuration(a_job(filter=own)))
    scene.post(job=JOB, filter={"field": "number", "operator": "in", "value": ["D1"]})
    assert scene.stored() == StoredWatermark()
    scene.post(job=JOB)
    given, default = source.conditions
    assert given is not None
    assert given.model_dump(by_alias=True)["value"] == ("D1",)
    assert default is not None
    assert default.model_dump(by_alias=True)["value"] == "DE"


def test_a_dry_run_counts_shows_twenty_and_changes_nothing() -> None:
    scene = Scene(ListSource(messages(30)))
    answer = scene.post(job=JOB, dryRun=True)
    assert (answer.content["detected"], answer.content["sent"]) == (30, 0)
    assert [message["sourceKey"] for message in answer.content["messages"]] == [
        f"D{n}" for n in range(20)
    ]
    assert scene.sent() == 0
    assert scene.stored() == StoredWatermark()


def test_a_dry_run_after_a_run_would_send_nothing() -> None:
    scene = Scene(ListSource(messages(3)))
    scene.post(job=JOB)
    assert scene.post(job=JOB, dryRun=True).content["detected"] == 0


def test_a_disabled_job_is_refused_and_can_be_forced() -> None:
    scene = Scene(ListSource(messages(1)), a_configuration(a_job(enabled=False)))
    answer = scene.post(job=JOB)
    assert answer.status == 409
    assert '"force": true' in answer.content["errors"][0]
    assert scene.post(job=JOB, force=True).content["sent"] == 1


def test_a_job_that_only_takes_responses_has_nothing_to_run() -> None:
    scene = Scene(ListSource([]), a_configuration_with_a_response())
    answer = scene.post(job="numbers-to-crm", force=True)
    assert (answer.status, len(answer.content["errors"])) == (409, 1)


def test_an_unknown_job_is_answered_with_those_that_there_are() -> None:
    answer = Scene(ListSource([])).post(job="customer-to-erp")
    assert answer == Answer(
        404, {"errors": [f"there is no job 'customer-to-erp'; there are {JOB}"]}
    )


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "document: Invalid JSON"),
        (b"[]", "document has to be keys with values"),
        (b"{}", "job is missing; add it"),
        (b'{"job": "x", "colour": 1}', "colour is not known here"),
        (b'{"job": "x", "filter": {"field": "a"}}', "filter.operator is missing"),
        (b'{"job": "x", "dryRun": "perhaps"}', "dryRun: "),
    ],
)
def test_a_body_that_cannot_be_read_is_explained(body: bytes, complaint: str) -> None:
    scene = Scene(ListSource([]))
    answer = scene._service.execute(body)  # noqa: SLF001 - the raw body is the point
    assert answer.status == 400
    assert answer.content["errors"][0].startswith(complaint)


def test_a_run_stops_before_the_platform_cuts_the_answer_off() -> None:
    clock = Clock()
    source = ListSource(messages(10), on_message=lambda: clock.advance(60))
    scene = Scene(source, clock=clock)
    answer = scene.post(job=JOB)
    assert (answer.content["sent"], answer.content["finished"]) == (4, False)
    assert scene.stored().watermark == at(3)
    while not answer.content["finished"]:
        answer = scene.post(job=JOB)
    assert scene.sent() == 10


def test_a_source_that_fails_is_answered_with_its_reason() -> None:
    scene = Scene(ListSource(messages(1), UnavailableError("the CRM does not answer")))
    answer = scene.post(job=JOB)
    assert answer.status == 502
    assert "the CRM does not answer" in answer.content["errors"][0]
    assert scene.stored() == StoredWatermark()


def test_a_broker_that_fails_is_answered_too() -> None:
    scene = Scene(ListSource(messages(1)))
    scene.bus.before_send = _fail
    answer = scene.post(job=JOB)
    assert answer.status == 502
    assert "ServiceBusQuotaExceededError" in answer.content["errors"][0]
    assert scene.stored() == StoredWatermark()


def _fail() -> None:
    raise ServiceBusQuotaExceededError(message="the queue is full")


def test_t6_a_run_beside_the_timer_leads_to_repeats_and_never_to_gaps() -> None:
    """The older of two overlapping runs writes last."""
    source = ListSource(messages(3))
    scene = Scene(source)
    scene.post(job=JOB)
    older = scene.stored().watermark
    source.messages += messages(6)[3:]
    scene.post(job=JOB)
    assert older is not None
    scene.watermarks.set_watermark(JOB, older)
    scene.post(job=JOB)
    sent = [m.application_properties["SourceKey"] for b in scene.bus.sent["sbqnormal"] for m in b]
    assert sorted(set(sent)) == [f"D{n}" for n in range(6)]
    assert scene.stored().watermark == at(5)
