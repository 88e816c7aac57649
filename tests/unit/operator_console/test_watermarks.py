from datetime import UTC, datetime
from typing import Any

import pytest

from operator_console.watermark_text import to_watermark
from tests.builders import NOW, a_job
from tests.unit.operator_console.fakes import JOB, Account, MemoryContainer, MissingTable, files

HOUR_BEFORE_MIDNIGHT = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)


def _account(**job: Any) -> Account:
    return Account(MemoryContainer().holding(files({**JOB, **job})))


def _typed(kind: str, **job: Any) -> dict[str, Any]:
    return {"watermark": {"field": "x", "type": kind}, **job}


@pytest.mark.parametrize(
    ("kind", "text", "stored"),
    [
        ("datetime", "2026-11-30T12:00:00.1234567+02:00", "2026-11-30T12:00:00.1234567+02:00"),
        ("datetime", " 2026-11-30 ", "2026-11-30"),
        ("datetime", "now", "2026-11-30T23:30:00Z"),
        ("datetime", "TODAY", "2026-11-30T00:00:00Z"),
        ("DateTime", "today", "2026-11-30T00:00:00Z"),
        ("date", "2026-11-30", "2026-11-30"),
        ("date", "now", "2026-11-30"),
        ("date", "today", "2026-11-30"),
        ("integer", "0042", "42"),
        ("integer", "-1", "-1"),
        ("text", "0x00ff", "0x00ff"),
        ("token", "https://x/delta?a=b", "https://x/delta?a=b"),
    ],
)
def test_a_value_of_the_type_is_taken(kind: str, text: str, stored: str) -> None:
    assert to_watermark(text, a_job(**_typed(kind)), HOUR_BEFORE_MIDNIGHT) == stored


@pytest.mark.parametrize(
    ("kind", "stored"), [("datetime", "2026-11-30T23:00:00Z"), ("date", "2026-12-01")]
)
def test_today_begins_in_the_time_zone_of_the_job(kind: str, stored: str) -> None:
    job = a_job(**_typed(kind, timeZone="Europe/Berlin"))
    assert to_watermark("today", job, HOUR_BEFORE_MIDNIGHT) == stored


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        ("datetime", "30.11.2026", "is no time; write it as 2026-11-30T12:00:00Z"),
        ("datetime", "2026-11-30T12:00:00.12x", "is no time"),
        ("datetime", "2026-11-30T25:00:00", "is no time"),
        ("date", "yesterday", "is no date; write it as 2026-11-30"),
        ("date", "2026-11-30T00:00:00", "is no date"),
        ("integer", "4.5", "is no whole number"),
        ("integer", "now", "'now' is for watermarks of type date or datetime"),
        ("text", "today", "'today' is for watermarks of type date or datetime"),
        ("token", "  ", "a watermark is not empty"),
    ],
)
def test_a_value_of_another_type_is_refused(kind: str, text: str, complaint: str) -> None:
    account = _account(**_typed(kind))
    result = account.run("watermarks", "set", "customers-to-erp", text)
    assert result.exit_code == 1
    assert f"Error: job 'customers-to-erp': {complaint}" in result.stderr.replace(
        f"{text!r} is no", "is no"
    )
    assert account.table.rows == {}


def test_a_watermark_is_set_before_the_first_run() -> None:
    account = _account()
    account.table = MissingTable()
    document = account.document("watermarks", "set", "customers-to-erp", "today")
    assert document == {
        "job": "customers-to-erp",
        "before": None,
        "after": "2026-11-30T00:00:00Z",
    }
    [(name, row)] = account.watermarks.get_all_watermarks().items()
    assert (name, row.watermark) == ("customers-to-erp", "2026-11-30T00:00:00Z")


def test_set_says_what_was_there_before() -> None:
    account = _account()
    account.run("watermarks", "set", "customers-to-erp", "2026-01-01")
    result = account.run("watermarks", "set", "customers-to-erp", "2026-02-01")
    assert result.stdout == ""
    assert "customers-to-erp: 2026-01-01 -> 2026-02-01\n" in result.stderr


@pytest.mark.parametrize(
    ("kind", "text", "noted"),
    [
        ("datetime", "2062-11-30", True),
        ("datetime", "now", False),
        ("date", "2026-12-01", True),
        ("date", "today", False),
        ("integer", "99999999999", False),
    ],
)
def test_a_watermark_in_the_future_is_noted(kind: str, text: str, *, noted: bool) -> None:
    result = _account(**_typed(kind)).run("watermarks", "set", "customers-to-erp", text)
    assert result.exit_code == 0
    assert ("lies in the future" in result.stderr) is noted


def test_an_unknown_job_is_refused_with_the_known_ones() -> None:
    account = _account()
    result = account.run("watermarks", "set", "customer", "today")
    assert result.exit_code == 1
    assert "job 'customer' is not configured; known are customers-to-erp" in result.stderr
    assert account.table.rows == {}


@pytest.mark.parametrize("account", [_account(), Account()])
def test_force_writes_for_a_job_that_is_not_configured(account: Account) -> None:
    assert account.run("watermarks", "set", "a/b#c", "5", "--force").exit_code == 0
    assert account.watermarks.get_all_watermarks()["a/b#c"].watermark == "5"
    words = account.run("watermarks", "set", "a/b#c", "today", "--force")
    assert words.exit_code == 1


def test_force_does_not_write_what_a_configured_job_cannot_read() -> None:
    result = _account().run("watermarks", "set", "customers-to-erp", "5", "--force")
    assert result.exit_code == 1


def test_rows_of_jobs_that_are_gone_are_listed() -> None:
    account = _account()
    account.watermarks.set_watermark("gone", "5")
    account.watermarks.set_watermark("customers-to-erp", "")
    row = {"watermark": None, "lastRun": None}
    assert account.document("watermarks", "list") == [
        {**row, "job": "customers-to-erp", "configured": True},
        {**row, "job": "gone", "watermark": "5", "configured": False},
    ]
    lines = account.run("watermarks", "list").stdout.splitlines()
    assert [line.split() for line in lines] == [
        ["JOB", "WATERMARK", "LAST", "RUN", "CONFIGURED"],
        ["customers-to-erp", "-", "-", "yes"],
        ["gone", "5", "-", "no"],
    ]


def test_rows_are_listed_also_where_nothing_is_published() -> None:
    account = Account()
    account.watermarks.set_watermark("some", "5")
    result = account.run("watermarks", "list")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].split() == ["some", "5", "-", "?"]
    assert "note: no configuration is published" in result.stderr


def test_a_reset_without_a_terminal_needs_yes() -> None:
    account = _account()
    account.watermarks.set_watermark("customers-to-erp", "2026-01-01")
    refused = account.run("watermarks", "reset", "customers-to-erp", answer="y\n")
    assert refused.exit_code == 2
    assert account.opened == 0
    document = account.document("watermarks", "reset", "customers-to-erp", "--yes")
    assert document == {"job": "customers-to-erp", "before": "2026-01-01", "after": None}
    assert account.watermarks.get_watermark_by_job_name("customers-to-erp").watermark is None


@pytest.mark.parametrize(("answer", "status", "left"), [("y\n", 0, None), ("n\n", 1, "2026-01-01")])
def test_a_reset_on_a_terminal_asks(answer: str, status: int, left: str | None) -> None:
    account = _account()
    account.interactive = True
    account.watermarks.set_watermark("customers-to-erp", "2026-01-01")
    result = account.run("watermarks", "reset", "customers-to-erp", answer=answer)
    assert result.exit_code == status
    assert "reset 'customers-to-erp', now at 2026-01-01?" in result.stderr
    assert account.watermarks.get_watermark_by_job_name("customers-to-erp").watermark == left


def test_a_reset_of_a_job_that_never_ran_changes_nothing() -> None:
    account = _account()
    assert account.run("watermarks", "reset", "customers-to-erp", "--yes").exit_code == 0
    assert account.table.rows == {}


def test_a_reset_of_an_unknown_job_names_the_known_ones() -> None:
    result = _account().run("watermarks", "reset", "customer", "--yes")
    assert result.exit_code == 1
    assert "known are customers-to-erp" in result.stderr


def test_the_row_of_a_job_that_is_gone_can_be_reset() -> None:
    account = _account()
    account.watermarks.set_watermark("gone", "5")
    assert account.run("watermarks", "reset", "gone", "--yes").exit_code == 0
    assert account.watermarks.get_watermark_by_job_name("gone").watermark is None


def test_a_reset_keeps_the_last_run() -> None:
    account = _account()
    account.table.rows["watermark", "customers-to-erp"] = {  # type: ignore[assignment] # a row
        "PartitionKey": "watermark",
        "RowKey": "customers-to-erp",
        "Watermark": "2026-01-01",
        "LastCronRun": NOW,
    }
    account.run("watermarks", "reset", "customers-to-erp", "--yes")
    assert account.watermarks.get_watermark_by_job_name("customers-to-erp").last_cron_run == NOW
