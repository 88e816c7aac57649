"""The meter and the tracer of this process, and where what they make goes.

To Azure Monitor where its app setting is set; else the standard settings decide: an OTLP endpoint,
or the console; else nowhere. "OpenTelemetry Environment Variable Specification".
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING

from delivery.errors import ConfigurationError
from services.event_log import place_of
from services.metrics import Metric
from services.operation.exporters import Destination, metric_exporter, span_exporter

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor
    from opentelemetry.trace import Tracer

_LOGGER = logging.getLogger(__name__)

#: The app setting that the Functions host reads too.
APPLICATION_INSIGHTS = "APPLICATIONINSIGHTS_CONNECTION_STRING"

_NAME = "gleichlauf"

#: Every tenth change is traced, unless the standard settings say otherwise.
_TRACED = 0.1


class Signal(StrEnum):
    """What is exported; part of the standard settings' names."""

    METRICS = "METRICS"
    TRACES = "TRACES"


def open_meter(environ: Mapping[str, str]) -> "Meter":
    """Return the meter of this process; where nobody exports, one that does nothing, threadless.

    A setting that is no good is logged: counting is no reason for the app to stand.
    """
    from opentelemetry.metrics import NoOpMeterProvider  # noqa: PLC0415 - imported when used

    def open_exporting(destination: Destination) -> "Meter":
        from opentelemetry.sdk.metrics.export import (  # noqa: PLC0415 - imported when used
            PeriodicExportingMetricReader,
        )

        exporter = metric_exporter(destination, environ.get(APPLICATION_INSIGHTS, ""))
        reader = PeriodicExportingMetricReader(exporter)
        with _shut_down_after_failure(reader):
            return meter_of(reader, _service_name(environ))

    meter = _opened(Signal.METRICS, environ, open_exporting)
    return meter or NoOpMeterProvider().get_meter(_NAME)


def open_tracer(environ: Mapping[str, str]) -> "Tracer | None":
    """Return the tracer of this process, by the rules of `open_meter`; None where none exports."""

    def open_exporting(destination: Destination) -> "Tracer":
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - as above

        exporter = span_exporter(destination, environ.get(APPLICATION_INSIGHTS, ""))
        processor = BatchSpanProcessor(exporter)
        share = None if environ.get("OTEL_TRACES_SAMPLER") else _TRACED
        with _shut_down_after_failure(processor):
            return tracer_of(processor, _service_name(environ), share)

    return _opened(Signal.TRACES, environ, open_exporting)


def meter_of(reader: "MetricReader", service_name: str) -> "Meter":
    """Return a meter that `reader` exports, under the names as we spell them.

    The SDK makes the names of instruments lower case, those of views it leaves alone.
    """
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415 - imported when used
    from opentelemetry.sdk.metrics.view import View  # noqa: PLC0415 - imported when used

    views = [View(instrument_name=name, name=name) for name in Metric]
    return MeterProvider([reader], _resource(service_name), views=views).get_meter(_NAME)


def tracer_of(processor: "SpanProcessor", service_name: str, share: float | None) -> "Tracer":
    """Return a tracer that makes spans of this share of all traces, 1 for all.

    None leaves that to the SDK, which reads the standard settings.
    """
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - imported when used
    from opentelemetry.sdk.trace.sampling import ParentBasedTraceIdRatio  # noqa: PLC0415 - as above

    sampler = None if share is None else ParentBasedTraceIdRatio(share)
    provider = TracerProvider(sampler, _resource(service_name))
    provider.add_span_processor(processor)
    return provider.get_tracer(_NAME)


def destination_of(signal: Signal, environ: Mapping[str, str]) -> Destination | None:
    """Return where a signal goes; raise ConfigurationError where its setting is no known name."""
    if environ.get(APPLICATION_INSIGHTS):
        return Destination.AZURE_MONITOR
    setting = f"OTEL_{signal}_EXPORTER"
    match environ.get(setting):
        case None | "":
            endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
            return Destination.OTLP if any(map(environ.get, endpoints)) else None
        case "none":
            return None
        case Destination.OTLP | Destination.CONSOLE as name:
            return Destination(name)
        case name:
            msg = f"the app setting {setting} is {name!r}; set it to otlp, console or none"
            raise ConfigurationError(msg)


def _opened[Opened](
    signal: Signal, environ: Mapping[str, str], open_exporting: Callable[[Destination], Opened]
) -> Opened | None:
    """Open what the settings ask for; None where that is nothing, or cannot be."""
    try:
        destination = destination_of(signal, environ)
        return open_exporting(destination) if destination else None
    except ConfigurationError as error:
        _LOGGER.error("no %s are exported: %s", signal.lower(), error)  # noqa: TRY400 - all is said
    except Exception as error:  # noqa: BLE001 - whatever it is, the app goes on without
        # The exporter's text may quote the setting, and that is a secret.
        _LOGGER.error(  # noqa: TRY400 - as said
            "no %s are exported: %s cannot be used; correct it (%s %s)",
            signal.lower(),
            f"the app setting {APPLICATION_INSIGHTS}, or one that begins with OTEL_,"
            if environ.get(APPLICATION_INSIGHTS)
            else "an app setting that begins with OTEL_",
            type(error).__name__,
            place_of(error),
        )
    return None


@contextmanager
def _shut_down_after_failure(sink: "MetricReader | SpanProcessor") -> Iterator[None]:
    """Leave no thread behind that exports for nobody."""
    try:
        yield
    except Exception:
        with suppress(Exception):
            sink.shutdown()
        raise


def _resource(service_name: str) -> "Resource":
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - imported when used

    return Resource.create({"service.name": service_name})


def _service_name(environ: Mapping[str, str]) -> str:
    # Azure names the app in WEBSITE_SITE_NAME; the host's own telemetry bears that name too.
    return environ.get("OTEL_SERVICE_NAME") or environ.get("WEBSITE_SITE_NAME") or _NAME
