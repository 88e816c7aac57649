# ruff: noqa: PLC0415 - each exporter is imported when it is used: they are heavy, and what is not
# used (protobuf, for one) must not be able to break what is.
"""The exporters of metrics and of traces, by destination."""

import logging
import re
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

            _leave_out_values()
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

            _leave_out_values()
            return OTLPSpanExporter()
        case Destination.CONSOLE:
            from opentelemetry.sdk.trace.export import ConsoleSpanExporter

            return ConsoleSpanExporter(out=sys.stderr)
        case _ as never:
            assert_never(never)


#: Those of the SDK's loggers that quote headers and addresses, in both of which a key may stand.
_QUOTING = (
    "opentelemetry.util.re",
    "opentelemetry.exporter.otlp.common.http",
    "opentelemetry.exporter.otlp.proto.http._common",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
)

_VALUE = re.compile(r"%[-.0-9]*[a-z]")


def _leave_out_values() -> None:
    """Have the OTLP exporters say what is wrong without the values that they quote."""
    for name in _QUOTING:
        logging.getLogger(name).addFilter(_without_values)


def _without_values(record: logging.LogRecord) -> bool:
    sentence = _VALUE.sub("…", str(record.msg)) if record.args else str(record.msg)
    record.msg = "%s Look at the app settings that begin with OTEL_EXPORTER_OTLP_."
    record.args = (sentence,)
    record.exc_info = record.exc_text = None
    return True
