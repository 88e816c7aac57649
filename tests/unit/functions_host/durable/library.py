"""Durable functions run in this process, by Microsoft's library and without a worker."""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator
from typing import Any

import azure.durable_functions as df
from azure.functions._durable_functions import EntityContext, OrchestrationContext

from devstack.functions_host.durable.functions import Catalog, DurableFunction
from devstack.functions_host.invocations import Function, Lost, Outcome, Raised, Returned

Context = df.DurableOrchestrationContext
Orchestration = Callable[[Context], Generator[Any, Any, Any]]


class InProcess:
    """Runs functions at once; the next `losses` runs are lost as if the worker had died."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.losses = 0
        self.runs: list[str] = []
        #: Runs wait for this; set from the beginning.
        self.gate = asyncio.Event()
        self.gate.set()
        self.most_at_once: Counter[str] = Counter()
        self._at_once: Counter[str] = Counter()
        self._handlers: dict[str, Callable[[str], str]] = {}

    def orchestrator(self, name: str, function: Orchestration) -> None:
        handle = df.Orchestrator.create(function)
        self._add("orchestrationTrigger", name, lambda text: handle(OrchestrationContext(text)))

    def handles(self, name: str, handler: Callable[[str], str]) -> None:
        """Take up an orchestrator that answers what the library never would."""
        self._add("orchestrationTrigger", name, handler)

    def entity(self, name: str, function: Callable[[df.DurableEntityContext], None]) -> None:
        handle = df.Entity.create(function)
        self._add("entityTrigger", name, lambda text: handle(EntityContext(text)))

    def activity(self, name: str, function: Callable[[str], str]) -> None:
        self._add("activityTrigger", name, function)

    def _add(self, kind: str, name: str, handler: Callable[[str], str]) -> None:
        self._handlers[name] = handler
        self.catalog.add(kind, Function(name, name, ()), {"name": "x", "type": kind}, name)

    async def is_ready(self) -> bool:
        return True

    async def run(self, function: DurableFunction, text: str) -> Outcome:
        name = function.function.name
        self._at_once[name] += 1
        self.most_at_once |= self._at_once
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
            return self._outcome(name, text)
        finally:
            self._at_once[name] -= 1

    def _outcome(self, name: str, text: str) -> Outcome:
        self.runs.append(name)
        if self.losses:
            self.losses -= 1
            return Lost("the worker process died")
        try:
            return Returned(200, (), self._handlers[name](text).encode())
        except Exception as error:  # noqa: BLE001 - whatever a function raises is its outcome
            return Raised(type(error).__name__, "here", "", f"{type(error).__name__}: {error}")
