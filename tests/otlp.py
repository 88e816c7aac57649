"""A collector that takes metrics and traces by OTLP over HTTP, on loopback."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

#: A metric's name, and its attributes in the order of their names.
type Series = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Span:
    """What is looked at of a span."""

    name: str
    trace: bytes
    parent: bytes
    id: bytes
    attributes: dict[str, str]


@dataclass
class Collector:
    """What has arrived: the last value of each series, of a histogram its sum, and all spans."""

    endpoint: str = ""
    values: dict[Series, float] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)

    def total(self, metric: str, **attributes: str) -> float:
        """Return the sum over all series of a metric that have these attributes."""
        wanted = attributes.items()
        return sum(
            value
            for (name, has), value in list(self.values.items())
            if name == metric and wanted <= dict(has).items()
        )

    def take(self, path: str, body: bytes) -> None:
        """Take in one request."""
        if path == "/v1/metrics":
            self._take_metrics(ExportMetricsServiceRequest.FromString(body))
        else:
            assert path == "/v1/traces"
            self._take_spans(ExportTraceServiceRequest.FromString(body))

    def _take_metrics(self, request: Any) -> None:
        for metric in (
            m for r in request.resource_metrics for s in r.scope_metrics for m in s.metrics
        ):
            kind = metric.WhichOneof("data")
            for point in getattr(metric, kind).data_points:
                key = metric.name, tuple(sorted(_attributes(point).items()))
                value = point.sum if kind == "histogram" else point.as_int or point.as_double
                self.values[key] = value

    def _take_spans(self, request: Any) -> None:
        for span in (s for r in request.resource_spans for sc in r.scope_spans for s in sc.spans):
            found = Span(
                span.name, span.trace_id, span.parent_span_id, span.span_id, _attributes(span)
            )
            self.spans.append(found)


@contextmanager
def collector() -> Iterator[Collector]:
    """Run the endpoint."""
    found = Collector()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            found.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found.endpoint = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
        thread.start()
        yield found
        server.shutdown()
        thread.join()


def _attributes(owner: Any) -> dict[str, str]:
    return {
        each.key: str(each.value.string_value or each.value.int_value) for each in owner.attributes
    }
