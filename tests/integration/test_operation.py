"""Health, queue depth, maintenance and metrics, over the real wires."""

import json
import re
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue
from azure.storage.blob import BlobServiceClient

from composition import Composition
from devstack.azurite import Azurite
from devstack.processes import ROOT
from devstack.stack import Announced, emulator, run_folder
from models.queues import ALL_QUEUES, IGNORED_QUEUE, SIDE_QUEUES, read_queues
from services.operation.expiry import ExpiryService
from services.operation.oldest_message import OldestMessageService
from services.operation.payload_removal import PayloadRemovalService
from services.operation.queue_depth import Depth
from services.operation.telemetry_export import APPLICATION_INSIGHTS
from services.payloads import PayloadService
from services.processing.management_thread import ManagementThread
from tests.silence import silence

pytestmark = pytest.mark.integration

DEAD = ServiceBusSubQueue.DEAD_LETTER
TRANSITIVE = SIDE_QUEUES[0]
QUEUES = read_queues((ROOT / "servicebus.json").read_bytes())
LIFE = timedelta(seconds=2)


@pytest.fixture(scope="module")
def short_lived(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Announced]:
    """The app's queues, whose side queues keep a message for two seconds."""
    queues = json.loads((ROOT / "servicebus.json").read_text("utf-8"))
    for queue in queues["UserConfig"]["Namespaces"][0]["Queues"]:
        if queue["Name"] in SIDE_QUEUES:
            queue["Properties"]["DefaultMessageTimeToLive"] = f"PT{LIFE.seconds}S"
    file = tmp_path_factory.mktemp("queues") / "servicebus.json"
    file.write_text(json.dumps(queues), "utf-8")
    with run_folder("test") as folder:
        server = emulator(folder, file)
        server.start()
        yield server
        server.stop()


@pytest.fixture
def settings(azurite: Azurite, service_bus: Announced) -> dict[str, str]:
    facts = service_bus.facts()
    return {
        "SYNC_STORAGE": azurite.connection_string(),
        "SYNC_SERVICE_BUS": str(facts["connection_string"]),
        "SYNC_SERVICE_BUS_ADMINISTRATION": str(facts["admin_connection_string"]),
        "SYNC_SERVICE_BUS_ADMINISTRATION_CERTIFICATE": str(facts["certificate"]),
        "SYNC_GET_CHANGES_SCHEDULE": "0 * * * * *",
    }


def opened(server: Announced) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(
        str(server.facts()["connection_string"]), retry_total=0
    )


def send(server: Announced, queue: str, *messages: ServiceBusMessage) -> None:
    with opened(server) as client, client.get_queue_sender(queue) as sender:
        for message in messages:
            sender.send_messages(message)


def bodies(server: Announced, queue: str, sub_queue: ServiceBusSubQueue | None = None) -> list[str]:
    with (
        opened(server) as client,
        client.get_queue_receiver(queue, sub_queue=sub_queue) as receiver,
    ):
        return [str(message) for message in receiver.peek_messages(250, sequence_number=1)]


def now() -> datetime:
    return datetime.now(UTC)


def test_expired_messages_leave_the_side_queues_and_live_ones_stay(short_lived: Announced) -> None:
    for queue in (TRANSITIVE, IGNORED_QUEUE):
        send(short_lived, queue, *(ServiceBusMessage(f"old {n}") for n in range(3)))
    time.sleep(LIFE.total_seconds() + 0.2)
    send(short_lived, TRANSITIVE, ServiceBusMessage("new"))
    ExpiryService(lambda: opened(short_lived), SIDE_QUEUES, now=now).execute()
    assert bodies(short_lived, TRANSITIVE, DEAD) == ["old 0", "old 1", "old 2"]
    assert bodies(short_lived, IGNORED_QUEUE) == bodies(short_lived, IGNORED_QUEUE, DEAD) == []


def test_a_payload_goes_when_no_message_in_any_state_refers_to_it(
    azurite: Azurite, service_bus: Announced
) -> None:
    with BlobServiceClient.from_connection_string(azurite.connection_string()) as blobs:
        payloads = PayloadService(blobs.get_container_client("payloads"))
        payloads.prepare_storage()
        references = {name: payloads.check_in(name, b"body") for name in ("dead", "later", "gone")}
        later = ServiceBusMessage(references["later"])
        later.scheduled_enqueue_time_utc = now() + timedelta(hours=1)
        send(service_bus, "sbqlow", later)
        send(service_bus, "sbqhigh", ServiceBusMessage(references["dead"]))
        with opened(service_bus) as client, client.get_queue_receiver("sbqhigh") as receiver:
            receiver.dead_letter_message(receiver.receive_messages(1, max_wait_time=5)[0])
        for day in (31, 32):
            PayloadRemovalService(
                payloads,
                lambda: opened(service_bus),
                lambda: QUEUES,
                now=lambda day=day: now() + timedelta(days=day),  # type: ignore[misc] # it is a default
            ).execute()
        assert [payload.name for payload in payloads.stored()] == ["dead", "later"]
    _empty(service_bus, "sbqhigh", DEAD)


def _empty(server: Announced, queue: str, sub_queue: ServiceBusSubQueue) -> None:
    with (
        opened(server) as client,
        client.get_queue_receiver(queue, sub_queue=sub_queue) as receiver,
    ):
        for message in receiver.receive_messages(10, max_wait_time=1):
            receiver.complete_message(message)


def test_the_depth_of_every_queue_is_read_with_the_settings_of_the_stack(
    settings: dict[str, str], service_bus: Announced
) -> None:
    send(service_bus, "sbqnormal", ServiceBusMessage("one"))
    depths = Composition(settings)._queue_depth.read()  # noqa: SLF001 - one part of the whole
    assert depths.trouble == ""
    assert set(depths.known) == set(ALL_QUEUES)
    assert depths.known["sbqnormal"] == Depth(active=1, scheduled=0, dead_letter=0)


def test_the_age_of_the_oldest_message_is_that_of_the_first_which_waits(
    settings: dict[str, str], service_bus: Announced
) -> None:
    later = ServiceBusMessage("later")
    later.scheduled_enqueue_time_utc = now() + timedelta(hours=1)
    send(service_bus, "sbqhigh", later, ServiceBusMessage("active"), ServiceBusMessage("younger"))
    minute = timedelta(minutes=1)
    thread = ManagementThread("test", lambda: opened(service_bus))
    ages = OldestMessageService(thread, ["sbqhigh", "sbqlow"], now=lambda: now() + minute).read()
    thread.close()
    assert 60 <= ages["sbqhigh"] < 120
    assert ages["sbqlow"] == 0
    assert Composition(settings)._oldest_message.read().keys() == {*ALL_QUEUES}  # noqa: SLF001 - as above


def test_ages_that_cannot_be_had_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with silence() as port:
        connection = f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=n;SharedAccessKey=s3cret;"
        nowhere = {"SYNC_SERVICE_BUS": connection + "UseDevelopmentEmulator=true;"}
        assert Composition(nowhere)._oldest_message.read() == {}  # noqa: SLF001 - as above
    assert "ages of oldest messages are unknown: " in caplog.text
    assert "s3cret" not in caplog.text


def test_a_missing_right_is_named_and_only_degrades(settings: dict[str, str]) -> None:
    name = "SYNC_SERVICE_BUS_ADMINISTRATION"
    refused = re.sub("(SharedAccessKey=)[^;]+", r"\1another-key", settings[name])
    depths = Composition({**settings, name: refused})._queue_depth.read()  # noqa: SLF001 - as above
    assert depths.known == {}
    assert "Microsoft.ServiceBus/namespaces/*/read" in depths.trouble


def test_the_apps_own_parts_are_healthy_and_get_changes_has_not_run(
    settings: dict[str, str],
) -> None:
    app = Composition(settings)
    app.get_changes().execute()
    parts = app.health().execute().content["parts"]
    assert {name: part["status"] for name, part in parts.items()} == {
        "tables": "healthy",
        "blobs": "healthy",
        "serviceBus": "healthy",
        "queueDepth": "healthy",
        "configuration": "healthy",
        "getChanges": "healthy",
    }
    assert "sbqignored" in parts["queueDepth"]["queues"]


def test_the_answer_comes_within_ten_seconds_though_every_server_hangs() -> None:
    with silence() as port:
        endpoint = f"http://127.0.0.1:{port}/devstoreaccount1"
        app = Composition(
            {
                "SYNC_STORAGE": f"DefaultEndpointsProtocol=http;AccountName=devstoreaccount1;"
                f"AccountKey=a2V5;BlobEndpoint={endpoint};TableEndpoint={endpoint};",
                "SYNC_SERVICE_BUS": f"Endpoint=sb://127.0.0.1:{port};SharedAccessKeyName=name;"
                "SharedAccessKey=s3cret;UseDevelopmentEmulator=true;",
            }
        )
        began = time.monotonic()
        answer = app.health().execute()
        assert time.monotonic() - began < 10
        assert answer.status == 503
        states = {name: part["status"] for name, part in answer.content["parts"].items()}
        assert states.pop("queueDepth") == "degraded"
        assert set(states.values()) == {"unhealthy"}
        shown = json.dumps(answer.content)
        assert "s3cret" not in shown
        assert "127.0.0.1" not in shown


class Ingestion(BaseHTTPRequestHandler):
    """Takes telemetry as Application Insights does."""

    received: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = zlib.decompress(body, wbits=31)
        items = json.loads(body)
        self.received.extend(items)
        answer = {"itemsReceived": len(items), "itemsAccepted": len(items), "errors": []}
        content = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None: ...


EXPORTING = """
from composition import Composition
from services.metrics import Outcome
import os
app = Composition(os.environ)
app.metrics.changes_detected("customers-to-erp", 3)
app.metrics.message_processed("customers-to-erp", Outcome.TRANSITIVE)
app.metrics.batch_sent("sbqnormal", {"customers-to-erp": 200})
app._tracing.created("sbqnormal", "customers-to-erp", "D1")
"""


def test_metrics_and_traces_arrive_at_azure_monitor_under_their_names(
    settings: dict[str, str], tmp_path: Path
) -> None:
    received: list[dict[str, Any]] = []
    handler = type("Handler", (Ingestion,), {"received": received})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/"
        key = "00000000-0000-0000-0000-000000000001"
        subprocess.run(
            [sys.executable, "-W", "error", "-c", EXPORTING],
            cwd=ROOT,
            env={
                **settings,
                APPLICATION_INSIGHTS: f"InstrumentationKey={key};IngestionEndpoint={address}",
                "APPLICATIONINSIGHTS_STATSBEAT_DISABLED_ALL": "True",
                "APPLICATIONINSIGHTS_CONTROLPLANE_DISABLED": "True",
                "APPLICATIONINSIGHTS_SDKSTATS_DISABLED": "True",
                "OTEL_TRACES_SAMPLER": "always_on",
                "WEBSITE_SITE_NAME": "gleichlauf-test",
                "TMPDIR": str(tmp_path),
            },
            check=True,
            timeout=60,
        )
        server.shutdown()
    found = {
        (point["name"], tuple(sorted(data["properties"].items()))): point["value"]
        for data in (item["data"]["baseData"] for item in received)
        for point in data.get("metrics", ())
    }
    assert found["ChangesDetected", (("job", "customers-to-erp"),)] == 3
    outcome = (("job", "customers-to-erp"), ("outcome", "Transitive"))
    assert found["MessagesProcessed", outcome] == 1
    assert ("QueueDepth", (("kind", "deadLetter"), ("queue", "sbqignored"))) in found
    assert found["OldestMessageAge", (("queue", "sbqlow"),)] == 0
    assert found["BatchSize", (("queue", "sbqnormal"),)] == 200
    entry = (("entry", "sent"), ("job", "customers-to-erp"), ("queue", "sbqnormal"))
    assert found["ChangeBalance", entry] == 200
    [span] = [item["data"]["baseData"] for item in received if "Metric" not in item["name"]]
    assert span["name"] == "create sbqnormal"
    assert span["properties"]["gleichlauf.source_key"] == "D1"
    assert {item["tags"]["ai.cloud.role"] for item in received} == {"gleichlauf-test"}
    assert list(tmp_path.iterdir()) == []
