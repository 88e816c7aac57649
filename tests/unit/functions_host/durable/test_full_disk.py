"""A disk that is full stops durable functions, and nothing else: no run is lost or repeated."""

import asyncio
import logging
import sqlite3
from datetime import UTC, datetime
from pathlib import Path

import pytest

from devstack.functions_host.durable.store import Store
from devstack.functions_host.durable.trouble import Trouble
from tests.unit.functions_host.durable.full_disk import full_disk
from tests.unit.functions_host.durable.gated_app import running, until

_FULL = sqlite3.OperationalError("database or disk is full")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "durable.db"


def test_a_timer_that_is_due_on_a_full_disk_fires_when_there_is_room(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(file, started=False) as app:
            await app.begin_timer("one")
            with full_disk(file):
                app.scheduler.start()
                await until(lambda: "make room" in caplog.text)
                assert app.status("one") == "Running"
            await app.ended("one")

    asyncio.run(scenario())
    assert [r.levelname for r in caplog.records if r.levelno > logging.INFO] == ["ERROR", "WARNING"]


def test_a_stop_while_a_timer_finds_no_room_is_an_orderly_one(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(file, started=False) as app:
            await app.begin_timer("one")
            with full_disk(file):
                app.scheduler.start()
                await until(lambda: "make room" in caplog.text)
                app.scheduler.stop()
                await app.scheduler.close()
            assert app.store.next_timer() is not None

    asyncio.run(scenario())


def test_a_stop_while_a_result_finds_no_room_leaves_its_activity_for_the_next_start(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(file) as app:
            app.begin("one", "a")
            await until(lambda: app.begun)
            with full_disk(file):
                app.gate("a").set()
                await until(lambda: "make room" in caplog.text)
                app.scheduler.stop()
                await app.scheduler.close()
            assert app.waiting() == ["a"]

    asyncio.run(scenario())


def test_an_activity_that_ended_on_a_full_disk_is_not_made_again(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with running(file) as app:
            app.begin("one", "a")
            await until(lambda: app.begun)
            with full_disk(file):
                app.gate("a").set()
                await until(lambda: "make room" in caplog.text)
            await app.ended("one")
            assert app.begun == ["a"]

    asyncio.run(scenario())


def test_a_change_that_found_no_room_leaves_nothing_behind(file: Path) -> None:
    store = Store(file)
    with full_disk(file):
        for _ in range(2):
            with pytest.raises(sqlite3.OperationalError, match=r"full|disk I/O"):
                store.create("lost", "x", None, datetime.now(UTC))
    store.create("kept", "x", None, datetime.now(UTC))
    assert [instance.id for instance in store.instances()] == ["kept"]
    store.close()


def test_a_trouble_is_said_once_with_what_to_do(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    trouble = Trouble(file)
    trouble.over()
    assert trouble.met(_FULL) == trouble.met(_FULL)
    [line] = caplog.messages
    assert str(file) in line
    assert "database or disk is full" in line
    assert "make room on its disk" in line
    trouble.over()
    trouble.over()
    assert "can be written again" in caplog.messages[1]
    assert len(caplog.messages) == 2


def test_a_trouble_that_comes_and_goes_is_said_once_a_minute(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    moments = iter([0.0, 0.0, 20.0, 40.0, 60.0, 60.0])
    trouble = Trouble(file, lambda: next(moments))
    for _ in range(4):
        trouble.met(_FULL)
        trouble.over()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"] * 2
