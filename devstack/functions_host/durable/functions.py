"""The durable functions of an app by name, and how each is run in the worker."""

from dataclasses import dataclass
from typing import Any, Protocol

from devstack.functions_host.invocations import Function, Outcome, Worker, run


class Runner(Protocol):
    """Runs a durable function once."""

    async def run(self, function: "DurableFunction", text: str) -> Outcome:
        """Return the outcome of `function` with the JSON `text` as its argument."""


@dataclass(frozen=True, slots=True)
class DurableFunction:
    """A function and the name of its trigger's argument."""

    function: Function
    argument: str


class Catalog:
    """Finds durable functions by their names, in upper or lower case as on Azure."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, str], DurableFunction] = {}

    def add(self, kind: str, function: Function, binding: dict[str, Any], name: str) -> None:
        """Take up a function that its binding calls `name`."""
        self._functions[kind, name.lower()] = DurableFunction(function, binding["name"])

    def __bool__(self) -> bool:
        return bool(self._functions)

    def orchestrator(self, name: str) -> DurableFunction | None:
        """Return the orchestrator function of that name."""
        return self._functions.get(("orchestrationTrigger", name.lower()))

    def activity(self, name: str) -> DurableFunction | None:
        """Return the activity function of that name."""
        return self._functions.get(("activityTrigger", name.lower()))

    def entity(self, entity: str) -> DurableFunction | None:
        """Return the entity function of `@name@key`."""
        return self._functions.get(("entityTrigger", split_entity(entity)[0].lower()))

    def has_activity(self, name: str) -> bool:
        """Tell whether there is an activity of that name."""
        return self.activity(name) is not None

    def has_entity(self, entity: str) -> bool:
        """Tell whether `@name@key` names an entity function."""
        return self.entity(entity) is not None


def entity_id(name: str, key: str) -> str:
    """Return the id under which an entity is kept, as the library writes it."""
    return f"@{name.lower()}@{key}"


def split_entity(entity: str) -> tuple[str, str]:
    """Return name and key of `@name@key`; a key may hold further @."""
    name, _, key = entity.removeprefix("@").partition("@")
    return name, key


class WorkerRunner:
    """Runs durable functions in the host's worker process."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    async def run(self, function: DurableFunction, text: str) -> Outcome:
        """Return the outcome of `function` with the JSON `text` as its argument."""
        inputs = {"argument": function.argument, "kind": "json"}
        return await run(self._worker, function.function, inputs, text.encode())
