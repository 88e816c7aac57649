# ruff: noqa: PLC0415 - each exporter is imported when it is used: they are heavy, and what is not
# used (protobuf, for one) must not be able to break what is.
"""The exporters of metrics and of traces, by destination."""

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricExporter
    from opentelemetry.sdk.trace.export import SpanExporter


class Destination(StrEnum):
    """Where to; all but the first are values of the standard settings `OTEL_…_EXPORTER`.

    OTLP takes its endpoint and headers from the standard settings, the console is stderr, which the
    host writes into its log.
    """

    AZURE_MONITOR = "azure monitor"
    OTLP = "otlp"
    CONSOLE = "console"


def metric_exporter(destination: Destination, connection_string: str) -> "MetricExporter":
    """Raise where the connection string, which only Azure Monitor needs, is none: it is quoted."""
    match destination:
        case Destination.AZURE_MONITOR:
            from azure.monitor.opentelemetry.exporter import AzureMonitorMetricExporter

            # What cannot be sent is not kept on disk: the next values say more than the old ones.
            return AzureMonitorMetricExporter(
                connection_string=connection_string, disable_offline_storage=True
            )
        case Destination.OTLP:
            from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter

            return OTLPMetricExporter()
        case Destination.CONSOLE:
            from opentelemetry.sdk.metrics.export import ConsoleMetricExporter

            return ConsoleMetricExporter(out=sys.stderr)
        case _ as never:
            assert_never(never)


def span_exporter(destination: Destination, connection_string: str) -> "SpanExporter":
    """Raise as `metric_exporter`."""
    match destination:
        case Destination.AZURE_MONITOR:
            from azure.monitor.opentelemetry.exporter import AzureMonitorTraceExporter

            return AzureMonitorTraceExporter(
                connection_string=connection_string, disable_offline_storage=True
            )
        case Destination.OTLP:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

            return OTLPSpanExporter()
        case Destination.CONSOLE:
            from opentelemetry.sdk.trace.export import ConsoleSpanExporter

            return ConsoleSpanExporter(out=sys.stderr)
        case _ as never:
            assert_never(never)
