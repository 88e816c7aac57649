from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from azure.data.tables import UpdateMode

from operator_console.job_overview import Due, overview
from services.detection.watermarks import StoredWatermark, row_key
from tests.builders import NOW, a_configuration, a_job
from tests.fakes.storage import MemoryDownload
from tests.unit.operator_console.conftest import Folder
from tests.unit.operator_console.fakes import JOB, Account, MemoryContainer, MissingTable, files


def _ran(account: Account, job: str, **columns: Any) -> None:
    keys = {"PartitionKey": "watermark", "RowKey": row_key(job)}
    account.table.upsert_entity({**keys, **columns}, UpdateMode.MERGE)


@pytest.mark.parametrize(
    ("job", "minutes_ago", "due", "next_due"),
    [
        ({}, None, Due.EVERY_TICK, None),
        ({}, 1, Due.EVERY_TICK, None),
        ({"schedule": "0 * * * *"}, None, Due.NOW, None),
        ({"schedule": "0 * * * *"}, 1, Due.NOW, NOW),
        ({"schedule": "0 * * * *"}, 0, Due.LATER, NOW + timedelta(hours=1)),
        ({"schedule": "0 * * * *", "enabled": False}, None, Due.NEVER, None),
        (
            {"schedule": "30 13 * * *", "timeZone": "Europe/Berlin"},
            60,
            Due.LATER,
            NOW + timedelta(minutes=30),
        ),
    ],
)
def test_a_job_tells_when_it_runs_next(
    job: dict[str, Any], minutes_ago: int | None, due: Due, next_due: object
) -> None:
    ran = None if minutes_ago is None else NOW - timedelta(minutes=minutes_ago)
    rows = {"customers-to-erp": StoredWatermark("w", ran)}
    [line] = overview(a_configuration(a_job(**job)), rows, NOW)
    assert (line.due, line.next_due) == (due, next_due)


def test_jobs_stand_in_the_order_in_which_they_run() -> None:
    jobs = [a_job(name=name, order=order) for name, order in (("c", 1), ("a", 2), ("b", 1))]
    lines = overview(a_configuration(*jobs), {}, NOW)
    assert [line.job.name for line in lines] == ["b", "c", "a"]


def test_the_published_jobs_are_listed() -> None:
    hourly = {**JOB, "name": "hourly", "order": 5, "schedule": "0 * * * *", "priority": "high"}
    account = Account(MemoryContainer().holding(files(JOB, hourly)))
    _ran(account, "hourly", Watermark="2026", LastCronRun=NOW)
    lines = account.run("jobs").stdout.splitlines()
    assert lines[0].split("  ")[0] == "ORDER"
    assert lines[1].split() == [
        "0",
        "customers-to-erp",
        "yes",
        "normal",
        "-",
        *_cells("every tick - -"),
    ]
    expected = "5 hourly yes high 0 * * * * UTC 2026-11-30T13:00:00Z 2026-11-30T12:00:00Z 2026"
    assert lines[2].split() == expected.split()


def _cells(text: str) -> list[str]:
    return text.split()


def test_jobs_are_data_in_json() -> None:
    account = Account(MemoryContainer().holding(files({**JOB, "schedule": "0 * * * *"})))
    _ran(account, "customers-to-erp", Watermark="", LastCronRun=NOW)
    assert account.document("jobs") == [
        {
            "job": "customers-to-erp",
            "order": 0,
            "enabled": True,
            "priority": "normal",
            "schedule": "0 * * * *",
            "timeZone": "UTC",
            "due": "later",
            "nextDue": "2026-11-30T13:00:00Z",
            "lastRun": "2026-11-30T12:00:00Z",
            "watermark": None,
        }
    ]


def test_a_folder_shows_jobs_that_are_not_published(folder: Folder) -> None:
    [job] = Account().document("jobs", "--folder", folder.name)
    assert job["job"] == "customers-to-erp"


def test_an_account_in_which_the_app_never_ran_has_jobs_without_watermarks() -> None:
    account = Account(MemoryContainer().holding(files()))
    account.table = MissingTable()
    [job] = account.document("jobs")
    assert job["watermark"] is None


@pytest.mark.parametrize("container", [MemoryContainer(), MemoryContainer().holding({})])
def test_without_a_published_configuration_the_remedy_is_named(container: MemoryContainer) -> None:
    result = Account(container).run("jobs")
    assert result.exit_code == 1
    assert "no configuration is published in the container 'configuration'" in result.stderr


def test_the_faults_of_a_published_set_are_named() -> None:
    result = Account(MemoryContainer().holding({"jobs/x.yaml": b"{"})).run("jobs")
    assert result.exit_code == 1
    assert (
        "the published configuration is not valid; publish a valid one:\nconfiguration/jobs/x"
        in (result.stderr)
    )


class _Publishing(MemoryContainer):
    """Somebody publishes while the first files are read."""

    def download_blob(self, name: str) -> MemoryDownload:
        if "jobs/second.yaml" not in self.blobs:
            del self.blobs["connections/erp.json"]
            renamed = {"connections/erp.yaml": files()["connections/erp.json"]}
            self.holding(
                {**renamed, "jobs/second.yaml": files({**JOB, "name": "second"}).popitem()[1]}
            )
        return super().download_blob(name)


def test_a_set_that_changes_while_it_is_read_is_read_again() -> None:
    account = Account(_Publishing().holding(files()))
    assert [job["job"] for job in account.document("jobs")] == ["customers-to-erp", "second"]


def test_a_set_that_never_rests_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    container = MemoryContainer().holding(files())
    etags = iter(range(1_000))

    def list_blobs(*, name_starts_with: str) -> list[SimpleNamespace]:
        names = [name for name in container.blobs if name.startswith(name_starts_with)]
        return [SimpleNamespace(name=name, etag=next(etags)) for name in names]

    monkeypatch.setattr(container, "list_blobs", list_blobs)
    result = Account(container).run("jobs")
    assert result.exit_code == 1
    assert "keeps changing" in result.stderr
