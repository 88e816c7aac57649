"""An app of durable functions without a worker process, and the scheduler that runs it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from devstack.functions_host.durable.events import EventType, event
from devstack.functions_host.durable.functions import Catalog, DurableFunction
from devstack.functions_host.durable.scheduler import Limits, Scheduler
from devstack.functions_host.durable.store import Store
from devstack.functions_host.durable.work import Work
from devstack.functions_host.invocations import Function, Lost, Outcome, Returned

_KINDS = {"orchestrates": "orchestrationTrigger", "acts": "activityTrigger"}


class App:
    """Stands for the worker: an orchestrator that asks for what it was given, and an activity.

    The orchestrator ends when as many answers have come as `awaited` says. An activity waits
    until the test opens its gate, and is lost with its worker where it is in `deadly`.
    """

    def __init__(self, file: Path) -> None:
        self.store = Store(file)
        catalog = Catalog()
        for name, kind in _KINDS.items():
            catalog.add(kind, Function(name, name, ()), {"name": "given"}, name)
        self.work = Work(self.store, catalog, self, lambda: datetime.now(UTC))
        self.scheduler = Scheduler(self.store, self.work, self, Limits(activities=2), 0.01)
        self.begun: list[str] = []
        self.deadly: set[str] = set()
        self._gates: dict[str, asyncio.Event] = {}

    async def is_ready(self) -> bool:
        return True

    async def run(self, function: DurableFunction, text: str) -> Outcome:
        if function.function.name == "orchestrates":
            return Returned(None, (), json.dumps(_decision(json.loads(text))).encode())
        name: str = json.loads(text)
        self.begun.append(name)
        await self.gate(name).wait()
        return Lost("the worker is gone") if name in self.deadly else Returned(None, (), b"1")

    def gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    def open_gates(self) -> None:
        for gate in self._gates.values():
            gate.set()

    def begin(self, instance: str, *calls: str, awaited: int | None = None) -> None:
        self._create(instance, [_call(name) for name in calls], awaited)

    async def begin_timer(self, instance: str) -> None:
        """Take the step that sets a timer, which is due at once, before the scheduler starts."""
        fire_at = datetime.now(UTC).isoformat()
        self._create(instance, [{"actionType": 5, "fireAt": fire_at}], None)
        commit = await self.work.step(instance)
        assert commit
        commit()

    def _create(self, instance: str, actions: Sequence[object], awaited: int | None) -> None:
        given = {"actions": actions, "awaited": len(actions) if awaited is None else awaited}
        self.store.create(instance, "orchestrates", json.dumps(given), datetime.now(UTC))
        self.scheduler.wake()

    def terminate(self, instance: str) -> None:
        now = datetime.now(UTC)
        self.store.deliver(instance, event(EventType.EXECUTION_TERMINATED, now, Input="why"))
        self.scheduler.wake()

    def status(self, instance: str) -> str:
        found = self.store.instance(instance)
        return found.status if found else ""

    async def ended(self, instance: str, status: str = "Completed") -> None:
        await until(lambda: self.status(instance) == status)

    def waiting(self) -> list[str]:
        return [json.loads(call.input) for call in self.store.due_activities((), 100)]


def _call(name: str) -> dict[str, Any]:
    return {"actionType": 0, "functionName": "acts", "input": json.dumps(name)}


def _decision(context: dict[str, Any]) -> dict[str, Any]:
    given = context["input"]
    answers = (EventType.TASK_COMPLETED, EventType.TIMER_FIRED)
    come = sum(happened["EventType"] in answers for happened in context["history"])
    return {"actions": [given["actions"]], "isDone": come >= given["awaited"], "output": come}


@asynccontextmanager
async def running(file: Path, *, started: bool = True) -> AsyncIterator[App]:
    """Run an app, and see that its end is an orderly one."""
    app = App(file)
    if started:
        app.scheduler.start()
    try:
        yield app
    finally:
        app.scheduler.stop()
        app.open_gates()
        await app.scheduler.close()
        app.store.close()


async def until(condition: Callable[[], object]) -> None:
    """Wait for it; a test that fails waits longest."""
    async with asyncio.timeout(8):
        while not condition():  # noqa: ASYNC110 - neither file nor log tells anybody
            await asyncio.sleep(0.005)
