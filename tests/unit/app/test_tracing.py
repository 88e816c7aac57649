"""One trace a change: created by the run that found it, processed, however often."""

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind, StatusCode

from delivery.errors import RejectedError
from services.tracing import TracingService
from tests.builders import a_configuration_with_a_response, a_message
from tests.fakes.systems import ListSource
from tests.unit.app.runs import JOB, Detection, messages
from tests.unit.app.stage import Stage, properties_of

SECRET = "Erika-Mustermann"  # noqa: S105 - none


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    trace_id: int = span.context.trace_id
    return trace_id


def parent_of(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def test_each_change_has_a_trace_of_its_own_that_links_to_the_run_that_found_it() -> None:
    detection = Detection({"crm": ListSource(messages(2))})
    detection.run()
    first, second, run = detection.traces.spans()
    assert (first.name, run.name) == ("create sbqnormal", f"detect {JOB}")
    assert first.kind is SpanKind.PRODUCER
    assert len({trace_of(span) for span in (first, second, run)}) == 3
    assert [link.context for link in first.links] == [run.context]
    assert dict(first.attributes or {}).items() >= {
        ("messaging.system", "servicebus"),
        ("messaging.destination.name", "sbqnormal"),
        ("gleichlauf.job", JOB),
        ("gleichlauf.source_key", "D0"),
    }


def test_a_delivery_goes_on_with_the_trace_that_its_message_carries() -> None:
    detection = Detection({"crm": ListSource(messages(1))})
    detection.run()
    [[sent]] = detection.bus.sent["sbqnormal"]
    created = detection.traces.spans()[0]
    stage = Stage()
    stage.deliver(b"".join(sent.body), properties=sent.application_properties)
    [processed] = stage.traces.spans()
    assert (processed.name, processed.kind) == ("process sbqnormal", SpanKind.CONSUMER)
    assert created.context is not None
    assert (trace_of(processed), parent_of(processed)) == (
        trace_of(created),
        created.context.span_id,
    )
    assert dict(processed.attributes or {})["gleichlauf.action"] == "processed"
    assert dict(processed.attributes or {})["gleichlauf.attempt"] == 1


def test_a_copy_carries_the_trace_on() -> None:
    stage = Stage()
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    stage.deliver(a_message(), delivery_count=7, properties={"JobName": JOB, "traceparent": parent})
    assert properties_of(stage.posted("sbqnormal"))["traceparent"] == parent
    [postponed] = stage.traces.spans()
    assert dict(postponed.attributes or {})["gleichlauf.action"] == "postponed"
    assert f"{trace_of(postponed):032x}" in parent


def test_of_a_failure_the_type_is_told_and_never_the_text() -> None:
    stage = Stage()
    stage.target.error = RejectedError(SECRET)
    stage.fail(RejectedError, a_message())
    [span] = stage.traces.spans()
    assert span.status.status_code is StatusCode.ERROR
    assert dict(span.attributes or {})["error.type"] == "RejectedError"
    assert SECRET not in span.to_json()


def test_a_response_belongs_to_the_trace_that_it_answers() -> None:
    stage = Stage(a_configuration_with_a_response())
    stage.deliver()
    created, processed = stage.traces.spans()
    assert (created.name, created.kind) == ("create sbqhigh", SpanKind.PRODUCER)
    assert processed.context is not None
    assert (trace_of(created), parent_of(created)) == (
        trace_of(processed),
        processed.context.span_id,
    )
    assert list(created.links) == []


def test_what_is_not_traced_is_not_traced_further_on_either() -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    stage = Stage(a_configuration_with_a_response())
    stage.deliver(properties={"JobName": JOB, "traceparent": parent})
    assert stage.traces.spans() == []
    answer = str(properties_of(stage.posted("sbqhigh"))["traceparent"])
    assert answer.startswith("00-0af7651916cd43dd8448eb211c80319c-")
    assert answer.endswith("-00")


@pytest.mark.parametrize("odd", ["", "nonsense", 7, None, "00-0-0-00"])
def test_whatever_somebody_wrote_into_the_property_a_trace_begins(odd: object) -> None:
    stage = Stage()
    stage.deliver(a_message(), properties={"JobName": JOB, "traceparent": odd})
    [span] = stage.traces.spans()
    assert span.parent is None


def test_without_a_tracer_nothing_is_made() -> None:
    tracing = TracingService(None)
    with tracing.detecting(JOB):
        assert tracing.created("sbqnormal", JOB, "D1") == ""
