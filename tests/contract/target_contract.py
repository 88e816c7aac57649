"""What every connector promises as a target."""

import contextlib
from datetime import datetime
from decimal import Decimal
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from delivery.errors import (
    ConfigurationError,
    MappingError,
    OutdatedError,
    RejectedError,
    TransitiveError,
)
from models.job import Job
from models.queue_message import JobActionType
from models.watermark import WatermarkValue
from tests.builders import a_job, a_mapping, a_message
from tests.contract.remote_system import (
    DELETE,
    GUARDED,
    MAPPING,
    RemoteSystem,
    a_change,
    a_deletion,
    a_response,
    at,
)


class TargetContract:
    def test_m3_null_clears_missing_leaves_and_empty_stays_empty(
        self, system: RemoteSystem
    ) -> None:
        for fields in (
            {"partner_name": "Alt", "partner_credit": "1.50"},
            {"partner_credit": None},
        ):
            system.connector.upsert(a_message(fields=fields), MAPPING, a_job())
        assert system.partners() == {"D1": ("Alt", None)}
        system.connector.upsert(a_message(fields={"partner_name": ""}), MAPPING, a_job())
        assert system.partners() == {"D1": ("", None)}

    def test_a_message_of_keys_alone_can_be_written_twice(self, system: RemoteSystem) -> None:
        for _ in range(2):
            system.connector.upsert(a_message(fields={}), MAPPING, a_job())
        assert system.partners() == {"D1": (None, None)}

    def test_id11_deleting_what_is_gone_already_is_fine(self, system: RemoteSystem) -> None:
        system.connector.upsert(a_message(), MAPPING, a_job())
        for job in (a_job(), a_job(), GUARDED):
            system.connector.delete(a_deletion(at(0).isoformat()), MAPPING, job)
            assert system.partners() == {}

    @pytest.mark.parametrize(
        ("held", "arriving", "expected"),
        [
            (at(5), 6, "new"),
            (at(5), 5, "new"),
            (at(5), 4, "old"),
            (at(5), None, "new"),
            (None, 4, "new"),
        ],
    )
    def test_only_a_strictly_older_change_is_outdated(
        self, system: RemoteSystem, held: datetime | None, arriving: int | None, expected: str
    ) -> None:
        system.insert(
            "partner",
            {"partner_number": "D1", "partner_name": "old", "partner_changed_at": held},
        )
        change = a_change("new", arriving)
        if expected == "old":
            with pytest.raises(OutdatedError, match=r"'partner'.*'partner_changed_at'") as caught:
                system.connector.upsert(change, MAPPING, GUARDED)
            assert "2026" not in str(caught.value)
        else:
            system.connector.upsert(change, MAPPING, GUARDED)
        assert system.partners() == {"D1": (expected, None)}

    def test_a_change_without_the_time_is_written_and_leaves_the_time(
        self, system: RemoteSystem
    ) -> None:
        system.connector.upsert(a_change("first", 5), MAPPING, GUARDED)
        system.connector.upsert(a_message(fields={"partner_name": "x"}), MAPPING, GUARDED)
        with pytest.raises(OutdatedError):
            system.connector.upsert(a_change("late", 4), MAPPING, GUARDED)
        assert system.partners() == {"D1": ("x", None)}

    def test_a_job_that_skips_nothing_writes_older_changes_too(self, system: RemoteSystem) -> None:
        for name, minute in (("new", 5), ("old", 4)):
            system.connector.upsert(a_change(name, minute), MAPPING, a_job())
        assert system.partners() == {"D1": ("old", None)}

    def test_keys_alone_are_written_by_a_job_that_skips_too(self, system: RemoteSystem) -> None:
        for _ in range(2):
            system.connector.upsert(a_message(fields={}), MAPPING, GUARDED)
        assert system.partners() == {"D1": (None, None)}

    @pytest.mark.parametrize(
        ("held", "tracker", "remains"),
        [
            (at(5), at(6).isoformat(), False),
            (at(5), at(5).isoformat(), False),
            (at(5), at(4).isoformat(), True),
            (at(5), "2026-11-30T10:04:59+02:00", True),
            (at(5), "", False),
            (None, at(4).isoformat(), False),
        ],
    )
    def test_only_a_strictly_older_deletion_is_outdated(
        self, system: RemoteSystem, held: datetime | None, tracker: str, *, remains: bool
    ) -> None:
        system.insert("partner", {"partner_number": "D1", "partner_changed_at": held})
        if remains:
            with pytest.raises(OutdatedError, match=r"'partner'.*'partner_changed_at'"):
                system.connector.delete(a_deletion(tracker), MAPPING, GUARDED)
        else:
            system.connector.delete(a_deletion(tracker), MAPPING, GUARDED)
        assert bool(system.partners()) is remains

    def test_a_deletion_whose_tracker_is_no_time_says_so(self, system: RemoteSystem) -> None:
        with pytest.raises(ConfigurationError, match=r"'4711'.*'partner_changed_at'"):
            system.connector.delete(a_deletion("4711"), MAPPING, GUARDED)

    @settings(
        max_examples=25,
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
        ],
    )
    @given(minutes=st.lists(st.integers(0, 999), min_size=1, max_size=8, unique=True))
    def test_changes_in_whatever_order_end_with_the_newest(
        self, system: RemoteSystem, minutes: list[int]
    ) -> None:
        system.clear()
        for minute in minutes:
            with contextlib.suppress(OutdatedError):
                system.connector.upsert(a_change(f"of {minute}", minute), MAPPING, GUARDED)
        assert system.partners() == {"D1": (f"of {max(minutes)}", None)}

    def test_a_reference_to_a_record_that_is_not_there_is_transitive(
        self, system: RemoteSystem
    ) -> None:
        message = a_message(fields={"partner_country": "GEHEIM"})
        with pytest.raises(TransitiveError, match=r"'partner'.*(?i:foreign key)") as caught:
            system.connector.upsert(message, MAPPING, a_job())
        assert "GEHEIM" not in str(caught.value)
        assert caught.value.__suppress_context__
        system.insert("country", {"code": "GEHEIM"})
        system.connector.upsert(message, MAPPING, a_job())
        assert system.partners() == {"D1": (None, None)}

    def test_deleting_what_others_refer_to_is_rejected(self, system: RemoteSystem) -> None:
        system.insert("country", {"code": "GEHEIM"})
        system.insert("partner", {"partner_number": "D1", "partner_country": "GEHEIM"})
        deletion = a_message(action=DELETE, keys={"code": "GEHEIM"}, fields={})
        with pytest.raises(RejectedError, match=r"(?i:foreign key)") as caught:
            system.connector.delete(deletion, a_mapping(targetEntity="country"), a_job())
        assert "GEHEIM" not in str(caught.value)

    def test_a_response_holds_what_the_target_holds_after_the_write(
        self, system: RemoteSystem
    ) -> None:
        credit = Decimal("12345678.10")
        system.insert("partner", {"partner_number": "D1", "partner_credit": credit})
        answer = system.connector.upsert(a_message(), MAPPING, a_job(), a_response())
        assert answer == a_message(
            job_name="partners-back",
            change_tracker="",
            keys={"number": "D1"},
            fields={"credit": credit},
            update_only=True,
        )

    def test_a_response_that_cannot_be_mapped_only_updates_too(self, system: RemoteSystem) -> None:
        response = a_response(
            fields=[{"source": "partner_name", "target": "credit"}],
            operations=[{"field": "credit", "number": {"locale": "de-DE"}}],
        )
        answer = system.connector.upsert(a_message(), MAPPING, a_job(), response)
        assert answer is not None
        assert answer.mapping_error is not None
        assert answer.update_only

    def test_there_is_no_response_where_all_that_the_message_lacks_is_null(
        self, system: RemoteSystem
    ) -> None:
        names = ["partner_name", "partner_credit", "partner_changed_at"]
        response = a_response(fields=[{"source": name, "target": name} for name in names])
        message = a_message(fields={"partner_credit": None})
        for held, is_answered in (({}, False), ({"partner_name": "x"}, True)):
            system.clear()
            system.insert("partner", {"partner_number": "D1", **held})
            answer = system.connector.upsert(message, MAPPING, a_job(), response)
            assert (answer is not None) is is_answered

    @pytest.mark.parametrize("job", [a_job(), GUARDED])
    @pytest.mark.parametrize(
        "fields", [{}, {"partner_name": "x"}, {"partner_changed_at": at(6).isoformat()}]
    )
    def test_a_message_that_only_updates_makes_no_record(
        self, system: RemoteSystem, job: Job, fields: dict[str, str]
    ) -> None:
        message = a_message(fields=fields, update_only=True)
        with pytest.raises(OutdatedError, match=r"'partner'.*record is not there any more"):
            system.connector.upsert(message, MAPPING, job)
        assert system.partners() == {}
        system.insert("partner", {"partner_number": "D1", "partner_credit": 1})
        system.connector.upsert(message, MAPPING, job)
        assert system.partners() == {"D1": (fields.get("partner_name"), Decimal(1))}

    def test_a_message_that_only_updates_is_outdated_too(self, system: RemoteSystem) -> None:
        system.connector.upsert(a_change("new", 5), MAPPING, GUARDED)
        for minute, expected in ((4, "new"), (5, "5"), (6, "6")):
            change = a_change(str(minute), minute)
            change.update_only = True
            with contextlib.suppress(OutdatedError):
                system.connector.upsert(change, MAPPING, GUARDED)
            assert system.partners() == {"D1": (expected, None)}

    def test_a_response_has_the_time_of_its_jobs_watermark_as_change_tracker(
        self, system: RemoteSystem
    ) -> None:
        cursor = {"watermark": {"field": "partner_changed_at", "type": "datetime"}}
        trackers = []
        system.insert("partner", {"partner_number": "D1", "partner_credit": 1})
        for minute in (5, None):
            change = a_change("x", minute)
            answer = system.connector.upsert(change, MAPPING, a_job(), a_response(cursor))
            assert answer is not None
            trackers.append(answer.change_tracker)
        moment = WatermarkValue.initialize("datetime", trackers[0])
        assert moment.is_same(WatermarkValue.initialize("datetime", at(5).isoformat()))
        assert trackers[1] == ""

    def test_a_response_looks_references_up_and_sees_what_changed_there(
        self, system: RemoteSystem
    ) -> None:
        resolver = {"at": "source", "entity": "country", "key": "code", "value": "label"}
        response = a_response(
            fields=[{"source": "partner_name", "target": "country"}],
            resolvers=[{"field": "country", **resolver}],
        )
        found = []
        for label in ("Deutschland", "Allemagne"):
            system.clear()
            system.insert("country", {"code": "DE", "label": label})
            message = a_message(fields={"partner_name": "DE"})
            answer = system.connector.upsert(message, MAPPING, a_job(), response)
            found.append(answer and answer.fields)
        assert found == [{"country": "Deutschland"}, {"country": "Allemagne"}]

    def test_a_response_follows_a_change_of_its_mapping(self, system: RemoteSystem) -> None:
        found = []
        for target in ("credit", "name"):
            response = a_response(fields=[{"source": "partner_name", "target": target}])
            answer = system.connector.upsert(a_message(), MAPPING, a_job(), response)
            found.append(answer and answer.fields)
        assert found == [{"credit": "Müller"}, {"name": "Müller"}]

    def test_a_response_that_reads_what_does_not_exist_names_it_and_nothing_is_written(
        self, system: RemoteSystem
    ) -> None:
        response = a_response(fields=[{"source": "colour", "target": "name"}])
        with pytest.raises(ConfigurationError, match="colour"):
            system.connector.upsert(a_message(), MAPPING, a_job(), response)
        assert system.partners() == {}

    def test_what_is_outdated_has_no_response(self, system: RemoteSystem) -> None:
        system.connector.upsert(a_change("new", 5), MAPPING, GUARDED)
        with pytest.raises(OutdatedError):
            system.connector.upsert(a_change("old", 4), MAPPING, GUARDED, a_response())

    def test_a_message_that_asks_for_an_action_that_its_job_lost_says_so(
        self, system: RemoteSystem
    ) -> None:
        message = a_message(action=JobActionType.INVOKE_ACTION)
        with pytest.raises(ConfigurationError, match="'customers-to-erp' has no action any more"):
            system.connector.invoke_action(message, a_job())

    def test_a_target_reference_is_resolved_and_a_missing_one_is_transitive(
        self, system: RemoteSystem
    ) -> None:
        resolver = {"at": "target", "entity": "country", "key": "code", "value": "label"}
        mapping = a_mapping(resolvers=[{"field": "partner_name", **resolver}])
        message = a_message(fields={"partner_name": "DE"})
        with pytest.raises(TransitiveError, match="'country'"):
            system.connector.upsert(message, mapping, a_job())
        assert system.partners() == {}
        system.insert("country", {"code": "DE", "label": "Deutschland"})
        system.connector.upsert(message, mapping, a_job())
        assert system.partners() == {"D1": ("Deutschland", None)}

    def test_a_target_reference_may_be_the_key(self, system: RemoteSystem) -> None:
        resolver = {"at": "target", "entity": "country", "key": "code", "value": "label"}
        mapping = a_mapping(resolvers=[{"field": "partner_number", **resolver}])
        system.insert("country", {"code": "D1", "label": "one"})
        system.connector.upsert(a_message(), mapping, a_job())
        assert system.partners() == {"one": ("Müller", None)}
        system.connector.delete(a_deletion(""), mapping, a_job())
        assert system.partners() == {}

    def test_a_key_that_a_reference_makes_has_to_have_a_value(self, system: RemoteSystem) -> None:
        resolver = {"at": "target", "entity": "country", "key": "code", "value": "label"}
        mapping = a_mapping(resolvers=[{"field": "partner_number", **resolver}])
        system.insert("country", {"code": "GEHEIM", "label": None})
        message = a_message(keys={"partner_number": "GEHEIM"})
        deletion = a_message(action=DELETE, keys=message.keys, fields={})
        for call in (
            partial(system.connector.upsert, message, mapping, a_job()),
            partial(system.connector.delete, deletion, mapping, a_job()),
        ):
            with pytest.raises(
                TransitiveError, match=r"'customers'.*'partner_number'.*'country' has no value"
            ) as caught:
                call()
            assert "GEHEIM" not in str(caught.value)
        assert system.partners() == {}

    @pytest.mark.parametrize("keys", [{}, {"partner_name": "x"}, {"partner_credit": "1"}])
    @pytest.mark.parametrize("job", [a_job(), GUARDED])
    def test_keys_that_several_records_may_have_change_and_delete_none(
        self, system: RemoteSystem, keys: dict[str, str], job: Job
    ) -> None:
        for number in ("D1", "D2"):
            record = {"partner_number": number, "partner_name": "x", "partner_credit": 1}
            system.insert("partner", record)
        before = system.partners()
        deletion = a_message(action=DELETE, keys=keys, fields={}, change_tracker=at(9).isoformat())
        with pytest.raises(ConfigurationError, match="unique constraint on exactly these"):
            system.connector.delete(deletion, MAPPING, job)
        for update_only in (False, True):
            fields = {"partner_number": "D3"}
            message = a_message(keys=keys, fields=fields, update_only=update_only)
            with pytest.raises(ConfigurationError, match="unique constraint on exactly these"):
                system.connector.upsert(message, MAPPING, job)
        assert system.partners() == before

    def test_a_target_reference_that_can_be_no_key_does_not_fit_the_mapping(
        self, system: RemoteSystem
    ) -> None:
        resolver = {"at": "target", "entity": "country", "key": "code", "value": "label"}
        mapping = a_mapping(resolvers=[{"field": "partner_name", "type": "guid", **resolver}])
        with pytest.raises(MappingError, match="partner_name") as caught:
            system.connector.upsert(a_message(), mapping, a_job())
        assert "Müller" not in str(caught.value)

    def test_a_value_that_the_target_cannot_hold_is_rejected_without_quoting_it(
        self, system: RemoteSystem
    ) -> None:
        message = a_message(fields={"partner_name": "x", "partner_credit": "four-hundred"})
        with pytest.raises(RejectedError) as caught:
            system.connector.upsert(message, MAPPING, a_job())
        assert "four-hundred" not in str(caught.value)
        assert "partner_credit" in str(caught.value)
        assert system.partners() == {}

    @pytest.mark.parametrize(
        ("change", "name"),
        [
            ({"targetEntity": "nowhere"}, "nowhere"),
            ({}, "colour"),
        ],
    )
    def test_a_target_that_does_not_exist_is_named(
        self, system: RemoteSystem, change: dict[str, object], name: str
    ) -> None:
        message = a_message(fields={"colour": "red"})
        with pytest.raises(ConfigurationError, match=name):
            system.connector.upsert(message, a_mapping(**change), a_job())
