import signal
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from devstack.disasters import wait_for
from tests.integration.functions_host.running import APPS, Bus, Host

RULES: dict[str, dict[str, Any]] = {
    "work": {"LockDuration": "PT30S", "MaxDeliveryCount": 5},
    "show": {"LockDuration": "PT30S", "MaxDeliveryCount": 3},
    "byhand": {"LockDuration": "PT5S", "MaxDeliveryCount": 3},
    "abandons": {"LockDuration": "PT30S", "MaxDeliveryCount": 5},
}
NAMES = {"WORK": "work", "SHOW": "show", "BYHAND": "byhand", "ABANDONS": "abandons"}

#: The extension's single dispatch; what is null is left out, as Azure's host does.
EXTENSION = {
    *("DeliveryCount", "DeadLetterSource", "LockToken", "SequenceNumber", "MessageId"),
    *("ExpiresAtUtc", "ExpiresAt", "EnqueuedTimeUtc", "EnqueuedTime", "ContentType"),
    *("ReplyTo", "To", "Subject", "Label", "CorrelationId", "SessionId", "ReplyToSessionId"),
    *("ApplicationProperties", "UserProperties", "PartitionKey", "TransactionPartitionKey"),
}


def started(folder: Path, *more: str, **rules: dict[str, Any]) -> tuple[Bus, Host]:
    bus = Bus(folder, {**RULES, **rules}, *more)
    bus.start()
    host = Host(APPS / "queues", folder, BUS=bus.connection_string, **NAMES)
    host.start()
    return bus, host


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bus, Host]]:
    bus, host = started(tmp_path_factory.mktemp("queues"))
    yield bus, host
    host.end()
    bus.end()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[Bus, Host]]:
    bus, host = started(tmp_path, work={"LockDuration": "PT5S", "MaxDeliveryCount": 6})
    yield bus, host
    host.end()
    bus.end()


def of(host: Host, message: str) -> list[dict[str, Any]]:
    return [e for e in host.record() if e.get("id") == message and e["name"] != "slept"]


def test_a_message_arrives_with_its_bytes_and_the_extensions_metadata(
    shared: tuple[Bus, Host],
) -> None:
    bus, host = shared
    bus.send(
        "show",
        b"\x00\xff\x01",
        message_id="m-1",
        subject="s",
        content_type="c",
        application_properties={"text": "ä", "number": 5, "flag": True},
    )
    seen = wait_for(lambda: host.seen("show"))[0]
    assert bytes.fromhex(seen["body"]) == b"\x00\xff\x01"
    assert set(seen["metadata"]) <= EXTENSION
    assert {"LockToken", "SequenceNumber", "Label", "EnqueuedTimeUtc"} <= set(seen["metadata"])
    assert seen["metadata"]["EnqueuedTimeUtc"].endswith("+00:00")
    assert seen["locked_until"] == "None"
    assert seen["delivery"] == 1
    properties = {"text": "ä", "number": 5, "flag": True}
    assert seen["properties"] == seen["user_properties"] == properties


def test_a_return_completes_and_a_raise_abandons_up_to_the_dead_letter_queue(
    shared: tuple[Bus, Host],
) -> None:
    bus, host = shared
    bus.send("work", "ok", message_id="fine")
    bus.send("work", "raise secret-4711", message_id="bad")
    wait_for(lambda: bus.bodies("work", dead=True) == ["raise secret-4711"])
    assert [e["delivery"] for e in of(host, "bad")] == [1, 2, 3, 4, 5]
    assert [e["delivery"] for e in of(host, "fine")] == [1]
    wait_for(lambda: bus.bodies("work") == [])
    assert "secret-4711" not in host.log_text()


def test_without_auto_complete_a_return_settles_nothing_and_a_raise_still_abandons(
    shared: tuple[Bus, Host],
) -> None:
    bus, host = shared
    bus.send("byhand", "leave", message_id="left")
    bus.send("byhand", "raise", message_id="raised")
    wait_for(lambda: len(of(host, "raised")) == 3)
    assert len(of(host, "left")) == 1
    assert bus.bodies("byhand") == ["leave"]
    wait_for(lambda: len(of(host, "left")) == 2)  # its lock ran out


def test_the_hosts_abandon_after_the_apps_own_changes_nothing_and_writes_one_line(
    shared: tuple[Bus, Host],
) -> None:
    bus, host = shared
    bus.send("abandons", "x", message_id="twice")
    wait_for(lambda: [e["delivery"] for e in of(host, "twice")] == [1, 2])
    wait_for(lambda: bus.bodies("abandons") == [])
    line = "the host's abandon met a lost lock and changed nothing"
    assert wait_for(lambda: host.log_text().count(line)) == 1
    assert len(of(host, "twice")) == 2


def test_a_single_message_on_an_idle_queue_does_not_wait(shared: tuple[Bus, Host]) -> None:
    bus, host = shared
    time.sleep(1)
    bus.send("show", b"now", message_id="now")
    bus.send("show", b"now", message_id="now")
    seen = wait_for(lambda: [e for e in host.seen("show") if e["metadata"]["MessageId"] == "now"])
    delay = datetime_of(seen[0]["at"]) - datetime_of(seen[0]["enqueued"])
    assert delay < 0.05


def test_a_lock_is_renewed_while_a_slow_message_runs_and_others_overtake_it(
    own: tuple[Bus, Host],
) -> None:
    bus, host = own
    bus.send("work", "sleep 7", message_id="slow")
    wait_for(lambda: of(host, "slow"))
    bus.send("work", *["ok"] * 200)
    wait_for(lambda: sum(e.get("order") == "ok" for e in host.record()) == 200, 8)
    wait_for(lambda: host.seen("slept"), 15)
    assert len(of(host, "slow")) == 1
    wait_for(lambda: bus.bodies("work") == [])


def test_a_message_that_kills_the_worker_takes_no_neighbour_with_it(own: tuple[Bus, Host]) -> None:
    bus, host = own
    bus.send("work", "die", "wait 1", "wait 2", "wait 3")
    wait_for(lambda: bus.bodies("work", dead=True) == ["die"], 30)
    wait_for(lambda: bus.bodies("work") == [])
    good = [e["delivery"] for e in host.record() if e.get("order") == "wait"]
    assert max(good) <= 3
    bus.send("work", *["ok"] * 50)
    wait_for(lambda: sum(e.get("order") == "ok" for e in host.record()) == 50)


def test_an_emulator_that_was_killed_and_came_back_is_found_again(own: tuple[Bus, Host]) -> None:
    bus, host = own
    bus.send("work", "ok", message_id="before")
    wait_for(lambda: of(host, "before"))
    bus.end(signal.SIGKILL)
    time.sleep(2)
    bus.start()
    bus.send("work", "ok", message_id="after")
    wait_for(lambda: of(host, "after"), 5)
    assert host.log_text().count("queue work: no connection") == 1
    wait_for(lambda: host.log_text().count("queue work: connected") == 2, 5)


def test_an_idle_detach_is_followed_by_a_new_link(tmp_path: Path) -> None:
    bus, host = started(tmp_path, "--idle-detach", "1")
    time.sleep(3)
    bus.send("work", "ok", message_id="late")
    wait_for(lambda: of(host, "late"), 5)
    host.end()
    bus.end()


def datetime_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
