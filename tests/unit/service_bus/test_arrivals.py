"""Counting what clients send, for whoever checks their books against the broker's."""

import json
from pathlib import Path

from devstack.service_bus import amqp_values as amqp
from devstack.service_bus.amqp_sections import messages
from devstack.service_bus.arrivals import Arrivals

NOW = 1_000


def a_delivery(properties: bytes = b"", annotations: bytes = b"") -> bytes:
    return annotations + properties + amqp.described(0x75, amqp.binary(b"body"))


def of_job(job: str, annotations: bytes = b"") -> bytes:
    encoded = amqp.mapping([amqp.text("JobName"), amqp.text(job)])
    return a_delivery(amqp.described(0x74, encoded), annotations)


def due_at(moment: int) -> bytes:
    name = amqp.symbol("x-opt-scheduled-enqueue-time")
    return amqp.described(0x72, amqp.mapping([name, amqp.timestamp(moment)]))


def counted(path: Path, *deliveries: bytes) -> dict[str, int]:
    arrivals = Arrivals(path / "arrivals.json", "JobName")
    for delivery in deliveries:
        arrivals.note("orders", messages(delivery), NOW)
    arrivals.write()
    counts: dict[str, int] = json.loads((path / "arrivals.json").read_bytes())["orders"]
    return counts


def test_messages_are_counted_by_the_property(tmp_path: Path) -> None:
    assert counted(tmp_path, of_job("a"), of_job("b"), of_job("a")) == {"a": 2, "b": 1}


def test_a_batch_counts_its_messages(tmp_path: Path) -> None:
    inner = (of_job("a"), of_job("b"))
    batch = b"".join(amqp.described(0x75, amqp.binary(message)) for message in inner)
    assert counted(tmp_path, batch) == {"a": 1, "b": 1}


def test_what_is_scheduled_for_later_is_left_out(tmp_path: Path) -> None:
    late, past = of_job("a", due_at(NOW + 1)), of_job("a", due_at(NOW))
    assert counted(tmp_path, late, past) == {"a": 1}


def test_a_message_without_the_property_counts_too(tmp_path: Path) -> None:
    unreadable = a_delivery(amqp.described(0x74, amqp.text("no map")))
    assert counted(tmp_path, a_delivery(), unreadable) == {"": 2}
