"""The scheduler with the real store and the real library, in one process and without sockets."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import azure.durable_functions as df
import pytest

from devstack.functions_host.durable.events import EventType, event
from devstack.functions_host.durable.instances import Instance
from devstack.functions_host.durable.scheduler import Limits, Scheduler
from devstack.functions_host.durable.store import Store
from devstack.functions_host.durable.work import Work
from tests.unit.functions_host.durable.gated_app import until
from tests.unit.functions_host.durable.library import Context, InProcess

# The library says so itself whenever no type was named.
pytestmark = pytest.mark.filterwarnings("ignore:.*expected_type.*:DeprecationWarning")

Steps = Generator[Any, Any, Any]


class Bench:
    def __init__(self, path: Path, limits: Limits) -> None:
        self.app = InProcess()
        self.store = Store(path)
        work = Work(self.store, self.app.catalog, self.app, lambda: datetime.now(UTC))
        self.scheduler = Scheduler(self.store, work, self.app, limits)

    def begin(self, name: str, given: object = None, instance: str = "i") -> None:
        raw_input = json.dumps(json.dumps(given))
        self.store.create(instance, name, raw_input, datetime.now(UTC))
        self.scheduler.wake()

    async def result(self, instance: str = "i") -> tuple[str, Any]:
        await until(lambda: self._found(instance).has_ended)
        found = self._found(instance)
        return found.status, json.loads(found.output or "null")

    def _found(self, instance: str) -> Instance:
        found = self.store.instance(instance)
        assert found is not None
        return found


@asynccontextmanager
async def bench(path: Path, limits: Limits | None = None) -> AsyncIterator[Bench]:
    made = Bench(path / "durable.db", limits or Limits())
    made.scheduler.start()
    try:
        yield made
    finally:
        made.app.gate.set()
        made.scheduler.stop()
        await made.scheduler.close()
        made.store.close()


def running(
    path: Path, test: Callable[[Bench], Awaitable[None]], limits: Limits | None = None
) -> None:
    async def run() -> None:
        async with bench(path, limits) as made:
            await test(made)

    asyncio.run(run())


def fans_out(context: Context) -> Steps:
    return (yield context.task_all([context.call_activity("a", n) for n in range(6)]))


def echo(text: str) -> str:
    return text


def test_what_the_worker_loses_is_done_again_and_ends_the_same(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        made.app.orchestrator("o", fans_out)
        made.app.activity("a", echo)
        made.app.losses = 3
        made.begin("o")
        assert await made.result() == ("Completed", list(range(6)))

    running(tmp_path, test)


def test_activities_run_side_by_side_up_to_their_limit(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        made.app.orchestrator("o", fans_out)
        made.app.activity("a", echo)
        made.begin("o")
        assert await made.result() == ("Completed", list(range(6)))
        assert made.app.most_at_once == {"o": 1, "a": 2}

    running(tmp_path, test, Limits(orchestrators=1, activities=2))


def test_an_instance_takes_one_step_at_a_time(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        made.app.orchestrator("o", fans_out)
        made.app.gate.clear()
        made.begin("o")
        await until(lambda: made.app.most_at_once)
        for _ in range(5):
            raised = event(EventType.EVENT_RAISED, datetime.now(UTC), Name="Go", Input="1")
            made.store.deliver("i", raised)
            made.scheduler.wake()
            await asyncio.sleep(0.01)
        assert made.app.most_at_once == {"o": 1}

    running(tmp_path, test)


def test_an_entity_takes_its_requests_in_order_one_batch_at_a_time(tmp_path: Path) -> None:
    def add(context: df.DurableEntityContext) -> None:
        total = context.get_state(lambda: 0) + context.get_input()
        context.set_state(total)
        context.set_result(total)

    def adds(context: Context) -> Steps:
        return (yield context.call_entity(df.EntityId("E", "k"), "add", context.get_input()))

    async def test(made: Bench) -> None:
        made.app.orchestrator("o", adds)
        made.app.entity("E", add)
        for number in range(20):
            made.begin("o", 1, f"i{number}")
        totals = [(await made.result(f"i{number}"))[1] for number in range(20)]
        assert sorted(totals) == list(range(1, 21))
        assert made.app.most_at_once["E"] == 1
        assert made.store.entity_state("@e@k") == "20"

    running(tmp_path, test)


def test_a_timer_wakes_its_orchestrator(tmp_path: Path) -> None:
    def sleeps(context: Context) -> Steps:
        yield context.create_timer(context.current_utc_datetime + timedelta(milliseconds=50))
        return "awake"

    async def test(made: Bench) -> None:
        made.app.orchestrator("o", sleeps)
        made.begin("o")
        assert await made.result() == ("Completed", "awake")

    running(tmp_path, test)


def test_numbers_stay_in_step_with_the_library_while_activities_are_retried(
    tmp_path: Path,
) -> None:
    failures = {"a": 2, "b": 1, "c": 9}

    def flaky(text: str) -> str:
        name = json.loads(text)
        if failures[name]:
            failures[name] -= 1
            raise RuntimeError(name)
        return text

    def tries(context: Context) -> Steps:
        options = df.RetryOptions(5, 3)
        both = [context.call_activity_with_retry("flaky", options, name) for name in ("a", "b")]
        results = yield context.task_all([*both, context.call_activity("a", "plain")])
        try:
            yield context.call_activity_with_retry("flaky", options, "c")
        except Exception as error:  # noqa: BLE001 - the library raises no narrower one
            results.append(str(error).partition(" failed")[0])
        return [*results, (yield context.call_activity("a", "after"))]

    async def test(made: Bench) -> None:
        made.app.orchestrator("o", tries)
        made.app.activity("flaky", flaky)
        made.app.activity("a", echo)
        made.begin("o")
        expected = ["a", "b", "plain", "Activity function 'flaky'", "after"]
        assert await made.result() == ("Completed", expected)
        assert failures == {"a": 0, "b": 0, "c": 6}

    running(tmp_path, test)


def test_a_stop_while_the_worker_has_a_piece_keeps_it_for_the_next_start(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        made.app.orchestrator("o", fans_out)
        made.app.losses = 10_000
        made.begin("o")
        await until(lambda: made.app.runs)

    async def next_start(made: Bench) -> None:
        made.app.orchestrator("o", fans_out)
        made.app.activity("a", echo)
        assert await made.result() == ("Completed", list(range(6)))

    running(tmp_path, test)
    running(tmp_path, next_start)


def test_an_instance_whose_function_is_gone_fails_in_words(tmp_path: Path) -> None:
    async def test(made: Bench) -> None:
        made.begin("gone")
        status, output = await made.result()
        assert status == "Failed"
        assert "no orchestrator function of this name" in output

    running(tmp_path, test)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("nonsense", "no orchestrator's state"),
        ('{"actions": [[{"actionType": 5, "fireAt": "soon"}]]}', "cannot be read (ValueError"),
        ('{"actions": [[{"actionType": 0}]]}', "cannot be read (KeyError"),
        ('{"actions": [[{"actionType": 99}]]}', "type 99 (action type 99)"),
        (json.dumps({"actions": [[{"actionType": 6}] * 10_001]}), "10,001 things at once"),
    ],
)
def test_an_orchestrator_that_answers_what_cannot_be_done_fails_in_words(
    tmp_path: Path, answer: str, says: str
) -> None:
    async def test(made: Bench) -> None:
        made.app.handles("o", lambda _: answer)
        made.begin("o")
        status, output = await made.result()
        assert status == "Failed"
        assert says in output

    running(tmp_path, test)


def test_an_orchestrator_that_fails_outside_the_library_keeps_its_error(tmp_path: Path) -> None:
    def breaks(text: str) -> str:
        if len(json.loads(text)["history"]) > 2:
            msg = "out of order"
            raise RuntimeError(msg)
        return '{"actions": [[{"actionType": 0, "functionName": "a", "input": "1"}]]}'

    async def test(made: Bench) -> None:
        made.app.handles("o", breaks)
        made.app.activity("a", echo)
        made.begin("o")
        expected = "Orchestrator function 'o' failed: RuntimeError: out of order"
        assert await made.result() == ("Failed", expected)

    running(tmp_path, test)
