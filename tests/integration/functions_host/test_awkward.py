"""What is hard to say, hard to read or never comes: none of it may hang or kill anything."""

import http.client
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from azure.servicebus.amqp import AmqpAnnotatedMessage

from devstack.disasters import wait_for
from tests.integration.functions_host.running import APPS, Bus, Host


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    host = Host(APPS / "awkward", tmp_path_factory.mktemp("awkward"))
    host.start()
    yield host
    host.end()


def raw(host: Host, path: str, headers: dict[str, bytes], body: bytes = b"") -> tuple[int, str]:
    """Ask with headers that a well-behaved client would not send."""
    address = http.client.HTTPConnection("127.0.0.1", int(host.facts()["port"]), timeout=10)
    with closing(address) as connection:
        connection.putrequest("POST" if body else "GET", path)
        for name, value in (headers | {"content-length": str(len(body)).encode()}).items():
            connection.putheader(name, value)
        connection.endheaders(body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("raises", "ValueError"),
        ("answers-header", "TypeError"),
        ("returns-async", "UnicodeEncodeError"),
        ("raises-async", "ValueError"),
        ("cancels-async", "CancelledError"),
        ("exits-async", "SystemExit"),
    ],
)
def test_an_outcome_that_cannot_be_sent_is_one_failed_invocation_at_once(
    host: Host, path: str, error: str
) -> None:
    worker, began = host.ask("/api/pid").text, time.monotonic()
    assert host.ask(f"/api/{path}").status == 500
    assert time.monotonic() - began < 5
    assert host.ask("/api/pid").text == worker
    lines = [line for line in host.log_text().splitlines() if path.replace("-", "_") in line]
    assert f": {error} at " in lines[0]


def test_a_log_record_that_cannot_be_sent_is_sent_with_question_marks(host: Host) -> None:
    assert host.ask("/api/logs").text == "logged"
    wait_for(lambda: "half of ?" in host.log_text())


def test_a_status_that_http_has_not_is_a_500_and_a_line_that_names_it(host: Host) -> None:
    assert [host.ask(f"/api/status/{code}").status for code in (99, 1000, 101)] == [500] * 3
    assert "status answered with status 1000" in host.log_text()
    assert "Traceback" not in host.log_text()


def test_headers_that_are_no_utf_8_are_read_as_latin_1_or_refused(host: Host) -> None:
    assert raw(host, "/api/header", {"x-a": b"M\xfcller"}) == (200, "Müller")
    assert raw(host, "/api/header", {"x-a": "Müller".encode()}) == (200, "Müller")
    assert raw(host, "/api/locked", {"x-functions-key": b"\xff"})[0] == 401


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (b"application/json; charset=klingon", b"{}"),
        (b"application/json", b"[" * 100_000),
        (b"application/json", b'{"input": "\\ud800"}'),
    ],
)
def test_an_admins_body_that_cannot_be_read_is_a_400(host: Host, kind: bytes, body: bytes) -> None:
    headers = {"x-functions-key": host.keys()["masterKey"].encode(), "content-type": kind}
    assert raw(host, "/admin/functions/pid", headers, body)[0] == 400


def test_a_function_that_closes_its_output_harms_no_other(tmp_path: Path) -> None:
    host = Host(APPS / "awkward", tmp_path)
    host.start()
    assert host.ask("/api/closes-stdout").text == "closed"
    assert host.ask("/api/pid").status == 200
    assert host.end() == 0


def test_a_slow_client_does_not_hold_the_stop_up(tmp_path: Path) -> None:
    host = Host(APPS / "awkward", tmp_path)
    host.start()
    with socket.create_connection(("127.0.0.1", host.facts()["port"])) as slow:
        slow.sendall(b"POST /api/body HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
        time.sleep(0.3)
        began = time.monotonic()
        assert host.end() == 0
    assert time.monotonic() - began < 5


NAMES = {"WORK": "work", "SHOW": "show", "BYHAND": "byhand", "ABANDONS": "abandons"}
RULES: dict[str, dict[str, Any]] = {
    name: {"LockDuration": "PT30S", "MaxDeliveryCount": 2} for name in NAMES.values()
}


def test_a_broker_that_has_frozen_does_not_hold_the_stop_up(tmp_path: Path) -> None:
    bus = Bus(tmp_path, RULES)
    bus.start()
    host = Host(APPS / "queues", tmp_path, BUS=bus.connection_string, **NAMES)
    host.start()
    bus.send("work", "sleep 1")
    wait_for(lambda: host.seen("work"))
    bus.send_signal(signal.SIGSTOP)
    try:
        began = time.monotonic()
        assert host.end() == 0
        assert time.monotonic() - began < 10
    finally:
        bus.send_signal(signal.SIGCONT)
        bus.end()
    assert "queue work: the broker did not answer within 3 s" in host.log_text()


def test_a_message_without_bytes_is_abandoned_with_a_line_a_delivery(tmp_path: Path) -> None:
    bus = Bus(tmp_path, RULES)
    bus.start()
    host = Host(APPS / "queues", tmp_path, BUS=bus.connection_string, **NAMES)
    host.start()
    with bus.client() as client, client.get_queue_sender("work") as sender:
        sender.send_messages(AmqpAnnotatedMessage(value_body={"a": "secret-4711"}))
    line = "work cannot be given message 1, abandoned: a body of AMQP type VALUE holding dict"
    wait_for(lambda: host.log_text().count(line) == 2)
    host.end()
    bus.end()
    assert "secret-4711" not in host.log_text()
