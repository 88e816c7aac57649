"""The endpoint of Azure Monitor to which metrics are exported, on this machine.

The app's own exporter speaks to it; it adds up what arrives.
"""

import json
import threading
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: A metric's name, and its attributes in their order.
type Series = tuple[str, tuple[tuple[str, str], ...]]

_GZIP = zlib.MAX_WBITS | 16

#: Whatever else the exporter would tell, and to whom: addresses outside of this machine.
_QUIET = {
    "APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL": "True",
    "APPLICATIONINSIGHTS_CONTROLPLANE_DISABLED": "True",
    "APPLICATIONINSIGHTS_SDKSTATS_DISABLED": "True",
}
_EXPORT_MILLISECONDS = 500


class Ingestion:
    """Sums of counters. Gauges make no sense as sums, and nobody asks for them here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: Counter[Series] = Counter()
        self._reports: Counter[Series] = Counter()

    def add(self, items: list[dict[str, Any]]) -> None:
        """Take in what one request carries: the exporter sends what a counter has gained since."""
        with self._lock:
            for item in items:
                data = item["data"]["baseData"]
                attributes = tuple(sorted((data.get("properties") or {}).items()))
                for point in data.get("metrics") or ():
                    series = (point["name"], attributes)
                    self._sums[series] += point["value"]
                    self._reports[series] += 1

    def sum_of(self, metric: str, **attributes: str) -> int:
        """Return the sum over all series of a metric that have these attributes."""
        return self._total(self._sums, metric, attributes)

    def reports_of(self, metric: str, **attributes: str) -> int:
        """Return how often such a series was reported, be it as 0."""
        return self._total(self._reports, metric, attributes)

    def values_of(self, metric: str, attribute: str) -> set[str]:
        """Return the values that an attribute of a metric has had."""
        with self._lock:
            return {dict(has)[attribute] for name, has in self._sums if name == metric}

    def _total(self, counts: Counter[Series], metric: str, attributes: Mapping[str, str]) -> int:
        wanted = attributes.items()
        with self._lock:
            return int(
                sum(n for (name, has), n in counts.items() if name == metric and wanted <= {*has})
            )


@contextmanager
def ingestion() -> Iterator[tuple[Ingestion, dict[str, str]]]:
    """Run the endpoint; give it, and the app settings that send the metrics of an app there."""
    found = Ingestion()
    handler = type("Handler", (_Handler,), {"ingestion": found})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.1})
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}/"
        key = "00000000-0000-0000-0000-000000000001"
        connection = f"InstrumentationKey={key};IngestionEndpoint={address}"
        try:
            yield (
                found,
                {
                    **_QUIET,
                    "APPLICATIONINSIGHTS_CONNECTION_STRING": connection,
                    "OTEL_METRIC_EXPORT_INTERVAL": str(_EXPORT_MILLISECONDS),
                },
            )
        finally:
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    ingestion: Ingestion
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Take the items and answer as the service does."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = zlib.decompress(body, wbits=_GZIP)
        items = json.loads(body)
        self.ingestion.add(items)
        answer = {"itemsReceived": len(items), "itemsAccepted": len(items), "errors": []}
        content = json.dumps(answer).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing: a request a second is no news."""
