"""Which activities are made when nobody listens any more: none again, and none of a terminated."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.unit.functions_host.durable.gated_app import App, running, until

Ending = Callable[[App], Awaitable[None]]


async def terminated(app: App) -> None:
    app.terminate("one")
    await app.ended("one", "Terminated")


async def completed(app: App) -> None:
    app.gate("a").set()
    await app.ended("one")


async def purged(app: App) -> None:
    await completed(app)
    app.store.purge(["one"])


async def started_again(app: App) -> None:
    await completed(app)
    app.begin("one")


@pytest.mark.parametrize("ending", [terminated, purged, started_again])
def test_what_has_not_begun_is_dropped(tmp_path: Path, ending: Ending) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "durable.db") as app:
            # Two at once: with "a" done, "c" begins.
            app.begin("one", "a", "b", "c", "d", "e", awaited=1)
            await until(lambda: len(app.begun) == 2)
            await ending(app)
            begun = list(app.begun)
            assert app.waiting() == []
            for name in "abc":
                app.gate(name).set()
            app.gate("last").set()
            app.begin("two", "last")
            await app.ended("two")
            assert app.begun == [*begun, "last"]

    asyncio.run(scenario())


def test_what_an_orchestrator_left_behind_when_it_ended_is_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "durable.db") as app:
            app.begin("one", "a", "b", "c", "d", awaited=1)
            await until(lambda: app.begun)
            await completed(app)
            for name in "bcd":
                app.gate(name).set()
            await until(lambda: not app.waiting())
            assert app.begun == ["a", "b", "c", "d"]

    asyncio.run(scenario())


@pytest.mark.parametrize("ending", [terminated, completed, purged])
def test_what_was_lost_with_its_worker_is_not_made_again_for_nobody(
    tmp_path: Path, ending: Ending
) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "durable.db") as app:
            app.deadly.add("b")
            app.begin("one", "a", "b", awaited=1)
            await until(lambda: len(app.begun) == 2)
            await ending(app)
            app.gate("b").set()
            await until(lambda: not app.waiting())
            app.gate("last").set()
            app.begin("two", "last")
            await app.ended("two")
            assert app.begun == ["a", "b", "last"]

    asyncio.run(scenario())


def test_what_was_lost_with_its_worker_is_made_again_while_its_execution_runs(
    tmp_path: Path,
) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "durable.db") as app:
            app.deadly.add("a")
            app.gate("a").set()
            app.begin("one", "a")
            await until(lambda: len(app.begun) == 2)
            app.deadly.clear()
            await app.ended("one")

    asyncio.run(scenario())


def test_the_end_of_a_dropped_call_does_not_take_off_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "durable.db") as app:
            app.begin("one", "a")
            await until(lambda: app.begun == ["a"])
            await terminated(app)
            app.begin("two", "b")
            await until(lambda: app.begun == ["a", "b"])
            app.gate("a").set()
            # Once "c" has begun, "a" has ended: two run at once.
            app.begin("three", "c")
            await until(lambda: app.begun == ["a", "b", "c"])
            assert app.waiting() == ["b", "c"]

    asyncio.run(scenario())


def test_a_call_that_was_dropped_before_its_turn_is_not_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path / "durable.db") as app:
            app.begin("one", "a")
            await until(app.waiting)
            [call] = app.store.due_activities((), 1)
            await until(lambda: app.begun == ["a"])
            await terminated(app)
            assert await app.work.call(call) is not None
            assert app.begun == ["a"]

    asyncio.run(scenario())
