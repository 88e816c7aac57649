"""What services are given: a time, a configuration, a meter."""

from datetime import datetime, timedelta

from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from models.configuration import Configuration
from services.metrics import MetricsService
from services.operation.metric_export import meter_of
from tests.builders import NOW


class Clock:
    """A clock that goes only when it is told to."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class FixedInitialization:
    """Holds a configuration as if it had been loaded."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    def ensure_initialized(self) -> Configuration:
        return self._configuration

    def refresh(self) -> Configuration:
        return self._configuration

    def configuration_with_job(self, _job_name: str) -> Configuration:
        return self._configuration


class MemoryMetrics:
    """The real counters, on a meter that keeps what they count."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.meter = meter_of(self._reader, "tests")
        self.service = MetricsService(self.meter)

    def values(self, name: str) -> dict[tuple[object, ...], int | float]:
        """Return what a metric stands at, by the values of its attributes, in order of name."""
        data = self._reader.get_metrics_data()
        found: dict[tuple[object, ...], int | float] = {}
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    if metric.name == name:
                        found |= dict(map(_by_attributes, metric.data.data_points))
        return found


def _by_attributes(point: object) -> tuple[tuple[object, ...], int | float]:
    assert isinstance(point, NumberDataPoint)
    attributes = dict(point.attributes or {})
    return tuple(attributes[key] for key in sorted(attributes)), point.value
