"""The archive: whole lines, safe before anything is removed, for the owner only."""

import base64
import json
import os
import resource
import stat
from pathlib import Path

import pytest

from dead_letter_mover.archive import ArchiveError, NoArchive, open_archive
from dead_letter_mover.letters import Letter
from dead_letter_mover.mover import Done, Moved
from tests.builders import NOW
from tests.encoded_messages import a_body, an_encoded

ENCODED = an_encoded(7, "refused 'Müller'", beside={"a": 1})
REMOVED = Moved(Done.SKIPPED, Letter.of(ENCODED))


def write(path: Path, *removed: Moved) -> None:
    with open_archive(path, "sbqlow", lambda: NOW) as archive:
        archive.write(removed)


def test_a_line_has_what_people_look_for_and_the_whole_message(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(path, REMOVED)
    line = json.loads(path.read_text())
    assert base64.b64decode(line.pop("amqp")) == ENCODED
    assert line == {
        "at": NOW.isoformat(timespec="seconds"),
        "action": "skipped",
        "queue": "sbqlow",
        "sequenceNumber": 7,
        "messageId": "m-1",
        "job": "orders",
        "sourceKey": "D1",
        "error": "refused 'Müller'",
        "body": a_body().decode(),
    }


def test_it_is_on_the_disk_before_the_message_may_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl"
    safe: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: safe.append(os.fstat(descriptor).st_size))
    with open_archive(path, "sbqlow", lambda: NOW) as archive:
        archive.write([REMOVED])
        assert safe[-1] == path.stat().st_size > 0


def test_it_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(path, REMOVED)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_second_run_appends_also_behind_a_torn_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write(path, REMOVED, REMOVED)
    path.write_bytes(path.read_bytes()[:-20])
    write(path, REMOVED)
    lines = path.read_text().splitlines()
    assert len(lines) == 3
    assert json.loads(lines[0]) == json.loads(lines[2])


def test_a_disk_without_room_is_told_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with open_archive(path, "sbqlow", lambda: NOW) as archive:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        try:
            with pytest.raises(
                ArchiveError, match=r"a\.jsonl: .*nothing of this batch was removed"
            ):
                archive.write([REMOVED])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_is_no_file_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """A device forgets, a pipe fills up, and nobody would notice."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/null")):
        with pytest.raises(ArchiveError, match=f"{path} is no file"):
            write(path, REMOVED)


def test_a_file_that_others_could_read_is_for_its_owner_only_from_now_on(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.touch(mode=0o644)
    write(path, REMOVED)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_folder_that_is_missing_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        write(tmp_path / "missing" / "a.jsonl", REMOVED)


def test_without_an_archive_nothing_can_be_removed() -> None:
    with pytest.raises(ArchiveError, match="--archive"):
        NoArchive().write([REMOVED])
