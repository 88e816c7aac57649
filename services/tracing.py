"""Traces: one for each change, from its detection over all attempts to where it ended.

A message carries the context of its trace in the property `traceparent` (Trace Context, W3C), as
OpenTelemetry's conventions for messaging have it: a span "create" by the sender, a span "process"
for each delivery. The run that found a change is a trace of its own, which the change's links to:
a run may find a million. Without an exporter nothing is made, and messages carry nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import INVALID_SPAN, Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from models.message_properties import TRACE_PARENT
from services.event_log import Subject

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

    from services.event_log import Action

_FORMAT = TraceContextTextMapPropagator()


class TracingService:
    """Makes spans of what goes on in a block. Safe for several threads; never raises."""

    def __init__(self, tracer: "Tracer | None") -> None:
        self._tracer = tracer

    @contextmanager
    def detecting(self, job_name: str) -> Iterator[None]:
        """Make a span of one run of a job."""
        with self._span(f"detect {job_name}", {"gleichlauf.job": job_name}, Context()):
            yield

    def created(self, queue: str, job_name: str, source_key: str) -> str:
        """Begin the trace of a change that a run has found; return its context for the message.

        Empty where nothing is traced.
        """
        if self._tracer is None:
            return ""
        found_by = trace.get_current_span().get_span_context()
        subject = Subject(queue=queue, job=job_name, source_key=source_key)
        return self._create(self._tracer, subject, Context(), [Link(found_by)])

    def answered(self, queue: str, job_name: str, source_key: str) -> str:
        """Go on with the trace of the change that a response answers; otherwise as `created`."""
        if self._tracer is None:
            return ""
        subject = Subject(queue=queue, job=job_name, source_key=source_key)
        return self._create(self._tracer, subject, None, [])

    def _create(
        self, tracer: "Tracer", subject: Subject, context: Context | None, links: list[Link]
    ) -> str:
        """Make the span that a message begins with; None is the context of the current span."""
        span = tracer.start_span(
            f"create {subject.queue}", context, SpanKind.PRODUCER, _attributes(subject), links
        )
        span.end()
        carrier: dict[str, str] = {}
        _FORMAT.inject(carrier, trace.set_span_in_context(span, Context()))
        return carrier.get(TRACE_PARENT, "")

    @contextmanager
    def processing(self, subject: Subject, trace_parent: object) -> Iterator["Span"]:
        """Make a span of one delivery, in the trace of its change."""
        carrier = {TRACE_PARENT: trace_parent} if isinstance(trace_parent, str) else {}
        context = _FORMAT.extract(carrier, Context())
        name, attributes = f"process {subject.queue}", _attributes(subject)
        with self._span(name, attributes, context, SpanKind.CONSUMER) as span:
            yield span

    @contextmanager
    def _span(
        self,
        name: str,
        attributes: dict[str, str | int],
        context: Context,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Iterator["Span"]:
        """Make a span; of an error its type is told, for its text may quote a record."""
        if self._tracer is None:
            yield INVALID_SPAN
            return
        with self._tracer.start_as_current_span(
            name, context, kind, attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            try:
                yield span
            except Exception as error:
                span.set_attribute("error.type", type(error).__name__)
                span.set_status(Status(StatusCode.ERROR))
                raise


def tell_action(span: "Span", action: "Action") -> None:
    """Say on a span how the delivery ended."""
    span.set_attribute("gleichlauf.action", action.value)


def _attributes(subject: Subject) -> dict[str, str | int]:
    """Name things as OpenTelemetry's conventions do, as far as they have names for them."""
    attributes: dict[str, str | int] = {
        "messaging.system": "servicebus",
        "messaging.destination.name": subject.queue,
        "gleichlauf.job": subject.job,
        "gleichlauf.source_key": subject.source_key,
    }
    # A message has no attempt before it is delivered.
    return attributes | ({"gleichlauf.attempt": subject.attempt} if subject.attempt else {})
