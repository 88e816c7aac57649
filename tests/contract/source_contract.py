"""What every connector promises as a source."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from delivery.errors import (
    ConfigurationError,
)
from models.filter import Filter
from models.job import Job
from models.mapping import Mapping
from models.queue_message import JobActionType, QueueMessage
from models.watermark import WatermarkValue
from tests.builders import a_job, a_mapping
from tests.contract.remote_system import (
    DELETE,
    FLAGGED,
    MAPPING,
    START,
    TOMBSTONES,
    RemoteSystem,
    at,
)


class SourceContract:
    def retrieve(
        self,
        system: RemoteSystem,
        watermark: str = "",
        mapping: Mapping = MAPPING,
        condition: object = None,
        job: Job | None = None,
    ) -> list[QueueMessage]:
        job = job or a_job()
        start = WatermarkValue.initialize(job.cursor.type, watermark)
        parsed = (
            None if condition is None else TypeAdapter[Filter](Filter).validate_python(condition)
        )
        return list(system.connector.retrieve_changes(mapping, job, start, parsed))

    def keys(self, messages: list[QueueMessage]) -> list[str]:
        return [message.source_key for message in messages]

    def test_changes_come_in_the_order_of_the_cursor_over_several_pages(
        self, system: RemoteSystem
    ) -> None:
        records = [{"number": f"D{n:02}", "modified_at": at(25 - n)} for n in range(25)]
        system.insert("customer", *records)
        assert self.keys(self.retrieve(system)) == [f"D{n:02}" for n in reversed(range(25))]

    def test_records_of_one_cursor_value_are_all_read_whatever_the_page(
        self, system: RemoteSystem
    ) -> None:
        numbers = [f"D{n:02}" for n in range(25)]
        system.insert("customer", *({"number": n, "modified_at": START} for n in numbers))
        assert self.keys(self.retrieve(system)) == numbers

    def test_id7_a_source_that_ends_on_a_full_page_is_read_to_its_end(
        self, system: RemoteSystem
    ) -> None:
        system.insert("customer", *({"number": f"D{n}", "modified_at": at(n)} for n in range(10)))
        assert len(self.retrieve(system)) == 10

    def test_a_record_at_the_watermark_itself_is_read(self, system: RemoteSystem) -> None:
        tick = timedelta(microseconds=1)
        system.insert(
            "customer",
            {"number": "old", "modified_at": START - tick},
            {"number": "edge", "modified_at": START},
            {"number": "new", "modified_at": START + tick},
        )
        assert self.keys(self.retrieve(system, START.isoformat())) == ["edge", "new"]

    @pytest.mark.parametrize(
        ("field", "kind", "value"), [("modified_at", "datetime", START), ("credit", "integer", 7)]
    )
    def test_id9_a_record_without_cursor_value_is_left_out(
        self, system: RemoteSystem, field: str, kind: str, value: object
    ) -> None:
        system.insert("customer", {"number": "null"}, {"number": "D1", field: value})
        job = a_job(watermark={"field": field, "type": kind})
        assert self.keys(self.retrieve(system, job=job)) == ["D1"]

    def test_an_empty_source_yields_nothing(self, system: RemoteSystem) -> None:
        assert self.retrieve(system) == []

    def test_a_change_tracker_reads_back_as_a_watermark(self, system: RemoteSystem) -> None:
        system.insert("customer", *({"number": f"D{n}", "modified_at": at(n)} for n in range(5)))
        third = self.retrieve(system)[2]
        assert self.keys(self.retrieve(system, third.change_tracker)) == ["D2", "D3", "D4"]

    def test_t1_the_first_watermark_reads_everything(self, system: RemoteSystem) -> None:
        system.insert("customer", {"number": "D1", "modified_at": START})
        for beginning in ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+02:00"):
            assert self.keys(self.retrieve(system, beginning)) == ["D1"]

    def test_what_is_younger_than_the_delay_waits(self, system: RemoteSystem) -> None:
        now = datetime.now(UTC)
        system.insert(
            "customer",
            {"number": "old", "modified_at": now - timedelta(hours=2)},
            {"number": "young", "modified_at": now},
        )
        cursor = {"field": "modified_at", "type": "datetime", "delay": "PT1H"}
        assert self.keys(self.retrieve(system, job=a_job(watermark=cursor))) == ["old"]

    @pytest.mark.parametrize(
        ("condition", "expected"),
        [
            ({"field": "country", "operator": "equals", "value": "DE"}, ["D1", "D2"]),
            ({"field": "country", "operator": "notEquals", "value": "DE"}, ["D3"]),
            ({"field": "country", "operator": "isNull"}, ["D4"]),
            ({"field": "country", "operator": "in", "value": ["AT", "CH"]}, ["D3"]),
            ({"field": "name", "operator": "equals", "value": "O'Brien & Söhne #1"}, ["D2"]),
            ({"field": "name", "operator": "equals", "value": "' OR 1=1 --"}, []),
            ({"field": "credit", "operator": "greaterOrEqual", "value": "0.20"}, ["D2", "D3"]),
            (
                {"field": "modified_at", "operator": "less", "value": "2026-11-30T10:02:00+02:00"},
                ["D1"],
            ),
            (
                {
                    "all": [
                        {"field": "country", "operator": "isNotNull"},
                        {
                            "any": [
                                {"field": "number", "operator": "equals", "value": "D1"},
                                {"field": "credit", "operator": "greater", "value": "0.20"},
                            ]
                        },
                    ]
                },
                ["D1", "D3"],
            ),
        ],
    )
    def test_a_filter_takes_what_it_says_and_nothing_of_it_is_text_of_a_query(
        self, system: RemoteSystem, condition: object, expected: list[str]
    ) -> None:
        rows = [
            ("D1", "DE", "Müller", "0.10"),
            ("D2", "DE", "O'Brien & Söhne #1", "0.20"),
            ("D3", "AT", "Huber", "0.30"),
            ("D4", None, None, None),
        ]
        system.insert(
            "customer",
            *(
                {
                    "number": number,
                    "country": country,
                    "name": name,
                    "credit": credit and Decimal(credit),
                    "modified_at": at(place + 1),
                }
                for place, (number, country, name, credit) in enumerate(rows)
            ),
        )
        assert self.keys(self.retrieve(system, condition=condition)) == expected

    def test_a_flagged_record_is_a_deletion(self, system: RemoteSystem) -> None:
        system.insert(
            "customer",
            {"number": "D1", "modified_at": at(1)},
            {"number": "D2", "modified_at": at(2), "is_deleted": True},
        )
        kept, gone = self.retrieve(system, mapping=FLAGGED)
        assert (kept.action, gone.action) == (JobActionType.NEW_UPDATE, JobActionType.DELETE)
        assert (gone.keys, gone.fields) == ({"partner_number": "D2"}, {})

    def test_tombstones_come_in_their_place_but_for_what_was_created_again(
        self, system: RemoteSystem
    ) -> None:
        system.insert(
            "customer",
            {"number": "D1", "modified_at": at(1)},
            {"number": "D2", "modified_at": at(3)},
            *({"number": f"E{n:02}", "modified_at": at(10 + n)} for n in range(15)),
        )
        system.insert(
            "customer_deleted",
            {"number": "D0", "deleted_at": at(2)},
            {"number": "D2", "deleted_at": at(3)},
            {"number": "D9", "deleted_at": at(99)},
        )
        found = [(m.source_key, m.action.value) for m in self.retrieve(system, mapping=TOMBSTONES)]
        assert found == [
            ("D1", "NewUpdate"),
            ("D0", "Delete"),
            ("D2", "NewUpdate"),
            *((f"E{n:02}", "NewUpdate") for n in range(15)),
            ("D9", "Delete"),
        ]

    def test_a_table_that_is_filled_anew_in_one_transaction_loses_nothing(
        self, system: RemoteSystem
    ) -> None:
        """More records than a page, all deleted and created again at one cursor value."""
        numbers = [f"D{n:02}" for n in range(25)]
        moments = {"modified_at": at(1)}, {"deleted_at": at(1)}
        system.insert("customer", *({"number": n, **moments[0]} for n in numbers))
        system.insert("customer_deleted", *({"number": n, **moments[1]} for n in numbers))
        system.insert("customer_deleted", {"number": "D99", **moments[1]})
        found = [(m.source_key, m.action.value) for m in self.retrieve(system, mapping=TOMBSTONES)]
        assert found == [*((n, "NewUpdate") for n in numbers), ("D99", "Delete")]

    def test_a_source_reference_is_resolved_and_a_missing_one_is_told(
        self, system: RemoteSystem
    ) -> None:
        mapping = a_mapping(
            fields=[{"source": "country", "target": "partner_name"}],
            resolvers=[
                {
                    "field": "partner_name",
                    "at": "source",
                    "entity": "country",
                    "key": "code",
                    "value": "label",
                }
            ],
        )
        system.insert("country", {"code": "DE", "label": "Deutschland"})
        system.insert(
            "customer",
            {"number": "D1", "country": "DE", "modified_at": at(1)},
            {"number": "D2", "country": "XX", "modified_at": at(2)},
            {"number": "D3", "modified_at": at(3)},
        )
        known, unknown, empty = self.retrieve(system, mapping=mapping)
        assert known.fields == {"partner_name": "Deutschland"}
        assert empty.fields == {"partner_name": None}
        assert unknown.source_key == "D2"
        assert unknown.mapping_error is not None
        assert "country" in unknown.mapping_error

    def test_a_record_that_cannot_be_mapped_does_not_stop_its_neighbours(
        self, system: RemoteSystem
    ) -> None:
        mapping = a_mapping(
            fields=[{"source": "name", "target": "partner_credit"}],
            operations=[{"field": "partner_credit", "number": {"locale": "de-DE"}}],
        )
        names = ["4.711,98", "secret", "10,00"]
        system.insert(
            "customer",
            *(
                {"number": f"D{n}", "name": name, "modified_at": at(n)}
                for n, name in enumerate(names)
            ),
        )
        first, second, third = self.retrieve(system, mapping=mapping)
        assert first.fields == {"partner_credit": Decimal("4711.98")}
        assert second.mapping_error is not None
        assert "partner_credit" in second.mapping_error
        assert "secret" not in second.mapping_error
        assert third.fields == {"partner_credit": Decimal("10.00")}

    def test_a_change_arrives_in_the_target_value_by_value(self, system: RemoteSystem) -> None:
        credit = Decimal("12345678.10")
        system.insert(
            "customer",
            {"number": "D1", "name": "Groß & Söhne", "credit": credit, "modified_at": START},
        )
        [message] = self.retrieve(system)
        system.connector.upsert(QueueMessage.from_body(message.to_body()), MAPPING, a_job())
        assert system.partners() == {"D1": ("Groß & Söhne", credit)}

    def test_a_change_of_a_job_with_an_action_asks_for_it_and_a_deletion_stays_one(
        self, system: RemoteSystem
    ) -> None:
        system.insert(
            "customer",
            {"number": "D1", "modified_at": at(1)},
            {"number": "D2", "modified_at": at(2), "is_deleted": True},
        )
        job = a_job(action={"name": "take_customer"})
        changed, gone = self.retrieve(system, mapping=FLAGGED, job=job)
        assert (changed.action, gone.action) == (JobActionType.INVOKE_ACTION, DELETE)
        assert changed.fields == {"partner_name": None, "partner_credit": None}
        assert gone.fields == {}

    @pytest.mark.parametrize(
        ("change", "name"),
        [
            ({"sourceEntity": "nowhere"}, "nowhere"),
            ({"fields": [{"source": "colour", "target": "partner_name"}]}, "colour"),
            ({"deletions": {"field": "colour"}}, "colour"),
            ({"deletions": {"entity": "nowhere", "cursor": "x"}}, "nowhere"),
        ],
    )
    def test_a_source_that_does_not_exist_is_named(
        self, system: RemoteSystem, change: dict[str, object], name: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=name):
            self.retrieve(system, mapping=a_mapping(**change))

    @pytest.mark.parametrize("watermark", ["gestern", "2026-13-01T00:00:00Z"])
    def test_a_watermark_that_is_no_value_of_the_cursor_is_named(
        self, system: RemoteSystem, watermark: str
    ) -> None:
        with pytest.raises(ConfigurationError, match=f"{watermark}.*'modified_at'"):
            self.retrieve(system, watermark)

    @pytest.mark.parametrize(("field", "value"), [("credit", "heavy"), ("modified_at", "x")])
    def test_a_filter_value_that_does_not_fit_its_field_is_named(
        self, system: RemoteSystem, field: str, value: str
    ) -> None:
        condition = {"field": field, "operator": "greater", "value": value}
        with pytest.raises(ConfigurationError, match=f"{value}.*{field}"):
            self.retrieve(system, condition=condition)

    def test_a_filter_on_a_field_that_does_not_exist_is_named(self, system: RemoteSystem) -> None:
        with pytest.raises(ConfigurationError, match="colour"):
            self.retrieve(system, condition={"field": "colour", "operator": "isNull"})

    @settings(
        max_examples=25,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
        ],
    )
    @given(minutes=st.lists(st.integers(0, 6), max_size=40), start=st.integers(0, 6))
    def test_paging_reads_each_record_once_whatever_the_ties(
        self, system: RemoteSystem, minutes: list[int], start: int
    ) -> None:
        system.clear()
        numbers = {f"N{place:03}": minute for place, minute in enumerate(minutes)}
        system.insert(
            "customer",
            *({"number": number, "modified_at": at(minute)} for number, minute in numbers.items()),
        )
        expected = sorted((m, n) for n, m in numbers.items() if m >= start)
        found = self.keys(self.retrieve(system, at(start).isoformat()))
        assert found == [number for _, number in expected]
