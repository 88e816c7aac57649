"""What every connector promises; a connector's test class inherits it and provides a `system`."""

from abc import ABC, abstractmethod
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from connectors.base import ConnectorBase
from delivery.errors import ConfigurationError, RejectedError
from models.mapping import Mapping
from models.queue_message import QueueMessage
from models.watermark import WatermarkType, WatermarkValue
from tests.builders import a_job, a_mapping, a_message

MAPPING = a_mapping(
    fields=[
        {"source": "name", "target": "partner_name"},
        {"source": "credit", "target": "partner_credit"},
    ]
)
START = datetime(2026, 11, 30, 8, tzinfo=UTC)


class RemoteSystem(ABC):
    """A system to test against, with the entities `customer` and `partner`, both empty."""

    connector: ConnectorBase

    @abstractmethod
    def insert_customers(
        self, rows: list[tuple[str, str | None, Decimal, datetime | None]]
    ) -> None:
        """Insert source records: number, name, credit, modified at."""

    @abstractmethod
    def partners(self) -> dict[str, tuple[str | None, Decimal | None]]:
        """Return the target's records by number: name and credit."""


class ConnectorContract:
    def retrieve(
        self, system: RemoteSystem, watermark: str = "", mapping: Mapping = MAPPING
    ) -> list[QueueMessage]:
        start = WatermarkValue.initialize(WatermarkType.DATETIME, watermark)
        return list(system.connector.retrieve_changes(mapping, a_job(), start))

    def test_changes_come_in_the_order_of_the_cursor_over_several_pages(
        self, system: RemoteSystem
    ) -> None:
        count = 25
        system.insert_customers(
            [
                (f"D{n:02}", "Müller", Decimal("0.10"), START + timedelta(minutes=count - n))
                for n in range(count)
            ]
        )
        keys = [message.source_key for message in self.retrieve(system)]
        assert keys == [f"D{n:02}" for n in reversed(range(count))]

    def test_records_of_one_cursor_value_are_all_read_whatever_the_page(
        self, system: RemoteSystem
    ) -> None:
        numbers = [f"D{n:02}" for n in range(25)]
        system.insert_customers([(number, None, Decimal(1), START) for number in numbers])
        assert [message.source_key for message in self.retrieve(system)] == numbers

    def test_a_record_at_the_watermark_itself_is_read(self, system: RemoteSystem) -> None:
        system.insert_customers(
            [
                ("old", None, Decimal(1), START - timedelta(microseconds=1)),
                ("edge", None, Decimal(1), START),
                ("new", None, Decimal(1), START + timedelta(microseconds=1)),
            ]
        )
        keys = [message.source_key for message in self.retrieve(system, START.isoformat())]
        assert keys == ["edge", "new"]

    def test_a_record_without_cursor_value_is_left_out(self, system: RemoteSystem) -> None:
        system.insert_customers([("null", None, Decimal(1), None), ("D1", None, Decimal(1), START)])
        assert [message.source_key for message in self.retrieve(system)] == ["D1"]

    def test_an_empty_source_yields_nothing(self, system: RemoteSystem) -> None:
        assert self.retrieve(system) == []

    def test_a_change_arrives_in_the_target_value_by_value(self, system: RemoteSystem) -> None:
        credit = Decimal("12345678.10")
        system.insert_customers([("D1", "Groß & Söhne", credit, START)])
        [message] = self.retrieve(system)
        system.connector.upsert(message, MAPPING)
        assert system.partners() == {"D1": ("Groß & Söhne", credit)}

    def test_a_second_upsert_replaces_the_first(self, system: RemoteSystem) -> None:
        for name in ("Alt", None):
            system.connector.upsert(
                a_message(fields={"partner_name": name, "partner_credit": "1.50"}), MAPPING
            )
        assert system.partners() == {"D1": (None, Decimal("1.50"))}

    def test_a_mapping_of_keys_alone_can_be_written_twice(self, system: RemoteSystem) -> None:
        for _ in range(2):
            system.connector.upsert(a_message(fields={}), a_mapping(name="keys-only", fields=[]))
        assert system.partners() == {"D1": (None, None)}

    def test_a_value_that_the_target_cannot_hold_is_rejected_without_quoting_it(
        self, system: RemoteSystem
    ) -> None:
        message = a_message(fields={"partner_name": "x", "partner_credit": "four-hundred"})
        with pytest.raises(RejectedError) as caught:
            system.connector.upsert(message, MAPPING)
        assert "four-hundred" not in str(caught.value)
        assert "partner_credit" in str(caught.value)
        assert system.partners() == {}

    @pytest.mark.parametrize(
        ("change", "name"),
        [
            ({"sourceEntity": "nowhere"}, "nowhere"),
            ({"fields": [{"source": "colour", "target": "partner_name"}]}, "colour"),
        ],
    )
    def test_a_source_that_does_not_exist_is_named(
        self, system: RemoteSystem, change: dict[str, object], name: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=name):
            self.retrieve(system, mapping=a_mapping(**change))

    @pytest.mark.parametrize(
        ("change", "name"),
        [
            ({"targetEntity": "nowhere"}, "nowhere"),
            ({"fields": [{"source": "name", "target": "colour"}]}, "colour"),
        ],
    )
    def test_a_target_that_does_not_exist_is_named(
        self, system: RemoteSystem, change: dict[str, object], name: str
    ) -> None:
        mapping = a_mapping(name="wrong", **change)
        with pytest.raises(ConfigurationError, match=name):
            system.connector.upsert(a_message(), mapping)
