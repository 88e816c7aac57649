import pytest
from azure.servicebus.exceptions import ServiceBusQuotaExceededError

from delivery.errors import UnavailableError
from services.detection.execute_job import Answer
from services.detection.watermarks import StoredWatermark
from tests.builders import a_configuration, a_configuration_with_a_response, a_job
from tests.fakes.services import Clock
from tests.fakes.systems import ListSource
from tests.unit.app.runs import JOB, ByHand, at, messages


def test_a_plain_run_writes_the_watermark_but_never_when_the_job_ran_last() -> None:
    runs = ByHand(ListSource(messages(3)))
    answer = runs.post(job=JOB)
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
    assert runs.stored() == StoredWatermark(at(2), None)


def test_a_given_watermark_sends_again_and_leaves_the_row_alone() -> None:
    runs = ByHand(ListSource(messages(5)))
    runs.post(job=JOB)
    answer = runs.post(job=JOB, watermark=at(3))
    assert (answer.content["detected"], answer.content["sent"]) == (2, 2)
    assert runs.stored().watermark == at(4)
    assert len(runs.sent()) == 7


def test_a_filter_replaces_the_jobs_own_and_leaves_the_row_alone() -> None:
    source = ListSource(messages(2))
    own = {"field": "country", "operator": "equals", "value": "DE"}
    runs = ByHand(source, a_configuration(a_job(filter=own)))
    runs.post(job=JOB, filter={"field": "number", "operator": "in", "value": ["D1"]})
    assert runs.stored() == StoredWatermark()
    runs.post(job=JOB)
    given, default = source.conditions
    assert given is not None
    assert given.model_dump(by_alias=True)["value"] == ("D1",)
    assert default is not None
    assert default.model_dump(by_alias=True)["value"] == "DE"


def test_a_dry_run_counts_shows_twenty_and_changes_nothing() -> None:
    runs = ByHand(ListSource(messages(30)))
    answer = runs.post(job=JOB, dryRun=True)
    assert (answer.content["detected"], answer.content["sent"]) == (30, 0)
    assert [message["sourceKey"] for message in answer.content["messages"]] == [
        f"D{n}" for n in range(20)
    ]
    assert len(runs.sent()) == 0
    assert runs.stored() == StoredWatermark()


def test_a_dry_run_after_a_run_would_send_nothing() -> None:
    runs = ByHand(ListSource(messages(3)))
    runs.post(job=JOB)
    assert runs.post(job=JOB, dryRun=True).content["detected"] == 0


def test_a_disabled_job_is_refused_and_can_be_forced() -> None:
    runs = ByHand(ListSource(messages(1)), a_configuration(a_job(enabled=False)))
    answer = runs.post(job=JOB)
    assert answer.status == 409
    assert '"force": true' in answer.content["errors"][0]
    assert runs.post(job=JOB, force=True).content["sent"] == 1


def test_a_job_that_only_takes_responses_has_nothing_to_run() -> None:
    runs = ByHand(ListSource([]), a_configuration_with_a_response())
    answer = runs.post(job="numbers-to-crm", force=True)
    assert (answer.status, len(answer.content["errors"])) == (409, 1)


def test_an_unknown_job_is_answered_with_those_that_there_are() -> None:
    answer = ByHand(ListSource([])).post(job="customer-to-erp")
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
    runs = ByHand(ListSource([]))
    answer = runs.service.execute(body)
    assert answer.status == 400
    assert answer.content["errors"][0].startswith(complaint)


def test_a_run_stops_before_the_platform_cuts_the_answer_off() -> None:
    clock = Clock()
    source = ListSource(messages(10), on_message=lambda: clock.advance(60))
    runs = ByHand(source, clock=clock)
    answer = runs.post(job=JOB)
    assert (answer.content["sent"], answer.content["finished"]) == (4, False)
    assert runs.stored().watermark == at(3)
    while not answer.content["finished"]:
        answer = runs.post(job=JOB)
    assert len(runs.sent()) == 10


def test_a_source_that_fails_is_answered_with_its_reason() -> None:
    runs = ByHand(ListSource(messages(1), UnavailableError("the CRM does not answer")))
    answer = runs.post(job=JOB)
    assert answer.status == 502
    assert "the CRM does not answer" in answer.content["errors"][0]
    assert runs.stored() == StoredWatermark()


def test_a_broker_that_fails_is_answered_too() -> None:
    runs = ByHand(ListSource(messages(1)))
    runs.bus.before_send = _fail
    answer = runs.post(job=JOB)
    assert answer.status == 502
    assert "ServiceBusQuotaExceededError" in answer.content["errors"][0]
    assert runs.stored() == StoredWatermark()


def _fail() -> None:
    raise ServiceBusQuotaExceededError(message="the queue is full")


def test_t6_a_run_beside_the_timer_leads_to_repeats_and_never_to_gaps() -> None:
    """The older of two overlapping runs writes last."""
    source = ListSource(messages(3))
    runs = ByHand(source)
    runs.post(job=JOB)
    older = runs.stored().watermark
    source.messages += messages(6)[3:]
    runs.post(job=JOB)
    assert older is not None
    runs.watermarks.set_watermark(JOB, older)
    runs.post(job=JOB)
    assert sorted(set(runs.sent())) == [f"D{n}" for n in range(6)]
    assert runs.stored().watermark == at(5)
