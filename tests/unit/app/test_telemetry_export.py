"""Where metrics and traces go, by the settings."""

import logging
import subprocess
import sys
import threading

import pytest
from opentelemetry.metrics import NoOpMeter
from opentelemetry.sdk.metrics.export import MetricsData

from devstack.processes import ROOT
from services.operation.exporters import Destination, metric_exporter
from services.operation.telemetry_export import (
    APPLICATION_INSIGHTS,
    Signal,
    destination_of,
    open_meter,
    open_tracer,
)

OTLP = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("environ", "metrics", "traces"),
    [
        ({}, None, None),
        ({OTLP: ""}, None, None),
        ({OTLP: "http://127.0.0.1:4318"}, Destination.OTLP, Destination.OTLP),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://x"}, None, Destination.OTLP),
        ({OTLP: "http://x", "OTEL_METRICS_EXPORTER": "none"}, None, Destination.OTLP),
        ({"OTEL_METRICS_EXPORTER": "console"}, Destination.CONSOLE, None),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, None, Destination.OTLP),
        (
            {APPLICATION_INSIGHTS: "x", OTLP: "http://x", "OTEL_TRACES_EXPORTER": "none"},
            Destination.AZURE_MONITOR,
            Destination.AZURE_MONITOR,
        ),
    ],
)
def test_azure_monitor_comes_first_then_the_standard_settings(
    environ: dict[str, str], metrics: Destination | None, traces: Destination | None
) -> None:
    assert destination_of(Signal.METRICS, environ) is metrics
    assert destination_of(Signal.TRACES, environ) is traces


@pytest.mark.parametrize("environ", [{}, {APPLICATION_INSIGHTS: ""}])
def test_without_a_destination_nothing_is_made_and_no_thread_runs(environ: dict[str, str]) -> None:
    before = threading.active_count()
    assert isinstance(open_meter(environ), NoOpMeter)
    assert open_tracer(environ) is None
    assert threading.active_count() == before


def test_a_destination_that_is_no_good_is_logged_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    environ = {APPLICATION_INSIGHTS: "InstrumentationKey=s3cret;IngestionEndpoint=nonsense"}
    with caplog.at_level(logging.ERROR):
        assert isinstance(open_meter(environ), NoOpMeter)
        assert open_tracer(environ) is None
    assert "no metrics are exported: the app setting APPLICATIONINSIGHTS" in caplog.text
    assert "no traces are exported: the app setting APPLICATIONINSIGHTS" in caplog.text
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("OTEL_METRICS_EXEMPLAR_FILTER", "foo"),
        ("OTEL_ATTRIBUTE_COUNT_LIMIT", "-1"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "-5"),
    ],
)
def test_a_setting_that_the_sdk_refuses_stops_the_export_and_nothing_else(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, setting: str, value: str
) -> None:
    monkeypatch.setenv(setting, value)
    before = threading.active_count()
    environ = {OTLP: "http://127.0.0.1:9"}
    meter, tracer = open_meter(environ), open_tracer(environ)
    assert isinstance(meter, NoOpMeter) or tracer is None
    assert "an app setting that begins with OTEL_ cannot be used; correct it" in caplog.text
    assert "APPLICATIONINSIGHTS" not in caplog.text
    if isinstance(meter, NoOpMeter) and tracer is None:
        assert threading.active_count() == before


def test_the_sdk_quotes_neither_headers_nor_addresses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key: s3cret")
    monkeypatch.setenv(OTLP, "http://127.0.0.1:9/v1?token=s3cret")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    exporter = metric_exporter(Destination.OTLP, "")
    exporter.export(MetricsData(resource_metrics=[]))
    exporter.shutdown()
    assert "Header format invalid" in caplog.text
    assert "Failed to export" in caplog.text
    assert "OTEL_EXPORTER_OTLP_" in caplog.text
    assert "s3cret" not in caplog.text


def test_an_exporter_that_is_not_known_is_named_with_those_that_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        assert open_tracer({"OTEL_TRACES_EXPORTER": "jaeger"}) is None
    [record] = caplog.records
    assert record.getMessage() == (
        "no traces are exported: the app setting OTEL_TRACES_EXPORTER is 'jaeger'; "
        "set it to otlp, console or none"
    )


#: What a process does, and which modules it must not have loaded.
WITHOUT_EXPORT = """
import sys
from services.metrics import MetricsService
from services.operation.telemetry_export import open_meter, open_tracer
from services.tracing import TracingService
MetricsService(open_meter({})).changes_detected("job", 1)
assert TracingService(open_tracer({})).created("sbqnormal", "job", "D1") == ""
print(*sys.modules)
"""


def test_without_a_destination_the_sdk_is_not_even_loaded() -> None:
    assert {"opentelemetry.metrics", "opentelemetry.trace"} <= loaded(WITHOUT_EXPORT)
    assert not {"opentelemetry.sdk", "azure.monitor"} & loaded(WITHOUT_EXPORT)


CONSOLE = """
import sys
from services.operation.telemetry_export import open_meter, open_tracer
environ = {"OTEL_METRICS_EXPORTER": "console", "OTEL_TRACES_EXPORTER": "console"}
open_meter(environ).create_counter("ChangesDetected").add(7)
open_tracer(environ | {"OTEL_TRACES_SAMPLER": "always_on"}).start_span("create").end()
print(*sys.modules)
"""


def test_the_console_is_stderr_and_what_is_not_used_is_not_loaded() -> None:
    run = ran(CONSOLE)
    assert '"value": 7' in run.stderr
    assert '"name": "create"' in run.stderr
    assert not {"azure.monitor", "google.protobuf"} & set(run.stdout.split())


def ran(statement: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", statement],
        cwd=ROOT,
        env={},
        check=True,
        capture_output=True,
        text=True,
    )


def loaded(statement: str) -> set[str]:
    return set(ran(statement).stdout.split())
