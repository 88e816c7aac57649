import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from devstack.functions_host.errors import SettingsError
from devstack.functions_host.schedule import TimerStatus
from devstack.functions_host.timers import StatusFile, Wait

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_a_status_is_kept(tmp_path: Path) -> None:
    status = TimerStatus(last=None, next=NOON, last_updated=NOON)
    StatusFile(tmp_path / "timers.json").put("f", status)
    assert StatusFile(tmp_path / "timers.json").get("f") == status
    assert StatusFile(tmp_path / "timers.json").get("g") is None


@pytest.mark.parametrize("naive", ["last", "next", "lastUpdated"])
def test_a_status_with_a_time_without_offset_is_none(tmp_path: Path, naive: str) -> None:
    path = tmp_path / "timers.json"
    entry = dict.fromkeys(["last", "next", "lastUpdated"], NOON.isoformat())
    path.write_text(json.dumps({"f": entry | {naive: "2026-11-30T12:00:00"}}))
    assert StatusFile(path).get("f") is None


@pytest.mark.parametrize("text", ["[]", "{", "[" * 100_000, '{"f": {}}'])
def test_a_file_that_holds_no_statuses_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "timers.json"
    path.write_text(text)
    with pytest.raises(SettingsError, match=r"timers\.json"):
        StatusFile(path).get("f")


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not a file of timer statuses"):
        StatusFile(tmp_path).get("f")


@pytest.mark.parametrize(
    ("now", "elapsed", "left"),
    [
        (NOON + timedelta(seconds=3), 3.0, 7),
        (NOON + timedelta(hours=1), 3.0, 10 - 3600),
        (NOON - timedelta(hours=1), 3.0, 7),
    ],
    ids=["as it goes", "set forward", "set back"],
)
def test_a_clock_that_is_set_brings_a_run_closer_and_never_keeps_it_away(
    now: datetime, elapsed: float, left: int
) -> None:
    wait = Wait(NOON + timedelta(seconds=10), NOON, 500.0)
    assert wait.left(now, 500.0 + elapsed) == timedelta(seconds=left)
