"""What services are given: a time, a configuration, a meter."""

from datetime import datetime, timedelta

from opentelemetry.sdk.metrics.export import (
    HistogramDataPoint,
    InMemoryMetricReader,
    NumberDataPoint,
)
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from models.configuration import Configuration
from services.metrics import MetricsService
from services.operation.telemetry_export import meter_of, tracer_of
from services.tracing import TracingService
from tests.builders import NOW


class Clock:
    """A clock that goes only when it is told to, and jumps when it is told to."""

    def __init__(self) -> None:
        self.now = NOW
        self._elapsed = 0.0

    def __call__(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        """Return the seconds that have passed, whatever the clock says."""
        return self._elapsed

    def advance(self, seconds: float) -> None:
        self._elapsed += seconds
        self.jump(seconds)

    def jump(self, seconds: float) -> None:
        """Set the clock, without any time going by."""
        self.now += timedelta(seconds=seconds)


class FixedInitialization:
    """Holds a configuration as if it had been loaded; a newer one shows to who looks for it."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration
        self.newer: Configuration | None = None
        self.error: Exception | None = None

    def ensure_initialized(self) -> Configuration:
        return self._configuration

    def refresh(self) -> Configuration:
        if self.error is not None:
            raise self.error
        self._configuration = self.newer or self._configuration
        return self._configuration

    def configuration_with_job(self, _job_name: str) -> Configuration:
        return self._configuration


class MemoryTraces:
    """The real tracer, all of whose spans are kept."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        processor = SimpleSpanProcessor(self._exporter)
        self.service = TracingService(tracer_of(processor, "tests", share=1))

    def spans(self) -> list[ReadableSpan]:
        """Return the spans that have ended, in the order of their ends."""
        return list(self._exporter.get_finished_spans())


class MemoryMetrics:
    """The real instruments, on a meter that keeps what they count."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.meter = meter_of(self._reader, "tests")
        self.clock = Clock()
        self.service = MetricsService(self.meter, monotonic=self.clock.monotonic)

    def values(self, name: str) -> dict[tuple[object, ...], int | float]:
        """Return what a metric stands at, by the values of its attributes, in order of name.

        Of a histogram that is the sum.
        """
        data = self._reader.get_metrics_data()
        found: dict[tuple[object, ...], int | float] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == name:
                        found |= dict(map(_by_attributes, metric.data.data_points))
        return found


def _by_attributes(point: object) -> tuple[tuple[object, ...], int | float]:
    assert isinstance(point, NumberDataPoint | HistogramDataPoint)
    attributes = dict(point.attributes or {})
    value = point.sum if isinstance(point, HistogramDataPoint) else point.value
    return tuple(attributes[key] for key in sorted(attributes)), value
